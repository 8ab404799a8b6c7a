//! What clients ask for: batches over few vertices, some of them so popular that they split, and questions of all kinds.
//!
//! Each batch ends with a *tag*: a change to something that only tags change, which bears the batch's number and takes the
//! commit's own version. So the history of the tags says which batches were applied, once or twice, and when, whatever
//! clients were told.

use super::ask::Ask;
use crate::history::{START_MILLIS, traversal};
use crate::rng::Rng;
use crate::world::World;
use esker_model::traversal::{Budget, Strategy};
use esker_model::{
    Batch, EdgeKey, EdgeSelect, EdgeTypeId, Mutation, Op, Properties, Value, Version, VersionRange,
    Versions, VertexId, VertexName, VertexRef, VertexSelect,
};

/// Users that only tags lead from.
const TAG_USERS: usize = 3;
/// Jobs that only tags lead to.
const TAG_JOBS: usize = 8;
/// The property that holds a batch's number.
pub const TAG: &str = "batch";

/// What a workload is like.
#[derive(Debug, Clone, Copy)]
pub struct Taste {
    /// Whether changes bear versions of their own.
    pub dated: bool,
    /// Whether what can be refused, or takes something else's state along, is done by one client only to each vertex and
    /// edge. Others may put what is theirs at the same time, and the later version wins; but if two delete one edge at
    /// once, who is refused depends on what arrives first, and no order by versions tells that.
    pub polite: bool,
    /// Most changes of a batch.
    pub changes_max: usize,
    /// Questions among calls, in per cent.
    pub questions: usize,
    /// Whether clients ask for times that have not come yet, by a little.
    pub future: bool,
}

/// The world that clients play in, and its tags.
pub struct Ground {
    /// What the model and the traversals know.
    pub world: World,
    /// How many of the world's first vertices are the clients' own.
    own: usize,
    hot: Vec<VertexRef>,
    tag_users: Vec<(VertexName, VertexRef)>,
    tag_jobs: Vec<(VertexName, VertexRef)>,
    /// Of tags that are edges.
    pub run: Option<EdgeTypeId>,
}

