//! Requests of clients: batches over few vertices, some of them so popular that they split, and reads of all kinds.
//!
//! Each batch ends with a *tag*: a change to an item that only tags change, which contains the batch's number and
//! takes the commit's version. So the history of the tags says which batches were applied, once or twice, and when,
//! whatever clients were told.

use super::request::ClientRequest;
use crate::history::{START_MILLIS, traversal};
use crate::rng::Rng;
use crate::test_graph::TestGraph;
use esker_model::idempotency::ProducerKey;
use esker_model::key::RowKey;
use esker_model::traversal::{Budget, Strategy};
use esker_model::{
    Batch, DiffSelect, EdgeKey, EdgeSelect, EdgeTypeId, Mutation, Op, Properties, Value, Version,
    VersionRange, Versions, VertexId, VertexName, VertexRef, VertexSelect,
};

/// Number of users reserved as sources of tags.
const TAG_USERS: usize = 3;
/// Number of jobs reserved as destinations of tags.
const TAG_JOBS: usize = 8;
/// Name of the property that has a batch's number.
pub const TAG: &str = "batch";

/// Parameters of a workload.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadParams {
    /// Whether changes have explicit versions.
    pub dated: bool,
    /// Whether changes that can be refused, or that depend on other state, are made by only one client for each
    /// vertex and edge. Others may put items at the same time, and the later version wins; but if two clients delete
    /// one edge at once, the order of arrival decides which is refused, and no order by versions shows that.
    pub conflict_free: bool,
    /// Largest number of changes of a batch.
    pub changes_max: usize,
    /// Percentage of reads among calls.
    pub reads_percent: usize,
    /// Whether clients read as of versions slightly in the future.
    pub future: bool,
}

/// The test graph that clients use, with its tags.
pub struct WorkloadGraph {
    /// The graph, as the model and the traversals know it.
    pub graph: TestGraph,
    /// Number of the graph's first vertices that clients change.
    own: usize,
    hot: Vec<VertexRef>,
    tag_users: Vec<(VertexName, VertexRef)>,
    tag_jobs: Vec<(VertexName, VertexRef)>,
    /// Edge type of tags that are edges.
    pub run: Option<EdgeTypeId>,
}

impl WorkloadGraph {
    /// Creates a graph with `files` files.
    pub fn new(files: usize) -> Self {
        let mut names: Vec<String> = [
            "user:1",
            "user:2",
            "group:g",
            "job:1",
            "job:2",
            "directory:d",
            "executable:x",
            "campaign:p",
            "sub-campaign:q",
        ]
        .map(str::to_owned)
        .to_vec();
        names.extend((0..files).map(|i| format!("file:f{i}")));
        let own = names.len();
        names.extend((0..TAG_USERS).map(|i| format!("user:tag{i}")));
        names.extend((0..TAG_JOBS).map(|i| format!("job:tag{i}")));
        let graph = TestGraph::of(&names);
        let of = |prefix: &str| -> Vec<(VertexName, VertexRef)> {
            let tags = graph.vertices.iter().skip(own);
            tags.filter(|(name, _)| name.type_name == prefix)
                .cloned()
                .collect()
        };
        let hot = ["job:1", "directory:d", "campaign:p", "file:f0"];
        let hot = graph
            .vertices
            .iter()
            .filter(|(name, _)| hot.contains(&&*name.to_string()))
            .map(|(_, vertex)| *vertex)
            .collect();
        Self {
            own,
            hot,
            tag_users: of("user"),
            tag_jobs: of("job"),
            run: graph.schema.edge_type_id("run").ok(),
            graph,
        }
    }

    /// Returns the test graph without tags.
    pub fn own(&self) -> TestGraph {
        let mut graph = self.graph.clone();
        graph.vertices.truncate(self.own);
        graph
    }

    fn vertex(&self, rng: &mut Rng) -> (VertexName, VertexRef) {
        let at = rng.number_below(self.own);
        self.graph.vertices[at].clone()
    }

    /// A vertex, and whether the client may change it in every way or, like all others, only put it.
    fn vertex_for(
        &self,
        rng: &mut Rng,
        params: &WorkloadParams,
        known: &WrittenItems,
    ) -> ((VertexName, VertexRef), bool) {
        loop {
            let at = rng.number_below(self.own);
            let owner = (at % 2 == 1).then(|| at / 2 % known.clients);
            if !params.conflict_free || owner.is_none_or(|owner| owner == known.client) {
                let own = !params.conflict_free || owner.is_some();
                return (self.graph.vertices[at].clone(), own);
            }
        }
    }

