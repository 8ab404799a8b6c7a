//! Reads for clients: every server that may have data is asked, and the results are combined.
//!
//! A read of the present is as of one version, which the receiving server chooses: not before anything that it or the
//! client has seen. All servers read as of that version. (If data dated in the future is stored there is no such
//! version; then each server returns what it has.)

use super::fan_out::{MOVES_MAX, kept_moving};
use super::hashed::Map;
use super::peers::unexpected;
use super::{Caller, Node, Visibility};
use crate::peer::{Read, Request, Response};
use crate::placement::{SplitState, Splits};
use crate::vnode::ServerId;
use esker_engine::filtered_stats;
use esker_model::object::Principal;
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Cancel, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect,
    EdgeTypeId, Flow, GraphRead, Result, Schema, Traversal, Version, VersionRange, Vertex,
    VertexEvent, VertexId, VertexSelect,
};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Node {
    /// Reads vertices by id, as [`esker_model::GraphRead::read_vertices`].
    pub async fn read_vertices(
        self: &Arc<Self>,
        ids: &[VertexId],
        as_of: Version,
        caller: impl Into<Caller<'_>>,
    ) -> Result<Vec<Option<Vertex>>> {
        self.check_serving()?;
        let caller = caller.into();
        let as_of = self.read_version(as_of, caller.seen);
        let mut found = self.stored_vertices(ids, as_of).await?;
        self.apply_visibility(&mut Visibility::of(caller.principal), &mut found)
            .await?;
        Ok(found)
    }

    /// Reads vertices by id as stored, without visibility checks or present paths.
    pub(crate) async fn stored_vertices(
        self: &Arc<Self>,
        ids: &[VertexId],
        as_of: Version,
    ) -> Result<Vec<Option<Vertex>>> {
        let mut at = BTreeMap::<ServerId, (Vec<usize>, Vec<VertexId>)>::new();
        for (index, id) in ids.iter().enumerate() {
            let (indexes, all) = at.entry(self.home(*id)).or_default();
            indexes.push(index);
            all.push(*id);
        }
        let reads = at.iter().map(|(server, (_, ids))| {
            let ids = ids.clone();
            self.read_at(*server, Read::Vertices { ids, as_of })
        });
        let mut found: Vec<Option<Vertex>> = vec![None; ids.len()];
        for ((server, (indexes, _)), answer) in at.iter().zip(join_all(reads).await) {
            let Response::Vertices(vertices) = answer? else {
                return Err(unexpected(*server));
            };
            for (index, vertex) in indexes.iter().zip(vertices) {
                if let Some(slot) = found.get_mut(*index) {
                    *slot = vertex;
                }
            }
        }
        Ok(found)
    }

    /// Reads edges by key, as [`esker_model::GraphRead::read_edges`].
    pub async fn read_edges(
        self: &Arc<Self>,
        keys: &[EdgeKey],
        as_of: Version,
        caller: impl Into<Caller<'_>>,
    ) -> Result<Vec<Option<Edge>>> {
        self.check_serving()?;
        let caller = caller.into();
        let as_of = self.read_version(as_of, caller.seen);
        let mut found = self.stored_edges(keys, as_of).await?;
        let mut visibility = Visibility::of(caller.principal);
        let ends = keys.iter().flat_map(|key| [key.source, key.destination]);
        self.learn(&mut visibility, ends.collect::<Vec<_>>())
            .await?;
        for edge in &mut found {
            edge.take_if(|e| !visibility.sees_edge(&e.key));
        }
        Ok(found)
    }

    async fn stored_edges(
        self: &Arc<Self>,
        keys: &[EdgeKey],
        as_of: Version,
    ) -> Result<Vec<Option<Edge>>> {
        let mut found: Vec<Option<Edge>> = vec![None; keys.len()];
        let mut left: Vec<usize> = (0..keys.len()).collect();
        for attempt in 0..MOVES_MAX {
            let mut at = BTreeMap::<ServerId, (Vec<usize>, Vec<EdgeKey>)>::new();
            for index in left.drain(..) {
                let Some(key) = keys.get(index) else { continue };
                let (indexes, all) = at.entry(self.edge_home(key)).or_default();
                indexes.push(index);
                all.push(*key);
            }
            let reads = at.iter().map(|(server, (_, keys))| {
                let keys = keys.clone();
                self.read_at(*server, Read::Edges { keys, as_of })
            });
            let answers = join_all(reads).await;
            for ((server, (indexes, _)), answer) in at.into_iter().zip(answers) {
                match answer? {
                    Response::Edges(edges) => {
                        for (index, edge) in indexes.iter().zip(edges) {
                            if let Some(slot) = found.get_mut(*index) {
                                *slot = edge;
                            }
                        }
                    }
                    Response::Moved(splits) => {
                        self.learn_splits(server, &splits)?;
                        left.extend(indexes);
                    }
                    _ => return Err(unexpected(server)),
                }
            }
            if left.is_empty() {
                return Ok(found);
            }
            self.pause_after(attempt).await;
        }
        Err(kept_moving())
    }

    /// Reads the events of a vertex, as [`esker_model::GraphRead::vertex_history`].
    pub async fn vertex_history(
        self: &Arc<Self>,
        id: VertexId,
        range: VersionRange,
        caller: impl Into<Caller<'_>>,
    ) -> Result<Vec<VertexEvent>> {
        let caller = caller.into();
        if self.hides(&[id], caller).await? {
            return Ok(Vec::new());
        }
        let home = self.home(id);
        match self
            .read_at(home, Read::VertexHistory { id, range })
            .await?
        {
            Response::VertexHistory(events) => Ok(events),
            _ => Err(unexpected(home)),
        }
    }

    /// Reads the versions of an edge, as [`esker_model::GraphRead::edge_history`].
    pub async fn edge_history(
        self: &Arc<Self>,
        key: EdgeKey,
        range: VersionRange,
        caller: impl Into<Caller<'_>>,
    ) -> Result<Vec<EdgeEvent>> {
        let caller = caller.into();
        if self.hides(&[key.source, key.destination], caller).await? {
            return Ok(Vec::new());
        }
        for attempt in 0..MOVES_MAX {
            let server = self.edge_home(&key);
            match self
                .read_at(server, Read::EdgeHistory { key, range })
                .await?
            {
                Response::EdgeHistory(events) => return Ok(events),
                Response::Moved(splits) => {
                    self.learn_splits(server, &splits)?;
                }
                _ => return Err(unexpected(server)),
            }
            self.pause_after(attempt).await;
        }
        Err(kept_moving())
    }

    /// Whether the caller must not see one of these vertices.
    async fn hides(self: &Arc<Self>, ids: &[VertexId], caller: Caller<'_>) -> Result<bool> {
        self.check_serving()?;
        self.observe_client_version(caller.seen);
        let mut visibility = Visibility::of(caller.principal);
        self.learn(&mut visibility, ids.iter().copied()).await?;
        Ok(ids.iter().any(|id| !visibility.sees(*id)))
    }

    /// Returns degrees, as [`esker_model::GraphRead::degrees`].
    pub async fn degrees(
        self: &Arc<Self>,
        of: &[(VertexId, EdgeTypeId)],
        seen: Version,
    ) -> Result<Vec<u64>> {
        self.check_serving()?;
        self.observe_client_version(seen);
        let mut sums = vec![0_u64; of.len()];
        for (server, answer) in self.read_all(&Read::Degrees { of: of.to_vec() }).await? {
            let Response::Degrees(degrees) = answer else {
                return Err(unexpected(server));
            };
            for (sum, degree) in sums.iter_mut().zip(degrees) {
                *sum += degree;
            }
        }
        Ok(sums)
    }

    /// Returns the highest degrees, as [`esker_model::GraphRead::top_degrees`].
    pub async fn top_degrees(
        self: &Arc<Self>,
        edge_type: Option<EdgeTypeId>,
        limit: usize,
        seen: Version,
    ) -> Result<Vec<Degree>> {
        self.check_serving()?;
        self.observe_client_version(seen);
        // If every vertex has edges on all servers, the highest degrees of one server say nothing about the sums.
        let spread = self.placement.partitions(&Splits::default()).len() > 1;
        let most = if spread { usize::MAX } else { limit };
        let read = Read::TopDegrees {
            edge_type,
            limit: u32::try_from(most).unwrap_or(u32::MAX),
        };
        let mut all = Map::<(VertexId, EdgeTypeId), u64>::default();
        for (server, answer) in self.read_all(&read).await? {
            let Response::TopDegrees { whole, split } = answer else {
                return Err(unexpected(server));
            };
            for d in whole.into_iter().chain(split) {
                *all.entry((d.vertex, d.edge_type)).or_default() += d.degree;
            }
        }
        let degree = |((vertex, edge_type), degree)| Degree {
            vertex,
            edge_type,
            degree,
        };
        let mut all: Vec<Degree> = all.into_iter().map(degree).collect();
        all.sort_unstable_by_key(|d| (std::cmp::Reverse(d.degree), d.vertex, d.edge_type));
        all.truncate(limit);
        Ok(all)
    }

    /// Returns counts by type, as [`esker_model::GraphRead::counts`].
    pub async fn counts(self: &Arc<Self>, seen: Version) -> Result<Counts> {
        self.check_serving()?;
        self.observe_client_version(seen);
        let mut sum = self.engine.counts()?;
        for total in sum.vertices.iter_mut().map(|(_, n)| n) {
            *total = 0;
        }
        for total in sum.edges.iter_mut().map(|(_, n)| n) {
            *total = 0;
        }
        for (server, answer) in self.read_all(&Read::Counts).await? {
            let Response::Counts(counts) = answer else {
                return Err(unexpected(server));
            };
            add(&mut sum.vertices, counts.vertices);
            add(&mut sum.edges, counts.edges);
        }
        Ok(sum)
    }

    /// Whether a batch with this idempotency key was applied, as [`esker_model::GraphRead::applied`].
    pub async fn applied(self: &Arc<Self>, idempotency_key: &[u8]) -> Result<bool> {
        self.check_serving()?;
        Ok(self.engine.applied(idempotency_key)?
            || self.applied_on_other_server(idempotency_key).await?)
    }

    /// Whether another server has applied a batch with this idempotency key.
    pub(crate) async fn applied_on_other_server(
        self: &Arc<Self>,
        idempotency_key: &[u8],
    ) -> Result<bool> {
        Ok(self.applying_server(idempotency_key).await?.is_some())
    }

    /// Returns another server that has applied a batch with this idempotency key.
    pub(crate) async fn applying_server(
        self: &Arc<Self>,
        idempotency_key: &[u8],
    ) -> Result<Option<ServerId>> {
        let idempotency_key = idempotency_key.to_vec();
        for (server, answer) in self
            .read_everywhere(&Read::Applied { idempotency_key })
            .await?
        {
            match answer {
                Response::Applied(true) => return Ok(Some(server)),
                Response::Applied(false) => {}
                _ => return Err(unexpected(server)),
            }
        }
        Ok(None)
    }

    /// Returns how a vertex has split, as the whole cluster knows it; `None` if it has not.
    pub async fn splits(self: &Arc<Self>, id: VertexId) -> Result<Option<SplitState>> {
        self.check_serving()?;
        let Some(tree) = self.placement.tree() else {
            return Ok(None);
        };
        loop {
            let known = self.cached_splits(id);
            for server in self.edge_servers_of(id, &known) {
                if server == self.settings.id {
                    continue;
                }
                match self
                    .request(server, Request::Splits { of: vec![id] })
                    .await?
                {
                    Response::Splits(splits) => self.learn_splits(server, &splits)?,
                    _ => return Err(unexpected(server)),
                };
            }
            if self.cached_splits(id) == known {
                let split = (!known.is_unsplit()).then_some(known);
                return Ok(split.and_then(|s| SplitState::new(self.placement.kind(), tree, s)));
            }
        }
    }
}

