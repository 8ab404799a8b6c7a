//! Splits under load: a partition past the threshold gives a part of its edges to another, while clients go on.
//!
//! GraphMeta, section 4.4 (DIDO's incremental splits); GIGA+, section 3. The server that holds a partition splits it, alone. The rows that
//! move are a part of a transaction like any other, with the new bitmap in the decision: at every moment, whatever crashes,
//! each edge is on one side. Only the vertex that splits waits, for one exchange with the receiver.

use super::Node;
use super::codec::split_key;
use super::transaction::{Attempt, adoption};
use crate::peer::{Adopt, Change, Part, PartOp, RawRow, RawTable};
use crate::placement::{Growth, Split, SplitState, Splits, Tree};
use crate::vnode::ServerId;
use esker_engine::Beside;
use esker_model::key::Counter;
use esker_model::{EdgeTypeId, Error, Flow, Result, VertexId};
use esker_store::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a split waits for what is under way on its vertex, in milliseconds.
const QUIET_MAX: u64 = 1_000;
/// When a split that did not succeed is tried again, in milliseconds.
const POSTPONED: u64 = 1_000;
/// A partition with more bytes than this does not move in one piece.
const MOVE_BYTES_MAX: usize = 32 << 20;

/// What became of a split.
enum Outcome {
    /// It is done; perhaps there is another to do.
    Done,
    /// None is due.
    Nothing,
    /// Not now.
    Postponed,
}

impl Node {
    /// Counts the edges of a part that was done; begins the splits that are due.
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
                    key, gone: false, ..
                } = &op.change
                else {
                    continue;
                };
                let id = key.source;
                let grown = match state.growth.get_mut(&id) {
                    Some(growth) => {
                        let goal = self.placement.goal(self.end(id), self.end(key.destination));
                        growth.insert(tree, goal).is_some()
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

    /// All splits that are due of the partitions that a vertex has here.
    async fn split_all(self: Arc<Self>, id: VertexId) {
        let Some(tree) = self.placement.tree() else {
            return;
        };
        // Whoever froze it does what is to be done.
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
        // What was prepared before the vertex was frozen is written first: it is to be among the rows that move.
        let quiet = |state: &mut super::State| (!state.pending.touches(id)).then_some(());
        if self.until(QUIET_MAX, quiet).await.is_none() {
            return Ok(Outcome::Postponed);
        }
        if self.is_moving(id) {
            return Ok(Outcome::Postponed);
        }
        let known = self.own_splits(id);
        let growth = self.counted(tree, id, &known)?;
        let Some(split) = self.due(tree, id, &growth) else {
            let mut state = self.state();
            state.inserted.remove(&id);
            state.postponed.remove(&id);
            state.room_for_growth();
            state.growth.insert(id, growth);
            return Ok(Outcome::Nothing);
        };
        let to = self.server_of(id, split.to);
        if to == self.settings.id {
            self.split_here(tree, id, growth)?;
            return Ok(Outcome::Done);
        }
        if self.split_to(tree, id, known, split, to).await? {
            Ok(Outcome::Done)
        } else {
            Ok(Outcome::Postponed)
        }
    }

    /// Whether a partition of a vertex is on its way from here. Its receiver is told of no other one before it has that: it
    /// takes one whose bit it has for one that it holds.
    pub(super) fn is_moving(&self, id: VertexId) -> bool {
        let state = self.state();
        let adopts = |op: &PartOp| matches!(&op.change, Change::Adopt(a) if a.vertex == id);
        let mut decided = state.own.decided.values();
        decided.any(|d| d.decision.parts.values().any(|p| p.ops.iter().any(adopts)))
    }

    /// How a vertex has split, as stored here.
    pub(crate) fn own_splits(&self, id: VertexId) -> Splits {
        let state = self.state();
        let own = state.splits.get(&id).map(|s| s.splits().clone());
        own.unwrap_or_default()
    }

    /// The edges that a vertex has here, by partition.
    fn counted(&self, tree: Tree, id: VertexId, known: &Splits) -> Result<Growth> {
        let mut growth = Growth::new(self.settings.threshold);
        growth.learn(known);
        let source = self.end(id);
        self.engine.edge_rows(id, &mut |(key, table, _, _), _| {
            if table == Table::History {
                return Flow::Break(());
            }
            let goal = self.placement.goal(source, self.end(key.destination));
            growth.insert(tree, goal);
            Flow::Continue(())
        })?;
        Ok(growth)
    }

    /// A split that is due, of the partitions that lie here.
    fn due(&self, tree: Tree, id: VertexId, growth: &Growth) -> Option<Split> {
        let here = growth.splits().iter();
        let mut here = here.filter(|p| self.server_of(id, *p) == self.settings.id);
        here.find_map(|p| growth.due(tree, p))
    }

    /// All due splits between partitions that lie here: nothing moves.
    fn split_here(&self, tree: Tree, id: VertexId, mut growth: Growth) -> Result<()> {
        let source = self.end(id);
        let mut goals = Vec::new();
        self.engine.edge_rows(id, &mut |(key, table, _, _), _| {
            if table == Table::History {
                return Flow::Break(());
            }
            goals.push(self.placement.goal(source, self.end(key.destination)));
            Flow::Continue(())
        })?;
        while let Some(split) = self.due(tree, id, &growth) {
            if self.server_of(id, split.to) != self.settings.id {
                break;
            }
            let in_it = |goal: &&_| tree.locate(growth.splits(), **goal) == split.from;
            let moved = goals.iter().filter(in_it);
            let moved = moved.filter(|goal| split.moves(tree, **goal)).count();
            growth.commit(&split, moved as u64);
        }
        let _writing = self.writing_splits();
        let splits = self.split_state(tree, growth.splits().clone())?;
        let splits = self.with_stored(id, splits);
        let mut beside = Beside::default();
        beside
            .rows
            .push((Table::Meta, split_key(id), Some(splits.encode())));
        let version = self.clock.tick(self.time.now_millis());
        self.engine
            .apply_part(version, &[], esker_engine::Absent::Refuse, beside)?;
        // Others learn of it from what they read here.
        self.harden()?;
        self.state().set_splits(id, splits);
        Ok(())
    }

    /// A split whose new partition lies on another server.
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
        let mut beside = Beside::default();
        let mut rows = Vec::new();
        let mut degrees = BTreeMap::<EdgeTypeId, u64>::new();
        let mut bytes = 0;
        self.engine
            .edge_rows(id, &mut |(key, table, raw, value), now| {
                let goal = self.placement.goal(source, self.end(key.destination));
                if tree.locate(&before, goal) != split.from || !split.moves(tree, goal) {
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
                beside.rows.push((table, raw.to_vec(), None));
                beside.touched.push((id, key.edge_type));
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
        beside.touched.dedup();
        for (edge_type, degree) in &degrees {
            let change = -i64::try_from(*degree).unwrap_or(i64::MAX);
            beside
                .counters
                .push((Counter::Degree(id, *edge_type), change));
            beside.counters.push((Counter::Edges(*edge_type), change));
        }
        let adopt = Adopt {
            vertex: id,
            splits: state.encode(),
            rows,
            table: None,
            degrees: degrees.into_iter().collect(),
        };
        // From here on who reads its edges waits to learn where they are; see `State::deciding`.
        let moved = self
            .move_partition(to, adoption(adopt), beside, (id, state))
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

/// A vertex, or a directory, that splits; nothing is prepared on its edges or entries meanwhile.
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
