//! Whether what was dealt out is what was there: numbers of rows and a sum of their hashes, and where they lie.

use super::rows::Looks;
use super::{Resize, Watch};
use esker_engine::{Carried, Engine, carried};
use esker_model::key::Counter;
use esker_model::record::EdgeRecord;
use esker_model::{Counts, Error, Flow, GraphRead as _, Result};
use esker_store::{KeyRange, Table};
use foldhash::fast::FixedState;
use std::hash::BuildHasher as _;

/// What rows are there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    rows: u64,
    history: u64,
    index: u64,
    names: u64,
    archived: u64,
    /// The same for the same rows in any order.
    sum: u64,
}

impl Tally {
    pub(super) fn note(&mut self, table: Table, key: &[u8], value: &[u8]) {
        match table {
            Table::Rows => self.rows += 1,
            Table::History => self.history += 1,
            Table::Names => self.names += 1,
            _ => self.index += 1,
        }
        self.add(table.name(), key, value);
    }

    fn note_archived(&mut self, key: &[u8], value: &[u8]) {
        self.archived += 1;
        self.add("archive", key, value);
    }

    fn add(&mut self, place: &str, key: &[u8], value: &[u8]) {
        let hash = FixedState::default().hash_one((place, key, value));
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// What a new server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dealt {
    /// Vertices that exist now, objects among them.
    pub vertices: u64,
    /// Directions of edges that exist now.
    pub edges: u64,
    /// Objects, those among them that were deleted too.
    pub objects: u64,
    /// Superseded versions, in the live store and in the archive.
    pub superseded: u64,
}

impl Resize<'_> {
    /// Reads everything that server `k` was given, from its database as it was opened anew. Fails if anything lies where it does
    /// not belong or its counters are wrong.
    pub fn check<'w>(
        &mut self,
        k: usize,
        target: &Engine,
        watch: &'w mut Watch<'w>,
    ) -> Result<Dealt> {
        let mut looks = Looks::new(watch);
        let mut tally = Tally::default();
        let (mut objects, mut edges, mut degrees) = (0, 0, 0);
        let layout = &self.layout;
        for table in [Table::Rows, Table::History, Table::Index, Table::Names] {
            let mut each = |key: &[u8], value: &[u8]| -> Result<()> {
                looks.row()?;
                let what = carried(table, key)?;
                if what == Carried::Derived {
                    return Ok(());
                }
                if layout.server(what) != k {
                    return Err(wrong(k, &format!("has a row of another one ({what:?})")));
                }
                if table == Table::Rows {
                    match what {
                        Carried::Object(_) => objects += 1,
                        Carried::Edge(_) => {
                            let (gone, _) = EdgeRecord::decode_head(value)
                                .map_err(|e| Error::corrupt("an edge's row", e))?;
                            edges += u64::from(!gone);
                        }
                        Carried::Vertex(_) | Carried::Entry(..) | Carried::Derived => {}
                    }
                }
                tally.note(table, key, value);
                Ok(())
            };
            scan(target, table, &mut each)?;
        }
        scan(target, Table::Counts, &mut |key, value| {
            let corrupt = |e| Error::corrupt("a row of table `counts`", e);
            if let Counter::Degree(..) = Counter::decode(key).map_err(corrupt)? {
                let mut r = esker_model::codec::Reader::new(value);
                degrees += r.varint("a count").map_err(corrupt)?;
            }
            Ok(())
        })?;
        let mut failure = None;
        target.archive().scan(&KeyRange::ALL, &mut |key, value| {
            tally.note_archived(key, value);
            flow(looks.row(), &mut failure)
        })?;
        failure.map_or(Ok(()), Err)?;
        looks.end()?;
        let counts = target.counts()?;
        let (vertices, counted) = (sum(&counts.vertices), sum(&counts.edges));
        if edges != degrees || edges != counted {
            return Err(wrong(
                k,
                &format!("has {edges} edges, degrees of {degrees}, and counts {counted}"),
            ));
        }
        let all = &mut self.dealt;
        all.rows += tally.rows;
        all.history += tally.history;
        all.index += tally.index;
        all.names += tally.names;
        all.archived += tally.archived;
        all.sum = all.sum.wrapping_add(tally.sum);
        Ok(Dealt {
            vertices,
            edges,
            objects,
            superseded: tally.history + tally.archived,
        })
    }

    /// Once all are checked: compares them with what the old servers had. Gives what their counters said, and what was counted
    /// anew, if these differ.
    pub fn finish(mut self, new: &[Counts]) -> Result<Option<(u64, u64)>> {
        for source in self.sources {
            let mut failure = None;
            source.archive().scan(&KeyRange::ALL, &mut |key, value| {
                self.held.note_archived(key, value);
                flow(Ok(()), &mut failure)
            })?;
        }
        if self.held != self.dealt {
            return Err(Error::Store {
                engine: "cluster",
                message: format!(
                    "what was dealt out is not what was there: {:?} instead of {:?}; nothing was changed. If it happens again, \
                     please report it",
                    self.dealt, self.held
                ),
            });
        }
        let total = |counts: &Counts| sum(&counts.vertices) + sum(&counts.edges);
        let old = self.sources.iter().map(|s| s.counts());
        let old: u64 = old.collect::<Result<Vec<_>>>()?.iter().map(total).sum();
        let new: u64 = new.iter().map(total).sum();
        Ok((old != new).then_some((old, new)))
    }
}

fn sum<T>(counts: &[(T, u64)]) -> u64 {
    counts.iter().map(|(_, n)| n).sum()
}

fn wrong(k: usize, what: &str) -> Error {
    Error::Store {
        engine: "cluster",
        message: format!("new server {k} {what}; nothing was changed, please report it"),
    }
}

fn scan(
    engine: &Engine,
    table: Table,
    each: &mut dyn FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut failure = None;
    engine
        .store()
        .scan(table, &KeyRange::ALL, &mut |key, value| {
            flow(each(key, value), &mut failure)
        })?;
    failure.map_or(Ok(()), Err)
}

fn flow(done: Result<()>, failure: &mut Option<Error>) -> Flow {
    match done {
        Ok(()) => Flow::Continue(()),
        Err(e) => {
            *failure = Some(e);
            Flow::Break(())
        }
    }
}
