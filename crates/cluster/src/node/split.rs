//! Splits under load: a partition past the threshold gives a part of its edges to another, while clients continue.
//!
//! GraphMeta, section 4.4 (DIDO's incremental splits); GIGA+, section 3. The server that has a partition decides
//! alone to split it. The moving rows are a part of an ordinary transaction, with the new bitmap in the decision:
//! whatever crashes, each edge is on exactly one side at any time. Only the vertex that splits waits, for one
//! exchange with the receiver.

use super::Node;
use super::codec::split_key;
use super::transaction::{Attempt, adoption};
use crate::peer::{Adopt, Change, Part, PartOp, RawRow, RawTable};
use crate::placement::{Growth, Split, SplitState, Splits, Tree};
use crate::vnode::ServerId;
use esker_engine::SideWrites;
use esker_model::key::Counter;
use esker_model::{EdgeTypeId, Error, Flow, Result, VertexId};
use esker_store::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest wait of a split for transactions in progress on its vertex, in milliseconds.
const QUIET_MAX: u64 = 1_000;
/// Delay after which a failed split is tried again, in milliseconds.
const POSTPONED: u64 = 1_000;
/// Largest size of a partition that moves at once, in bytes.
const MOVE_BYTES_MAX: usize = 32 << 20;

/// Outcome of a split.
enum Outcome {
    /// The split is done; another may be due.
    Done,
    /// No split is due.
    Nothing,
    /// The split must be tried later.
    Postponed,
}

impl Node {
    /// Counts the edges of an applied part, and begins the splits that are due.
    pub(crate) fn note_growth(self: &Arc<Self>, part: &Part) {
        let Some(tree) = self.placement.tree() else {
            return;
        };
        let mut due: Vec<VertexId> = Vec::new();
        let now = self.time.now_millis();
        {
            let mut state = self.state();
            let state = &mut *state;
            for op in &part.ops {
                let Change::Edge {
                    key,
                    deleted: false,
                    ..
                } = &op.change
                else {
                    continue;
                };
                let id = key.source;
                let grown = match state.growth.get_mut(&id) {
                    Some(growth) => {
                        let target = self
                            .placement
                            .target(self.end(id), self.end(key.destination));
                        growth.insert(tree, target).is_some()
                    }
                    None => state.count_insert(id, self.settings.threshold),
                };
                let waits = !state.serving || state.postponed.get(&id).is_some_and(|t| *t > now);
                if grown && !waits && !state.frozen.contains(&id) && !due.contains(&id) {
                    due.push(id);
                }
            }
        }
        for id in due {
            self.spawn(move |node| async move { node.split_all(id).await });
        }
    }

    /// Runs all splits that are due of a vertex's partitions here.
    async fn split_all(self: Arc<Self>, id: VertexId) {
        let Some(tree) = self.placement.tree() else {
            return;
        };
        // The task that froze the vertex does what is due.
        if !self.state().frozen.insert(id) {
            return;
        }
        let frozen = Frozen { node: &self, id };
        let outcome = loop {
            match self.split_one(tree, id).await {
                Ok(Outcome::Done) => {}
                other => break other,
            }
        };
        drop(frozen);
        if !matches!(outcome, Ok(Outcome::Nothing)) {
            let until = self.time.now_millis() + POSTPONED;
            self.state().postponed.insert(id, until);
        }
    }

    async fn split_one(self: &Arc<Self>, tree: Tree, id: VertexId) -> Result<Outcome> {
        // Transactions that were prepared before the vertex was frozen are applied first: their edges must be among
        // the rows that move.
        let quiet = |state: &mut super::State| (!state.pending.touches(id)).then_some(());
        if self.wait_until(QUIET_MAX, quiet).await.is_none() {
            return Ok(Outcome::Postponed);
        }
        if self.is_moving(id) {
            return Ok(Outcome::Postponed);
        }
        let known = self.stored_splits(id);
        let growth = self.counted(tree, id, &known)?;
        let Some(split) = self.due(tree, id, &growth) else {
            let mut state = self.state();
            state.inserted.remove(&id);
            state.postponed.remove(&id);
            state.limit_growth();
            state.growth.insert(id, growth);
            return Ok(Outcome::Nothing);
        };
        let to = self.server_of(id, split.to);
        if to == self.settings.id {
            self.blocking(move |node| node.split_here(tree, id, growth))
                .await??;
            return Ok(Outcome::Done);
        }
        if self.split_to(tree, id, known, split, to).await? {
            Ok(Outcome::Done)
        } else {
            Ok(Outcome::Postponed)
        }
    }

    /// Whether a partition of the vertex is moving away from here. Its receiver must not be sent another one before
    /// it has that one: a partition whose bit is set counts as received.
    pub(super) fn is_moving(&self, id: VertexId) -> bool {
        let state = self.state();
        let adopts = |op: &PartOp| matches!(&op.change, Change::Adopt(a) if a.vertex == id);
        let mut decided = state.own.decided.values();
        decided.any(|d| d.decision.parts.values().any(|p| p.ops.iter().any(adopts)))
    }

    /// Returns how a vertex has split, as stored here.
    pub(crate) fn stored_splits(&self, id: VertexId) -> Splits {
        let state = self.state();
        let own = state.splits.get(&id).map(|s| s.splits().clone());
        own.unwrap_or_default()
    }

