//! Counter changes before they are written to a pending row.

use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::{EdgeTypeId, VertexId};

/// Counter changes in the order of arrival; [`Changes::settle`] combines them to one entry per counter.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    degrees: Vec<(VertexId, EdgeTypeId, i64)>,
    /// Totals; one for each type, so there are few.
    totals: Vec<(Counter, i64)>,
    /// Space used by files.
    space: Vec<(Counter, i64)>,
}

impl Changes {
    /// Adds a change of a counter.
    pub(crate) fn add(&mut self, counter: Counter, change: i64) {
        match counter {
            Counter::Degree(id, t) => self.degrees.push((id, t, change)),
            Counter::Space(..) => self.space.push((counter, change)),
            total => match self.totals.iter_mut().find(|(c, _)| *c == total) {
                Some((_, sum)) => *sum += change,
                None => self.totals.push((total, change)),
            },
        }
    }

    /// Adds all changes of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.degrees.extend_from_slice(&other.degrees);
        self.space.extend_from_slice(&other.space);
        for (counter, change) in &other.totals {
            self.add(*counter, *change);
        }
    }

    /// Removes and returns the changes of space counters.
    pub(crate) fn take_space(&mut self) -> impl Iterator<Item = (Counter, i64)> {
        self.space.drain(..)
    }

    /// Directories in which an entry was added or removed, so that their times or link counts changed.
    pub(crate) fn directories(&self) -> impl Iterator<Item = VertexId> {
        self.space.iter().filter_map(|(counter, _)| match counter {
            Counter::Space(SpaceKey::Directory(id), Measure::Changed | Measure::Directories) => {
                Some(*id)
            }
            _ => None,
        })
    }

    /// Reserves capacity for more degree changes.
    pub(crate) fn reserve(&mut self, degrees: usize) {
        self.degrees.reserve(degrees);
    }

    pub(crate) fn clear(&mut self) {
        self.degrees.clear();
        self.totals.clear();
        self.space.clear();
    }

    /// Number of entries; after `settle`, the number of changed counters.
    pub(crate) fn len(&self) -> usize {
        self.degrees.len() + self.totals.len() + self.space.len()
    }

    /// Whether there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sorts and combines the entries to one per counter, without zero changes.
    pub(crate) fn settle(&mut self) {
        self.degrees.sort_unstable_by_key(|(id, t, _)| (*id, *t));
        self.degrees.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        self.degrees.retain(|(_, _, change)| *change != 0);
        self.space.sort_unstable_by_key(|(counter, _)| *counter);
        self.space.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.0.combine(kept.1, next.1);
            }
            same
        });
        self.space.retain(|(_, change)| *change != 0);
        self.totals.retain(|(_, change)| *change != 0);
        self.totals.sort_unstable_by_key(|(counter, _)| *counter);
    }

    /// All entries in their present order. After `settle`, the order of the counters' keys: totals have sixteen zero bytes as prefix,
    /// which no vertex id equals.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Counter, i64)> {
        let degrees = self.degrees.iter();
        let degrees = degrees.map(|(id, t, change)| (Counter::Degree(*id, *t), *change));
        let totals = self.totals.iter().chain(&self.space);
        totals.copied().chain(degrees)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::VertexTypeId;
    use esker_model::key::{Measure, SpaceKey};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn counter() -> impl Strategy<Value = Counter> {
        prop_oneof![
            (1_u8..4, 0_u16..3)
                .prop_map(|(id, t)| Counter::Degree(VertexId([id; 16]), EdgeTypeId(t))),
            (0_u16..3).prop_map(|t| Counter::Vertices(VertexTypeId(t))),
            (0_u16..3).prop_map(|t| Counter::Edges(EdgeTypeId(t))),
            (-1_i32..2).prop_map(|day| Counter::Space(SpaceKey::Day(day), Measure::Files)),
            (1_u8..3).prop_map(|id| {
                Counter::Space(SpaceKey::Directory(VertexId([id; 16])), Measure::Changed)
            }),
        ]
    }

    proptest! {
        /// The sums equal those of a map in the order of its keys, in whatever order changes are added.
        #[test]
        fn sums_are_those_of_a_map(added in prop::collection::vec((counter(), -2_i64..3, any::<bool>()), 0..60)) {
            let (mut changes, mut model) = (Changes::default(), BTreeMap::new());
            for (counter, change, settle) in added {
                // Times are never before 1970.
                let change = if matches!(counter, Counter::Space(..)) { change.abs() } else { change };
                changes.add(counter, change);
                let sum = model.entry(counter.encode()).or_insert(0);
                *sum = counter.combine(*sum, change);
                if settle {
                    changes.settle();
                }
            }
            model.retain(|_, change| *change != 0);
            changes.settle();
            let all: Vec<_> = changes.iter().map(|(c, n)| (c.encode(), n)).collect();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }
}
