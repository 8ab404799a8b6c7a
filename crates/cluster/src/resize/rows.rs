//! Redistribution of rows: from all old servers at once, in key order, to all new ones.

use super::{Progress, ROWS_PER_CALLBACK, Resize};
use esker_engine::{Engine, RowSubject, row_subject};
use esker_model::codec::put_varint;
use esker_model::key::{Counter, EdgeKey};
use esker_model::record::{EdgeRecord, VertexView};
use esker_model::{EdgeTypeId, Error, Result, VersionRange, VertexId, VertexTypeId};
use esker_store::{BulkLoad, Cursor, Durability, KeyRange, Snapshot, Store, Table, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of counters in one commit.
const COUNTERS_AT_ONCE: usize = 1 << 14;
/// Bytes of rows in one commit.
const BYTES_AT_ONCE: usize = 4 << 20;

/// Merge of several sorted sequences of rows, which have no key in common.
pub(super) struct MergedRows<'s> {
    cursors: Vec<Box<dyn Cursor + 's>>,
    /// Indexes of cursors that have a row.
    live: Vec<usize>,
    /// Index in `live` of the cursor with the present row.
    present: Option<usize>,
    begun: bool,
}

impl<'s> MergedRows<'s> {
    pub(super) fn new(cursors: Vec<Box<dyn Cursor + 's>>) -> Self {
        Self {
            cursors,
            live: Vec::new(),
            present: None,
            begun: false,
        }
    }

    fn at(&self, live: usize) -> Option<&(dyn Cursor + 's)> {
        let cursor = self.cursors.get(*self.live.get(live)?)?;
        Some(&**cursor)
    }

    /// Returns the next row. Fails if two of the sequences have the same key.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.begun {
            self.begun = true;
            for (number, cursor) in self.cursors.iter_mut().enumerate() {
                if cursor.advance()? {
                    self.live.push(number);
                }
            }
        } else if let Some(live) = self.present
            && let Some(cursor) = self.live.get(live).and_then(|n| self.cursors.get_mut(*n))
            && !cursor.advance()?
        {
            self.live.remove(live);
        }
        let mut least: Option<(usize, &[u8])> = None;
        for live in 0..self.live.len() {
            let Some(key) = self.at(live).map(Cursor::key) else {
                continue;
            };
            match least {
                Some((_, before)) if before < key => {}
                Some((other, before)) if before == key => {
                    let server = |live: usize| self.live.get(live).copied().unwrap_or_default();
                    return Err(Error::Invalid(format!(
                        "servers {} and {} have the same row (key {key:02x?}): are these the folders of one cluster?",
                        server(other),
                        server(live)
                    )));
                }
                _ => least = Some((live, key)),
            }
        }
        self.present = least.map(|(live, _)| live);
        let row = self.present.and_then(|live| self.at(live));
        Ok(row.map(|row| (row.key(), row.value())))
    }
}

/// Method of writing rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// As sorted tables, past the log.
    Sorted,
    /// In commits, for stores that would keep a bulk load in memory until it is complete.
    Commits,
}

/// A table of a new server being written.
enum Load<'t> {
    Sorted(Box<dyn BulkLoad + 't>),
    Commits {
        store: &'t dyn Store,
        table: Table,
        batch: WriteBatch,
        bytes: usize,
    },
}

impl Load<'_> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Self::Sorted(load) => load.push(key, value),
            Self::Commits {
                store,
                table,
                batch,
                bytes,
            } => {
                batch.put(*table, key, value);
                *bytes += key.len() + value.len();
                if *bytes >= BYTES_AT_ONCE {
                    *bytes = 0;
                    store.commit(std::mem::take(batch), Durability::Relaxed)?;
                }
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Sorted(load) => load.finish(),
            Self::Commits { store, batch, .. } => store.commit(batch, Durability::Relaxed),
        }
    }
}

/// Counters of one new server, computed while its rows pass in key order.
struct ServerCounters<'t> {
    degrees: Load<'t>,
    /// Number of edges of the present source and type.
    degree: Option<(VertexId, EdgeTypeId, u64)>,
    vertices: BTreeMap<VertexTypeId, u64>,
    edges: BTreeMap<EdgeTypeId, u64>,
}

