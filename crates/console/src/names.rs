//! Names of all vertices in one memory block, for searching while a user types.
//!
//! A search scans all names with SIMD instead of using a word index: a million paths are some sixty megabytes, which takes
//! ten milliseconds, finds any part of a name, and needs nothing but the names themselves.

use crate::label;
use esker_model::{
    Cancel, GraphRead, Result, Schema, Version, VertexId, VertexSelect, VertexTypeId,
};
use memchr::memmem::Finder;
use std::ops::ControlFlow;

/// Byte after each name.
const END: u8 = b'\n';
/// Separator between a key and the vertex's `name` attribute.
const BESIDE: char = '\t';

/// Lower-case names of vertices as of one version.
#[derive(Debug, Default)]
pub struct Names {
    text: Vec<u8>,
    /// Start offset of each name.
    starts: Vec<usize>,
    vertices: Vec<(VertexId, VertexTypeId)>,
    newest: Option<Version>,
    complete: bool,
}

/// A name that contains all searched words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// Match quality, lower is better: equals the last part, is a prefix, begins a word, occurs elsewhere.
    rank: u8,
    /// Length of the name in bytes: short ones first.
    bytes: usize,
    /// Index of the name.
    number: usize,
}

impl Names {
    /// Reads the names of all vertices that a graph shows. `newest` is kept as their version. At `bytes_max` bytes, reading ends and the
    /// names are incomplete: such a database is searched in part.
    ///
    /// # Errors
    /// Passes on read errors.
    pub fn read(
        graph: &dyn GraphRead,
        newest: Option<Version>,
        bytes_max: usize,
        cancel: &dyn Cancel,
    ) -> Result<Self> {
        let schema = graph.schema()?;
        let mut names = Self {
            newest,
            complete: true,
            ..Self::default()
        };
        for (type_id, declared) in schema.vertex_types() {
            // Subtypes are read with their parent.
            if declared.parent.is_some() || !names.complete {
                continue;
            }
            graph.scan_vertices(&VertexSelect::of(type_id), &mut |vertex| {
                if names.text.len() > bytes_max || cancel.cancelled() {
                    names.complete = false;
                    return ControlFlow::Break(());
                }
                let beside = label::text(&vertex, "name");
                names.add(vertex.id, vertex.type_id, &vertex.key, beside);
                ControlFlow::Continue(())
            })?;
        }
        Ok(names)
    }

