//! `esker placement explain`: shows how a vertex's edges are distributed.
//!
//! An embedded database has no servers: its edges are counted and placed as in a cluster of N servers after all due splits. A cluster
//! returns the actual splits of the vertex. [`view`] prints both alike.

mod view;

use super::note_if_stopped;
use crate::args::{ExplainArgs, ExplainFormat, Target};
use crate::graph::NamedVertex;
use anyhow::Context as _;
use esker::rpc::proto::PlacementReply;
use esker::rpc::{Address, Client};
use esker_cluster::Kind;
use esker_cluster::placement::{
    End, Growth, Order, Partition, Placement, Shard, SplitState, Splits, Tree,
};
use esker_cluster::vnode::{ServerId, VnodeMap, Vnodes};
use esker_model::{Cancel as _, EdgeSelect, GraphRead, Version, Versions, VertexId, VertexRef};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use view::{PartitionView, View};

pub(crate) fn explain(args: &ExplainArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let named = NamedVertex::parse(&args.vertex, &database, &*database.schema()?)?;
    let known = database.read_vertices(&[named.vertex.id], Version::MAX)?;
    if known.iter().all(Option::is_none) {
        return Err(named.missing("").into());
    }
    let cluster = match real(&args.target, named.vertex)? {
        Some(placed) => AssumedCluster::real(placed)?,
        None => AssumedCluster::new(args)?,
    };
    let stop = || context.interrupt.cancelled();
    let edges = cluster.read_edges(&database, named.vertex.id, &stop)?;
    let view = cluster.view(&named, &edges);
    match args.format {
        ExplainFormat::Table => view.print(context)?,
        ExplainFormat::Json => writeln!(context.out, "{}", view.json())?,
    }
    Ok(note_if_stopped(context))
}

/// Returns a cluster's placement of a vertex's edges; `None` if the target is no cluster.
fn real(target: &Target, vertex: VertexRef) -> anyhow::Result<Option<PlacementReply>> {
    if !Address::is_address(&target.target) {
        return Ok(None);
    }
    let client = Client::connect(&Address::parse(&target.target)?)?;
    let placed = client.placement(vertex)?;
    Ok((placed.servers > 0).then_some(placed))
}

/// Servers of a real or an assumed cluster.
struct AssumedCluster {
    placement: Box<dyn Placement>,
    /// The server of each shard.
    server_of: Vec<u32>,
    threshold: u64,
    servers: u32,
    vnodes: Option<u32>,
    /// The actual splits; if unknown, the due ones are computed.
    splits: Option<Splits>,
}

/// The parts of an edge that decide its placement.
struct Edge {
    target: Partition,
    destination_home: Shard,
}

impl AssumedCluster {
    fn new(args: &ExplainArgs) -> anyhow::Result<Self> {
        let (server_of, order) = match args.vnodes {
            None => ((0..args.servers).collect(), Order::Nodes),
            Some(count) => {
                let ids: Vec<ServerId> = (0..args.servers).map(ServerId).collect();
                let vnodes = Vnodes::new(count).map_err(|e| usage(format!("--vnodes: {e}")))?;
                let map = VnodeMap::first(vnodes, &ids).map_err(|e| usage(e.to_string()))?;
                let owner = |vnode| map.server(Shard(vnode)).map(|server| server.0);
                ((0..count).filter_map(owner).collect(), Order::Numbers)
            }
        };
        let server_of: Vec<u32> = server_of;
        Ok(Self {
            placement: args.placement.over(server_of.len() as u32, order)?,
            server_of,
            threshold: args.threshold,
            servers: args.servers,
            vnodes: args.vnodes,
            splits: None,
        })
    }

    /// Creates the description of a real cluster from its answer.
    fn real(placed: PlacementReply) -> anyhow::Result<Self> {
        let strange = || {
            format!(
                "this build cannot read the server's placement of {} vnodes: use the same release",
                placed.vnodes
            )
        };
        let kind: Kind = placed.placement.parse().with_context(strange)?;
        anyhow::ensure!(placed.server_of.len() == placed.vnodes as usize, strange());
        let splits = match placed.splits.as_slice() {
            [] => Splits::default(),
            row => SplitState::decode(row)
                .with_context(strange)?
                .splits()
                .clone(),
        };
        Ok(Self {
            placement: kind.over(placed.vnodes, Order::Numbers)?,
            server_of: placed.server_of,
            threshold: placed.threshold,
            servers: placed.servers,
            vnodes: Some(placed.vnodes),
            splits: Some(splits),
        })
    }

    fn server(&self, place: Shard) -> u32 {
        self.server_of.get(place.0 as usize).copied().unwrap_or(0)
    }

    /// Reads all edges that leave a vertex, of all types.
    fn read_edges(
        &self,
        graph: &impl GraphRead,
        vertex: VertexId,
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<Vec<Edge>> {
        let places = self.placement.shards();
        let source = End::of(vertex, places);
        let select = EdgeSelect {
            types: Vec::new(),
            versions: Versions::NOW,
            properties: false,
            after: None,
        };
        let mut edges = Vec::new();
        graph.scan_edges(&[vertex], &select, &mut |_, edge| {
            let destination = End::of(edge.key.destination, places);
            edges.push(Edge {
                target: self.placement.target(source, destination),
                destination_home: destination.home,
            });
            if stop() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(edges)
    }

    /// Computes the splits that are due.
    fn due_splits(&self, tree: Tree, edges: &[Edge]) -> Splits {
        let mut targets = vec![0; self.placement.shards() as usize];
        edges
            .iter()
            .for_each(|edge| targets[edge.target.0 as usize] += 1);
        Growth::from_edge_counts(tree, self.threshold, &mut targets)
            .splits()
            .clone()
    }

    fn view(&self, named: &NamedVertex, edges: &[Edge]) -> View {
        let places = self.placement.shards();
        let home = End::of(named.vertex.id, places).home;
        let tree = self.placement.tree();
        let splits = match (&self.splits, tree) {
            (Some(splits), _) => splits.clone(),
            (None, Some(tree)) => self.due_splits(tree, edges),
            (None, None) => Splits::default(),
        };
        let mut parts: BTreeMap<Partition, PartitionView> = self
            .placement
            .partitions(&splits)
            .into_iter()
            .map(|partition| {
                let place = self.placement.shard_of(home, partition);
                let part = PartitionView {
                    partition,
                    level: tree.map_or(0, |tree| splits.level(tree, partition)),
                    place,
                    server: self.server(place),
                    edges: 0,
                    at_destination: 0,
                };
                (partition, part)
            })
            .collect();
        for edge in edges {
            let at = tree.map_or(edge.target, |tree| tree.locate(&splits, edge.target));
            if let Some(part) = parts.get_mut(&at) {
                part.edges += 1;
                let there = self.server(edge.destination_home) == part.server;
                part.at_destination += u64::from(there);
            }
        }
        View {
            vertex: named.name.to_string(),
            id: named.vertex.id,
            kind: self.placement.kind(),
            threshold: self.threshold,
            servers: self.servers,
            vnodes: self.vnodes,
            home,
            server_of: self.server_of.clone(),
            tree,
            splits,
            parts: parts.into_values().collect(),
        }
    }
}