    /// An edge, and whether the client may change it in every way.
    fn edge_for(
        &self,
        rng: &mut Rng,
        params: &WorkloadParams,
        known: &WrittenItems,
    ) -> ((VertexRef, EdgeTypeId, VertexRef), bool) {
        loop {
            let edge = self.edge(rng);
            // The class is equal for an edge and its inverse.
            let class = (edge.0.id.0[3] ^ edge.2.id.0[3]) as usize % (2 * known.clients);
            if !params.conflict_free || class == known.client || class >= known.clients {
                return (edge, !params.conflict_free || class == known.client);
            }
        }
    }

    /// An edge that the schema allows, often one of a popular vertex.
    fn edge(&self, rng: &mut Rng) -> (VertexRef, EdgeTypeId, VertexRef) {
        loop {
            let edge_type = *rng.pick(&self.graph.edge_types);
            let mut ends = [self.vertex(rng).1, self.vertex(rng).1];
            if rng.percent(60) {
                ends[rng.number_below(2)] = *rng.pick(&self.hot);
            }
            let [source, destination] = ends;
            let schema = &self.graph.schema;
            if schema
                .check_ends(edge_type, source.type_id, destination.type_id)
                .is_ok()
            {
                return (source, edge_type, destination);
            }
        }
    }

    /// Returns the vertices from which tags lead, and those whose attributes are tags.
    pub fn tagged(&self) -> Vec<VertexId> {
        let tags = self.tag_users.iter().chain(&self.tag_jobs);
        tags.map(|(_, vertex)| vertex.id).collect()
    }

    /// Returns a batch that inserts every vertex. Otherwise an edge could lead to a vertex that is inserted later; a
    /// traversal as of an earlier version reaches it only until then, so there would be no single answer to compare
    /// with.
    pub fn insert_all(&self, rng: &mut Rng, number: u64) -> Batch {
        let mut batch = Batch::new();
        for (name, vertex) in &self.graph.vertices {
            let (vertex, key) = (*vertex, name.key.clone());
            batch.push(Op::EnsureVertex { vertex, key });
        }
        self.tag(rng, &mut batch, number);
        batch.idempotency_key = Some(idempotency_key(number));
        batch
    }

    /// Returns a random batch with its tag.
    pub fn batch(
        &self,
        rng: &mut Rng,
        params: &WorkloadParams,
        number: u64,
        known: &WrittenItems,
    ) -> Batch {
        let mut batch = Batch::new();
        let changes = match rng.number_below(10) {
            0 => 0,
            1..5 => 1 + rng.number_below(3),
            5..8 => 1 + rng.number_below(8),
            _ => 1 + rng.number_below(params.changes_max),
        };
        let cautious = changes > 3 || rng.percent(70);
        for _ in 0..changes {
            let (op, own) = self.op(rng, cautious, params, known);
            let dated = params.dated && own && rng.percent(50);
            let version = dated.then(|| nearby_version(rng));
            batch.mutations.push(Mutation { version, op });
        }
        self.tag(rng, &mut batch, number);
        batch.idempotency_key = Some(idempotency_key(number));
        batch
    }

    /// Adds the tag with the batch's number.
    pub fn tag(&self, rng: &mut Rng, batch: &mut Batch, number: u64) {
        let tag = Properties::new().with(TAG, number as i64);
        if let Some(run) = self.run
            && rng.percent(70)
        {
            batch.push(Op::PutEdge {
                source: rng.pick(&self.tag_users).1,
                edge_type: run,
                destination: rng.pick(&self.tag_jobs).1,
                properties: tag,
            });
            return;
        }
        let (name, vertex) = rng.pick(&self.tag_jobs).clone();
        let key = name.key;
        batch.push(Op::EnsureVertex { vertex, key });
        batch.push(Op::SetAttributes {
            vertex,
            set: tag,
            remove: Vec::new(),
        });
    }

