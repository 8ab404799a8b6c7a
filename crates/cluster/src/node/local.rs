//! What this server answers of what it holds itself.

use super::state::State;
use super::{Node, UNDECIDED_MAX};
use crate::peer::{Read, Response};
use esker_model::{
    EdgeKey, EdgeSelect, Error, Flow, GraphRead as _, Result, Version, Versions, VertexId,
};
use std::sync::Arc;

impl Node {
    /// Answers a question about what is here. It waits for what is prepared and may yet fall before its time.
    pub(crate) async fn read_here(self: &Arc<Self>, read: Read) -> Result<Response> {
        let engine = &self.engine;
        Ok(match read {
            Read::Vertices { ids, as_of } => {
                self.settle(Some(&ids), as_of).await?;
                Response::Vertices(engine.read_vertices(&ids, as_of)?)
            }
            Read::Edges { keys, as_of } => {
                let sources: Vec<VertexId> = keys.iter().map(|k| k.source).collect();
                if let Some(moved) = self.settle_edges(&sources, &keys, as_of).await? {
                    return Ok(Response::Moved(moved));
                }
                let edges = engine.read_edges(&keys, as_of)?;
                match self.still_here(&sources, &keys).await? {
                    Some(moved) => Response::Moved(moved),
                    None => Response::Edges(edges),
                }
            }
            Read::Scan {
                frontier,
                select,
                after,
                limit,
                at,
            } => self.scan_here(&frontier, &select, after, limit, at).await?,
            Read::Type { select, limit } => {
                self.settle(None, select.as_of).await?;
                let limit = limit.max(1) as usize;
                let mut vertices = Vec::new();
                engine.scan_vertices(&select, &mut |vertex| {
                    vertices.push(vertex);
                    // One more than asked for tells that there is more.
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
                self.settle(Some(&[id]), last(range.until)).await?;
                Response::VertexHistory(engine.vertex_history(id, range)?)
            }
            Read::EdgeHistory { key, range } => {
                let (sources, keys) = ([key.source], [key]);
                let settled = self
                    .settle_edges(&sources, &keys, last(range.until))
                    .await?;
                if let Some(moved) = settled {
                    return Ok(Response::Moved(moved));
                }
                let history = engine.edge_history(key, range)?;
                match self.still_here(&sources, &keys).await? {
                    Some(moved) => Response::Moved(moved),
                    None => Response::EdgeHistory(history),
                }
            }
            Read::Degrees { of } => {
                self.settle(None, Version::ZERO).await?;
                Response::Degrees(engine.degrees(&of)?)
            }
            Read::TopDegrees { edge_type, limit } => {
                self.settle(None, Version::ZERO).await?;
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
                // Only partitions on their way to here count at any time.
                self.settle(None, Version::ZERO).await?;
                Response::Counts(engine.counts()?)
            }
            Read::Diff { before, after } => {
                self.settle(None, before.max(after)).await?;
                let mut differences = Vec::new();
                engine.diff(before, after, &mut |difference| {
                    differences.push(difference);
                    Flow::Continue(())
                })?;
                Response::Diff(differences)
            }
            Read::Applied { once } => Response::Applied(engine.applied(&once)?),
        })
    }

    /// Waits until no split of this server's is between its commit and its being known.
    pub(crate) async fn splits_known_here(&self) -> Result<()> {
        let known = |state: &mut State| state.deciding.is_empty().then_some(());
        let known = self.until(UNDECIDED_MAX, known).await;
        known.ok_or_else(|| self.split_hangs())
    }

    /// Waits until nothing prepared here can change what these vertices (or any) were at that time.
    pub(crate) async fn settle(&self, vertices: Option<&[VertexId]>, at: Version) -> Result<()> {
        let free = |state: &mut State| state.pending.blocks(vertices, at).is_none().then_some(());
        if self.until(UNDECIDED_MAX, free).await.is_some() {
            return Ok(());
        }
        let tx = self.state().pending.blocks(vertices, at);
        tx.map_or(Ok(()), |tx| {
            Err(Error::Unavailable(format!(
                "{}: a batch that {} coordinates has been undecided for {} s, and what is asked for may depend on it; \
                 try again once that server answers",
                self.settings.id,
                tx.server,
                UNDECIDED_MAX / 1000
            )))
        })
    }

    /// The same for edges; says how their vertices have split if some lie elsewhere.
    async fn settle_edges(
        &self,
        sources: &[VertexId],
        keys: &[EdgeKey],
        at: Version,
    ) -> Result<Option<Vec<(VertexId, Vec<u8>)>>> {
        self.settle(Some(sources), at).await?;
        self.still_here(sources, keys).await
    }

    /// How the vertices of these edges have split, if some of them do not lie here.
    async fn still_here(
        &self,
        sources: &[VertexId],
        keys: &[EdgeKey],
    ) -> Result<Option<Vec<(VertexId, Vec<u8>)>>> {
        let look = |state: &mut State| {
            if sources.iter().any(|id| state.deciding.contains(id)) {
                return None;
            }
            let here = keys.iter().all(|key| self.is_here(state, key));
            Some((!here).then(|| self.known_splits(state, sources)))
        };
        self.until(UNDECIDED_MAX, look)
            .await
            .ok_or_else(|| self.split_hangs())
    }

    fn split_hangs(&self) -> Error {
        Error::Unavailable(format!(
            "{}: a split has not become durable; is its disk full?",
            self.settings.id
        ))
    }

    /// How these vertices have split, asked for after their edges were read: no edge that was not among them is on a
    /// partition that this does not show.
    pub(crate) async fn splits_after(&self, ids: &[VertexId]) -> Result<Vec<(VertexId, Vec<u8>)>> {
        let decided = |state: &mut State| {
            let deciding = ids.iter().any(|id| state.deciding.contains(id));
            (!deciding).then(|| self.known_splits(state, ids))
        };
        self.until(UNDECIDED_MAX, decided)
            .await
            .ok_or_else(|| self.split_hangs())
    }

    async fn scan_here(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        after: Option<(u32, EdgeKey)>,
        limit: u32,
        at: Version,
    ) -> Result<Response> {
        self.settle(Some(frontier), at).await?;
        let (first, after) = match after {
            Some((first, key)) => (first as usize, Some(key)),
            None => (0, None),
        };
        let rest = frontier.get(first..).unwrap_or_default();
        let mut edges: Vec<(u32, esker_model::Edge)> = Vec::new();
        let mut more = false;
        self.engine.scan_edges(rest, select, &mut |place, edge| {
            let behind = |after: EdgeKey| {
                (edge.key.edge_type, edge.key.destination) <= (after.edge_type, after.destination)
            };
            if place == 0 && after.is_some_and(behind) {
                return Flow::Continue(());
            }
            let place = (first + place) as u32;
            // A piece ends between edges, never between versions of one.
            let last = edges.last().map(|(p, e)| (*p, e.key));
            if edges.len() >= limit as usize && last != Some((place, edge.key)) {
                more = true;
                return Flow::Break(());
            }
            edges.push((place, edge));
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

/// What a scan at a time can see.
pub(crate) fn newest_of(versions: Versions) -> Version {
    match versions {
        Versions::AsOf(v) => v,
        Versions::Range(range) => last(range.until),
    }
}