    fn add(&mut self, id: VertexId, type_id: VertexTypeId, key: &str, beside: Option<&str>) {
        self.starts.push(self.text.len());
        self.vertices.push((id, type_id));
        let mut name = key.to_lowercase();
        if let Some(beside) = beside.filter(|b| *b != label::last_part(key)) {
            name.push(BESIDE);
            name.push_str(&beside.to_lowercase());
        }
        // A line break in a name would end it.
        let bytes = name.bytes().map(|b| if b == END { b' ' } else { b });
        self.text.extend(bytes);
        self.text.push(END);
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the version of the names.
    pub fn newest(&self) -> Option<Version> {
        self.newest
    }

    /// Whether all names were read.
    pub fn complete(&self) -> bool {
        self.complete
    }

    fn at(&self, number: usize) -> &[u8] {
        let start = self.starts.get(number).copied().unwrap_or_default();
        let end = self.starts.get(number + 1).copied();
        let end = end.unwrap_or(self.text.len()).saturating_sub(1);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the vertex of a hit.
    pub fn vertex(&self, hit: Hit) -> (VertexId, VertexTypeId) {
        self.vertices[hit.number]
    }

    /// Returns the extension of a hit's file name without the dot, in lower case.
    pub fn ending(&self, hit: Hit) -> Option<&str> {
        let name = std::str::from_utf8(self.at(hit.number)).ok()?;
        let name = name.split(BESIDE).next()?;
        let (before, ending) = label::last_part(name).rsplit_once('.')?;
        let good = !before.is_empty() && (1..=8).contains(&ending.len());
        good.then_some(ending)
            .filter(|e| e.bytes().all(|b| b.is_ascii_alphanumeric()))
            .filter(|e| !e.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Finds names that contain all words, the best first, optionally of certain types only. Without words, returns all of those types.
    pub fn find(
        &self,
        words: &str,
        of: Option<&dyn Fn(VertexTypeId) -> bool>,
        cancel: &dyn Cancel,
    ) -> Vec<Hit> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        // The longest word is in the fewest names.
        let Some(longest) = words.iter().max_by_key(|w| w.len()) else {
            // No words: all of those types.
            let Some(of) = of else { return Vec::new() };
            let all = (0..self.len()).filter(|n| of(self.vertices[*n].1));
            return all
                .map(|number| Hit {
                    rank: 0,
                    bytes: 0,
                    number,
                })
                .collect();
        };
        let others: Vec<Finder<'_>> = words
            .iter()
            .filter(|w| *w != longest)
            .map(Finder::new)
            .collect();
        let finder = Finder::new(longest);
        let mut hits = Vec::new();
        let mut from = 0;
        while let Some(found) = self.text.get(from..).and_then(|rest| finder.find(rest)) {
            let number = self.starts.partition_point(|s| *s <= from + found) - 1;
            let name = self.at(number);
            from = self
                .starts
                .get(number + 1)
                .copied()
                .unwrap_or(self.text.len());
            let good = of.is_none_or(|of| of(self.vertices[number].1))
                && others.iter().all(|w| w.find(name).is_some());
            if good {
                hits.push(Hit {
                    rank: rank(name, longest.as_bytes()),
                    bytes: name.len(),
                    number,
                });
            }
            if hits.len().is_multiple_of(4_096) && cancel.cancelled() {
                break;
            }
        }
        hits.sort_unstable();
        hits
    }
}

/// Returns the match quality of a word in a name, from 0 (best) to 3.
fn rank(name: &[u8], word: &[u8]) -> u8 {
    let mut best = 3;
    for part in name.split(|b| *b == BESIDE as u8) {
        let last = match part.iter().rposition(|b| *b == b'/') {
            Some(at) => &part[at + 1..],
            None => part,
        };
        if last == word || part == word {
            return 0;
        }
        if last.starts_with(word) || part.starts_with(word) {
            best = best.min(1);
        }
    }
    if best == 3 {
        let begins = |at: usize| at == 0 || !name[at - 1].is_ascii_alphanumeric();
        if memchr::memmem::find_iter(name, word).any(begins) {
            best = 2;
        }
    }
    best
}

/// Whether a type equals `wanted` or is a subtype of it.
pub fn is_of(schema: &Schema, type_id: VertexTypeId, wanted: VertexTypeId) -> bool {
    let mut at = Some(type_id);
    while let Some(one) = at {
        if one == wanted {
            return true;
        }
        at = schema.vertex_type(one).and_then(|t| t.parent);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::NeverCancel;
    use proptest::prelude::*;

    fn names(all: &[(&str, Option<&str>)]) -> Names {
        let mut names = Names::default();
        for (key, beside) in all {
            names.add(VertexId::of("File", key), VertexTypeId(1), key, *beside);
        }
        names
    }

    fn found(names: &Names, words: &str) -> Vec<usize> {
        let hits = names.find(words, None, &NeverCancel);
        hits.iter().map(|h| h.number).collect()
    }

    #[test]
    fn the_best_come_first() {
        let names = names(&[
            ("/data/prerun/x.nc", None),
            ("/data/runs/y.nc", None),
            ("/data/a/run", None),
            ("/data/a/run_17.nc", None),
            ("1001", Some("Runa Run")),
        ]);
        assert_eq!(found(&names, "run"), [2, 4, 3, 1, 0]);
        assert_eq!(found(&names, "RUN 17"), [3]);
        assert_eq!(found(&names, "run absent"), [0; 0]);
        assert_eq!(found(&names, ""), [0; 0]);
        let ending = |n: usize| {
            let hit = Hit {
                rank: 0,
                bytes: 0,
                number: n,
            };
            names.ending(hit)
        };
        assert_eq!((ending(0), ending(2), ending(4)), (Some("nc"), None, None));
    }

    #[test]
    fn a_name_ends_where_it_ends() {
        let names = names(&[("ab", None), ("cd\nef", None), ("", None), ("b", None)]);
        assert_eq!(found(&names, "bc"), [0; 0]);
        assert_eq!(found(&names, "f"), [1]);
        assert_eq!(found(&names, "b"), [3, 0]);
    }

    proptest! {
        #[test]
        fn all_that_contain_it_are_found(
            keys in prop::collection::vec("[abA/._]{0,6}", 0..20),
            word in "[ab/]{1,3}",
        ) {
            let all: Vec<_> = keys.iter().map(|k| (k.as_str(), None)).collect();
            let mut found = found(&names(&all), &word);
            found.sort_unstable();
            let expected: Vec<usize> = (0..keys.len())
                .filter(|n| keys[*n].to_lowercase().contains(&word))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