impl ServerCounters<'_> {
    fn vertex(&mut self, row: &[u8]) -> Result<()> {
        let view = VertexView::decode(row).map_err(|e| Error::corrupt("a vertex's row", e))?;
        if !view.deleted {
            *self.vertices.entry(view.type_id).or_default() += 1;
        }
        Ok(())
    }

    fn edge(&mut self, key: EdgeKey, row: &[u8]) -> Result<()> {
        let deleted =
            EdgeRecord::decode_head(row).map_err(|e| Error::corrupt("an edge's row", e))?;
        if deleted.0 {
            return Ok(());
        }
        *self.edges.entry(key.edge_type).or_default() += 1;
        match &mut self.degree {
            Some((id, t, n)) if (*id, *t) == (key.source, key.edge_type) => *n += 1,
            _ => {
                self.put_degree()?;
                self.degree = Some((key.source, key.edge_type, 1));
            }
        }
        Ok(())
    }

    fn put_degree(&mut self) -> Result<()> {
        let Some((id, edge_type, count)) = self.degree.take() else {
            return Ok(());
        };
        self.degrees
            .push(&Counter::Degree(id, edge_type).encode(), &encoded(count))
    }
}

fn encoded(count: u64) -> Vec<u8> {
    let mut value = Vec::new();
    put_varint(&mut value, count);
    value
}

/// Calls the progress callback at intervals.
pub(super) struct ProgressCounter<'w> {
    rows: u64,
    watch: &'w mut Progress<'w>,
}

impl<'w> ProgressCounter<'w> {
    pub(super) fn new(watch: &'w mut Progress<'w>) -> Self {
        Self { rows: 0, watch }
    }

    pub(super) fn row(&mut self) -> Result<()> {
        self.rows += 1;
        if self.rows >= ROWS_PER_CALLBACK {
            self.end()?;
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<()> {
        (self.watch)(std::mem::take(&mut self.rows))
    }
}

impl Resize<'_> {
    /// Writes vertices, edges, superseded versions and counters into all new databases, in the order of their
    /// servers. Objects are counted, and not written.
    pub fn rows<'w>(
        &mut self,
        targets: &[Arc<Engine>],
        loading: Loading,
        watch: &'w mut Progress<'w>,
    ) -> Result<()> {
        let mut progress = ProgressCounter::new(watch);
        let snapshots: Vec<_> = self
            .sources
            .iter()
            .map(|source| source.store().snapshot())
            .collect::<Result<_>>()?;
        self.rows_now(&snapshots, (targets, loading), &mut progress)?;
        for table in [Table::History, Table::Index, Table::Names] {
            let mut loads = loads((targets, loading), table)?;
            let mut merged = merged(&snapshots, table)?;
            while let Some((key, value)) = merged.next()? {
                progress.row()?;
                let what = row_subject(table, key)?;
                if what == RowSubject::Derived {
                    continue;
                }
                let value = if table == Table::Names {
                    self.names_row(key, value)
                } else {
                    value
                };
                self.source_tally.note(table, key, value);
                if let Some(load) = loads.get_mut(self.layout.server(what)) {
                    load.push(key, value)?;
                }
            }
            loads.into_iter().try_for_each(Load::finish)?;
        }
        progress.end()
    }

