//! Verification of a resize: counts of rows, a sum of their hashes, and that each row is on its server.

use super::rows::ProgressCounter;
use super::{Progress, Resize};
use esker_engine::{Engine, RowSubject, row_subject};
use esker_model::key::Counter;
use esker_model::record::EdgeRecord;
use esker_model::{Counts, Error, Flow, GraphRead as _, Result};
use esker_store::{KeyRange, Table};
use foldhash::fast::FixedState;
use std::hash::BuildHasher as _;

/// Row counts and checksum of a set of rows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    rows: u64,
    history: u64,
    index: u64,
    names: u64,
    archived: u64,
    /// Sum of row hashes, independent of their order.
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

    fn add(&mut self, table: &str, key: &[u8], value: &[u8]) {
        let hash = FixedState::default().hash_one((table, key, value));
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// Contents of a new server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerContents {
    /// Number of vertices that exist now, including objects.
    pub vertices: u64,
    /// Number of directions of edges that exist now.
    pub edges: u64,
    /// Number of objects, including deleted ones.
    pub objects: u64,
    /// Number of superseded versions, in the live store and in the archive.
    pub superseded: u64,
}

impl Resize<'_> {
    /// Reads everything that server `k` was given from its reopened database. Fails if a row is on the wrong server
    /// or a counter is wrong.
    pub fn check<'w>(
        &mut self,
        k: usize,
        target: &Engine,
        watch: &'w mut Progress<'w>,
    ) -> Result<ServerContents> {
        let mut progress = ProgressCounter::new(watch);
        let mut tally = Tally::default();
        let (mut objects, mut edges, mut degrees) = (0, 0, 0);
        let layout = &self.layout;
        for table in [Table::Rows, Table::History, Table::Index, Table::Names] {
            let mut each = |key: &[u8], value: &[u8]| -> Result<()> {
                progress.row()?;
                let what = row_subject(table, key)?;
                if what == RowSubject::Derived {
                    return Ok(());
                }
                if layout.server(what) != k {
                    let found = format!("has a row that belongs to another server ({what:?})");
                    return Err(wrong(k, &found));
                }
                if table == Table::Rows {
                    match what {
                        RowSubject::Object(_) => objects += 1,
                        RowSubject::Edge(_) => {
                            let (deleted, _) = EdgeRecord::decode_head(value)
                                .map_err(|e| Error::corrupt("an edge's row", e))?;
                            edges += u64::from(!deleted);
                        }
                        RowSubject::Vertex(_) | RowSubject::Entry(..) | RowSubject::Derived => {}
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
            flow(progress.row(), &mut failure)
        })?;
        failure.map_or(Ok(()), Err)?;
        progress.end()?;
        let counts = target.counts()?;
        let (vertices, counted) = (sum(&counts.vertices), sum(&counts.edges));
        if edges != degrees || edges != counted {
            return Err(wrong(
                k,
                &format!("has {edges} edges, degrees of {degrees}, and counts {counted}"),
            ));
        }
        let all = &mut self.written;
        all.rows += tally.rows;
        all.history += tally.history;
        all.index += tally.index;
        all.names += tally.names;
        all.archived += tally.archived;
        all.sum = all.sum.wrapping_add(tally.sum);
        Ok(ServerContents {
            vertices,
            edges,
            objects,
            superseded: tally.history + tally.archived,
        })
    }

    /// Compares the new servers with the old ones, once all are checked. Returns the sums of the old counters and of
    /// the new counts, if they differ.
    pub fn finish(mut self, new: &[Counts]) -> Result<Option<(u64, u64)>> {
        for source in self.sources {
            let mut failure = None;
            source.archive().scan(&KeyRange::ALL, &mut |key, value| {
                self.source_tally.note_archived(key, value);
                flow(Ok(()), &mut failure)
            })?;
        }
        if self.source_tally != self.written {
            return Err(Error::Store {
                engine: "cluster",
                message: format!(
                    "the redistributed data differs from the original: {:?} instead of {:?}; \
                     nothing was changed. If it happens again, please report it",
                    self.written, self.source_tally
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
