//! Changes on their way in: of one caller or of many, sent once or again.

use super::again;
use crate::Engine;
use crate::txn::{Senders, Writer, lock_soon, parse_marker, repeat};
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::namespace::{Change, Changes, Done};
use esker_model::object::Asker;
use esker_model::once::Numbered;
use esker_model::{Error, Result};

/// What became of each change of a caller.
pub(crate) type Outcomes = Vec<Result<Done>>;

/// Changes of one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Set<'a> {
    pub(crate) asker: Option<&'a Asker>,
    pub(crate) changes: &'a [Change],
    pub(crate) once: Option<&'a [u8]>,
}

impl Set<'_> {
    /// Whether a subtree comes in.
    fn merges(&self) -> bool {
        self.changes.iter().any(|c| matches!(c, Change::Merge(_)))
    }
}

impl<'a> From<&'a Changes> for Set<'a> {
    fn from(changes: &'a Changes) -> Self {
        Self {
            asker: changes.asker.as_ref(),
            changes: &changes.changes,
            once: changes.once.as_deref(),
        }
    }
}

/// Whether changes are to be made.
pub(super) enum Admitted {
    /// Yes; and that is to be noted, if they are numbered.
    Now(Option<Numbered>),
    /// They were made before, and this became of them.
    Before(Outcomes),
}

fn lost() -> Error {
    Error::Unavailable("the changes were lost on their way to the store; try again".into())
}

impl Engine {
    /// Applies changes one after the other, each whole or not at all; those that succeed are one commit.
    pub(crate) fn change_names(
        &self,
        asker: Option<&Asker>,
        changes: &[Change],
    ) -> Result<Outcomes> {
        let set = Set {
            asker,
            changes,
            once: None,
        };
        self.change_one(&mut lock_soon(&self.writer), set)
    }

    fn change_one(&self, writer: &mut Writer, set: Set<'_>) -> Result<Outcomes> {
        let mut all = self.change_holding(writer, std::slice::from_ref(&set))?;
        all.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Applies changes that may have come before: then they are not made again, and answered as they were.
    pub fn change_once(&self, changes: &Changes) -> Result<Vec<Result<Done>>> {
        self.change_one(&mut lock_soon(&self.writer), changes.into())
    }

    /// The same if nobody writes just now; `None` otherwise. For callers that must not wait for others.
    pub fn change_now(&self, changes: &Changes) -> Option<Result<Vec<Result<Done>>>> {
        let mut writer = self.writer.try_lock().ok()?;
        // Who stands in the queue was there first.
        (self.waiting() == 0).then(|| self.change_one(&mut writer, changes.into()))
    }

    /// Applies what several callers want in one commit. The answers are in their order.
    pub fn change_together(&self, all: &[Changes]) -> Vec<Result<Vec<Result<Done>>>> {
        let sets: Vec<Set<'_>> = all.iter().map(Set::from).collect();
        let mut writer = lock_soon(&self.writer);
        if sets.len() > 1 && sets.iter().any(Set::merges) {
            // The rows of a subtree are in their table before its commit: no other change is part of that.
            let each = sets
                .into_iter()
                .map(|set| self.change_one(&mut writer, set));
            return each.collect();
        }
        let done = self.change_holding(&mut writer, &sets);
        if let Err(Error::Promised { .. }) = done
            && sets.len() > 1
        {
            // Only those wait that it is about.
            let each = sets
                .into_iter()
                .map(|set| self.change_one(&mut writer, set));
            return each.collect();
        }
        done.unwrap_or_else(|e| all.iter().map(|_| Err(repeat(&e))).collect())
    }

    /// Whether changes are to be made now.
    pub(super) fn admit_set(
        &self,
        set: &Set<'_>,
        senders: &mut Senders,
        now_millis: u64,
    ) -> Result<Admitted> {
        if set.changes.len() > BATCH_MUTATIONS_MAX {
            return Err(Error::Limit {
                what: "a number of changes".into(),
                got: set.changes.len() as u64,
                limit: BATCH_MUTATIONS_MAX as u64,
            });
        }
        if set.changes.len() > 1 && set.merges() {
            return Err(Error::Invalid(
                "a subtree was sent with other changes: expected it alone in its call".into(),
            ));
        }
        let Some(marker) = set.once else {
            return Ok(Admitted::Now(None));
        };
        let Some(numbered) = parse_marker(marker)? else {
            return Err(Error::Invalid(
                "changes of files were sent with a marker of a caller's own: expected that of a sender that numbers them"
                    .into(),
            ));
        };
        if senders.admit(&*self.store, &numbered, now_millis)? {
            return Ok(Admitted::Now(Some(numbered)));
        }
        let kept = senders.answer(&*self.store, &numbered)?;
        let now = |path: &_| (!self.names.is_spread()).then(|| self.id_now(path))?;
        let outcomes = again::decode(kept.as_deref(), set.changes, &now)?;
        Ok(Admitted::Before(outcomes))
    }
}
