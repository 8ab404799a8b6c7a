//! Writing: a batch that any server takes is done whole on all servers that it concerns, or not at all. Here it is cut into
//! parts; `transaction` sees to it that all of them are done, or none.

use super::Node;
use super::peers::unexpected;
use super::transaction::{Aside, Attempt, Parts};
use crate::peer::{Applying, Change, Held, Part, PartOp, Request, Response};
use crate::vnode::ServerId;
use esker_engine::Beside;
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::once::Numbered;
use esker_model::{
    Batch, Commit, EdgeKey, Error, ErrorKind, GraphRead as _, Mutation, Op, Properties, Result,
    Schema, Version, VertexId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a batch is sent again after it met vertices that have split or servers that were started meanwhile.
const ATTEMPTS_MAX: u32 = 64;
/// How long another request with the same marker is waited for, in milliseconds.
const MARKER_WAIT_MAX: u64 = 10_000;
/// Changes up to which a batch counts as small.
const SMALL_BATCH: usize = 16;

impl Node {
    /// Applies a batch, all or nothing, on all servers. `seen`: the highest version that the caller has seen.
    pub async fn apply(self: &Arc<Self>, batch: Batch, seen: Version) -> Result<Commit> {
        let how = Applying::default();
        Ok(self.apply_held(batch, seen, how).await?.0)
    }

    /// The same for clients that may keep a batch until a checkpoint holds it; with what they have to keep it for.
    pub async fn apply_held(
        self: &Arc<Self>,
        batch: Batch,
        seen: Version,
        how: Applying,
    ) -> Result<(Commit, Option<Held>)> {
        if let Some(at) = how.again_at
            && self.coordinator(&batch) == self.settings.id
            && let Some(done) = self.replay(&batch, at).await
        {
            return done;
        }
        self.check_serving()?;
        self.clock.witness(seen);
        if batch.len() > BATCH_MUTATIONS_MAX {
            return Err(Error::Limit {
                what: "a batch's number of mutations".into(),
                got: batch.len() as u64,
                limit: BATCH_MUTATIONS_MAX as u64,
            });
        }
        for mutation in &batch.mutations {
            self.engine.check_mutation(mutation)?;
        }
        let coordinator = self.coordinator(&batch);
        if coordinator != self.settings.id {
            return match self
                .ask(coordinator, Request::Apply { batch, seen, how })
                .await?
            {
                Response::Batch(commit, held) => Ok((commit, held)),
                _ => Err(unexpected(coordinator)),
            };
        }
        self.apply_here(batch, seen, how.hold).await
    }

    /// Who coordinates a batch. A large one whoever took it: all servers have parts of it anyhow. A small one a server that
    /// has a part of it, and always the same one, so that a batch that comes twice by different servers is applied once: where its
    /// first change is at home, of an edge the destination, because that is where edges are on their way to.
    fn coordinator(&self, batch: &Batch) -> ServerId {
        if batch.len() > SMALL_BATCH {
            return self.settings.id;
        }
        let first = batch.mutations.first().map(|m| match &m.op {
            Op::PutEdge { destination, .. } | Op::DeleteEdge { destination, .. } => destination.id,
            op => crate::peer::vertex_of(op),
        });
        first.map_or(self.settings.id, |id| self.home(id))
    }

    /// Coordinates a batch. With `hold`, its client keeps what no checkpoint holds: for what, comes with the answer.
    pub(crate) async fn apply_here(
        self: &Arc<Self>,
        batch: Batch,
        seen: Version,
        hold: bool,
    ) -> Result<(Commit, Option<Held>)> {
        let (commit, hardened) = self.apply_once(batch, seen).await?;
        let held = if hardened { None } else { self.held(hold)? };
        Ok((commit, held))
    }

    async fn apply_once(self: &Arc<Self>, batch: Batch, seen: Version) -> Result<(Commit, bool)> {
        let Some(marker) = batch.once.clone() else {
            return self.apply_marked(&batch, None, seen).await;
        };
        let name = request_name(&marker)?;
        let free = |state: &mut super::State| state.markers.insert(name.clone()).then_some(());
        if self.until(MARKER_WAIT_MAX, free).await.is_none() {
            return Err(Error::Unavailable(
                "the same batch is still under way; ask again what became of it".into(),
            ));
        }
        let _guard = Marked {
            node: self,
            marker: &name,
        };
        // One that was refused and comes again, late, must not be applied after all: its client has gone on.
        if let Some(why) = self.state().refused.get(&name) {
            return Err(Error::Invalid(why.clone()));
        }
        if self.applied_anywhere(&marker).await? {
            let commit = Commit {
                version: self.newest(),
                applied: false,
                vertices_created: 0,
                edges_created: 0,
                unchanged: 0,
            };
            return Ok((commit, false));
        }
        let applied = self.apply_marked(&batch, Some(&marker), seen).await;
        if let Err(e) = &applied
            && matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Missing)
            && name != marker
        {
            self.state().refused.add(&name, e.to_string());
        }
        applied
    }

    /// Markers of requests are kept by the server that took the request, and repeated there; others may have come in by
    /// any server.
    async fn applied_anywhere(self: &Arc<Self>, marker: &[u8]) -> Result<bool> {
        if self.engine.applied(marker)? {
            return Ok(true);
        }
        if Numbered::parse(marker).is_ok_and(|n| n.is_some()) {
            return Ok(false);
        }
        self.applied_elsewhere(marker).await
    }

    async fn apply_marked(
        self: &Arc<Self>,
        batch: &Batch,
        marker: Option<&[u8]>,
        seen: Version,
    ) -> Result<(Commit, bool)> {
        self.tell_of_vertices(batch.mutations.iter().map(|m| &m.op))
            .await?;
        let mut pause = 0;
        for _ in 0..ATTEMPTS_MAX {
            let schema = self.engine.schema()?;
            let rows = self.whereabouts_for(&batch.mutations).await?;
            let mut parts = self.parts(&schema, &batch.mutations);
            // A client that sends the batch again does not know of these.
            let has_rows = !rows.is_empty();
            self.add_rows(&mut parts, rows);
            let aside = Aside {
                marker,
                seen,
                beside: Beside::default(),
                splits: None,
            };
            let attempt = match self.attempt(parts, aside).await {
                Err(e @ Error::NoEdge { .. }) => return Err(self.with_names(e, batch).await),
                attempt => attempt?,
            };
            match attempt {
                Attempt::Done(commit, hardened) => {
                    if has_rows && !hardened {
                        self.harden()?;
                    }
                    return Ok((commit, hardened || has_rows));
                }
                Attempt::Again | Attempt::Unread if pause == 0 => pause = 1,
                Attempt::Again | Attempt::Unread => {
                    self.host.sleep(pause).await;
                    pause = (2 * pause).min(50);
                }
            }
        }
        Err(Error::Unavailable(format!(
            "the vertices of this batch kept moving through {ATTEMPTS_MAX} attempts; nothing was applied, try again"
        )))
    }

    /// Who misses an edge knows the names of vertices that are at home with it; the others are asked for.
    async fn with_names(self: &Arc<Self>, error: Error, batch: &Batch) -> Error {
        let Error::NoEdge {
            mut source_name,
            edge_type,
            mut destination_name,
        } = error
        else {
            return error;
        };
        let ends = batch.mutations.iter().filter_map(|m| match &m.op {
            Op::DeleteEdge {
                source,
                destination,
                ..
            } => Some([source.id, destination.id]),
            _ => None,
        });
        let nameless: Vec<VertexId> = ends
            .flatten()
            .filter(|id| [&source_name, &destination_name].contains(&&id.to_string()))
            .collect();
        let found = self
            .read_vertices(&nameless, Version::MAX, Version::ZERO)
            .await;
        if let (Ok(found), Ok(schema)) = (found, self.engine.schema()) {
            for vertex in found.into_iter().flatten() {
                for name in [&mut source_name, &mut destination_name] {
                    if *name == vertex.id.to_string() {
                        *name = vertex.name(&schema);
                    }
                }
            }
        }
        Error::NoEdge {
            source_name,
            edge_type,
            destination_name,
        }
    }

    /// Who is to do what.
    pub(crate) fn parts(&self, schema: &Schema, mutations: &[Mutation]) -> Parts {
        let mut parts = BTreeMap::<ServerId, Part>::new();
        let mut add = |server: ServerId, index: usize, at: Option<Version>, change: Change| {
            parts.entry(server).or_default().ops.push(PartOp {
                index: index as u32,
                at,
                change,
            });
        };
        for (index, mutation) in mutations.iter().enumerate() {
            let (source, edge_type, destination, gone, properties) = match &mutation.op {
                Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    properties,
                } => (source, *edge_type, destination, false, properties.clone()),
                Op::DeleteEdge {
                    source,
                    edge_type,
                    destination,
                } => (source, *edge_type, destination, true, Properties::new()),
                op => {
                    if let Op::MoveObject { object, from, to } = op {
                        let claim = Change::Claim {
                            identity: to.clone(),
                            object: *object,
                        };
                        add(self.home(to.prefix().place()), index, None, claim);
                        if from.prefix() != object.prefix() {
                            let release = Change::Release {
                                identity: from.clone(),
                                object: *object,
                            };
                            add(self.home(from.prefix().place()), index, None, release);
                        }
                    }
                    let home = self.home(crate::peer::vertex_of(op));
                    add(home, index, mutation.version, Change::Vertex(op.clone()));
                    continue;
                }
            };
            let key = EdgeKey {
                source: source.id,
                edge_type,
                destination: destination.id,
            };
            let inverse = key.reversed(schema.inverse(edge_type));
            let edge = |key, properties, asked| Change::Edge {
                key,
                gone,
                properties,
                asked,
            };
            if inverse != key {
                let change = edge(inverse, properties.clone(), false);
                add(self.edge_home(&inverse), index, mutation.version, change);
            }
            let change = edge(key, properties, true);
            add(self.edge_home(&key), index, mutation.version, change);
        }
        let parts = parts.into_iter();
        parts
            .map(|(server, part)| (server, Arc::new(part)))
            .collect()
    }
}

/// A marker that is under way.
struct Marked<'a> {
    node: &'a Node,
    marker: &'a [u8],
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        let mut state = self.node.state();
        state.markers.remove(self.marker);
        state.wake();
    }
}

/// What names a request that may come twice: of a numbered one its sender and number, because the rest of its marker
/// changes.
fn request_name(marker: &[u8]) -> Result<Vec<u8>> {
    let numbered = Numbered::parse(marker)
        .map_err(|e| Error::Invalid(format!("the marker of a batch goes on wrong: {e}")))?;
    Ok(numbered.map_or_else(
        || marker.to_vec(),
        |n| [n.sender.as_slice(), &n.number.to_be_bytes()].concat(),
    ))
}
