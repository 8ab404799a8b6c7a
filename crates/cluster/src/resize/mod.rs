//! Redistribution of a stopped cluster's data over another number of servers.
//!
//! The partitions of a vertex are on virtual nodes, and those do not change: only the map from virtual nodes to
//! servers does. So each row moves unchanged to the server that has its vnode then, and splits of vertices stay
//! valid. Counters are recounted. Idempotency keys of applied batches go where a repeated batch may arrive.
//!
//! The host has the folders. It opens the servers' databases, applies undelivered decisions
//! ([`crate::node::deliver_decisions`]), and creates a new database for each new server:
//!
//! ```text
//!  Resize::read     what must be known before: splits, idempotency keys, schema, clock
//!  begin(k, new k)  for each: schema, memory, splits; the database is reopened afterwards
//!  rows(all new)    vertices, edges, superseded versions, counters: all at once, in key order, as sorted tables
//!  archive, objects (k, new k)   for each
//!  check(k, new k)  for each, reopened: reads everything again; `finish` compares the sums
//! ```
//!
//! Nothing is written to the old databases.

mod applied_keys;
mod check;
mod rows;

pub use check::ServerContents;
pub use rows::Loading;

use crate::node::codec::{INCARNATION, SPLIT, split_key};
use crate::node::hashed::Map;
use crate::node::names::row_owner::HashPartitioning;
use crate::peer::entries_vertex;
use crate::placement::{End, Kind, Order, Partition, Placement, SplitState, Splits};
use crate::vnode::{ServerId, VnodeMap, Vnodes};
use applied_keys::AppliedKeys;
use check::Tally;
use esker_engine::{DatabaseMeta, Engine, RowSubject};
use esker_model::codec::Reader;
use esker_model::key::names::NamesKey;
use esker_model::key::{Counter, EdgeKey, Measure};
use esker_model::namespace::record::{LOCATION_PREFIX, LocationRecord, is_path_named_key};
use esker_model::object::ObjectId;
use esker_model::{Error, Flow, Result, Schema, Version, VertexId};
use esker_store::{Durability, KeyRange, Table, WriteBatch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Target state of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Placement rule of edges; must be as before.
    pub placement: Kind,
    /// Number of vnodes; must be as before.
    pub vnodes: u32,
    /// Number of new servers, which are numbered from 0.
    pub servers: u32,
    /// Present time. New servers' clocks are not behind it, so that they do not change what old servers have returned
    /// as of then.
    pub now: Version,
}

/// Progress callback, called with the number of additional rows done; an error stops the work.
pub type Progress<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// Number of rows between two calls of the progress callback.
const ROWS_PER_CALLBACK: u64 = 1 << 12;

/// Redistribution of a cluster in progress.
pub struct Resize<'a> {
    sources: &'a [Arc<Engine>],
    servers: Vec<ServerId>,
    layout: Layout,
    memory: DatabaseMeta,
    idempotency_keys: AppliedKeys,
    incarnation: u64,
    /// By new server, in order of creation: objects and the index of their source.
    objects: Vec<Vec<(ObjectId, usize)>>,
    /// Sums over the files of all sources.
    space: BTreeMap<Counter, i64>,
    /// Directories from which an item has departed, as recorded by a database that was not a server's.
    departed: BTreeSet<VertexId>,
    /// Tally of the sources.
    source_tally: Tally,
    /// Tally of the new databases that were checked so far.
    written: Tally,
}

impl std::fmt::Debug for Resize<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resize")
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

/// New owners of rows.
struct Layout {
    map: VnodeMap,
    placement: Box<dyn Placement>,
    splits: Map<VertexId, Splits>,
}

impl Layout {
    fn end(&self, id: VertexId) -> End {
        End::of(id, self.placement.shards())
    }

    /// Returns the number of the server that a row belongs to.
    fn server(&self, subject: RowSubject) -> usize {
        let server = match subject {
            RowSubject::Vertex(id) => self.map.home(id),
            RowSubject::Object(object) => self.map.home(object.vertex()),
            RowSubject::Edge(key) => self.edge(&key),
            RowSubject::Entry(directory, hash) => self.entry(directory, hash),
            RowSubject::Derived => None,
        };
        // The map contains every vnode, and servers are numbered from 0.
        server.map_or(0, |server| server.0 as usize)
    }

    fn edge(&self, key: &EdgeKey) -> Option<ServerId> {
        let whole = Splits::default();
        let splits = self.splits.get(&key.source);
        let splits = splits.unwrap_or(&whole);
        let (source, destination) = (self.end(key.source), self.end(key.destination));
        let partition = self.placement.locate(splits, source, destination);
        self.map
            .server(self.placement.shard_of(source.home, partition))
    }