    fn rows_now(
        &mut self,
        snapshots: &[Box<dyn Snapshot + '_>],
        (targets, loading): (&[Arc<Engine>], Loading),
        progress: &mut ProgressCounter<'_>,
    ) -> Result<()> {
        let mut loads = loads((targets, loading), Table::Rows)?;
        let mut counting: Vec<ServerCounters<'_>> = self::loads((targets, loading), Table::Counts)?
            .into_iter()
            .map(|degrees| ServerCounters {
                degrees,
                degree: None,
                vertices: BTreeMap::new(),
                edges: BTreeMap::new(),
            })
            .collect();
        let mut merged = merged(snapshots, Table::Rows)?;
        while let Some((key, value)) = merged.next()? {
            progress.row()?;
            let what = row_subject(Table::Rows, key)?;
            self.source_tally.note(Table::Rows, key, value);
            let server = self.layout.server(what);
            let (Some(load), Some(counts)) = (loads.get_mut(server), counting.get_mut(server))
            else {
                continue;
            };
            match what {
                RowSubject::Edge(edge) => counts.edge(edge, value)?,
                _ => counts.vertex(value)?,
            }
            if !matches!(what, RowSubject::Object(_)) {
                load.push(key, value)?;
            }
        }
        loads.into_iter().try_for_each(Load::finish)?;
        for (mut counts, target) in counting.into_iter().zip(targets) {
            counts.put_degree()?;
            counts.degrees.finish()?;
            let vertices = counts.vertices.into_iter();
            let vertices = vertices.map(|(t, n)| (Counter::Vertices(t), n));
            let edges = counts.edges.into_iter();
            let totals = vertices.chain(edges.map(|(t, n)| (Counter::Edges(t), n)));
            let mut batch = WriteBatch::default();
            for (counter, count) in totals {
                batch.put(Table::Counts, counter.encode(), encoded(count));
            }
            target.store().commit(batch, Durability::Relaxed)?;
        }
        self.put_space(targets)
    }

    /// Writes the sums over files to one server: a read of sums asks all servers, so any may have them.
    fn put_space(&self, targets: &[Arc<Engine>]) -> Result<()> {
        let Some(target) = targets.first() else {
            return Ok(());
        };
        let mut batch = WriteBatch::default();
        for (counter, n) in self.space.iter().filter(|(_, n)| **n != 0) {
            let value = encoded(n.cast_unsigned());
            batch.put(Table::Counts, counter.encode(), value);
            if batch.len() >= COUNTERS_AT_ONCE {
                let batch = std::mem::take(&mut batch);
                target.store().commit(batch, Durability::Relaxed)?;
            }
        }
        target.store().commit(batch, Durability::Relaxed)
    }

    /// Writes the archive of server `k`.
    pub fn archive<'w>(
        &self,
        k: usize,
        target: &Engine,
        watch: &'w mut Progress<'w>,
    ) -> Result<()> {
        let mut progress = ProgressCounter::new(watch);
        let views: Vec<_> = self
            .sources
            .iter()
            .map(|source| source.archive().view())
            .collect::<Result<_>>()?;
        let cursors = views.iter().map(|view| -> Result<Box<dyn Cursor + '_>> {
            let mut cursor = view.cursor(VersionRange::ALL)?;
            cursor.seek(&KeyRange::ALL);
            Ok(cursor)
        });
        let mut merged = MergedRows::new(cursors.collect::<Result<_>>()?);
        let mut next = || loop {
            progress.row()?;
            let Some((key, value)) = merged.next()? else {
                return Ok(None);
            };
            if self.layout.server(row_subject(Table::History, key)?) == k {
                return Ok(Some((key.to_vec(), value.to_vec())));
            }
        };
        let mut rows = std::iter::from_fn(|| next().transpose()).peekable();
        if rows.peek().is_some() {
            target.archive().append(&mut rows)?;
        }
        drop(rows);
        progress.end()
    }

    /// Writes the objects of server `k`, in order of creation.
    pub fn objects<'w>(
        &self,
        k: usize,
        target: &Engine,
        watch: &'w mut Progress<'w>,
    ) -> Result<()> {
        let mut progress = ProgressCounter::new(watch);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for (object, source) in self.objects.get(k).into_iter().flatten() {
            progress.row()?;
            let mut take = |hash: u128, row: &[u8]| {
                bytes += row.len();
                batch.push((*object, hash, row.to_vec()));
            };
            if let Some(source) = self.sources.get(*source) {
                source.object_row(*object, &mut take)?;
            }
            if bytes >= BYTES_AT_ONCE {
                target.import_objects(&batch)?;
                batch.clear();
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            target.import_objects(&batch)?;
        }
        progress.end()
    }
}

fn loads((targets, loading): (&[Arc<Engine>], Loading), table: Table) -> Result<Vec<Load<'_>>> {
    let mut loads = Vec::with_capacity(targets.len());
    for target in targets {
        loads.push(match loading {
            Loading::Sorted => Load::Sorted(target.store().bulk_load(table)?),
            Loading::Commits => Load::Commits {
                store: &**target.store(),
                table,
                batch: WriteBatch::default(),
                bytes: 0,
            },
        });
    }
    Ok(loads)
}

pub(super) fn merged<'s>(
    snapshots: &'s [Box<dyn Snapshot + '_>],
    table: Table,
) -> Result<MergedRows<'s>> {
    let cursors = snapshots
        .iter()
        .map(|snapshot| snapshot.cursor(table, &KeyRange::ALL));
    cursors.collect::<Result<_>>().map(MergedRows::new)
}
