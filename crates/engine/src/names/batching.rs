//! Entry points for changes of the namespace, of one caller or several, sent once or repeatedly.

use super::dedup;
use super::source::{LocalOutcome, RowSource};
use crate::Engine;
use crate::txn::{Producers, Writer, clone_error, lock_spinning, parse_idempotency_key};
use esker_model::idempotency::ProducerKey;
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::namespace::{AppliedChange, Change, Changes};
use esker_model::object::Principal;
use esker_model::{Error, Result};

/// Outcome of each change of a caller.
pub(crate) type Outcomes = Vec<Result<AppliedChange>>;

/// Changes of one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeSet<'a> {
    pub(crate) principal: Option<&'a Principal>,
    pub(crate) changes: &'a [Change],
    pub(crate) idempotency_key: Option<&'a [u8]>,
}

impl ChangeSet<'_> {
    /// Whether the set merges a subtree.
    fn has_subtree(&self) -> bool {
        self.changes.iter().any(|c| matches!(c, Change::Merge(_)))
    }
}

impl<'a> From<&'a Changes> for ChangeSet<'a> {
    fn from(changes: &'a Changes) -> Self {
        Self {
            principal: changes.principal.as_ref(),
            changes: &changes.changes,
            idempotency_key: changes.idempotency_key.as_deref(),
        }
    }
}

/// Whether a set of changes must be applied.
pub(super) enum SetStatus {
    /// New set; numbered ones must be recorded.
    New(Option<ProducerKey>),
    /// The set was applied before, with these outcomes.
    Applied(Outcomes),
}

fn lost_changes() -> Error {
    Error::Undecided("the changes were lost on their way to the store; try again".into())
}

impl Engine {
    /// Applies changes in order, each atomically; those that succeed form one commit.
    pub(crate) fn change_names(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Outcomes> {
        let set = ChangeSet {
            principal,
            changes,
            idempotency_key: None,
        };
        self.change_whole(&mut lock_spinning(&self.writer), set)
    }

    /// Applies the changes of one caller.
    pub(super) fn change_one(
        &self,
        writer: &mut Writer,
        set: ChangeSet<'_>,
        partial: Option<&dyn RowSource>,
    ) -> Result<LocalOutcome> {
        let mut all = self.change_names_locked(writer, std::slice::from_ref(&set), partial)?;
        all.pop().unwrap_or_else(|| Err(lost_changes()))
    }

    fn change_whole(&self, writer: &mut Writer, set: ChangeSet<'_>) -> Result<Outcomes> {
        Ok(self.change_one(writer, set, None)?.answers)
    }

    /// Applies changes idempotently: a repeated set is not applied again, and gets the first response.
    pub fn change_once(&self, changes: &Changes) -> Result<Vec<Result<AppliedChange>>> {
        self.change_whole(&mut lock_spinning(&self.writer), changes.into())
    }

    /// Applies changes idempotently if the write lock is free; `None` otherwise. For callers that must not block.
    pub fn try_change(&self, changes: &Changes) -> Option<Result<Vec<Result<AppliedChange>>>> {
        let mut writer = self.writer.try_lock().ok()?;
        // Queued batches take precedence.
        (self.queued_batches() == 0).then(|| self.change_whole(&mut writer, changes.into()))
    }

    /// Applies the changes of several callers in one commit. The results are in the order of the callers.
    pub fn change_all(&self, all: &[Changes]) -> Vec<Result<Vec<Result<AppliedChange>>>> {
        let sets: Vec<ChangeSet<'_>> = all.iter().map(ChangeSet::from).collect();
        let mut writer = lock_spinning(&self.writer);
        if sets.len() > 1 && sets.iter().any(ChangeSet::has_subtree) {
            // The rows of a subtree are bulk-loaded before its commit, which must contain no other change.
            let each = sets
                .into_iter()
                .map(|set| self.change_whole(&mut writer, set));
            return each.collect();
        }
        let done = self.change_names_locked(&mut writer, &sets, None);
        if let Err(Error::Leased { .. }) = done
            && sets.len() > 1
        {
            // Only the sets that touch leased rows must wait.
            let each = sets
                .into_iter()
                .map(|set| self.change_whole(&mut writer, set));
            return each.collect();
        }
        match done {
            Ok(done) => done.into_iter().map(|d| d.map(|d| d.answers)).collect(),
            Err(e) => all.iter().map(|_| Err(clone_error(&e))).collect(),
        }
    }

    /// Looks up the idempotency key of a set; decides whether the set must be applied.
    pub(super) fn admit_set(
        &self,
        set: &ChangeSet<'_>,
        producers: &mut Producers,
        now_millis: u64,
    ) -> Result<SetStatus> {
        if set.changes.len() > BATCH_MUTATIONS_MAX {
            return Err(Error::Limit {
                what: "a number of changes".into(),
                got: set.changes.len() as u64,
                limit: BATCH_MUTATIONS_MAX as u64,
            });
        }
        if set.changes.len() > 1 && set.has_subtree() {
            return Err(Error::Invalid(
                "a subtree was sent with other changes: expected it as the only change of its call"
                    .into(),
            ));
        }
        let Some(idempotency_key) = set.idempotency_key else {
            return Ok(SetStatus::New(None));
        };
        let Some(numbered) = parse_idempotency_key(idempotency_key)? else {
            return Err(Error::Invalid(
                "changes of files were sent with a caller's own idempotency key: expected that of a producer that numbers its batches"
                    .into(),
            ));
        };
        if producers.admit(&*self.store, &numbered, now_millis)? {
            return Ok(SetStatus::New(Some(numbered)));
        }
        let kept = producers.answer(&*self.store, &numbered)?;
        let now = |path: &_| (!self.names.is_distributed()).then(|| self.id_now(path))?;
        let outcomes = dedup::decode(kept.as_deref(), set.changes, &now)?;
        Ok(SetStatus::Applied(outcomes))
    }
}
