//! Expansion of a frontier: the neighbours of many vertices, from the adjacency cache or the store.

use super::plan::PlanHop;
use super::stop::Stopper;
use crate::adjacency::{Adjacency, CacheView, Inner, List, ListVersions, LoadedList};
use crate::read::{self, FirstError, Source, corrupt};
use esker_model::key::{edges_of_type_prefix, position, version_of};
use esker_model::record::EdgeRecord;
use esker_model::traversal::StopReason;
use esker_model::{
    Edge, EdgeKey, EdgeSelect, EdgeTypeId, Flow, Result, Version, VersionRange, Versions, VertexId,
};
use esker_store::{Cursor, KeyRange, Read as _, Table, prefix_end};
use std::sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// Vertices expanded between two budget checks, and loaded in one pass over the store.
pub(crate) const CHUNK_VERTICES: usize = 1 << 12;
/// Chunk size without a budget that could be exceeded. Larger passes read vertices that are closer together.
pub(crate) const CHUNK_VERTICES_UNBOUNDED: usize = 1 << 16;

/// Context of an expansion: a consistent source, and the cache as far as it agrees with the source.
pub(crate) struct ReadContext<'e> {
    pub(crate) adjacency: &'e Adjacency,
    pub(crate) view: CacheView,
    pub(crate) source: Source<'e>,
    pub(crate) versions: Versions,
    pub(crate) stopper: Stopper<'e>,
}

/// The neighbours of one vertex of a chunk over one edge type.
pub(crate) struct Neighbours {
    /// Index in the chunk.
    pub(crate) source: usize,
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) list: Arc<List>,
}

/// Result of expanding a chunk.
#[derive(Default)]
pub(crate) struct Expansion {
    /// Neighbours in the order of the chunk, then of edge types.
    pub(crate) neighbours: Vec<Neighbours>,
    /// Edges read, including those that filters dropped.
    pub(crate) edges: u64,
    /// Vertices served from the cache alone.
    pub(crate) cached: u64,
    /// Reason why the expansion stopped early, if it did; some neighbours are missing then.
    pub(crate) stopped: Option<StopReason>,
}

