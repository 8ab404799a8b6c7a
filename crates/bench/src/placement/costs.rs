//! The cost of expanding each vertex under one placement.

use super::args::HomeArg;
use super::graph::PlacementGraph;
use esker_cluster::placement::{BadShardCount, End, Growth, Partition, Placement, Shard};
use esker_cluster::vnode::{ServerId, VnodeMap, Vnodes};
use esker_cluster::{Kind, placement};
use esker_model::VertexId;

/// The servers with the home of each vertex, equal for all placements.
pub(super) struct Cluster {
    /// Number of shards: servers or vnodes.
    places: u32,
    servers: u32,
    /// Server of each shard.
    server_of: Vec<u32>,
    /// Home and hash of each vertex.
    ends: Vec<End>,
}

impl Cluster {
    /// Assigns the graph's vertices to `servers` servers, through vnodes if there are any.
    pub(super) fn new(
        graph: &PlacementGraph,
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
                let owner = |vnode| map.server(Shard(vnode)).map(|server| server.0);
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
                    places_of[*server as usize].push(Shard(place));
                }
                let end = |n: &u32| {
                    // A server's vertices are assigned to its vnodes in turn.
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

    /// Returns a placement over these shards.
    pub(super) fn placement(
        &self,
        kind: Kind,
        order: placement::Order,
    ) -> Result<Box<dyn Placement>, BadShardCount> {
        kind.over(self.places, order)
    }

    pub(super) fn servers(&self) -> u32 {
        self.servers
    }

    fn server(&self, place: Shard) -> u32 {
        self.server_of[place.0 as usize]
    }
}

/// The cost of expanding each vertex.
pub(super) struct Costs {
    pub(super) kind: Kind,
    /// By vertex: number of its edges on another server than their destination, plus the number of servers besides its home that
    /// hold some of its edges.
    comm: Vec<u32>,
    /// Start of each vertex's part of `reads`, with one more at the end.
    starts: Vec<u32>,
    /// Servers with the number of the vertex's edges on each.
    reads: Vec<(u32, u32)>,
}

impl Costs {
    /// Splits every vertex's partitions as its edges require, and counts the costs.
    pub(super) fn new(
        graph: &PlacementGraph,
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
        let mut targets = vec![0_u64; cluster.places as usize];
        for vertex in 0..graph.vertices() {
            let source = cluster.ends[vertex];
            let destinations = graph.destinations(vertex);
            let growth = grown(
                cluster,
                placement,
                source,
                destinations,
                threshold,
                &mut targets,
            );
            let mut comm = 0;
            let first = costs.reads.len();
            for destination in destinations {
                let destination = cluster.ends[*destination as usize];
                let partition = match &growth {
                    Some(growth) => placement.locate(growth.splits(), source, destination),
                    None if placement.tree().is_some() => Partition(0),
                    None => placement.target(source, destination),
                };
                let server = cluster.server(placement.shard_of(source.home, partition));
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

    /// Servers with the number of the vertex's edges on each.
    pub(super) fn reads(&self, vertex: u32) -> &[(u32, u32)] {
        let vertex = vertex as usize;
        &self.reads[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }
}

/// Returns how a vertex has split; `None` if it has not, or the placement never splits. `goals` is scratch space, by partition.
fn grown(
    cluster: &Cluster,
    placement: &dyn Placement,
    source: End,
    destinations: &[u32],
    threshold: u64,
    targets: &mut [u64],
) -> Option<Growth> {
    let tree = placement.tree()?;
    if destinations.len() as u64 <= threshold {
        return None;
    }
    targets.fill(0);
    for destination in destinations {
        let target = placement.target(source, cluster.ends[*destination as usize]);
        targets[target.0 as usize] += 1;
    }
    Some(Growth::from_edge_counts(tree, threshold, targets))
}
