//! `esker placement explain`: where a vertex's edges lie.
//!
//! An embedded database has no servers. Its edges are counted and placed as a cluster of so many servers would have them
//! once every split that is due is done. The servers of a cluster say how the vertex has really split. [`view`] shows the
//! result, and does not know where it came from.

mod view;

use super::note_if_stopped;
use crate::args::{ExplainArgs, ExplainFormat, Target};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::graph::Named;
use anyhow::Context as _;
use esker::rpc::proto::PlacementReply;
use esker::rpc::{Address, Client};
use esker_cluster::Kind;
use esker_cluster::placement::{
    End, Growth, Order, Partition, Place, Placement, SplitState, Splits, Tree,
};
use esker_cluster::vnode::{ServerId, VnodeMap, Vnodes};
use esker_model::{Cancel as _, EdgeSelect, GraphRead, Version, Versions, VertexId, VertexRef};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use view::{Part, View};

pub(crate) fn explain(args: &ExplainArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let named = Named::parse(&args.vertex, &database, &*database.schema()?)?;
    let known = database.read_vertices(&[named.vertex.id], Version::MAX)?;
    if known.iter().all(Option::is_none) {
        return Err(named.missing("").into());
    }
    let cluster = match real(&args.target, named.vertex)? {
        Some(placed) => Cluster::real(placed)?,
        None => Cluster::new(args)?,
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

/// How a cluster has placed a vertex's edges; nothing if the target is none.
fn real(target: &Target, vertex: VertexRef) -> anyhow::Result<Option<PlacementReply>> {
    if !Address::is_address(&target.target) {
        return Ok(None);
    }
    let client = Client::connect(&Address::parse(&target.target)?)?;
    let placed = client.placement(vertex)?;
    Ok((placed.servers > 0).then_some(placed))
}

/// Servers, whether they are there or not.
struct Cluster {
    placement: Box<dyn Placement>,
    /// By place: its server.
    server_of: Vec<u32>,
    threshold: u64,
    servers: u32,
    vnodes: Option<u32>,
    /// How the vertex has split; else what is due is found out.
    splits: Option<Splits>,
}

/// An edge, as far as its place matters.
struct Edge {
    goal: Partition,
    destination_home: Place,
}

impl Cluster {
    fn new(args: &ExplainArgs) -> anyhow::Result<Self> {
        let (server_of, order) = match args.vnodes {
            None => ((0..args.servers).collect(), Order::Nodes),
            Some(count) => {
                let ids: Vec<ServerId> = (0..args.servers).map(ServerId).collect();
                let vnodes = Vnodes::new(count).map_err(|e| usage(format!("--vnodes: {e}")))?;
                let map = VnodeMap::first(vnodes, &ids).map_err(|e| usage(e.to_string()))?;
                let owner = |vnode| map.server(Place(vnode)).map(|server| server.0);
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

    /// Of servers that are there.
    fn real(placed: PlacementReply) -> anyhow::Result<Self> {
        let strange = || {
            format!(
                "the server's placement of {} vnodes means nothing to this build: use the same release",
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

    fn server(&self, place: Place) -> u32 {
        self.server_of.get(place.0 as usize).copied().unwrap_or(0)
    }

    /// All edges that leave a vertex, of all types.
    fn read_edges(
        &self,
        graph: &impl GraphRead,
        vertex: VertexId,
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<Vec<Edge>> {
        let places = self.placement.places();
        let source = End::of(vertex, places);
        let select = EdgeSelect {
            types: Vec::new(),
            versions: Versions::NOW,
            properties: false,
        };
        let mut edges = Vec::new();
        graph.scan_edges(&[vertex], &select, &mut |_, edge| {
            let destination = End::of(edge.key.destination, places);
            edges.push(Edge {
                goal: self.placement.goal(source, destination),
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

    /// The splits that are due.
    fn settled(&self, tree: Tree, edges: &[Edge]) -> Splits {
        let mut goals = vec![0; self.placement.places() as usize];
        edges
            .iter()
            .for_each(|edge| goals[edge.goal.0 as usize] += 1);
        Growth::settled(tree, self.threshold, &mut goals)
            .splits()
            .clone()
    }

    fn view(&self, named: &Named, edges: &[Edge]) -> View {
        let places = self.placement.places();
        let home = End::of(named.vertex.id, places).home;
        let tree = self.placement.tree();
        let splits = match (&self.splits, tree) {
            (Some(splits), _) => splits.clone(),
            (None, Some(tree)) => self.settled(tree, edges),
            (None, None) => Splits::default(),
        };
        let mut parts: BTreeMap<Partition, Part> = self
            .placement
            .partitions(&splits)
            .into_iter()
            .map(|partition| {
                let place = self.placement.place(home, partition);
                let part = Part {
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
            let at = tree.map_or(edge.goal, |tree| tree.locate(&splits, edge.goal));
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
