//! What it costs to expand each vertex, under one placement.

use super::args::HomeArg;
use super::graph::Graph;
use esker_cluster::placement::{BadPlaces, End, Growth, Partition, Place, Placement};
use esker_cluster::vnode::{ServerId, VnodeMap, Vnodes};
use esker_cluster::{Kind, placement};
use esker_model::VertexId;

/// The servers, and where vertices lie on them: the same for all placements.
pub(super) struct Cluster {
    /// How many places there are: servers, or vnodes.
    places: u32,
    servers: u32,
    /// By place: its server.
    server_of: Vec<u32>,
    /// By vertex.
    ends: Vec<End>,
}

impl Cluster {
    /// So many servers, perhaps with vnodes dealt out to them, and the graph's vertices upon them.
    pub(super) fn new(
        graph: &Graph,
        servers: u32,
        vnodes: Option<u32>,
        home: HomeArg,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let server_of: Vec<u32> = match vnodes {
            None => (0..servers).collect(),
            Some(count) => {
                let ids: Vec<ServerId> = (0..servers).map(ServerId).collect();
                let map = VnodeMap::first(Vnodes::new(count)?, &ids)?;
                let owner = |vnode| map.server(Place(vnode)).map(|server| server.0);
                (0..count).filter_map(owner).collect()
            }
        };
        let places = server_of.len() as u32;
        let ends = match home {
            HomeArg::Hash => graph
                .numbers
                .iter()
                .map(|n| End::of(VertexId::of("node", &format!("{seed}/{n}")), places))
                .collect(),
            HomeArg::Modulo => {
                let mut places_of = vec![Vec::new(); servers as usize];
                for (place, server) in (0..).zip(&server_of) {
                    places_of[*server as usize].push(Place(place));
                }
                let end = |n: &u32| {
                    // A server's vertices go round its vnodes.
                    let own = &places_of[(n % servers) as usize];
                    let home = own[(n / servers) as usize % own.len()];
                    End::numbered(seed << 32 ^ u64::from(*n), home)
                };
                graph.numbers.iter().map(end).collect()
            }
        };
        Ok(Self {
            places,
            servers,
            server_of,
            ends,
        })
    }

    /// A placement over these places.
    pub(super) fn placement(
        &self,
        kind: Kind,
        order: placement::Order,
    ) -> Result<Box<dyn Placement>, BadPlaces> {
        kind.over(self.places, order)
    }

    pub(super) fn servers(&self) -> u32 {
        self.servers
    }

    fn server(&self, place: Place) -> u32 {
        self.server_of[place.0 as usize]
    }
}

/// Of every vertex: what expanding it costs.
pub(super) struct Costs {
    pub(super) kind: Kind,
    /// By vertex: its edges whose server is not their destination's, and the servers other than its home that hold some
    /// of its edges.
    comm: Vec<u32>,
    /// Where each vertex's part of `reads` begins; one more at the end.
    starts: Vec<u32>,
    /// Servers, and how many of the vertex's edges each holds.
    reads: Vec<(u32, u32)>,
}

impl Costs {
    /// Splits every vertex as its edges make it, and counts.
    pub(super) fn new(
        graph: &Graph,
        cluster: &Cluster,
        placement: &dyn Placement,
        threshold: u64,
    ) -> Self {
        let mut costs = Self {
            kind: placement.kind(),
            comm: Vec::with_capacity(graph.vertices()),
            starts: vec![0],
            reads: Vec::new(),
        };
        let mut held = vec![0_u32; cluster.servers as usize];
        let mut goals = vec![0_u64; cluster.places as usize];
        for vertex in 0..graph.vertices() {
            let source = cluster.ends[vertex];
            let destinations = graph.destinations(vertex);
            let growth = grown(
                cluster,
                placement,
                source,
                destinations,
                threshold,
                &mut goals,
            );
            let mut comm = 0;
            let first = costs.reads.len();
            for destination in destinations {
                let destination = cluster.ends[*destination as usize];
                let partition = match &growth {
                    Some(growth) => placement.locate(growth.splits(), source, destination),
                    None if placement.tree().is_some() => Partition(0),
                    None => placement.goal(source, destination),
                };
                let server = cluster.server(placement.place(source.home, partition));
                comm += u32::from(server != cluster.server(destination.home));
                let edges = &mut held[server as usize];
                if *edges == 0 {
                    costs.reads.push((server, 0));
                }
                *edges += 1;
            }
            for (server, edges) in &mut costs.reads[first..] {
                comm += u32::from(*server != cluster.server(source.home));
                *edges = std::mem::take(&mut held[*server as usize]);
            }
            costs.comm.push(comm);
            costs.starts.push(costs.reads.len() as u32);
        }
        costs
    }

    /// `StatComm` of expanding a vertex.
    pub(super) fn comm(&self, vertex: u32) -> u64 {
        self.comm[vertex as usize].into()
    }

    /// Servers, and how many of the vertex's edges each holds.
    pub(super) fn reads(&self, vertex: u32) -> &[(u32, u32)] {
        let vertex = vertex as usize;
        &self.reads[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }
}

/// How a vertex has split; nothing if it has not, or never does. `goals` is scratch space, by partition.
fn grown(
    cluster: &Cluster,
    placement: &dyn Placement,
    source: End,
    destinations: &[u32],
    threshold: u64,
    goals: &mut [u64],
) -> Option<Growth> {
    let tree = placement.tree()?;
    if destinations.len() as u64 <= threshold {
        return None;
    }
    goals.fill(0);
    for destination in destinations {
        let goal = placement.goal(source, cluster.ends[*destination as usize]);
        goals[goal.0 as usize] += 1;
    }
    Some(Growth::settled(tree, threshold, goals))
}
