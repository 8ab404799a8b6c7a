//! Reads for clients: every server that may have data is asked, and the results are combined.
//!
//! A read of the present is as of one version, which the receiving server chooses: not before anything that it or the
//! client has seen. All servers read as of that version. (If data dated in the future is stored there is no such
//! version; then each server returns what it has.)

use super::hashed::Map;
use super::peers::unexpected;
use super::{Caller, Node, Visibility};
use crate::peer::{Read, Request, Response};
use crate::placement::{SplitState, Splits};
use crate::vnode::ServerId;
use esker_model::{
    Counts, Degree, Edge, EdgeEvent, EdgeKey, EdgeTypeId, Error, GraphRead as _, Result, Version,
    VersionRange, Vertex, VertexEvent, VertexId,
};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A server's incarnation, and the number of partition moves there since.
pub(super) type Moves = (u64, u64);

/// Largest number of attempts to follow edges that move.
pub(super) const MOVES_MAX: u32 = 64;

impl Node {
    /// Returns the version as of which a read over several servers sees the present.
    pub(crate) fn read_version(&self, as_of: Version, seen: Version) -> Version {
        if as_of != Version::MAX {
            return as_of;
        }
        self.observe_client_version(seen);
        let known = self.newest_known().max(seen);
        let now = self.newest();
        if known > now { Version::MAX } else { now }
    }

    /// Reads from a server, this one included.
    pub(crate) async fn read_at(
        self: &Arc<Self>,
        server: ServerId,
        read: Read,
    ) -> Result<Response> {
        if server == self.settings.id {
            self.read_here(read).await
        } else {
            self.request(server, Request::Read(read)).await
        }
    }

    /// Reads from all servers; returns their responses in the order of ids.
    async fn read_everywhere(self: &Arc<Self>, read: &Read) -> Result<Vec<(ServerId, Response)>> {
        let request = Request::Read(read.clone());
        let answers = self.request_all(&request).await?;
        let answer = |(server, (response, _))| (server, response);
        Ok(answers.into_iter().map(answer).collect())
    }

    /// Reads from all servers for results that must count each edge once: reads again if partitions have moved
    /// meanwhile. A move after all servers reported their number of moves is noticed by the giver or the receiver;
    /// and a server that is about to receive a partition waits before it responds.
    async fn read_all(self: &Arc<Self>, read: &Read) -> Result<Vec<(ServerId, Response)>> {
        let request = Request::Read(read.clone());
        for attempt in 0..MOVES_MAX {
            let before = self.request_all(&Request::Ping).await?;
            let answers = self.request_all(&request).await?;
            let moves = |all: &[(ServerId, (Response, Moves))]| -> Vec<Moves> {
                all.iter().map(|(_, (_, moves))| *moves).collect()
            };
            if moves(&before) == moves(&answers) {
                let answer = |(server, (response, _))| (server, response);
                return Ok(answers.into_iter().map(answer).collect());
            }
            self.pause_after(attempt).await;
        }
        Err(kept_moving())
    }

    /// Sends a request to all servers, this one included; each response comes with the incarnation and the number of
    /// partition moves.
    pub(super) async fn request_all(
        self: &Arc<Self>,
        request: &Request,
    ) -> Result<Vec<(ServerId, (Response, Moves))>> {
        let servers = self.map.servers().iter();
        let answers = servers.map(|server| self.request_at(*server, request));
        let answers = self.map.servers().iter().zip(join_all(answers).await);
        answers
            .map(|(server, answer)| Ok((*server, answer?)))
            .collect()
    }

    /// Sends a request to a server, this one included, as [`Self::request_all`].
    pub(super) async fn request_at(
        self: &Arc<Self>,
        server: ServerId,
        request: &Request,
    ) -> Result<(Response, Moves)> {
        if server != self.settings.id {
            let (response, incarnation, moves) =
                self.request_with_moves(server, request.clone()).await?;
            return Ok((response, (incarnation, moves)));
        }
        let response = match request {
            Request::Read(read) => self.read_here(read.clone()).await?,
            _ => Response::Done,
        };
        self.wait_for_split_publication().await?;
        Ok((response, (self.incarnation, self.state().moves)))
    }

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

    /// Waits while edges move; the first attempt needs no pause, since the new splits suffice.
    pub(crate) async fn pause_after(&self, attempt: u32) {
        if attempt > 0 {
            self.host.sleep(u64::from(attempt.min(20))).await;
        }
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

pub(crate) fn kept_moving() -> Error {
    Error::Unavailable("the edges asked for kept moving between servers; try again".into())
}