    /// A change, and whether it concerns an item of the client's own.
    fn op(
        &self,
        rng: &mut Rng,
        cautious: bool,
        params: &WorkloadParams,
        known: &WrittenItems,
    ) -> (Op, bool) {
        let ((name, vertex), own) = self.vertex_for(rng, params, known);
        let key = name.key;
        let mut number = Properties::new();
        number.set("tag", rng.number_below(4) as i64);
        let ensure = |key| Op::EnsureVertex { vertex, key };
        // In a long batch one refusal would undo everything.
        let there = !cautious || known.vertices.contains(&vertex) || !own && !params.dated;
        let op = match rng.number_below(100) {
            0..10 => Op::PutVertex {
                vertex,
                key,
                attributes: self.size_of(vertex, rng),
            },
            10..18 if there => Op::SetAttributes {
                vertex,
                set: number,
                remove: if rng.percent(20) {
                    vec!["note".into()]
                } else {
                    Vec::new()
                },
            },
            18..21 if there && own => Op::DeleteVertex { vertex },
            21..24 if there && own => Op::ChangeVertex {
                vertex,
                set: self.size_of(vertex, rng),
                remove: Vec::new(),
            },
            10..28 => ensure(key),
            28..40 => return self.deletion(rng, cautious, params, known),
            _ => {
                let ((source, edge_type, destination), own) = self.edge_for(rng, params, known);
                let properties = Properties::new().with("bytes", rng.number_below(3) as i64);
                let put = Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    properties,
                };
                return (put, own);
            }
        };
        (op, own)
    }

    fn deletion(
        &self,
        rng: &mut Rng,
        cautious: bool,
        params: &WorkloadParams,
        known: &WrittenItems,
    ) -> (Op, bool) {
        let of_known = known.edge(rng).map(|edge| (edge, true));
        let ((source, edge_type, destination), own) = match of_known {
            Some(known) if cautious => known,
            _ => self.edge_for(rng, params, known),
        };
        let there = !cautious || of_known.is_some();
        if own && there {
            let delete = Op::DeleteEdge {
                source,
                edge_type,
                destination,
            };
            return (delete, true);
        }
        let put = Op::PutEdge {
            source,
            edge_type,
            destination,
            properties: Properties::new(),
        };
        (put, own)
    }

    fn size_of(&self, vertex: VertexRef, rng: &mut Rng) -> Properties {
        let declared = self
            .graph
            .schema
            .attribute(vertex.type_id, "size")
            .is_some();
        if declared && rng.percent(70) {
            Properties::new().with("size", rng.number_below(4) as i64)
        } else {
            Properties::new()
        }
    }

    fn ids(&self, rng: &mut Rng) -> Vec<VertexId> {
        let count = 1 + rng.number_below(5);
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = if rng.percent(40) {
                rng.pick(&self.hot).id
            } else {
                rng.pick(&self.graph.vertices).1.id
            };
            // Each id once, since a repeated id tests nothing.
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    fn keys(&self, rng: &mut Rng, known: &WrittenItems) -> Vec<EdgeKey> {
        let count = 1 + rng.number_below(8);
        let key = |_| {
            let (source, edge_type, destination) = known
                .edge(rng)
                .filter(|_| rng.percent(70))
                .unwrap_or_else(|| self.edge(rng));
            let key = EdgeKey {
                source: source.id,
                edge_type,
                destination: destination.id,
            };
            if rng.percent(50) {
                key
            } else {
                key.reversed(self.graph.schema.inverse(edge_type))
            }
        };
        (0..count).map(key).collect()
    }

    /// Returns a random read; `times` are versions that some client has seen.
    pub fn read_request(
        &self,
        rng: &mut Rng,
        params: &WorkloadParams,
        times: &[Version],
        known: &WrittenItems,
    ) -> ClientRequest {
        let time = |rng: &mut Rng| {
            if times.is_empty() || rng.percent(60) {
                Version::MAX
            } else {
                let time = *rng.pick(times);
                match rng.number_below(6) {
                    0 => Version(time.0 - 1),
                    1 if params.future => Version::end_of_millis(time.millis()),
                    _ => time,
                }
            }
        };
        let range = |rng: &mut Rng| {
            let (a, b) = (time(rng), time(rng));
            if rng.percent(50) {
                VersionRange::ALL
            } else {
                VersionRange {
                    from: a.min(b),
                    until: a.max(b),
                }
            }
        };
        let most = |rng: &mut Rng| {
            if rng.percent(15) {
                1 + rng.number_below(3)
            } else {
                usize::MAX
            }
        };
        match rng.number_below(104) {
            0..10 => ClientRequest::Vertices(self.ids(rng), time(rng)),
            10..25 => ClientRequest::Edges(self.keys(rng, known), time(rng)),
            25..50 => {
                let types = if rng.percent(70) {
                    Vec::new()
                } else {
                    vec![*rng.pick(&self.graph.edge_types)]
                };
                let versions = if rng.percent(15) {
                    Versions::Range(range(rng))
                } else {
                    Versions::AsOf(time(rng))
                };
                let select = EdgeSelect {
                    types,
                    versions,
                    properties: true,
                    after: None,
                };
                ClientRequest::Scan(self.ids(rng), select, most(rng))
            }
            50..58 => {
                let type_id = rng.pick(&self.graph.vertices).1.type_id;
                let select = VertexSelect {
                    as_of: time(rng),
                    deleted: rng.percent(30),
                    ..VertexSelect::of(type_id)
                };
                ClientRequest::Type(select, most(rng))
            }
            58..63 => ClientRequest::VertexHistory(self.ids(rng)[0], range(rng)),
            63..68 => ClientRequest::EdgeHistory(self.keys(rng, known)[0], range(rng)),
            68..73 => {
                let mut select = DiffSelect::between(time(rng), time(rng));
                if rng.percent(30) {
                    select.start_after = Some(if rng.percent(50) {
                        RowKey::Vertex(self.ids(rng)[0])
                    } else {
                        RowKey::Edge(self.keys(rng, known)[0])
                    });
                }
                ClientRequest::Diff(select, most(rng))
            }
            73..75 => ClientRequest::Applied(idempotency_key(rng.number_below(20) as u64)),
            75..100 => {
                let mut chain = traversal(&self.graph, rng);
                // The generator draws versions of another clock.
                if chain.as_of.is_some() {
                    chain.as_of = Some(time(rng));
                }
                if chain.versions.is_some() {
                    chain.versions = Some(range(rng)).filter(|r| r.from < r.until);
                }
                let budget = Budget {
                    strategy: *rng.pick(&Strategy::ALL),
                    edges: rng.percent(5).then(|| rng.number_below(10) as u64),
                    ..Budget::default()
                };
                ClientRequest::Travel(chain, budget)
            }
            100..102 => {
                let types = &self.graph.edge_types;
                let of = self.ids(rng).into_iter().map(|id| (id, *rng.pick(types)));
                ClientRequest::Degrees(of.collect())
            }
            102 => ClientRequest::Top(
                rng.percent(50).then(|| *rng.pick(&self.graph.edge_types)),
                3,
            ),
            _ => ClientRequest::Counts,
        }
    }
}