impl ReadContext<'_> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.view
            .generation
            .inner
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.view
            .generation
            .inner
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the neighbours of a chunk of vertices, given by their dense numbers.
    pub(crate) fn expand(&self, hop: &PlanHop, chunk: &[u32]) -> Result<Expansion> {
        let mut expansion = Expansion::default();
        let mut found: Vec<Option<Arc<List>>> =
            Vec::with_capacity(chunk.len() * hop.edge_types.len());
        let mut missing: Vec<(VertexId, usize)> = Vec::new();
        {
            let inner = self.read();
            for number in chunk {
                let Some(id) = inner.ids.get(*number as usize).copied() else {
                    continue;
                };
                let holds =
                    hop.lists_suffice(self.versions) && self.adjacency.is_valid(&self.view, id);
                let mut whole = true;
                for edge_type in &hop.edge_types {
                    let list = inner
                        .list(*edge_type, *number)
                        .filter(|l| holds && self.sees(l));
                    if let Some(list) = list {
                        self.stopper.looked_at(list.looked_at);
                    } else {
                        whole = false;
                        missing.push((id, found.len()));
                    }
                    found.push(list.cloned());
                }
                expansion.cached += u64::from(whole);
            }
        }
        if !missing.is_empty() {
            // In key order: neighbouring vertices share blocks, and often one cursor.
            missing.sort_unstable();
            expansion.stopped = self.load(hop, chunk, &missing, &mut found)?;
        }
        let types = hop.edge_types.len();
        for (i, list) in found.into_iter().enumerate() {
            let Some(list) = list else { continue };
            expansion.edges += list.looked_at;
            if !list.targets.is_empty() {
                let edge_type = hop.edge_types[i % types];
                expansion.neighbours.push(Neighbours {
                    source: i / types,
                    edge_type,
                    list,
                });
            }
        }
        Ok(expansion)
    }

    /// Whether a list of the present edges is also valid at this context's version.
    fn sees(&self, list: &List) -> bool {
        self.is_seen(list.newest)
    }

    /// Whether a row of this version is valid at this context's version.
    fn is_seen(&self, version: Version) -> bool {
        match self.versions {
            Versions::AsOf(as_of) => version <= as_of,
            Versions::Range(_) => false,
        }
    }

    /// Versions to scan; for a range, also those before it, which may have been in force in the range.
    fn versions_to_scan(&self) -> Versions {
        match self.versions {
            Versions::AsOf(_) => self.versions,
            Versions::Range(range) => Versions::Range(VersionRange {
                from: Version::ZERO,
                until: range.until,
            }),
        }
    }

    /// Loads the missing lists in key order; returns the reason why it stopped early, if it did.
    fn load(
        &self,
        hop: &PlanHop,
        chunk: &[u32],
        missing: &[(VertexId, usize)],
        found: &mut [Option<Arc<List>>],
    ) -> Result<Option<StopReason>> {
        let types = hop.edge_types.len();
        let mut past = Vec::new();
        let mut stopped = None;
        if hop.lists_suffice(self.versions) {
            let mut rows = ListReader {
                context: self,
                cursor: None,
                density: Density::default(),
            };
            let mut raw = Vec::with_capacity(missing.len());
            for (id, slot) in missing {
                let list = rows.list(*id, hop.edge_types[slot % types])?;
                if !self.is_seen(list.newest) {
                    // It is read again below, at this context's version.
                    self.stopper.uncount(list.counted);
                }
                stopped = list.stopped;
                raw.push((*id, *slot, list));
                if stopped.is_some() {
                    break;
                }
            }
            let mut loaded = Vec::with_capacity(raw.len());
            let mut inner = self.write();
            for (id, slot, raw) in raw {
                let whole = raw.stopped.is_none();
                let list = Arc::new(raw.number(&mut inner));
                if whole {
                    let number = chunk[slot / types];
                    let edge_type = hop.edge_types[slot % types];
                    loaded.push(LoadedList {
                        number,
                        edge_type,
                        list: Arc::clone(&list),
                    });
                }
                if !self.sees(&list) {
                    past.push((id, slot));
                }
                found[slot] = Some(list);
            }
            drop(inner);
            // Lists of the present edges are cached even if this context reads an older version, which it loads below.
            self.adjacency.add(&self.view, &loaded);
        } else {
            past.extend_from_slice(missing);
        }
        let edge_type = |slot: usize| hop.edge_types[slot % types];
        let archived = |(id, slot): &(VertexId, usize), ranges: &mut Vec<_>| {
            read::prefetch_ranges(*id, &[edge_type(*slot)], ranges);
        };
        past.iter().for_each(|(_, slot)| found[*slot] = None);
        if stopped.is_some() {
            return Ok(stopped);
        }
        self.source.in_pieces(&past, archived, |_, piece| {
            for (id, slot) in piece {
                stopped = self.stopper.must_stop();
                if stopped.is_none() {
                    let (list, reason) = self.filtered(hop, *id, edge_type(*slot))?;
                    found[*slot] = Some(Arc::new(list));
                    stopped = reason;
                }
                if stopped.is_some() {
                    return Ok(Flow::Break(()));
                }
            }
            Ok(Flow::Continue(()))
        })?;
        Ok(stopped)
    }

    /// Reads one vertex's edges of a type with this context's versions and the hop's filters.
    fn filtered(
        &self,
        hop: &PlanHop,
        id: VertexId,
        edge_type: EdgeTypeId,
    ) -> Result<(List, Option<StopReason>)> {
        let select = EdgeSelect {
            types: vec![edge_type],
            versions: self.versions_to_scan(),
            properties: !hop.edge_filters.is_empty(),
            after: None,
        };
        let mut raw = RawList::default();
        let mut tracker = RangeTracker::new(self.versions);
        let take = &mut |edge: Edge| {
            let kept = tracker.in_range(&edge) && hop.edge_filters.iter().all(|f| f.matches(&edge));
            // Each version that was read counts in a range.
            let counts = !edge.deleted || matches!(self.versions, Versions::Range(_));
            raw.looked_at += u64::from(counts);
            let destination = kept.then_some(edge.key.destination);
            raw.take(self, destination, edge.version, counts)
        };
        // An early stop is recorded in `raw`.
        let _: Flow = read::scan_one(&self.source, id, (&select, None), take)?;
        let stopped = raw.stopped;
        Ok((raw.number(&mut self.write()), stopped))
    }
}

