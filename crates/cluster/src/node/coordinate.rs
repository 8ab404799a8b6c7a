//! Coordination of writes: a batch that any server receives is applied on all servers that it concerns, or on none.
//! This module divides it into parts; `transaction` commits them atomically.

use super::Node;
use super::peers::unexpected;
use super::transaction::{Attempt, CoordinatorWork, Parts};
use crate::peer::{ApplyOptions, Change, CommitPosition, Part, PartOp, Request, Response};
use crate::vnode::ServerId;
use esker_engine::SideWrites;
use esker_model::idempotency::ProducerKey;
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::{
    Batch, Commit, EdgeKey, Error, ErrorKind, GraphRead as _, Mutation, Op, Properties, Result,
    Schema, Version, VertexId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Attempts to apply a batch whose vertices have split, or whose servers were restarted, meanwhile.
const ATTEMPTS_MAX: u32 = 64;
/// Longest wait for another request with the same idempotency key, in milliseconds.
const KEY_WAIT_MAX: u64 = 10_000;

impl Node {
    /// Applies a batch atomically on all servers. `seen` is the highest version that the caller has seen.
    pub async fn apply(self: &Arc<Self>, batch: Batch, seen: Version) -> Result<Commit> {
        let how = ApplyOptions::default();
        Ok(self.apply_retained(batch, seen, how).await?.0)
    }

    /// Applies a batch for a client that may retain it until a checkpoint contains it; returns the position until
    /// which it must.
    pub async fn apply_retained(
        self: &Arc<Self>,
        batch: Batch,
        seen: Version,
        how: ApplyOptions,
    ) -> Result<(Commit, Option<CommitPosition>)> {
        if let Some(at) = how.acknowledged_at
            && self.coordinator(&batch) == self.settings.id
            && let Some(done) = self.replay(&batch, at).await
        {
            return done;
        }
        self.check_serving()?;
        self.observe_client_version(seen);
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
                .request(coordinator, Request::Apply { batch, seen, how })
                .await?
            {
                Response::Batch(commit, position) => Ok((commit, position)),
                _ => Err(unexpected(coordinator)),
            };
        }
        self.apply_here(batch, seen, how.retained).await
    }

    /// Returns the server that coordinates a batch.
    fn coordinator(&self, batch: &Batch) -> ServerId {
        let vertex = batch.coordinating_vertex();
        vertex.map_or(self.settings.id, |id| self.home(id))
    }

    /// Coordinates a batch. With `retain`, the client keeps it until a checkpoint contains it; the position comes
    /// with the answer.
    pub(crate) async fn apply_here(
        self: &Arc<Self>,
        batch: Batch,
        seen: Version,
        retain: bool,
    ) -> Result<(Commit, Option<CommitPosition>)> {
        let (commit, hardened) = self.apply_deduplicated(batch, seen).await?;
        let position = if hardened {
            None
        } else {
            self.position_to_retain(retain)?
        };
        Ok((commit, position))
    }

    async fn apply_deduplicated(
        self: &Arc<Self>,
        batch: Batch,
        seen: Version,
    ) -> Result<(Commit, bool)> {
        let Some(idempotency_key) = batch.idempotency_key.clone() else {
            return self.apply_with_key(&batch, None, seen).await;
        };
        let name = request_name(&idempotency_key)?;
        let free =
            |state: &mut super::State| state.keys_in_progress.insert(name.clone()).then_some(());
        if self.wait_until(KEY_WAIT_MAX, free).await.is_none() {
            return Err(Error::Undecided(
                "the same batch is still in progress; ask again for its outcome".into(),
            ));
        }
        let _guard = KeyInProgress {
            node: self,
            idempotency_key: &name,
        };
        // A refused batch that arrives again, late, must not be applied after all: its client has continued without it.
        if let Some(why) = self.state().refused.get(&name) {
            return Err(why);
        }
        if self.applied_on_any_server(&idempotency_key).await? {
            let commit = Commit {
                version: self.newest(),
                applied: false,
                vertices_created: 0,
                edges_created: 0,
                unchanged: 0,
            };
            return Ok((commit, false));
        }
        let applied = self
            .apply_with_key(&batch, Some(&idempotency_key), seen)
            .await;
        if let Err(e) = &applied
            && matches!(e.kind(), ErrorKind::Invalid | ErrorKind::Missing)
            && name != idempotency_key
        {
            self.state().refused.add(&name, e);
        }
        applied
    }

    /// Idempotency keys of requests are kept by the server that received the request, where they are repeated; other
    /// batches may have come through any server.
    async fn applied_on_any_server(self: &Arc<Self>, idempotency_key: &[u8]) -> Result<bool> {
        if let Ok(Some(numbered)) = ProducerKey::parse(idempotency_key) {
            return Ok(!self.engine.must_apply(&numbered)?);
        }
        if self.engine.applied(idempotency_key)? {
            return Ok(true);
        }
        self.applied_on_other_server(idempotency_key).await
    }

    async fn apply_with_key(
        self: &Arc<Self>,
        batch: &Batch,
        idempotency_key: Option<&[u8]>,
        seen: Version,
    ) -> Result<(Commit, bool)> {
        self.announce_file_vertices(batch.mutations.iter().map(|m| &m.op))
            .await?;
        let mut pause = 0;
        for _ in 0..ATTEMPTS_MAX {
            let schema = self.engine.schema()?;
            let rows = self.location_records_for(&batch.mutations).await?;
            let mut parts = self.parts(&schema, &batch.mutations);
            // A client that sends the batch again does not know of these rows.
            let has_rows = !rows.is_empty();
            self.add_rows(&mut parts, rows);
            let aside = CoordinatorWork {
                idempotency_key,
                seen,
                side_writes: SideWrites::default(),
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
                Attempt::Retry | Attempt::Unread if pause == 0 => pause = 1,
                Attempt::Retry | Attempt::Unread => {
                    self.host.sleep(pause).await;
                    pause = (2 * pause).min(50);
                }
            }
        }
        Err(Error::Busy(format!(
            "the vertices of this batch kept moving during {ATTEMPTS_MAX} attempts; nothing was applied, try again"
        )))
    }

    /// Completes the names in an error about a missing edge. A participant knows only the names of its own vertices;
    /// the others are read here.
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

    /// Divides mutations into parts by server.
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
            let (source, edge_type, destination, deleted, properties) = match &mutation.op {
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
                        add(self.home(to.prefix().home_vertex()), index, None, claim);
                        if from.prefix() != object.prefix() {
                            let release = Change::Release {
                                identity: from.clone(),
                                object: *object,
                            };
                            add(self.home(from.prefix().home_vertex()), index, None, release);
                        }
                    }
                    let home = self.home(op.home_vertex());
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
            let edge = |key, properties, requested| Change::Edge {
                key,
                deleted,
                properties,
                requested,
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

/// An idempotency key whose request is in progress.
struct KeyInProgress<'a> {
    node: &'a Node,
    idempotency_key: &'a [u8],
}

impl Drop for KeyInProgress<'_> {
    fn drop(&mut self) {
        let mut state = self.node.state();
        let mut doubts = state.in_doubt.values();
        if doubts.any(|doubt| doubt.request == self.idempotency_key) {
            return;
        }
        state.keys_in_progress.remove(self.idempotency_key);
        state.wake();
    }
}

/// Returns the part of an idempotency key that identifies the request: of a numbered one its producer and number,
/// because the rest changes between attempts.
pub(super) fn request_name(idempotency_key: &[u8]) -> Result<Vec<u8>> {
    let numbered = ProducerKey::parse(idempotency_key)
        .map_err(|e| Error::Invalid(format!("malformed idempotency key: {e}")))?;
    Ok(numbered.map_or_else(
        || idempotency_key.to_vec(),
        |n| [n.producer.as_slice(), &n.sequence.to_be_bytes()].concat(),
    ))
}
