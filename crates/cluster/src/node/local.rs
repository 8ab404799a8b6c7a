//! Reads of this server's own rows, for other servers and for itself.

use super::page::{PAGE_BYTES, difference_size};
use super::state::State;
use super::{Node, UNDECIDED_MAX};
use crate::peer::{Read, Response};
use esker_model::{
    EdgeKey, EdgeSelect, Error, Flow, GraphRead as _, Result, Version, Versions, VertexId,
};
use std::sync::Arc;

impl Node {
    /// Reads this server's rows, after waiting for prepared transactions that may take a version before the read's.
    pub(crate) async fn read_here(self: &Arc<Self>, read: Read) -> Result<Response> {
        let engine = &self.engine;
        Ok(match read {
            Read::Vertices { ids, as_of } => {
                self.wait_for_pending(Some(&ids), as_of).await?;
                Response::Vertices(engine.read_vertices(&ids, as_of)?)
            }
            Read::Edges { keys, as_of } => {
                let sources: Vec<VertexId> = keys.iter().map(|k| k.source).collect();
                if let Some(moved) = self.wait_for_edges(&sources, &keys, as_of).await? {
                    return Ok(Response::Moved(moved));
                }
                let edges = engine.read_edges(&keys, as_of)?;
                match self.splits_if_moved(&sources, &keys).await? {
                    Some(moved) => Response::Moved(moved),
                    None => Response::Edges(edges),
                }
            }
            Read::Scan {
                frontier,
                select,
                limit,
                at,
            } => self.scan_here(&frontier, &select, limit, at).await?,
            Read::Type { select, limit } => {
                self.wait_for_pending(None, select.as_of).await?;
                let limit = limit.max(1) as usize;
                let mut vertices = Vec::new();
                engine.scan_vertices(&select, &mut |vertex| {
                    vertices.push(vertex);
                    // One vertex more than requested shows that there are more.
                    if vertices.len() > limit {
                        Flow::Break(())
                    } else {
                        Flow::Continue(())
                    }
                })?;
                let more = vertices.len() > limit;
                vertices.truncate(limit);
                Response::Type { vertices, more }
            }
            Read::VertexHistory { id, range } => {
                self.wait_for_pending(Some(&[id]), last(range.until))
                    .await?;
                Response::VertexHistory(engine.vertex_history(id, range)?)
            }
            Read::EdgeHistory { key, range } => {
                let (sources, keys) = ([key.source], [key]);
                let settled = self
                    .wait_for_edges(&sources, &keys, last(range.until))
                    .await?;
                if let Some(moved) = settled {
                    return Ok(Response::Moved(moved));
                }
                let history = engine.edge_history(key, range)?;
                match self.splits_if_moved(&sources, &keys).await? {
                    Some(moved) => Response::Moved(moved),
                    None => Response::EdgeHistory(history),
                }
            }
            Read::Degrees { of } => {
                self.wait_for_pending(None, Version::ZERO).await?;
                Response::Degrees(engine.degrees(&of)?)
            }
            Read::TopDegrees { edge_type, limit } => {
                self.wait_for_pending(None, Version::ZERO).await?;
                let split: Vec<VertexId> = self.state().splits.keys().copied().collect();
                let more = limit as usize + split.len();
                let top = engine.top_degrees(edge_type, more)?;
                let is_split = |id: &VertexId| split.contains(id);
                let whole = top.into_iter().filter(|d| !is_split(&d.vertex));
                let whole = whole.take(limit as usize).collect();
                let types: Vec<_> = match edge_type {
                    Some(t) => vec![t],
                    None => engine.schema()?.edge_types().map(|(t, _)| t).collect(),
                };
                let of: Vec<_> = split
                    .iter()
                    .flat_map(|id| types.iter().map(|t| (*id, *t)))
                    .collect();
                let degrees = engine.degrees(&of)?;
                let degree = |((vertex, edge_type), degree)| esker_model::Degree {
                    vertex,
                    edge_type,
                    degree,
                };
                let split = of.into_iter().zip(degrees).map(degree);
                Response::TopDegrees {
                    whole,
                    split: split.filter(|d| d.degree > 0).collect(),
                }
            }
            Read::Counts => {
                // Counts have no version; only partitions that are moving here matter.
                self.wait_for_pending(None, Version::ZERO).await?;
                Response::Counts(engine.counts()?)
            }
            Read::Diff { select, limit } => {
                self.wait_for_pending(None, select.before.max(select.after))
                    .await?;
                let (mut differences, mut bytes, mut more) = (Vec::new(), 0, false);
                engine.diff(&select, &mut |difference| {
                    bytes += difference_size(&difference);
                    differences.push(difference);
                    more = differences.len() >= limit as usize || bytes >= PAGE_BYTES;
                    if more {
                        Flow::Break(())
                    } else {
                        Flow::Continue(())
                    }
                })?;
                Response::Diff { differences, more }
            }
            Read::Applied { idempotency_key } => {
                Response::Applied(engine.applied(&idempotency_key)?)
            }
        })
    }

