//! Participants of a commit: the structures in memory that must change with the rows in the store.

use crate::object::NewObjects;
use crate::txn::{CommitKind, Effects};
use esker_model::{Result, Version};
use esker_store::{Write, WriteBatch};

/// A commit on its way to the store.
pub(crate) struct PendingCommit {
    /// Number of the commit, later than those of all commits before it.
    pub(crate) version: Version,
    pub(crate) kind: CommitKind,
    /// Rows for the store, without those of `names`. Empty once the store has them.
    pub(crate) batch: WriteBatch,
    /// Rows of `names`, for the memtable.
    pub(crate) files: Option<WriteBatch>,
    pub(crate) new_objects: NewObjects,
    pub(crate) effects: Effects,
}

impl PendingCommit {
    /// All rows before the commit, without new objects: those of `names` first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Write<'_>> {
        let files = self.files.iter().flat_map(WriteBatch::iter);
        files.chain(self.batch.iter())
    }

    /// Whether the commit has a pending row: changes of counters, or rows of `names`.
    pub(crate) fn has_pending_row(&self) -> bool {
        !self.effects.changes.is_empty() || self.files.is_some()
    }
}

/// A structure beside the store, for one commit.
///
/// [`Self::prepare`] is called before the store's commit, in the order of the participants. Then those that were prepared
/// are called in the reverse order: [`Self::committed`] if the store has the commit, or else [`Self::aborted`].
pub(crate) trait CommitParticipant {
    /// Prepares for the commit, and may add rows to it. An error refuses the commit; it leaves nothing to undo here.
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()>;

    /// Ends a commit that is in the store.
    fn committed(&mut self, commit: &PendingCommit);

    /// Ends a commit that the store or a later participant refused. The store may have it nevertheless.
    fn aborted(&mut self, commit: &PendingCommit);
}

impl CommitParticipant for Option<Box<dyn CommitParticipant + '_>> {
    fn prepare(&mut self, commit: &mut PendingCommit) -> Result<()> {
        self.as_mut().map_or(Ok(()), |one| one.prepare(commit))
    }

    fn committed(&mut self, commit: &PendingCommit) {
        if let Some(one) = self {
            one.committed(commit);
        }
    }

    fn aborted(&mut self, commit: &PendingCommit) {
        if let Some(one) = self {
            one.aborted(commit);
        }
    }
}