fn add<T: PartialEq>(sums: &mut Vec<(T, u64)>, more: Vec<(T, u64)>) {
    for (t, n) in more {
        match sums.iter_mut().find(|(known, _)| *known == t) {
            Some((_, sum)) => *sum += n,
            None => sums.push((t, n)),
        }
    }
}

/// A runtime on which threads that may block wait for a node.
pub trait BlockOn: Sync {
    /// Runs work of the node to its end. Must not be called on threads of the runtime.
    fn block_on<T>(&self, work: impl Future<Output = T>) -> T;
}

/// The databases of all servers as one graph, for threads that may block.
#[derive(Debug)]
pub struct ClusterGraph<'a, B> {
    /// Node that makes the calls.
    pub node: &'a Arc<Node>,
    /// Runtime of the node.
    pub runtime: &'a B,
    /// Highest version that the caller has seen.
    pub seen: Version,
    /// Principal of the calls; `None` sees everything.
    pub principal: Option<Principal>,
}

impl<B> ClusterGraph<'_, B> {
    fn caller(&self) -> Caller<'_> {
        Caller {
            seen: self.seen,
            principal: self.principal.as_ref(),
        }
    }

    /// Whether data may be hidden from the principal.
    fn is_limited(&self) -> bool {
        self.principal.as_ref().is_some_and(|a| a.uid != 0)
    }
}