impl Ground {
    /// One with so many files.
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
        let world = World::of(&names);
        let of = |prefix: &str| -> Vec<(VertexName, VertexRef)> {
            let tags = world.vertices.iter().skip(own);
            tags.filter(|(name, _)| name.type_name == prefix)
                .cloned()
                .collect()
        };
        let hot = ["job:1", "directory:d", "campaign:p", "file:f0"];
        let hot = world
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
            run: world.schema.edge_type_id("run").ok(),
            world,
        }
    }

    /// The world without the tags.
    pub fn own(&self) -> World {
        let mut world = self.world.clone();
        world.vertices.truncate(self.own);
        world
    }

    fn vertex(&self, rng: &mut Rng) -> (VertexName, VertexRef) {
        let at = rng.below(self.own);
        self.world.vertices[at].clone()
    }

    /// A vertex that the client may do everything to, or one that it may only put, like all others.
    fn vertex_for(
        &self,
        rng: &mut Rng,
        taste: &Taste,
        known: &Known,
    ) -> ((VertexName, VertexRef), bool) {
        loop {
            let at = rng.below(self.own);
            let owner = (at % 2 == 1).then(|| at / 2 % known.clients);
            if !taste.polite || owner.is_none_or(|owner| owner == known.client) {
                let own = !taste.polite || owner.is_some();
                return (self.world.vertices[at].clone(), own);
            }
        }
    }

    /// The same for edges.
    fn edge_for(
        &self,
        rng: &mut Rng,
        taste: &Taste,
        known: &Known,
    ) -> ((VertexRef, EdgeTypeId, VertexRef), bool) {
        loop {
            let edge = self.edge(rng);
            // The same for an edge and its inverse.
            let class = (edge.0.id.0[3] ^ edge.2.id.0[3]) as usize % (2 * known.clients);
            if !taste.polite || class == known.client || class >= known.clients {
                return (edge, !taste.polite || class == known.client);
            }
        }
    }

    /// An edge that the schema allows, often one of a popular vertex.
    fn edge(&self, rng: &mut Rng) -> (VertexRef, EdgeTypeId, VertexRef) {
        loop {
            let edge_type = *rng.pick(&self.world.edge_types);
            let mut ends = [self.vertex(rng).1, self.vertex(rng).1];
            if rng.percent(60) {
                ends[rng.below(2)] = *rng.pick(&self.hot);
            }
            let [source, destination] = ends;
            let schema = &self.world.schema;
            if schema
                .check_ends(edge_type, source.type_id, destination.type_id)
                .is_ok()
            {
                return (source, edge_type, destination);
            }
        }
    }

    /// The vertices that tags lead from, and those whose attributes are tags.
    pub fn tagged(&self) -> Vec<VertexId> {
        let tags = self.tag_users.iter().chain(&self.tag_jobs);
        tags.map(|(_, vertex)| vertex.id).collect()
    }

    /// A batch that inserts every vertex. Without it an edge may lead to a vertex that is inserted later; a traversal as of
    /// before that goes there until then, and does not afterwards, so that there is no one answer to compare with.
    pub fn everything(&self, rng: &mut Rng, number: u64) -> Batch {
        let mut batch = Batch::new();
        for (name, vertex) in &self.world.vertices {
            let (vertex, key) = (*vertex, name.key.clone());
            batch.push(Op::EnsureVertex { vertex, key });
        }
        self.tag(rng, &mut batch, number);
        batch.once = Some(number.to_be_bytes().to_vec());
        batch
    }

    /// A batch with its tag.
    pub fn batch(&self, rng: &mut Rng, taste: &Taste, number: u64, known: &Known) -> Batch {
        let mut batch = Batch::new();
        let changes = match rng.below(10) {
            0 => 0,
            1..5 => 1 + rng.below(3),
            5..8 => 1 + rng.below(8),
            _ => 1 + rng.below(taste.changes_max),
        };
        let cautious = changes > 3 || rng.percent(70);
        for _ in 0..changes {
            let (op, own) = self.op(rng, cautious, taste, known);
            let dated = taste.dated && own && rng.percent(50);
            let version = dated.then(|| soon(rng));
            batch.mutations.push(Mutation { version, op });
        }
        self.tag(rng, &mut batch, number);
        batch.once = Some(number.to_be_bytes().to_vec());
        batch
    }

    /// Marks a batch with its number.
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

    /// A change, and whether it concerns what is the client's own.
    fn op(&self, rng: &mut Rng, cautious: bool, taste: &Taste, known: &Known) -> (Op, bool) {
        let ((name, vertex), own) = self.vertex_for(rng, taste, known);
        let key = name.key;
        let mut number = Properties::new();
        number.set("tag", rng.below(4) as i64);
        let ensure = |key| Op::EnsureVertex { vertex, key };
        // In a long batch one refusal would be the end of all.
        let there = !cautious || known.vertices.contains(&vertex) || !own && !taste.dated;
        let op = match rng.below(100) {
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
            28..40 => return self.deletion(rng, cautious, taste, known),
            _ => {
                let ((source, edge_type, destination), own) = self.edge_for(rng, taste, known);
                let properties = Properties::new().with("bytes", rng.below(3) as i64);
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

    fn deletion(&self, rng: &mut Rng, cautious: bool, taste: &Taste, known: &Known) -> (Op, bool) {
        let of_known = known.edge(rng).map(|edge| (edge, true));
        let ((source, edge_type, destination), own) = match of_known {
            Some(known) if cautious => known,
            _ => self.edge_for(rng, taste, known),
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
            .world
            .schema
            .attribute(vertex.type_id, "size")
            .is_some();
        if declared && rng.percent(70) {
            Properties::new().with("size", rng.below(4) as i64)
        } else {
            Properties::new()
        }
    }

    fn ids(&self, rng: &mut Rng) -> Vec<VertexId> {
        let count = 1 + rng.below(5);
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = if rng.percent(40) {
                rng.pick(&self.hot).id
            } else {
                rng.pick(&self.world.vertices).1.id
            };
            // Each once: whoever asks twice for the same is answered twice, which tells nothing.
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    fn keys(&self, rng: &mut Rng, known: &Known) -> Vec<EdgeKey> {
        let count = 1 + rng.below(8);
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
                key.reversed(self.world.schema.inverse(edge_type))
            }
        };
        (0..count).map(key).collect()
    }

    /// A question; `times`: versions that somebody has seen.
    pub fn question(&self, rng: &mut Rng, taste: &Taste, times: &[Version], known: &Known) -> Ask {
        let time = |rng: &mut Rng| {
            if times.is_empty() || rng.percent(60) {
                Version::MAX
            } else {
                let time = *rng.pick(times);
                match rng.below(6) {
                    0 => Version(time.0 - 1),
                    1 if taste.future => Version::end_of_millis(time.millis()),
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
                1 + rng.below(3)
            } else {
                usize::MAX
            }
        };
        match rng.below(104) {
            0..10 => Ask::Vertices(self.ids(rng), time(rng)),
            10..25 => Ask::Edges(self.keys(rng, known), time(rng)),
            25..50 => {
                let types = if rng.percent(70) {
                    Vec::new()
                } else {
                    vec![*rng.pick(&self.world.edge_types)]
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
                };
                Ask::Scan(self.ids(rng), select, most(rng))
            }
            50..58 => {
                let type_id = rng.pick(&self.world.vertices).1.type_id;
                let select = VertexSelect {
                    as_of: time(rng),
                    deleted: rng.percent(30),
                    ..VertexSelect::of(type_id)
                };
                Ask::Type(select, most(rng))
            }
            58..63 => Ask::VertexHistory(self.ids(rng)[0], range(rng)),
            63..68 => Ask::EdgeHistory(self.keys(rng, known)[0], range(rng)),
            68..73 => Ask::Diff(time(rng), time(rng)),
            73..75 => Ask::Applied(rng.below(20).to_be_bytes().to_vec()),
            75..100 => {
                let mut chain = traversal(&self.world, rng);
                // Times that the generator draws are those of another clock.
                if chain.as_of.is_some() {
                    chain.as_of = Some(time(rng));
                }
                if chain.versions.is_some() {
                    chain.versions = Some(range(rng)).filter(|r| r.from < r.until);
                }
                let budget = Budget {
                    strategy: *rng.pick(&Strategy::ALL),
                    edges: rng.percent(5).then(|| rng.below(10) as u64),
                    ..Budget::default()
                };
                Ask::Travel(chain, budget)
            }
            100..102 => {
                let types = &self.world.edge_types;
                let of = self.ids(rng).into_iter().map(|id| (id, *rng.pick(types)));
                Ask::Degrees(of.collect())
            }
            102 => Ask::Top(
                rng.percent(50).then(|| *rng.pick(&self.world.edge_types)),
                3,
            ),
            _ => Ask::Counts,
        }
    }
}

/// A version around the time that a run takes: some in its future.
fn soon(rng: &mut Rng) -> Version {
    let millis = START_MILLIS + 100 * rng.below(40) as u64;
    Version::new(millis, [0, 0, 0, 1][rng.below(4)])
}

/// What a client remembers of what it wrote, of what is its own.
pub struct Known {
    client: usize,
    clients: usize,
    vertices: Vec<VertexRef>,
    edges: Vec<(VertexRef, EdgeTypeId, VertexRef)>,
}

impl Known {
    /// One of so many clients knows nothing yet.
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

    /// Remembers a batch that was applied, all but its tag.
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

/// The number that a tag bears.
pub fn tag_of(properties: &Properties) -> Option<u64> {
    match properties.get(TAG) {
        Some(Value::I64(number)) => Some(*number as u64),
        _ => None,
    }
}
