//! Merge of datasets with different term ids: a separately parsed dataset becomes part of the data.

use super::{Dataset, Quad, pack};
use crate::dictionary::{Head, Key, Parts};
use crate::error::{Error, Result};
use crate::id::{INLINE, Id, UNBOUND, XSD};
use std::collections::BTreeMap;

/// Lazily filled map from ids of the other dataset to ids of this one.
struct IdMap<'a> {
    other: &'a Dataset,
    known: Vec<Id>,
}

impl IdMap<'_> {
    fn of(&mut self, data: &mut Dataset, id: Id) -> Result<Id> {
        if id == UNBOUND || id >= INLINE {
            return Ok(id);
        }
        if let Some(known) = self.known.get(id as usize)
            && *known != UNBOUND
        {
            return Ok(*known);
        }
        let number = match self.other.dictionary.parts(id) {
            Some(Parts::Stored(head, tail)) => match head {
                Head::Iri(prefix) if prefix.is_empty() => data.dictionary.intern(&Key::Iri(tail)),
                Head::Iri(prefix) => data
                    .dictionary
                    .intern(&Key::Iri(&[&**prefix, tail].concat())),
                Head::Blank => data.dictionary.intern(&Key::Blank(tail)),
                Head::Plain => data.dictionary.intern(&Key::Plain(tail)),
                Head::Lang(lang) => data.dictionary.intern(&Key::Lang(tail, lang)),
                Head::Typed(datatype) => data.dictionary.intern(&Key::Typed(tail, datatype)),
                Head::Triple => {
                    let mut text = String::new();
                    self.other.dictionary.put(id, &mut text);
                    let key = Key::take(&text).ok_or_else(|| {
                        Error::Corrupt(format!("the triple term {id} has parts without terms"))
                    })?;
                    data.dictionary.intern(&key)
                }
            },
            Some(Parts::Inline(v)) => {
                let datatype = format!("{XSD}{}", v.datatype());
                data.dictionary.intern(&Key::Typed(&v.text(), &datatype))
            }
            None => Ok(UNBOUND),
        }?;
        if self.known.len() <= id as usize {
            self.known.resize(id as usize + 1, UNBOUND);
        }
        self.known[id as usize] = number;
        Ok(number)
    }
}

impl Dataset {
    /// Adds all quads of another dataset and returns how many were new.
    pub fn merge(&mut self, other: &Self) -> Result<usize> {
        let mut groups: BTreeMap<(Id, Id), Vec<u64>> = BTreeMap::new();
        let mut numbers = IdMap {
            other,
            known: Vec::new(),
        };
        for q in other.quads() {
            let key = (numbers.of(self, q.g)?, numbers.of(self, q.p)?);
            let pair = pack(numbers.of(self, q.s)?, numbers.of(self, q.o)?);
            groups.entry(key).or_default().push(pair);
        }
        Ok(self.add_sorted(groups))
    }

    /// Returns the quads of another dataset in this dataset's ids; new terms are interned.
    pub fn numbered(&mut self, other: &Self) -> Result<Vec<Quad>> {
        let mut numbers = IdMap {
            other,
            known: Vec::new(),
        };
        other
            .quads()
            .map(|q| {
                Ok(Quad {
                    s: numbers.of(self, q.s)?,
                    p: numbers.of(self, q.p)?,
                    o: numbers.of(self, q.o)?,
                    g: numbers.of(self, q.g)?,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RdfFormat;
    use crate::parse::Loader;

    fn read(text: &str) -> Dataset {
        let mut loader = Loader::new(Dataset::default(), "b", false);
        loader
            .read("x.nq", &mut text.as_bytes(), RdfFormat::NQuads, None, None)
            .unwrap();
        loader.finish().0
    }

    fn quad_texts(data: &Dataset) -> Vec<String> {
        let mut to = Vec::new();
        crate::dump(data, None, RdfFormat::NQuads, &mut to).unwrap();
        let mut lines: Vec<String> = String::from_utf8(to)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn both_ways_give_what_reading_both_gives() {
        let one = "<http://a/x> <http://a/p> \"1\" .\n<http://a/x> <http://a/p> 7 <http://g> .\n"
            .replace(" 7 ", " \"7\"^^<http://www.w3.org/2001/XMLSchema#integer> ");
        let two = "<http://b/y> <http://a/p> \"1\"@en .\n<http://a/x> <http://a/p> \"1\" .\n\
                   <http://a/x> <http://c#q> _:n <http://h> .\n<urn:a> <http://c#q> \"x\"^^<http://t> <http://g> .\n";
        let other = read(two);
        let expected = quad_texts(&read(&[&one, two].concat()));
        let mut merged = read(&one);
        assert_eq!(merged.merge(&other).unwrap(), 3);
        assert_eq!(quad_texts(&merged), expected);
        let mut changed = read(&one);
        let quads: Vec<(Quad, bool)> = changed
            .numbered(&other)
            .unwrap()
            .into_iter()
            .map(|q| (q, true))
            .collect();
        assert_eq!(changed.change(&quads), (3, 0));
        assert_eq!(quad_texts(&changed), expected);
    }
}
