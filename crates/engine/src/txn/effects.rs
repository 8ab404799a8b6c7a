//! Effects of changes apart from their rows.

use crate::counts::Changes;
use crate::object::BulkTag;
use esker_model::{EdgeTypeId, Version, VertexId};

/// Origin of the changes of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitKind {
    /// Changes that this engine decides alone: the commit is refused while a row of it is leased.
    Local,
    /// Changes that were decided by several engines: the host has waited for leases before the decision, which cannot be
    /// refused any more.
    Decided,
}

/// Effects of changes, apart from the rows in the overlay.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) changes: Changes,
    /// Adjacency lists that are no longer valid.
    pub(crate) touched: Vec<(VertexId, EdgeTypeId)>,
    /// Vertices that the changes delete.
    pub(crate) deleted: Vec<VertexId>,
    /// Whether paths of several files may have changed, so that no directory in memory is current.
    pub(crate) moves_paths: bool,
    /// Whether rows are written that are not in the commit, so that the change feed cannot list them.
    pub(crate) bypasses_feed: bool,
    /// Tags set on many objects at once.
    pub(crate) tags: Vec<BulkTag>,
    pub(crate) vertices_created: u64,
    pub(crate) edges_created: u64,
    pub(crate) unchanged: u64,
    /// The newest version assigned to any change.
    pub(crate) newest: MaxVersion,
    /// The newest version assigned to a change that did not specify one.
    pub(crate) max_assigned: MaxVersion,
    /// The oldest version that a change specified.
    pub(crate) min_explicit: Option<Version>,
}

/// A maximum of versions; zero by default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxVersion(pub(crate) Version);

impl Default for MaxVersion {
    fn default() -> Self {
        Self(Version::ZERO)
    }
}

impl Effects {
    /// Adds the effects of one more change to those of a group. The counts of its answer are not summed.
    pub(crate) fn absorb(&mut self, other: Self) {
        if self.changes.is_empty() {
            self.changes = other.changes;
        } else {
            self.changes.extend(&other.changes);
        }
        self.touched.extend(other.touched);
        self.deleted.extend(other.deleted);
        self.tags.extend(other.tags);
        self.moves_paths |= other.moves_paths;
        self.bypasses_feed |= other.bypasses_feed;
        self.newest = MaxVersion(self.newest.0.max(other.newest.0));
        self.min_explicit = self
            .min_explicit
            .into_iter()
            .chain(other.min_explicit)
            .min();
    }

    /// Whether the change feed can list what the changes touched.
    pub(crate) fn are_listed(&self) -> bool {
        !self.moves_paths && !self.bypasses_feed && self.tags.is_empty()
    }
}