/// Selects, of an edge's versions (newest first), those that were in force at some version of a range.
struct RangeTracker {
    versions: Versions,
    /// The edge whose version in force at the start of the range has been passed.
    begun: Option<EdgeKey>,
}

impl RangeTracker {
    fn new(versions: Versions) -> Self {
        Self {
            versions,
            begun: None,
        }
    }

    fn in_range(&mut self, edge: &Edge) -> bool {
        let Versions::Range(range) = self.versions else {
            return !edge.deleted;
        };
        let superseded = self.begun == Some(edge.key);
        if edge.version <= range.from {
            self.begun = Some(edge.key);
        }
        !superseded && !edge.deleted
    }
}

/// A list before its vertices have dense numbers.
struct RawList {
    targets: Vec<VertexId>,
    versions: Vec<Version>,
    newest: Version,
    looked_at: u64,
    /// Number of rows read, and of edges that the budget counts.
    rows: u64,
    counted: u64,
    stopped: Option<StopReason>,
}

impl Default for RawList {
    fn default() -> Self {
        let newest = Version::ZERO;
        Self {
            targets: Vec::new(),
            versions: Vec::new(),
            newest,
            looked_at: 0,
            rows: 0,
            counted: 0,
            stopped: None,
        }
    }
}

/// Rows of one vertex between two budget checks.
const ROWS_BETWEEN_LOOKS: u64 = 1 << 12;

impl RawList {
    /// Adds an edge if it has a destination; the budget counts it if it `counts`. Breaks when the traversal must stop.
    fn take(
        &mut self,
        context: &ReadContext<'_>,
        kept: Option<VertexId>,
        version: Version,
        counts: bool,
    ) -> Flow {
        self.rows += 1;
        self.newest = self.newest.max(version);
        if let Some(destination) = kept {
            self.targets.push(destination);
            self.versions.push(version);
        }
        if counts {
            self.counted += 1;
            context.stopper.looked_at(1);
        }
        if self.rows.is_multiple_of(ROWS_BETWEEN_LOOKS) {
            self.stopped = context.stopper.must_stop();
        }
        if self.stopped.is_some() {
            Flow::Break(())
        } else {
            Flow::Continue(())
        }
    }

    fn number(self, inner: &mut Inner) -> List {
        List {
            targets: self.targets.iter().map(|id| inner.number(*id)).collect(),
            versions: ListVersions::of(self.versions),
            newest: self.newest,
            looked_at: self.looked_at,
        }
    }
}

/// Reads adjacency lists in ascending key order. A seek costs as much as some thirty steps of a cursor, so it steps
/// when the next list is likely to be close, and seeks otherwise.
struct ListReader<'s> {
    context: &'s ReadContext<'s>,
    cursor: Option<Box<dyn Cursor + 's>>,
    density: Density,
}

const STEPS_BEFORE_SEEK: u64 = 24;

/// Estimate of the number of rows between ids, learnt while reading: ids are hashes, so rows are distributed evenly except for
/// vertices with very many edges.
#[derive(Default)]
struct Density {
    steps: f64,
    distance: f64,
    seeks: u64,
}

/// Seeks between two probes, which step in any case to update the estimate.
const SEEKS_BETWEEN_PROBES: u64 = 16;
/// Number of steps after which older observations are halved.
const STEPS_REMEMBERED: f64 = 4096.0;

impl Density {
    fn position(key: &[u8]) -> f64 {
        position(key).map_or(0.0, |position| position as f64)
    }

