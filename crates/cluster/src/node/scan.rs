//! Scans for clients: pages of several servers, merged in one order.

use super::fan_out::kept_moving;
use super::local::newest_of;
use super::peers::unexpected;
use super::{Caller, Node, Visibility};
use crate::peer::{Read, Response};
use crate::vnode::ServerId;
use esker_model::{
    Edge, EdgeSelect, EdgeTypeId, Flow, Result, Version, Versions, Vertex, VertexId, VertexSelect,
};
use futures_util::future::join_all;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Number of frontier vertices in one request.
const FRONTIER: usize = 512;
const MOVES_MAX: u32 = 64;

impl Node {
    /// Scans edges, as [`esker_model::GraphRead::scan_edges`].
    pub async fn scan_edges(
        self: &Arc<Self>,
        frontier: &[VertexId],
        select: &EdgeSelect,
        caller: impl Into<Caller<'_>>,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        self.check_serving()?;
        let Caller { seen, principal } = caller.into();
        let mut visibility = Visibility::of(principal);
        let mut select = select.clone();
        let at = match select.versions {
            Versions::AsOf(as_of) => {
                let as_of = self.read_version(as_of, seen);
                select.versions = Versions::AsOf(as_of);
                as_of
            }
            Versions::Range(mut range) => {
                // An open end becomes now; otherwise one server would report changes from after another's scan.
                range.until = range
                    .until
                    .min(self.read_version(Version::MAX, seen).next());
                select.versions = Versions::Range(range);
                newest_of(select.versions)
            }
        };
        for (chunk, ids) in frontier.chunks(FRONTIER).enumerate() {
            if chunk > 0 {
                select.after = None;
            }
            let mut whole = self.scan_whole(ids, &select, at).await?;
            self.retain_visible(&mut visibility, &mut whole).await?;
            for ((index, id), edges) in ids.iter().enumerate().zip(whole) {
                if index > 0 {
                    select.after = None;
                }
                let index = chunk * FRONTIER + index;
                let flow = match edges {
                    Some(edges) => emit(index, edges, sink),
                    None => {
                        self.scan_split((index, *id), &select, at, &mut visibility, sink)
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

    /// Removes edges that the principal must not see, for all vertices together.
    async fn retain_visible(
        self: &Arc<Self>,
        visibility: &mut Visibility,
        lists: &mut [Option<Vec<Edge>>],
    ) -> Result<()> {
        if !visibility.hides() {
            return Ok(());
        }
        let edges = lists.iter().flatten().flatten();
        let ends = edges.flat_map(|e| [e.key.source, e.key.destination]);
        self.learn(visibility, ends.collect::<Vec<_>>()).await?;
        for list in lists.iter_mut().flatten() {
            list.retain(|e| visibility.sees_edge(&e.key));
        }
        Ok(())
    }

    /// Scans vertices whose edges are on one server each; `None` for those with several servers or too many edges for a page.
    async fn scan_whole(
        self: &Arc<Self>,
        ids: &[VertexId],
        select: &EdgeSelect,
        at: Version,
    ) -> Result<Vec<Option<Vec<Edge>>>> {
        let mut groups = BTreeMap::<ServerId, (Vec<usize>, Vec<VertexId>)>::new();
        for (index, id) in ids.iter().enumerate() {
            let servers = self.edge_servers(*id);
            if let (1, Some(server)) = (servers.len(), servers.first()) {
                let (indexes, all) = groups.entry(*server).or_default();
                indexes.push(index);
                all.push(*id);
            }
        }
        let reads = groups.iter().map(|(server, (_, frontier))| {
            let read = Read::Scan {
                frontier: frontier.clone(),
                select: EdgeSelect {
                    after: select.after.filter(|_| frontier.first() == ids.first()),
                    ..select.clone()
                },
                limit: self.settings.page_rows,
                at,
            };
            self.read_at(*server, read)
        });
        let answers = join_all(reads).await;
        let mut found: Vec<Option<Vec<Edge>>> = vec![None; ids.len()];
        for ((server, (indexes, group)), answer) in groups.iter().zip(answers) {
            let Response::Scanned {
                edges,
                splits,
                more,
            } = answer?
            else {
                return Err(unexpected(*server));
            };
            self.learn_splits(*server, &splits)?;
            // The last vertex may have more edges.
            let last = edges.last().map_or(0, |(index, _)| *index as usize);
            let complete = if more { last } else { group.len() };
            let mut lists: Vec<Vec<Edge>> = vec![Vec::new(); complete];
            for (index, edge) in edges {
                if let Some(list) = lists.get_mut(index as usize) {
                    list.push(edge);
                }
            }
            for ((index, id), list) in indexes.iter().zip(group).zip(lists) {
                // A vertex that turns out to have edges on other servers as well is scanned again.
                let servers = self.edge_servers(*id);
                if servers.len() == 1
                    && servers.contains(server)
                    && let Some(slot) = found.get_mut(*index)
                {
                    *slot = Some(list);
                }
            }
        }
        Ok(found)
    }

    /// Scans the edges of one vertex, from all servers that have some, in key order.
    async fn scan_split(
        self: &Arc<Self>,
        (index, id): (usize, VertexId),
        select: &EdgeSelect,
        at: Version,
        visibility: &mut Visibility,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<Flow> {
        let mut after = select.after;
        for attempt in 0..MOVES_MAX {
            let splits = self.cached_splits(id);
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
                merge.fill(visibility).await?;
                if self.cached_splits(id) != splits {
                    // The vertex has split further: continue after the last edge with the servers that have it now.
                    break;
                }
                let Some(edges) = merge.next() else {
                    return Ok(Flow::Continue(()));
                };
                for edge in edges {
                    after = Some((edge.key.edge_type, edge.key.destination));
                    if sink(index, edge).is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
            }
            self.pause_after(attempt).await;
        }
        Err(kept_moving())
    }

    /// Scans vertices of a type, as [`esker_model::GraphRead::scan_vertices`].
    pub async fn scan_vertices(
        self: &Arc<Self>,
        select: &VertexSelect,
        caller: impl Into<Caller<'_>>,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        self.check_serving()?;
        let Caller { seen, principal } = caller.into();
        let mut visibility = Visibility::of(principal);
        let mut select = *select;
        select.as_of = self.read_version(select.as_of, seen);
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
                    limit: self.settings.page_rows,
                };
                async move { (self.read_at(source.server, read).await, source) }
            });
            for (answer, source) in join_all(reads).await {
                let Response::Type { vertices, more } = answer? else {
                    return Err(unexpected(source.server));
                };
                source.after = vertices.last().map(|v| (v.type_id, v.id)).or(source.after);
                source.more = more;
                source.vertices = self
                    .visible_vertices(&mut visibility, vertices)
                    .await?
                    .into();
            }
            if sources.iter().any(|s| s.vertices.is_empty() && s.more) {
                // No vertex of a page is visible: the next page is needed before anything else.
                continue;
            }
            // The smallest vertex of all pages; every source with more rows has a vertex in memory.
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

fn emit(index: usize, edges: Vec<Edge>, sink: &mut dyn FnMut(usize, Edge) -> Flow) -> Flow {
    for edge in edges {
        sink(index, edge)?;
    }
    Flow::Continue(())
}

/// One server's vertices, read page by page.
struct VertexSource {
    server: ServerId,
    vertices: VecDeque<Vertex>,
    after: Option<(esker_model::VertexTypeId, VertexId)>,
    more: bool,
}

/// One server's edges of one vertex, read page by page.
struct EdgeSource {
    server: ServerId,
    edges: VecDeque<Edge>,
    after: Option<(EdgeTypeId, VertexId)>,
    more: bool,
}

/// Merges one vertex's edges from several servers.
struct Merge<'a> {
    node: &'a Arc<Node>,
    id: VertexId,
    select: &'a EdgeSelect,
    at: Version,
    sources: Vec<EdgeSource>,
}

impl Merge<'_> {
    /// Makes sure that each server's next edges are in memory.
    async fn fill(&mut self, visibility: &mut Visibility) -> Result<()> {
        // If no edge of a page is visible, the next page is needed.
        while self.sources.iter().any(|s| s.edges.is_empty() && s.more) {
            self.fill_once(visibility).await?;
        }
        Ok(())
    }

    async fn fill_once(&mut self, visibility: &mut Visibility) -> Result<()> {
        let (node, id, select, at) = (self.node, self.id, self.select, self.at);
        let empty = |s: &&mut EdgeSource| s.edges.is_empty() && s.more;
        let reads = self.sources.iter_mut().filter(empty).map(|source| {
            let read = Read::Scan {
                frontier: vec![id],
                select: EdgeSelect {
                    after: source.after,
                    ..select.clone()
                },
                limit: node.settings.page_rows,
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
            let last = edges
                .last()
                .map(|(_, e)| (e.key.edge_type, e.key.destination));
            source.after = last.or(source.after);
            source.more = more;
            let mut edges = edges.into_iter().map(|(_, e)| e).collect();
            node.retain_visible_edges(visibility, &mut edges).await?;
            source.edges = edges.into();
        }
        Ok(())
    }

    /// Returns all versions of the next edge. An edge that moved while it was read may come from two servers and is
    /// returned once.
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
