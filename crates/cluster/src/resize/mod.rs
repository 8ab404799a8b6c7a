//! What a stopped cluster holds, dealt out anew among another number of servers.
//!
//! A vertex's partitions are of virtual nodes, and those stay: only the map from virtual nodes to servers is another one. So each
//! row goes, as it is, to the server that has its vnode then; how vertices have split stays true. Counters are counted anew.
//! What a server remembers of batches that were applied goes where a repeated batch may come.
//!
//! The host has the folders. It opens the servers' databases, has undelivered decisions done ([`crate::node::settle`]), and makes a
//! new database for each new server:
//!
//! ```text
//!  Resize::read     what is to be known before: splits, markers, schema, clock
//!  begin(k, new k)  for each: schema, memory, splits; the database is opened anew afterwards
//!  rows(all new)    vertices, edges, what they were, counters: all at once, in key order, as sorted tables
//!  archive, objects (k, new k)   for each
//!  check(k, new k)  for each, opened anew: reads it all again; `finish` compares the sums
//! ```
//!
//! Nothing is written to the old databases.

mod check;
mod markers;
mod rows;

pub use check::Dealt;
pub use rows::Loading;

use crate::node::codec::{INCARNATION, SPLIT, split_key};
use crate::node::hashed::Map;
use crate::node::names::place::Cut;
use crate::peer::entries_of;
use crate::placement::{End, Kind, Order, Partition, Placement, SplitState, Splits};
use crate::vnode::{ServerId, VnodeMap, Vnodes};
use check::Tally;
use esker_engine::{Carried, Engine, Memory};
use esker_model::codec::Reader;
use esker_model::key::{Counter, EdgeKey, Measure};
use esker_model::namespace::record::{WHEREABOUTS_PREFIX, Whereabouts, is_claim};
use esker_model::object::ObjectId;
use esker_model::{Error, Flow, Result, Schema, Version, VertexId};
use esker_store::{Durability, KeyRange, Table, WriteBatch};
use markers::Markers;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a cluster is to be afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Where edges lie: as before.
    pub placement: Kind,
    /// How many vnodes there are: as before.
    pub vnodes: u32,
    /// How many servers there are to be, numbered from 0.
    pub servers: u32,
    /// The time: new servers' clocks are not behind it, so that they do not change what old ones have shown as of then.
    pub now: Version,
}

/// Told how many rows more are done; an error ends the work.
pub type Watch<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// So many rows are done between two looks at whether to go on.
const ROWS_BETWEEN_LOOKS: u64 = 1 << 12;

/// A cluster that is dealt out anew.
pub struct Resize<'a> {
    sources: &'a [Arc<Engine>],
    servers: Vec<ServerId>,
    layout: Layout,
    memory: Memory,
    markers: Markers,
    incarnation: u64,
    /// By new server and in the order in which they came: an object and which source has it.
    objects: Vec<Vec<(ObjectId, usize)>>,
    /// Sums of files of all sources.
    space: BTreeMap<Counter, i64>,
    /// Directories that something has left, as a database that was no server's notes it.
    departed: BTreeSet<VertexId>,
    /// What the sources hold.
    held: Tally,
    /// What the new databases hold, as far as they were checked.
    dealt: Tally,
}

impl std::fmt::Debug for Resize<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resize")
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

/// Where rows belong.
struct Layout {
    map: VnodeMap,
    placement: Box<dyn Placement>,
    splits: Map<VertexId, Splits>,
}

impl Layout {
    fn end(&self, id: VertexId) -> End {
        End::of(id, self.placement.places())
    }

    /// The number of the server that a row belongs to.
    fn server(&self, carried: Carried) -> usize {
        let server = match carried {
            Carried::Vertex(id) => self.map.home(id),
            Carried::Object(object) => self.map.home(object.vertex()),
            Carried::Edge(key) => self.edge(&key),
            Carried::Entry(directory, hash) => self.entry(directory, hash),
            Carried::Derived => None,
        };
        // The map has every vnode, and servers are numbered from 0.
        server.map_or(0, |server| server.0 as usize)
    }

    fn edge(&self, key: &EdgeKey) -> Option<ServerId> {
        let whole = Splits::default();
        let splits = self.splits.get(&key.source);
        let splits = splits.unwrap_or(&whole);
        let (source, destination) = (self.end(key.source), self.end(key.destination));
        let partition = self.placement.locate(splits, source, destination);
        self.map
            .server(self.placement.place(source.home, partition))
    }

    fn entry(&self, directory: VertexId, hash: u64) -> Option<ServerId> {
        let id = entries_of(directory);
        let partition = match (Cut::of(&*self.placement, directory), self.splits.get(&id)) {
            (Some(cut), Some(splits)) => cut.locate(splits, hash),
            _ => Partition(0),
        };
        self.map
            .server(self.placement.place(self.end(id).home, partition))
    }

    /// The servers that have partitions of a vertex which has split so.
    fn servers_of(&self, id: VertexId, splits: &Splits) -> Vec<ServerId> {
        let home = self.end(id).home;
        let partitions = self.placement.partitions(splits);
        let servers = partitions
            .into_iter()
            .filter_map(|p| self.map.server(self.placement.place(home, p)));
        let mut servers: Vec<_> = servers.collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }
}

