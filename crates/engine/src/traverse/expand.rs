//! Expanding a frontier: the neighbours of many vertices, from the adjacency cache or the store.

use super::plan::PlanHop;
use super::stop::Stopper;
use crate::adjacency::{Adjacency, Inner, List, ListVersions, Loaded, View};
use crate::read::{self, FirstError, Source, corrupt};
use esker_model::codec::Reader;
use esker_model::key::{EDGE_KEY_BYTES, edges_of_type_prefix};
use esker_model::record::EdgeRecord;
use esker_model::traversal::StopReason;
use esker_model::{
    Edge, EdgeKey, EdgeSelect, EdgeTypeId, Flow, Result, Version, VersionRange, Versions, VertexId,
};
use esker_store::{Cursor, KeyRange, Read as _, Table, prefix_end};
use std::sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// How many vertices are expanded between looks at the budget, and loaded in one pass over the store.
pub(crate) const CHUNK_VERTICES: usize = 1 << 12;
/// The same where there is no budget to overdraw. The more vertices in one pass, the nearer each lies to the next.
pub(crate) const CHUNK_VERTICES_UNBOUNDED: usize = 1 << 16;

/// A moment of the database to expand in: what is read then, and the cache as far as it agrees with it.
pub(crate) struct Moment<'e> {
    pub(crate) adjacency: &'e Adjacency,
    pub(crate) view: View,
    pub(crate) source: Source<'e>,
    pub(crate) versions: Versions,
    pub(crate) stopper: Stopper<'e>,
}

/// The neighbours of one vertex of a chunk over one edge type.
pub(crate) struct Neighbours {
    /// Place in the chunk.
    pub(crate) source: usize,
    pub(crate) edge_type: EdgeTypeId,
    pub(crate) list: Arc<List>,
}

/// What expanding a chunk gave.
#[derive(Default)]
pub(crate) struct Expansion {
    /// In the order of the chunk, then of edge types.
    pub(crate) neighbours: Vec<Neighbours>,
    /// Edges looked at, those that filters dropped included.
    pub(crate) edges: u64,
    /// Vertices that needed nothing from the store.
    pub(crate) cached: u64,
    /// Why it had to stop in between, if it had to; some neighbours are missing then.
    pub(crate) stopped: Option<StopReason>,
}

impl Moment<'_> {
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

    /// The neighbours of a chunk of vertices, given by their dense numbers.
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
                    hop.lists_suffice(self.versions) && self.adjacency.holds(&self.view, id);
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

    /// Whether a list of what is now is also what this moment's version sees.
    fn sees(&self, list: &List) -> bool {
        match self.versions {
            Versions::AsOf(as_of) => list.newest <= as_of,
            Versions::Range(_) => false,
        }
    }

    /// For a range, also what was put before it: it may have held in the range.
    fn versions_to_scan(&self) -> Versions {
        match self.versions {
            Versions::AsOf(_) => self.versions,
            Versions::Range(range) => Versions::Range(VersionRange {
                from: Version::ZERO,
                until: range.until,
            }),
        }
    }

    /// Loads what is missing, in key order; returns why it stopped before the end, if it did.
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
            let mut rows = Rows {
                moment: self,
                cursor: None,
                density: Density::default(),
            };
            let mut raw = Vec::with_capacity(missing.len());
            for (id, place) in missing {
                let list = rows.list(*id, hop.edge_types[place % types])?;
                stopped = list.stopped;
                raw.push((*id, *place, list));
                if stopped.is_some() {
                    break;
                }
            }
            let mut loaded = Vec::with_capacity(raw.len());
            let mut inner = self.write();
            for (id, place, raw) in raw {
                let whole = raw.stopped.is_none();
                let list = Arc::new(raw.number(&mut inner));
                if whole {
                    let number = chunk[place / types];
                    let edge_type = hop.edge_types[place % types];
                    loaded.push(Loaded {
                        number,
                        edge_type,
                        list: Arc::clone(&list),
                    });
                }
                if !self.sees(&list) {
                    past.push((id, place));
                }
                found[place] = Some(list);
            }
            drop(inner);
            // Lists of what is now are worth keeping even where this moment is older and reads its own below.
            self.adjacency.add(&self.view, &loaded);
        } else {
            past.extend_from_slice(missing);
        }
        let edge_type = |place: usize| hop.edge_types[place % types];
        let archived = |(id, place): &(VertexId, usize), ranges: &mut Vec<_>| {
            read::ranges_ahead(*id, &[edge_type(*place)], ranges);
        };
        past.iter().for_each(|(_, place)| found[*place] = None);
        if stopped.is_some() {
            return Ok(stopped);
        }
        self.source.in_pieces(&past, archived, |_, piece| {
            for (id, place) in piece {
                stopped = self.stopper.must_stop();
                if stopped.is_none() {
                    let (list, reason) = self.filtered(hop, *id, edge_type(*place))?;
                    found[*place] = Some(Arc::new(list));
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

    /// One vertex's edges of a type as this moment's versions and the hop's filters see them.
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
        };
        let mut raw = RawList::default();
        let mut held = Held::new(self.versions);
        let take = &mut |edge: Edge| {
            let kept = held.in_range(&edge) && hop.edge_filters.iter().all(|f| f.holds(&edge));
            raw.take(self, kept.then_some(edge.key.destination), edge.version)
        };
        // Whether it broke off is known from `raw`.
        let _: Flow = read::scan_one(&self.source, id, &select, take)?;
        let stopped = raw.stopped;
        Ok((raw.number(&mut self.write()), stopped))
    }
}

/// Tells, of an edge's versions (newest first), those that held at some version of a range.
struct Held {
    versions: Versions,
    /// The edge whose version in force when the range begins has been met.
    begun: Option<EdgeKey>,
}

impl Held {
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
            stopped: None,
        }
    }
}

