//! Scans for clients: pieces from several servers, in one order.

use super::local::newest_of;
use super::peers::unexpected;
use super::read::kept_moving;
use super::{Caller, Node, Sight};
use crate::peer::{Read, Response};
use crate::vnode::ServerId;
use esker_model::{
    Difference, Edge, EdgeKey, EdgeSelect, Flow, Result, Version, Versions, Vertex, VertexId,
    VertexSelect,
};
use futures_util::future::join_all;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Vertices of a frontier that are asked about at once.
const FRONTIER: usize = 512;
/// Edges or vertices in a piece.
const PIECE: u32 = 1 << 14;
const MOVES_MAX: u32 = 64;

impl Node {
    /// As [`esker_model::GraphRead::scan_edges`].
    pub async fn scan_edges(
        self: &Arc<Self>,
        frontier: &[VertexId],
        select: &EdgeSelect,
        caller: impl Into<Caller<'_>>,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        self.check_serving()?;
        let Caller { seen, asker } = caller.into();
        let mut sight = Sight::of(asker);
        let mut select = select.clone();
        let at = match select.versions {
            Versions::AsOf(as_of) => {
                let as_of = self.moment(as_of, seen);
                select.versions = Versions::AsOf(as_of);
                as_of
            }
            Versions::Range(mut range) => {
                // What is open at its end ends now: else one server would tell of what another has told nothing of.
                range.until = range.until.min(self.moment(Version::MAX, seen).next());
                select.versions = Versions::Range(range);
                newest_of(select.versions)
            }
        };
        for (chunk, ids) in frontier.chunks(FRONTIER).enumerate() {
            let mut whole = self.scan_whole(ids, &select, at).await?;
            self.show_lists(&mut sight, &mut whole).await?;
            for ((place, id), edges) in ids.iter().enumerate().zip(whole) {
                let place = chunk * FRONTIER + place;
                let flow = match edges {
                    Some(edges) => emit(place, edges, sink),
                    None => {
                        self.scan_split((place, *id), &select, at, &mut sight, sink)
                            .await?
                    }
                };
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes edges out that the asker must not see, of all vertices together.
    async fn show_lists(
        self: &Arc<Self>,
        sight: &mut Sight,
        lists: &mut [Option<Vec<Edge>>],
    ) -> Result<()> {
        if !sight.hides() {
            return Ok(());
        }
        let edges = lists.iter().flatten().flatten();
        let ends = edges.flat_map(|e| [e.key.source, e.key.destination]);
        self.learn(sight, ends.collect::<Vec<_>>()).await?;
        for list in lists.iter_mut().flatten() {
            list.retain(|e| sight.sees_edge(&e.key));
        }
        Ok(())
    }

    /// The edges of vertices that lie on one server each; nothing for those that do not, or have too many for a piece.
    async fn scan_whole(
        self: &Arc<Self>,
        ids: &[VertexId],
        select: &EdgeSelect,
        at: Version,
    ) -> Result<Vec<Option<Vec<Edge>>>> {
        let mut groups = BTreeMap::<ServerId, (Vec<usize>, Vec<VertexId>)>::new();
        for (place, id) in ids.iter().enumerate() {
            let servers = self.edge_servers(*id);
            if let (1, Some(server)) = (servers.len(), servers.first()) {
                let (places, all) = groups.entry(*server).or_default();
                places.push(place);
                all.push(*id);
            }
        }
        let reads = groups.iter().map(|(server, (_, frontier))| {
            let read = Read::Scan {
                frontier: frontier.clone(),
                select: select.clone(),
                after: None,
                limit: PIECE,
                at,
            };
            self.read_at(*server, read)
        });
        let answers = join_all(reads).await;
        let mut found: Vec<Option<Vec<Edge>>> = vec![None; ids.len()];
        for ((server, (places, group)), answer) in groups.iter().zip(answers) {
            let Response::Scanned {
                edges,
                splits,
                more,
            } = answer?
            else {
                return Err(unexpected(*server));
            };
            self.learn_splits(*server, &splits)?;
            // Of the last one there may be more.
            let last = edges.last().map_or(0, |(place, _)| *place as usize);
            let told = if more { last } else { group.len() };
            let mut lists: Vec<Vec<Edge>> = vec![Vec::new(); told];
            for (place, edge) in edges {
                if let Some(list) = lists.get_mut(place as usize) {
                    list.push(edge);
                }
            }
            for ((place, id), list) in places.iter().zip(group).zip(lists) {
                // One that turns out to lie on other servers as well is asked about again.
                let servers = self.edge_servers(*id);
                if servers.len() == 1
                    && servers.contains(server)
                    && let Some(slot) = found.get_mut(*place)
                {
                    *slot = Some(list);
                }
            }
        }
        Ok(found)
    }

    /// The edges of one vertex, from all servers that have some, in key order.
    async fn scan_split(
        self: &Arc<Self>,
        (place, id): (usize, VertexId),
        select: &EdgeSelect,
        at: Version,
        sight: &mut Sight,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<Flow> {
        let mut after = None;
        for attempt in 0..MOVES_MAX {
            let splits = self.splits_known(id);
            let servers = self.edge_servers_of(id, &splits);
            let mut merge = Merge {
                node: self,
                id,
                select,
                at,
                sources: Vec::new(),
            };
            for server in servers {
                merge.sources.push(EdgeSource {
                    server,
                    edges: VecDeque::new(),
                    after,
                    more: true,
                });
            }
            loop {
                merge.fill(sight).await?;
                if self.splits_known(id) != splits {
                    // It has split further: goes on behind what was told, with the servers it is on now.
                    break;
                }
                let Some(edges) = merge.next() else {
                    return Ok(Flow::Continue(()));
                };
                for edge in edges {
                    after = Some(edge.key);
                    if sink(place, edge).is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
            }
            self.pause_after(attempt).await;
        }
        Err(kept_moving())
    }

    /// As [`esker_model::GraphRead::scan_vertices`].
    pub async fn scan_vertices(
        self: &Arc<Self>,
        select: &VertexSelect,
        caller: impl Into<Caller<'_>>,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        self.check_serving()?;
        let Caller { seen, asker } = caller.into();
        let mut sight = Sight::of(asker);
        let mut select = *select;
        select.as_of = self.moment(select.as_of, seen);
        let servers = self.map.servers().iter();
        let mut sources: Vec<VertexSource> = servers
            .map(|server| VertexSource {
                server: *server,
                vertices: VecDeque::new(),
                after: select.after,
                more: true,
            })
            .collect();
        loop {
            let empty = |s: &&mut VertexSource| s.vertices.is_empty() && s.more;
            let reads = sources.iter_mut().filter(empty).map(|source| {
                let select = VertexSelect {
                    after: source.after,
                    ..select
                };
                let read = Read::Type {
                    select,
                    limit: PIECE,
                };
                async move { (self.read_at(source.server, read).await, source) }
            });
            for (answer, source) in join_all(reads).await {
                let Response::Type { vertices, more } = answer? else {
                    return Err(unexpected(source.server));
                };
                source.after = vertices.last().map(|v| (v.type_id, v.id)).or(source.after);
                source.more = more;
                source.vertices = self.show_all(&mut sight, vertices).await?.into();
            }
            if sources.iter().any(|s| s.vertices.is_empty() && s.more) {
                // Nothing of a piece shows: what comes behind it is needed before anything else.
                continue;
            }
            // All that comes before the end of any piece that has more behind it.
            let next = sources
                .iter_mut()
                .filter(|s| !s.vertices.is_empty())
                .min_by_key(|s| s.vertices.front().map(|v| (v.type_id, v.id)));
            let Some(source) = next else { return Ok(()) };
            if let Some(vertex) = source.vertices.pop_front()
                && sink(vertex).is_break()
            {
                return Ok(());
            }
        }
    }
}

fn emit(place: usize, edges: Vec<Edge>, sink: &mut dyn FnMut(usize, Edge) -> Flow) -> Flow {
    for edge in edges {
        sink(place, edge)?;
    }
    Flow::Continue(())
}

/// A server's vertices, read in pieces.
struct VertexSource {
    server: ServerId,
    vertices: VecDeque<Vertex>,
    after: Option<(esker_model::VertexTypeId, VertexId)>,
    more: bool,
}

/// A server's edges of one vertex, read in pieces.
struct EdgeSource {
    server: ServerId,
    edges: VecDeque<Edge>,
    after: Option<EdgeKey>,
    more: bool,
}

/// One vertex's edges from several servers.
struct Merge<'a> {
    node: &'a Arc<Node>,
    id: VertexId,
    select: &'a EdgeSelect,
    at: Version,
    sources: Vec<EdgeSource>,
}

impl Merge<'_> {
    /// Sees to it that each server's next edges are here.
    async fn fill(&mut self, sight: &mut Sight) -> Result<()> {
        // Of a piece nothing may show: then what comes behind it is needed.
        while self.sources.iter().any(|s| s.edges.is_empty() && s.more) {
            self.fill_once(sight).await?;
        }
        Ok(())
    }

    async fn fill_once(&mut self, sight: &mut Sight) -> Result<()> {
        let (node, id, select, at) = (self.node, self.id, self.select, self.at);
        let empty = |s: &&mut EdgeSource| s.edges.is_empty() && s.more;
        let reads = self.sources.iter_mut().filter(empty).map(|source| {
            let read = Read::Scan {
                frontier: vec![id],
                select: select.clone(),
                after: source.after.map(|key| (0, key)),
                limit: PIECE,
                at,
            };
            async move { (node.read_at(source.server, read).await, source) }
        });
        for (answer, source) in join_all(reads).await {
            let Response::Scanned {
                edges,
                splits,
                more,
            } = answer?
            else {
                return Err(unexpected(source.server));
            };
            node.learn_splits(source.server, &splits)?;
            source.after = edges.last().map(|(_, e)| e.key).or(source.after);
            source.more = more;
            let mut edges = edges.into_iter().map(|(_, e)| e).collect();
            node.show_edges(sight, &mut edges).await?;
            source.edges = edges.into();
        }
        Ok(())
    }

    /// All versions of the next edge. An edge that moved while it was read may come from two servers, and is one.
    fn next(&mut self) -> Option<Vec<Edge>> {
        let fronts = self.sources.iter().filter_map(|s| s.edges.front());
        let key = fronts.map(|e| (e.key.edge_type, e.key.destination)).min()?;
        let mut found = Vec::new();
        for source in &mut self.sources {
            let mut versions = Vec::new();
            while let Some(edge) = source
                .edges
                .pop_front_if(|e| (e.key.edge_type, e.key.destination) == key)
            {
                versions.push(edge);
            }
            if versions.len() > found.len() {
                found = versions;
            }
        }
        Some(found)
    }
}

/// The order of differences: by vertex, then its edges by type and destination.
pub(crate) fn difference_order(
    difference: &Difference,
) -> (VertexId, Option<(esker_model::EdgeTypeId, VertexId)>) {
    match difference {
        Difference::Vertex(before, after) => {
            let vertex = before.as_ref().or(after.as_ref());
            (vertex.map(|v| v.id).unwrap_or_default(), None)
        }
        Difference::Edge(before, after) => {
            let edge = before.as_ref().or(after.as_ref());
            edge.map_or_else(Default::default, |e| {
                (e.key.source, Some((e.key.edge_type, e.key.destination)))
            })
        }
    }
}