/// A version near the time of a run, sometimes in its future.
fn nearby_version(rng: &mut Rng) -> Version {
    let millis = START_MILLIS + 100 * rng.number_below(40) as u64;
    Version::new(millis, [0, 0, 0, 1][rng.number_below(4)])
}

/// A client's knowledge of its own items that it wrote.
pub struct WrittenItems {
    client: usize,
    clients: usize,
    vertices: Vec<VertexRef>,
    edges: Vec<(VertexRef, EdgeTypeId, VertexRef)>,
}

impl WrittenItems {
    /// Creates the empty knowledge of one of `clients` clients.
    pub fn new(client: usize, clients: usize) -> Self {
        Self {
            client,
            clients,
            vertices: Vec::new(),
            edges: Vec::new(),
        }
    }

    fn edge(&self, rng: &mut Rng) -> Option<(VertexRef, EdgeTypeId, VertexRef)> {
        (!self.edges.is_empty()).then(|| *rng.pick(&self.edges))
    }

    /// Learns a batch that was applied, except for its tag.
    pub fn learn(&mut self, batch: &Batch) {
        let own = batch.mutations.len().saturating_sub(1);
        for mutation in batch.mutations.iter().take(own) {
            match &mutation.op {
                Op::PutVertex { vertex, .. } | Op::EnsureVertex { vertex, .. } => {
                    self.vertices.push(*vertex);
                }
                Op::DeleteVertex { vertex } => self.vertices.retain(|v| v != vertex),
                Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    ..
                } => {
                    let class = (source.id.0[3] ^ destination.id.0[3]) as usize;
                    if class % (2 * self.clients) == self.client {
                        self.edges.push((*source, *edge_type, *destination));
                    }
                }
                Op::DeleteEdge {
                    source,
                    edge_type,
                    destination,
                } => {
                    let gone = (*source, *edge_type, *destination);
                    self.edges.retain(|e| *e != gone);
                }
                Op::ChangeVertex { .. }
                | Op::SetAttributes { .. }
                | Op::CreateObject { .. }
                | Op::MoveObject { .. } => {}
            }
        }
    }
}

/// Returns the idempotency key of the batch with a number: mostly one of a producer, sometimes one of another form.
/// Servers treat them differently.
fn idempotency_key(number: u64) -> Vec<u8> {
    if number.is_multiple_of(5) {
        return number.to_be_bytes().to_vec();
    }
    let mut producer = [0; 16];
    producer[..8].copy_from_slice(&number.to_be_bytes());
    let key = ProducerKey {
        producer,
        sequence: 0,
        settled_below: 0,
        created_millis: START_MILLIS,
    };
    key.encode()
}

/// Returns the number of the batch with an idempotency key that this module made.
pub fn number_of_key(idempotency_key: &[u8]) -> Option<u64> {
    let number = match ProducerKey::parse(idempotency_key) {
        Ok(Some(numbered)) => numbered.producer[..8].try_into().ok()?,
        _ => idempotency_key.try_into().ok()?,
    };
    Some(u64::from_be_bytes(number))
}

/// Returns the batch number of a tag.
pub fn tag_of(properties: &Properties) -> Option<u64> {
    match properties.get(TAG) {
        Some(Value::I64(number)) => Some(*number as u64),
        _ => None,
    }
}
