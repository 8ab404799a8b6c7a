//! Parts that wait for their commit.

use super::hashed::Map;
use crate::peer::{Change, Part, PartOp};
use esker_engine::{Absent, PartChange, PartCommit, SideWrites};
use esker_model::{Commit, Result, Version};
use esker_store::Table;
use futures_channel::oneshot;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A part of a decided transaction, to be committed at its version.
pub(super) struct DecidedPart {
    pub(super) part: Arc<Part>,
    pub(super) version: Version,
    /// Later versions of some changes, by index.
    pub(super) later: Vec<(u32, Version)>,
    /// Rows of this server, committed with the part.
    pub(super) side_writes: SideWrites,
    /// Whether other servers learn of the commit: then an ephemeral store must have it in a checkpoint first.
    pub(super) published: bool,
}

impl DecidedPart {
    /// Converts `part`, which is the decided one, to the engine's form.
    pub(super) fn commit<'a>(part: &'a Part, decided: &mut Self) -> PartCommit<'a> {
        let side_writes = &mut decided.side_writes;
        for op in &part.ops {
            if let Change::Names(names) = &op.change {
                let rows = names.rows.iter();
                let rows = rows.map(|row| (Table::Names, row.key.clone(), row.value.clone()));
                side_writes.rows.extend(rows);
                side_writes.counters.extend(names.counters.iter().copied());
                side_writes.moves_paths |= names.structure;
            }
        }
        let later: Map<u32, Version> = decided.later.iter().copied().collect();
        let version = decided.version;
        let at = |op: &PartOp| {
            let own = later.get(&op.index).copied().unwrap_or(version);
            op.at.unwrap_or(own.max(version))
        };
        PartCommit {
            version,
            ops: part_ops(part, Some(&at)),
            absent: Absent::PassOver,
            side_writes: std::mem::take(side_writes),
        }
    }
}

/// A part that waits for its commit, and the way to its answer.
pub(super) type WaitingPart = (DecidedPart, oneshot::Sender<Result<Commit>>);

/// Parts that wait for the commit in progress to end.
#[derive(Default)]
pub(super) struct CommitQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    parts: Vec<WaitingPart>,
    committing: bool,
}

impl CommitQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a part; returns whether the caller must start the commits.
    pub(super) fn add(&self, part: WaitingPart) -> bool {
        let mut state = self.state();
        state.parts.push(part);
        !std::mem::replace(&mut state.committing, true)
    }

    /// Ends the commits in progress without an answer, after a panic: later parts begin new ones.
    pub(super) fn abandon(&self) {
        let mut state = self.state();
        state.committing = false;
        state.parts.clear();
    }

    /// Takes all waiting parts; `None` if no part waits, so that the commits have ended.
    pub(super) fn take(&self) -> Option<Vec<WaitingPart>> {
        let mut state = self.state();
        state.committing = !state.parts.is_empty();
        state.committing.then(|| std::mem::take(&mut state.parts))
    }
}

/// Converts a part to the engine's form; `at` returns the version of each change.
pub(super) fn part_ops<'a>(
    part: &'a Part,
    at: Option<&dyn Fn(&PartOp) -> Version>,
) -> Vec<esker_engine::PartOp<'a>> {
    let op = |op: &'a PartOp| {
        let change = match &op.change {
            Change::Vertex(change) => PartChange::Vertex(change),
            Change::Edge {
                key,
                deleted,
                properties,
                requested,
            } => PartChange::Edge {
                key: *key,
                deleted: *deleted,
                properties,
                requested: *requested,
            },
            Change::Claim { identity, object } => PartChange::Claim {
                identity,
                object: *object,
            },
            Change::Release { identity, object } => PartChange::Release {
                identity,
                object: *object,
            },
            Change::Adopt(_) | Change::Names(_) => return None,
        };
        Some(esker_engine::PartOp {
            at: at.map_or(op.at, |at| Some(at(op))),
            change,
        })
    };
    part.ops.iter().filter_map(op).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64) -> WaitingPart {
        let (answer, _) = oneshot::channel();
        let decided = DecidedPart {
            part: Arc::default(),
            version: Version(number),
            later: Vec::new(),
            side_writes: SideWrites::default(),
            published: false,
        };
        (decided, answer)
    }

    #[test]
    fn parts_that_arrive_during_a_commit_form_the_next_group() {
        let queue = CommitQueue::default();
        let taken = |queue: &CommitQueue| {
            let group = queue.take()?;
            Some(group.iter().map(|(d, _)| d.version.0).collect::<Vec<_>>())
        };
        assert!(queue.add(part(1)), "the first one starts the commits");
        assert_eq!(taken(&queue), Some(vec![1]));
        assert!(!queue.add(part(2)) && !queue.add(part(3)));
        assert_eq!(taken(&queue), Some(vec![2, 3]));
        assert_eq!(taken(&queue), None);
        assert!(queue.add(part(4)), "the commits had ended");
    }

    #[test]
    fn parts_that_wait_get_an_error_after_a_panic() {
        let queue = CommitQueue::default();
        let (answer, mut answered) = oneshot::channel();
        assert!(queue.add(part(1)));
        assert!(queue.take().is_some());
        assert!(!queue.add((part(2).0, answer)));
        queue.abandon();
        assert!(answered.try_recv().is_err(), "nobody will answer");
        assert!(queue.add(part(3)), "it begins new commits");
    }
}
