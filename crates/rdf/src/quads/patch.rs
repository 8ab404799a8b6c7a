//! Lists that changed since the columns were sorted. A patch has the complete new list of each changed key; all other keys are read from
//! the columns. So a read after few changes costs as much as the changed lists, not the column.

use super::pairs::{Columns, unpack};
use crate::id::Id;
use std::sync::OnceLock;

/// Lists of the changed keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patch {
    /// Changed keys, ascending.
    keys: Vec<Id>,
    /// Start of each key's list; one more entry than there are keys.
    offsets: Vec<u32>,
    values: Vec<Id>,
    /// Number of pairs in columns and patch together.
    pub(crate) len: usize,
    /// Whether the sets of keys in columns and patch differ.
    moved: bool,
    /// All keys, computed on demand.
    all: OnceLock<Vec<Id>>,
}

impl Patch {
    /// Builds a patch from ascending, effective changes: a packed pair, and whether it is added.
    pub(crate) fn new(columns: &Columns, changes: &[(u64, bool)]) -> Self {
        let mut patch = Self {
            len: columns.values.len(),
            ..Self::default()
        };
        for changes in changes.chunk_by(|a, b| a.0 >> 32 == b.0 >> 32) {
            let Some((key, _)) = changes.first().map(|c| unpack(c.0)) else {
                continue;
            };
            let old = columns.get(key);
            let before = patch.values.len();
            patch.keys.push(key);
            patch.offsets.push(before as u32);
            let mut rest = old;
            for (pair, added) in changes {
                let value = unpack(*pair).1;
                let at = rest.partition_point(|v| *v < value);
                patch.values.extend_from_slice(&rest[..at]);
                rest = &rest[at..];
                if *added {
                    patch.values.push(value);
                } else {
                    rest = rest.get(1..).unwrap_or_default();
                }
            }
            patch.values.extend_from_slice(rest);
            let now = patch.values.len() - before;
            patch.moved |= old.is_empty() || now == 0;
            patch.len = patch.len - old.len() + now;
        }
        patch.offsets.push(patch.values.len() as u32);
        patch
    }

    /// Returns the list of a key, if it changed.
    pub(crate) fn get(&self, key: Id) -> Option<&[Id]> {
        let i = self.keys.binary_search(&key).ok()?;
        let (from, to) = (*self.offsets.get(i)?, *self.offsets.get(i + 1)?);
        self.values.get(from as usize..to as usize)
    }

    /// Returns all keys that have values.
    pub(crate) fn all<'a>(&'a self, columns: &'a Columns) -> &'a [Id] {
        if !self.moved {
            return &columns.keys;
        }
        self.all.get_or_init(|| {
            let mut all = Vec::with_capacity(columns.keys.len() + self.keys.len());
            let mut rest = columns.keys.as_slice();
            for key in &self.keys {
                let at = rest.partition_point(|k| k < key);
                all.extend_from_slice(&rest[..at]);
                rest = &rest[at..];
                rest = rest.strip_prefix(&[*key]).unwrap_or(rest);
                if self.get(*key).is_some_and(|list| !list.is_empty()) {
                    all.push(*key);
                }
            }
            all.extend_from_slice(rest);
            all
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        let all = self.all.get().map_or(0, Vec::len);
        4 * (self.keys.len() + self.offsets.len() + self.values.len() + all)
    }
}