/// Within one vertex, the budget is looked at once in so many edges.
const EDGES_BETWEEN_LOOKS: u64 = 1 << 12;

impl RawList {
    /// Takes note of one edge, and keeps it if it has a destination. Breaks when the traversal has to stop.
    fn take(&mut self, moment: &Moment<'_>, kept: Option<VertexId>, version: Version) -> Flow {
        self.looked_at += 1;
        self.newest = self.newest.max(version);
        if let Some(destination) = kept {
            self.targets.push(destination);
            self.versions.push(version);
        }
        moment.stopper.looked_at(1);
        if self.looked_at.is_multiple_of(EDGES_BETWEEN_LOOKS) {
            self.stopped = moment.stopper.must_stop();
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
/// when the next list is likely to be near, and seeks when not.
struct Rows<'s> {
    moment: &'s Moment<'s>,
    cursor: Option<Box<dyn Cursor + 's>>,
    density: Density,
}

const STEPS_BEFORE_SEEK: u64 = 24;

/// How many rows lie between ids, learnt on the way: ids are hashes, so rows lie evenly but for vertices with very many
/// edges.
#[derive(Default)]
struct Density {
    steps: f64,
    distance: f64,
    seeks: u64,
}

/// Every so many seeks it steps all the same, to learn.
const SEEKS_BETWEEN_PROBES: u64 = 16;
/// Steps after which what was learnt before counts half.
const STEPS_REMEMBERED: f64 = 4096.0;

impl Density {
    fn position(key: &[u8]) -> f64 {
        key.first_chunk()
            .map_or(0.0, |head| u64::from_be_bytes(*head) as f64)
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

impl<'s> Rows<'s> {
    fn list(&mut self, id: VertexId, edge_type: EdgeTypeId) -> Result<RawList> {
        let prefix = edges_of_type_prefix(id, edge_type);
        let mut list = RawList {
            stopped: self.moment.stopper.must_stop(),
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
            let destination = key
                .get(EDGE_KEY_BYTES - VertexId::BYTES..)
                .and_then(|d| d.try_into().ok());
            let destination = destination.map(VertexId).ok_or_else(|| {
                corrupt("rows", Reader::new(key).error("a destination vertex id"))
            })?;
            let (gone, version) =
                EdgeRecord::decode_head(cursor.value()).map_err(|e| corrupt("rows", e))?;
            let flow = list.take(self.moment, (!gone).then_some(destination), version);
            if flow.is_break() || !cursor.advance()? {
                return Ok(list);
            }
        }
        self.cursor = Some(cursor);
        Ok(list)
    }

    /// A cursor at the first row at or after `key`; none if there is no such row.
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
        let mut cursor = self.moment.source.cursor(Table::Rows, &range)?;
        Ok(cursor.advance()?.then_some(cursor))
    }
}

/// The version that a vertex must exist at to be visited, and whether that has to be looked up at all.
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
    if !record.gone && range.contains(record.static_version) {
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
        let version = key.get(prefix.len()..).and_then(|v| v.try_into().ok());
        let version = version.map(|v| Version(!u64::from_be_bytes(v)));
        let record =
            esker_model::record::StaticRecord::decode(value).map_err(|e| corrupt("history", e));
        let record = error.keep(record)?;
        existed |= !record.gone && version.is_some_and(|v| range.contains(v));
        if existed {
            Flow::Break(())
        } else {
            Flow::Continue(())
        }
    })?;
    error.into_result().map(|()| existed)
}