impl<'a> Resize<'a> {
    /// Looks at what servers hold, in their order: nothing may be undelivered among them. One that is alone may be a database
    /// that never was a server's.
    pub fn read(sources: &'a [Arc<Engine>], plan: Plan) -> Result<Self> {
        let invalid = |e: String| Error::Invalid(e);
        let vnodes = Vnodes::new(plan.vnodes).map_err(|e| invalid(e.to_string()))?;
        let servers: Vec<_> = (0..plan.servers).map(ServerId).collect();
        let map = VnodeMap::first(vnodes, &servers).map_err(|e| invalid(e.to_string()))?;
        let placement = plan
            .placement
            .over(vnodes.count(), Order::Numbers)
            .map_err(|e| invalid(e.to_string()))?;
        let mut memories = sources.iter().map(|source| source.memory());
        let first = memories.next().ok_or_else(|| {
            invalid("there are no servers whose data could be dealt out".to_owned())
        })?;
        let mut memory = first?;
        for (other, server) in memories.zip(1..) {
            let other = other?;
            check_schema(&memory.schema, &other.schema, ServerId(server))?;
            memory.merge(&other);
        }
        memory.newest = memory.newest.max(plan.now);
        let markers = Markers::of(&mut memory, sources.len() as u32, plan.servers);
        let mut resize = Self {
            sources,
            layout: Layout {
                map,
                placement,
                splits: Map::default(),
            },
            memory,
            markers,
            incarnation: 0,
            objects: vec![Vec::new(); servers.len()],
            servers,
            space: BTreeMap::new(),
            departed: BTreeSet::new(),
            held: Tally::default(),
            dealt: Tally::default(),
        };
        for source in sources {
            resize.learn(source)?;
        }
        resize.sort_objects();
        Ok(resize)
    }

    /// What a server's own rows say.
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
                    // Whoever has a partition may know of some of the others only.
                    splits.entry(id).or_default().merge(split.splits());
                    return Flow::Continue(());
                }
                (Some(_), Ok(_)) => {
                    failure = Some(Error::Invalid(
                        "a vertex has split along another tree than the cluster's placement and vnodes have".into(),
                    ));
                }
                (_, Err(e)) => failure = Some(corrupt(e)),
                (None, _) => failure = Some(corrupt(Reader::new(key).error("a vertex id"))),
            }
            Flow::Break(())
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Sums of files, and directories whose new files must not be named after their paths: in a cluster each name that leaves a
    /// directory is noted by itself.
    fn learn_files(&mut self, source: &Engine) -> Result<()> {
        for (counter, n) in source.names_counters()? {
            let sum = self.space.entry(counter).or_default();
            *sum = match counter {
                Counter::Space(_, Measure::Changed) => (*sum).max(n),
                _ => sum.wrapping_add(n),
            };
        }
        let mut failure = None;
        let departed = &mut self.departed;
        let all = KeyRange::prefix(&WHEREABOUTS_PREFIX);
        source.store().scan(Table::Names, &all, &mut |key, row| {
            let id = key.get(1..17).and_then(|id| id.try_into().ok());
            let id = VertexId(id.unwrap_or_default());
            match Whereabouts::decode(id, row) {
                Ok(place) if place.departed && !place.gone => {
                    departed.insert(id);
                }
                Ok(_) => {}
                Err(e) => {
                    failure = Some(Error::corrupt("a row of table `names`", e));
                    return Flow::Break(());
                }
            }
            Flow::Continue(())
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// What becomes of a row of table `names`: claims of directories that something has left are nobody's.
    fn names_row<'r>(&self, key: &[u8], value: &'r [u8]) -> &'r [u8] {
        let owner = value.try_into().map(VertexId);
        let claimed = is_claim(key) && owner.is_ok_and(|owner| self.departed.contains(&owner));
        if claimed { &NOBODY } else { value }
    }

    fn sort_objects(&mut self) {
        let mut first = vec![Vec::new(); self.servers.len()];
        for (number, source) in self.sources.iter().enumerate() {
            for (object, since) in source.objects_in_order() {
                let server = self.layout.server(Carried::Object(object));
                if let Some(list) = first.get_mut(server) {
                    list.push((since, object, number));
                }
            }
        }
        for (list, mut sorted) in self.objects.iter_mut().zip(first) {
            // Those of one commit stay in the order that they had.
            sorted.sort_by_key(|(since, ..)| *since);
            *list = sorted.into_iter().map(|(_, o, n)| (o, n)).collect();
        }
    }

    /// How many servers there are to be.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// How many vertices have split.
    pub fn split_vertices(&self) -> usize {
        self.layout.splits.len()
    }

    /// Writes what server `k` is to remember into its new database, which is to be opened anew afterwards.
    pub fn begin(&self, k: usize, target: &Engine) -> Result<()> {
        let mut memory = self.memory.clone();
        memory.markers = self.markers.of_server(k);
        target.remember(&memory)?;
        let mut batch = WriteBatch::default();
        // A start counts one more.
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

/// The owner of a claim that nobody has.
const NOBODY: [u8; 16] = [0xFF; 16];

/// Refuses a database that sums up what nobody here would count anew.
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
            "the database has counters of another kind than of vertices, edges and files, and these cannot be dealt out yet".into(),
        ));
    }
    Ok(())
}

/// Refuses schemas that contradict each other. One that lacks something was not there when it was defined.
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