    fn entry(&self, directory: VertexId, hash: u64) -> Option<ServerId> {
        let id = entries_vertex(directory);
        let partition = match (
            HashPartitioning::of(&*self.placement, directory),
            self.splits.get(&id),
        ) {
            (Some(cut), Some(splits)) => cut.locate(splits, hash),
            _ => Partition(0),
        };
        self.map
            .server(self.placement.shard_of(self.end(id).home, partition))
    }

    /// Returns the servers that have partitions of a vertex with these splits.
    fn servers_of(&self, id: VertexId, splits: &Splits) -> Vec<ServerId> {
        let home = self.end(id).home;
        let partitions = self.placement.partitions(splits);
        let servers = partitions
            .into_iter()
            .filter_map(|p| self.map.server(self.placement.shard_of(home, p)));
        let mut servers: Vec<_> = servers.collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }
}

impl<'a> Resize<'a> {
    /// Reads what must be known of the old servers, given in their order; they must have no undelivered decisions. A
    /// single source may be a database that was never a server's.
    pub fn read(sources: &'a [Arc<Engine>], plan: Plan) -> Result<Self> {
        let invalid = |e: String| Error::Invalid(e);
        let vnodes = Vnodes::new(plan.vnodes).map_err(|e| invalid(e.to_string()))?;
        let servers: Vec<_> = (0..plan.servers).map(ServerId).collect();
        let map = VnodeMap::first(vnodes, &servers).map_err(|e| invalid(e.to_string()))?;
        let placement = plan
            .placement
            .over(vnodes.count(), Order::Numbers)
            .map_err(|e| invalid(e.to_string()))?;
        let mut memories = sources.iter().map(|source| source.database_meta());
        let first = memories.next().ok_or_else(|| {
            invalid("there are no servers whose data could be redistributed".to_owned())
        })?;
        let mut memory = first?;
        for (other, server) in memories.zip(1..) {
            let other = other?;
            check_schema(&memory.schema, &other.schema, ServerId(server))?;
            memory.merge(&other);
        }
        memory.newest = memory.newest.max(plan.now);
        let idempotency_keys = AppliedKeys::of(&mut memory, sources.len() as u32, plan.servers);
        let mut resize = Self {
            sources,
            layout: Layout {
                map,
                placement,
                splits: Map::default(),
            },
            memory,
            idempotency_keys,
            incarnation: 0,
            objects: vec![Vec::new(); servers.len()],
            servers,
            space: BTreeMap::new(),
            departed: BTreeSet::new(),
            source_tally: Tally::default(),
            written: Tally::default(),
        };
        for source in sources {
            resize.learn(source)?;
        }
        resize.sort_objects();
        Ok(resize)
    }