    /// Waits until no split of this server is between its commit and its publication.
    pub(crate) async fn wait_for_split_publication(&self) -> Result<()> {
        let known = |state: &mut State| state.deciding.is_empty().then_some(());
        let known = self.wait_until(UNDECIDED_MAX, known).await;
        known.ok_or_else(|| self.split_error())
    }

    /// Waits until no transaction prepared here can change these vertices (or any, for `None`) as of `at`.
    pub(crate) async fn wait_for_pending(
        &self,
        vertices: Option<&[VertexId]>,
        at: Version,
    ) -> Result<()> {
        let free = |state: &mut State| state.pending.blocker(vertices, at).is_none().then_some(());
        if self.wait_until(UNDECIDED_MAX, free).await.is_some() {
            return Ok(());
        }
        let tx = self.state().pending.blocker(vertices, at);
        tx.map_or(Ok(()), |tx| {
            Err(Error::Busy(format!(
                "{}: a batch that {} coordinates has been undecided for {} s, and this request may \
                 depend on it; try again once that server answers",
                self.settings.id,
                tx.server,
                UNDECIDED_MAX / 1000
            )))
        })
    }

    /// Waits as [`Self::wait_for_pending`] for edges; returns how their vertices have split if some edges are on other servers.
    async fn wait_for_edges(
        &self,
        sources: &[VertexId],
        keys: &[EdgeKey],
        at: Version,
    ) -> Result<Option<Vec<(VertexId, Vec<u8>)>>> {
        self.wait_for_pending(Some(sources), at).await?;
        self.splits_if_moved(sources, keys).await
    }

    /// Returns how the vertices of these edges have split, if some of the edges are not here.
    async fn splits_if_moved(
        &self,
        sources: &[VertexId],
        keys: &[EdgeKey],
    ) -> Result<Option<Vec<(VertexId, Vec<u8>)>>> {
        let look = |state: &mut State| {
            if sources.iter().any(|id| state.deciding.contains(id)) {
                return None;
            }
            let here = keys.iter().all(|key| self.is_here(state, key));
            Some((!here).then(|| self.encoded_splits(state, sources)))
        };
        self.wait_until(UNDECIDED_MAX, look)
            .await
            .ok_or_else(|| self.split_error())
    }

    fn split_error(&self) -> Error {
        Error::Unavailable(format!(
            "{}: a split has not become durable; is its disk full?",
            self.settings.id
        ))
    }

    /// Returns how these vertices have split, asked after their edges were read: every edge that was not among them
    /// is in a partition that this shows.
    pub(crate) async fn splits_after(&self, ids: &[VertexId]) -> Result<Vec<(VertexId, Vec<u8>)>> {
        let decided = |state: &mut State| {
            let deciding = ids.iter().any(|id| state.deciding.contains(id));
            (!deciding).then(|| self.encoded_splits(state, ids))
        };
        self.wait_until(UNDECIDED_MAX, decided)
            .await
            .ok_or_else(|| self.split_error())
    }

    async fn scan_here(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        limit: u32,
        at: Version,
    ) -> Result<Response> {
        self.wait_for_pending(Some(frontier), at).await?;
        let mut edges: Vec<(u32, esker_model::Edge)> = Vec::new();
        let mut more = false;
        self.engine
            .scan_edges(frontier, select, &mut |index, edge| {
                let index = index as u32;
                // A page ends between edges, never between versions of one edge.
                let last = edges.last().map(|(p, e)| (*p, e.key));
                if edges.len() >= limit as usize && last != Some((index, edge.key)) {
                    more = true;
                    return Flow::Break(());
                }
                edges.push((index, edge));
                Flow::Continue(())
            })?;
        let splits = self.splits_after(frontier).await?;
        Ok(Response::Scanned {
            edges,
            splits,
            more,
        })
    }
}

/// The last version before the end of a range.
fn last(until: Version) -> Version {
    Version(until.0.saturating_sub(1))
}

/// The newest version that a scan can see.
pub(crate) fn newest_of(versions: Versions) -> Version {
    match versions {
        Versions::AsOf(v) => v,
        Versions::Range(range) => last(range.until),
    }
}