    /// Whether to step from one key to another rather than to seek.
    fn is_near(&mut self, from: &[u8], to: &[u8]) -> bool {
        let distance = Self::position(to) - Self::position(from);
        if distance * self.steps <= STEPS_BEFORE_SEEK as f64 * self.distance {
            return true;
        }
        self.seeks += 1;
        self.seeks.is_multiple_of(SEEKS_BETWEEN_PROBES)
    }

    fn learn(&mut self, from: f64, to: &[u8], steps: u64) {
        self.steps += steps as f64;
        self.distance += Self::position(to) - from;
        if self.steps > STEPS_REMEMBERED {
            self.steps /= 2.0;
            self.distance /= 2.0;
        }
    }
}

impl<'s> ListReader<'s> {
    fn list(&mut self, id: VertexId, edge_type: EdgeTypeId) -> Result<RawList> {
        let prefix = edges_of_type_prefix(id, edge_type);
        let mut list = RawList {
            stopped: self.context.stopper.must_stop(),
            ..RawList::default()
        };
        if list.stopped.is_some() {
            return Ok(list);
        }
        let Some(mut cursor) = self.at(&prefix)? else {
            return Ok(list);
        };
        while cursor.key().starts_with(&prefix) {
            let key = cursor.key();
            let destination = EdgeKey::destination_of(key).map_err(|e| corrupt("rows", e))?;
            let (deleted, version) =
                EdgeRecord::decode_head(cursor.value()).map_err(|e| corrupt("rows", e))?;
            list.looked_at += u64::from(!deleted);
            // Rows of later versions are not edges of this context's version; if there are some, the list is read again.
            let counts = !deleted && self.context.is_seen(version);
            let kept = (!deleted).then_some(destination);
            let flow = list.take(self.context, kept, version, counts);
            if flow.is_break() || !cursor.advance()? {
                return Ok(list);
            }
        }
        self.cursor = Some(cursor);
        Ok(list)
    }

    /// Returns a cursor at the first row at or after `key`; `None` if there is no such row.
    fn at(&mut self, key: &[u8]) -> Result<Option<Box<dyn Cursor + 's>>> {
        if let Some(mut cursor) = self.cursor.take()
            && self.density.is_near(cursor.key(), key)
        {
            let from = Density::position(cursor.key());
            let mut steps = 0;
            while cursor.key() < key && steps < STEPS_BEFORE_SEEK {
                if !cursor.advance()? {
                    return Ok(None);
                }
                steps += 1;
            }
            self.density.learn(from, cursor.key(), steps);
            if cursor.key() >= key {
                return Ok(Some(cursor));
            }
        }
        let range = KeyRange {
            from: key.to_vec(),
            until: None,
        };
        let mut cursor = self.context.source.cursor(Table::Rows, &range)?;
        Ok(cursor.advance()?.then_some(cursor))
    }
}

/// Whether a vertex existed at some of the versions, so that it can be visited.
pub(crate) fn existed_in(source: &Source<'_>, id: VertexId, versions: Versions) -> Result<bool> {
    let range = match versions {
        Versions::AsOf(as_of) => return read::exists(source, id, as_of),
        Versions::Range(range) => range,
    };
    if read::exists(source, id, range.from)? {
        return Ok(true);
    }
    let Some(record) = read::vertex_record(source, id)? else {
        return Ok(true);
    };
    if !record.deleted && range.contains(record.static_version) {
        return Ok(true);
    }
    let mut existed = false;
    let mut error = FirstError::default();
    let prefix = esker_model::key::vertex(id);
    let rows = KeyRange {
        from: prefix.to_vec(),
        until: prefix_end(&prefix),
    };
    source.scan(Table::History, &rows, &mut |key, value| {
        let version = version_of(key);
        let record =
            esker_model::record::StaticRecord::decode(value).map_err(|e| corrupt("history", e));
        let record = error.keep(record)?;
        existed |= !record.deleted && version.is_some_and(|v| range.contains(v));
        if existed {
            Flow::Break(())
        } else {
            Flow::Continue(())
        }
    })?;
    error.into_result().map(|()| existed)
}