impl<B: BlockOn> GraphRead for ClusterGraph<'_, B> {
    fn schema(&self) -> Result<Arc<Schema>> {
        self.node.schema()
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        let work = self.node.read_vertices(ids, as_of, self.caller());
        self.runtime.block_on(work)
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        let work = self.node.read_edges(keys, as_of, self.caller());
        self.runtime.block_on(work)
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let node = self.node;
        self.runtime
            .block_on(node.scan_edges(frontier, select, self.caller(), sink))
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        let node = self.node;
        self.runtime
            .block_on(node.scan_vertices(select, self.caller(), sink))
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        let work = self.node.vertex_history(id, range, self.caller());
        self.runtime.block_on(work)
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let work = self.node.edge_history(key, range, self.caller());
        self.runtime.block_on(work)
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        if self.is_limited() {
            return filtered_stats::degrees(self, of);
        }
        self.runtime.block_on(self.node.degrees(of, self.seen))
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        if self.is_limited() {
            return filtered_stats::top_degrees(self, edge_type, limit);
        }
        let work = self.node.top_degrees(edge_type, limit, self.seen);
        self.runtime.block_on(work)
    }

    fn counts(&self) -> Result<Counts> {
        let counts = self.runtime.block_on(self.node.counts(self.seen))?;
        if self.is_limited() {
            return filtered_stats::counts(self, counts);
        }
        Ok(counts)
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        let node = self.node;
        self.runtime
            .block_on(node.diff(select, self.caller(), sink))
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        let node = self.node;
        self.runtime
            .block_on(node.travel(traversal, budget, cancel, self.caller()))
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        self.runtime.block_on(self.node.applied(idempotency_key))
    }
}
