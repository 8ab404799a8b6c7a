//! Recent changes: an answer to a request that was sent before a change must not be cached.

use crate::entry::{Change, ChangeKind, Request, Wants};
use crate::path::{PathId, Paths};
use crate::queue::Run;
use crate::recent::Recent;

/// Maximum number of changes kept individually.
const CHANGES_MAX: usize = 1 << 16;

/// Last run before a change, by scope of the change; zero if there was none.
#[derive(Debug, Clone, Copy, Default)]
struct LastChanges {
    itself: u64,
    /// For a change of a child.
    below: u64,
    /// For a change of the subtree.
    tree: u64,
}

/// Recent changes by path.
#[derive(Debug)]
pub(super) struct ChangeLog {
    changes: Recent<PathId, LastChanges>,
    /// Requests sent before this run may conflict with the last change.
    last: u64,
    /// Requests sent before this run may conflict with an evicted change and count as conflicting.
    floor: u64,
}

impl ChangeLog {
    pub(super) fn new() -> Self {
        Self {
            changes: Recent::new(CHANGES_MAX),
            last: 0,
            floor: 0,
        }
    }

    fn at(&mut self, path: PathId) -> &mut LastChanges {
        let (changes, evicted) = self.changes.get_or_put(path, LastChanges::default);
        if let Some((_, evicted)) = evicted {
            self.floor = self
                .floor
                .max(evicted.itself.max(evicted.below).max(evicted.tree));
        }
        changes
    }

    /// Records a change; requests up to run `until` were sent before it.
    pub(super) fn note(&mut self, change: &Change, until: Run, paths: &Paths) {
        self.last = until.0;
        match change.kind {
            ChangeKind::Changed(_) => self.at(change.path).itself = until.0,
            ChangeKind::Deleted | ChangeKind::Unsubscribed | ChangeKind::Invalidated => {
                self.at(change.path).tree = until.0;
            }
        }
        if let Some(parent) = paths.parent(change.path) {
            self.at(parent).below = until.0;
        }
    }

    /// Whether the data that a request read may have changed since it was sent as run `sent`.
    pub(super) fn conflicts(&self, request: Request, sent: Run, paths: &Paths) -> bool {
        if sent.0 >= self.last {
            return false;
        }
        if sent.0 < self.floor {
            return true;
        }
        let of = |path: PathId| self.changes.peek(path).copied().unwrap_or_default();
        let own = of(request.path);
        own.itself > sent.0
            || (request.wants == Wants::List && own.below > sent.0)
            || paths.upwards(request.path).any(|p| of(p).tree > sent.0)
    }

    pub(super) fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        self.changes.keys().for_each(mark);
    }
}