    /// Counts the edges that a vertex has here, by partition.
    fn counted(&self, tree: Tree, id: VertexId, known: &Splits) -> Result<Growth> {
        let mut growth = Growth::new(self.settings.threshold);
        growth.learn(known);
        let source = self.end(id);
        self.engine.edge_rows(id, &mut |(key, table, _, _), _| {
            if table == Table::History {
                return Flow::Break(());
            }
            let target = self.placement.target(source, self.end(key.destination));
            growth.insert(tree, target);
            Flow::Continue(())
        })?;
        Ok(growth)
    }

    /// Returns a split that is due, of the partitions that are here.
    fn due(&self, tree: Tree, id: VertexId, growth: &Growth) -> Option<Split> {
        let here = growth.splits().iter();
        let mut here = here.filter(|p| self.server_of(id, *p) == self.settings.id);
        here.find_map(|p| growth.due(tree, p))
    }

    /// Does all due splits between partitions that are both here; no rows move.
    fn split_here(&self, tree: Tree, id: VertexId, mut growth: Growth) -> Result<()> {
        let source = self.end(id);
        let mut targets = Vec::new();
        self.engine.edge_rows(id, &mut |(key, table, _, _), _| {
            if table == Table::History {
                return Flow::Break(());
            }
            targets.push(self.placement.target(source, self.end(key.destination)));
            Flow::Continue(())
        })?;
        while let Some(split) = self.due(tree, id, &growth) {
            if self.server_of(id, split.to) != self.settings.id {
                break;
            }
            let in_it = |target: &&_| tree.locate(growth.splits(), **target) == split.from;
            let moved = targets.iter().filter(in_it);
            let moved = moved.filter(|target| split.moves(tree, **target)).count();
            growth.commit(&split, moved as u64);
        }
        let _writing = self.writing_splits();
        let splits = self.split_state(tree, growth.splits().clone())?;
        let splits = self.merge_stored_splits(id, splits);
        let mut side_writes = SideWrites::default();
        side_writes
            .rows
            .push((Table::Meta, split_key(id), Some(splits.encode())));
        let version = self.clock.tick(self.time.now_millis());
        self.engine
            .apply_part(version, &[], esker_engine::Absent::Refuse, side_writes)?;
        // Other servers learn of the splits from what they read here.
        self.harden()?;
        self.state().set_splits(id, splits);
        Ok(())
    }

    /// Splits off a partition that moves to another server.
    async fn split_to(
        self: &Arc<Self>,
        tree: Tree,
        id: VertexId,
        mut splits: Splits,
        split: Split,
        to: ServerId,
    ) -> Result<bool> {
        let before = splits.clone();
        splits.insert(split.to);
        let state = self.split_state(tree, splits)?;
        let source = self.end(id);
        let mut side_writes = SideWrites::default();
        let mut rows = Vec::new();
        let mut degrees = BTreeMap::<EdgeTypeId, u64>::new();
        let mut bytes = 0;
        self.engine
            .edge_rows(id, &mut |(key, table, raw, value), now| {
                let target = self.placement.target(source, self.end(key.destination));
                if tree.locate(&before, target) != split.from || !split.moves(tree, target) {
                    return Flow::Continue(());
                }
                bytes += raw.len() + value.len();
                rows.push(RawRow {
                    table: if table == Table::Rows {
                        RawTable::Rows
                    } else {
                        RawTable::History
                    },
                    key: raw.to_vec(),
                    value: value.to_vec(),
                });
                side_writes.rows.push((table, raw.to_vec(), None));
                side_writes.touched.push((id, key.edge_type));
                if now {
                    *degrees.entry(key.edge_type).or_default() += 1;
                }
                if bytes > MOVE_BYTES_MAX {
                    return Flow::Break(());
                }
                Flow::Continue(())
            })?;
        if bytes > MOVE_BYTES_MAX {
            return Err(Error::Limit {
                what: "a partition that splits, in bytes,".into(),
                got: bytes as u64,
                limit: MOVE_BYTES_MAX as u64,
            });
        }
        side_writes.touched.dedup();
        for (edge_type, degree) in &degrees {
            let change = -i64::try_from(*degree).unwrap_or(i64::MAX);
            side_writes
                .counters
                .push((Counter::Degree(id, *edge_type), change));
            side_writes
                .counters
                .push((Counter::Edges(*edge_type), change));
        }
        let adopt = Adopt {
            vertex: id,
            splits: state.encode(),
            rows,
            table: None,
            degrees: degrees.into_iter().collect(),
        };
        // From here on a read of its edges waits to learn where they are; see `State::deciding`.
        let moved = self
            .move_partition(to, adoption(adopt), side_writes, (id, state))
            .await?;
        let moved = matches!(moved, Attempt::Done(..));
        if moved {
            self.state().growth.remove(&id);
        }
        Ok(moved)
    }

    pub(super) fn split_state(&self, tree: Tree, splits: Splits) -> Result<SplitState> {
        SplitState::new(self.placement.kind(), tree, splits)
            .ok_or_else(|| Error::Invalid("this placement does not split".into()))
    }
}

/// A vertex or directory that is splitting; no transaction is prepared on its edges or entries meanwhile.
pub(super) struct Frozen<'a> {
    pub(super) node: &'a Node,
    pub(super) id: VertexId,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let mut state = self.node.state();
        state.frozen.remove(&self.id);
        state.wake();
    }
}