    /// Learns from a server's own rows.
    fn learn(&mut self, source: &Engine) -> Result<()> {
        let corrupt = |e| Error::corrupt("a row of table `meta` that a cluster's server keeps", e);
        let store = source.store();
        if let Some(row) = store.get(Table::Meta, INCARNATION)? {
            let starts = Reader::new(&row).u64("how often the server was started");
            self.incarnation = self.incarnation.max(starts.map_err(corrupt)?);
        }
        check_totals(source)?;
        self.learn_files(source)?;
        let tree = self.layout.placement.tree();
        let kind = self.layout.placement.kind();
        let splits = &mut self.layout.splits;
        let mut failure = None;
        store.scan(Table::Meta, &KeyRange::prefix(SPLIT), &mut |key, row| {
            let id = key.get(SPLIT.len()..).and_then(|id| id.try_into().ok());
            match (id.map(VertexId), SplitState::decode(row)) {
                (Some(id), Ok(split)) if Some(split.tree()) == tree && split.kind() == kind => {
                    // A server that has a partition may know only some of the others.
                    splits.entry(id).or_default().merge(split.splits());
                    return Flow::Continue(());
                }
                (Some(_), Ok(_)) => {
                    failure = Some(Error::Invalid(
                        "a vertex has split along another partition tree than that of the cluster's placement and vnodes".into(),
                    ));
                }
                (_, Err(e)) => failure = Some(corrupt(e)),
                (None, _) => failure = Some(corrupt(Reader::new(key).error("a vertex id"))),
            }
            Flow::Break(())
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Reads sums over files, and directories whose new files must not get ids from their paths: a cluster records
    /// each departed name by itself.
    fn learn_files(&mut self, source: &Engine) -> Result<()> {
        for (counter, n) in source.partial_namespace().counters()? {
            let sum = self.space.entry(counter).or_default();
            *sum = match counter {
                Counter::Space(_, Measure::Changed) => (*sum).max(n),
                _ => sum.wrapping_add(n),
            };
        }
        let mut failure = None;
        let departed = &mut self.departed;
        let all = KeyRange::prefix(&LOCATION_PREFIX);
        source.store().scan(Table::Names, &all, &mut |key, row| {
            let record = NamesKey::decode(key)
                .and_then(|key| Ok((key.id(), LocationRecord::decode(key.id(), row)?)));
            match record {
                Ok((id, record)) => {
                    if record.departed && !record.deleted {
                        departed.insert(id);
                    }
                    Flow::Continue(())
                }
                Err(e) => {
                    failure = Some(Error::corrupt("a row of table `names`", e));
                    Flow::Break(())
                }
            }
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Returns the new value of a row of table `names`: claims of directories from which an item has departed lose their owner.
    fn names_row<'r>(&self, key: &[u8], value: &'r [u8]) -> &'r [u8] {
        let owner = value.try_into().map(VertexId);
        let claimed =
            is_path_named_key(key) && owner.is_ok_and(|owner| self.departed.contains(&owner));
        if claimed { &NOBODY } else { value }
    }

    fn sort_objects(&mut self) {
        let mut first = vec![Vec::new(); self.servers.len()];
        for (number, source) in self.sources.iter().enumerate() {
            for (object, since) in source.objects_in_order() {
                let server = self.layout.server(RowSubject::Object(object));
                if let Some(list) = first.get_mut(server) {
                    list.push((since, object, number));
                }
            }
        }
        for (list, mut sorted) in self.objects.iter_mut().zip(first) {
            // Objects of one commit keep their order.
            sorted.sort_by_key(|(since, ..)| *since);
            *list = sorted.into_iter().map(|(_, o, n)| (o, n)).collect();
        }
    }

    /// Returns the number of new servers.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Returns the number of vertices that have split.
    pub fn split_vertices(&self) -> usize {
        self.layout.splits.len()
    }

    /// Writes schema, memory and splits of server `k` into its new database, which must be reopened afterwards.
    pub fn begin(&self, k: usize, target: &Engine) -> Result<()> {
        let mut memory = self.memory.clone();
        memory.idempotency_keys = self.idempotency_keys.of_server(k);
        target.write_database_meta(&memory)?;
        let mut batch = WriteBatch::default();
        // The next start increments the incarnation.
        batch.put(Table::Meta, INCARNATION, self.incarnation.to_be_bytes());
        let me = ServerId(k as u32);
        let placement = &self.layout.placement;
        for (id, splits) in &self.layout.splits {
            if let Some(tree) = placement.tree()
                && self.layout.servers_of(*id, splits).contains(&me)
                && let Some(split) = SplitState::new(placement.kind(), tree, splits.clone())
            {
                batch.put(Table::Meta, split_key(*id), split.encode());
            }
        }
        target.store().commit(batch, Durability::Relaxed)
    }
}

/// Owner of a claim that belongs to no directory.
const NOBODY: [u8; 16] = [0xFF; 16];

/// Refuses a database with counters that this module cannot recount.
fn check_totals(source: &Engine) -> Result<()> {
    let mut unknown = false;
    let totals = KeyRange::prefix(&[0; 16]);
    source.store().scan(Table::Counts, &totals, &mut |key, _| {
        let known = Counter::decode(key);
        unknown |= !matches!(
            known,
            Ok(Counter::Vertices(_) | Counter::Edges(_) | Counter::Space(..))
        );
        Flow::Continue(())
    })?;
    if unknown {
        return Err(Error::Invalid(
            "the database has counters other than of vertices, edges and files, and these cannot be redistributed yet".into(),
        ));
    }
    Ok(())
}

/// Refuses schemas that contradict each other. A schema that lacks definitions was not up when they were made.
fn check_schema(first: &Schema, other: &Schema, server: ServerId) -> Result<()> {
    let vertices = other.vertex_types().all(|(id, t)| {
        first.vertex_type(id).is_some_and(|known| {
            known.name == t.name
                && known.attributes.get(..t.attributes.len()) == Some(&t.attributes)
        })
    });
    let edges = other.edge_types().all(|(id, t)| {
        first
            .edge_type(id)
            .is_some_and(|known| known.name == t.name)
    });
    if vertices && edges {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "server 0 and {server} have schemas that contradict each other: are these the folders of one cluster?"
    )))
}
