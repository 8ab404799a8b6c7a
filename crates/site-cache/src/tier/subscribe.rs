//! Subscriptions of downstream tiers to changes, by directory: a tier that fetched a path is notified of all changes in its
//! directory, and a tier that listed a directory of all changes in it.

use crate::entry::{Change, ChangeKind, Request, Wants};
use crate::path::{PathId, Paths};
use crate::recent::Recent;

/// Set of tiers: mostly one.
#[derive(Debug, Clone, Default)]
pub(super) struct Subscribers {
    first: Option<u32>,
    more: Vec<u32>,
}

impl Subscribers {
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.first.iter().chain(&self.more).copied()
    }

    fn add(&mut self, tier: u32) {
        if self.first.is_none() {
            self.first = Some(tier);
        } else if self.iter().all(|t| t != tier) {
            self.more.push(tier);
        }
    }

    fn remove(&mut self, tier: u32) {
        self.more.retain(|t| *t != tier);
        if self.first == Some(tier) {
            self.first = self.more.pop();
        }
    }
}

/// Subscribers by directory, for a bounded number of directories.
#[derive(Debug)]
pub(super) struct Subscriptions {
    by_directory: Recent<PathId, Subscribers>,
}

impl Subscriptions {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            by_directory: Recent::new(limit),
        }
    }

    /// Subscribes a tier to the directory of a request. `unsubscribed` receives the directory evicted for it; its tiers must be notified.
    pub(super) fn add(
        &mut self,
        tier: u32,
        request: Request,
        paths: &Paths,
        unsubscribed: &mut Option<(PathId, Subscribers)>,
    ) {
        // A root has no parent directory: its changes are kept under itself.
        let directory = match request.wants {
            Wants::List => request.path,
            Wants::Stat => paths.parent(request.path).unwrap_or(request.path),
        };
        let (tiers, evicted) = self
            .by_directory
            .get_or_put(directory, Subscribers::default);
        tiers.add(tier);
        *unsubscribed = evicted;
    }

    /// Returns the tiers to notify of a change. A tier that is notified of `Forgotten` loses its subscription.
    pub(super) fn subscribers_of(
        &mut self,
        change: &Change,
        paths: &Paths,
        unsubscribed: &mut Option<(PathId, Subscribers)>,
    ) -> Vec<u32> {
        let mut tiers = Vec::new();
        let mut all = |more: Option<&Subscribers>| {
            for tier in more.into_iter().flat_map(Subscribers::iter) {
                if !tiers.contains(&tier) {
                    tiers.push(tier);
                }
            }
        };
        if let Some(parent) = paths.parent(change.path) {
            all(self.by_directory.peek(parent));
        }
        match change.kind {
            ChangeKind::Changed(_) => all(self.by_directory.peek(change.path)),
            // Subscribers below the deleted path must be notified when it is created again.
            ChangeKind::Deleted | ChangeKind::Invalidated => {
                for path in paths.subtree(change.path) {
                    all(self.by_directory.peek(path));
                }
            }
            ChangeKind::Unsubscribed => {
                for path in paths.subtree(change.path) {
                    all(self.by_directory.remove(path).as_ref());
                }
            }
        }
        if change.kind == ChangeKind::Deleted && !tiers.is_empty() {
            // Notified tiers cache the absence, and must be notified when the path exists again.
            let directory = paths.parent(change.path).unwrap_or(change.path);
            let (known, evicted) = self
                .by_directory
                .get_or_put(directory, Subscribers::default);
            tiers.iter().for_each(|tier| known.add(*tier));
            *unsubscribed = evicted;
        }
        tiers
    }

    /// Returns the subscribers of a directory.
    pub(super) fn subscribers(&self, directory: PathId) -> Vec<u32> {
        let tiers = self.by_directory.peek(directory);
        tiers.into_iter().flat_map(Subscribers::iter).collect()
    }

    /// Removes a tier from all directories.
    pub(super) fn drop_tier(&mut self, tier: u32) {
        let directories: Vec<PathId> = self.by_directory.keys().collect();
        for directory in directories {
            if let Some(tiers) = self.by_directory.get(directory) {
                tiers.remove(tier);
                if tiers.first.is_none() {
                    self.by_directory.remove(directory);
                }
            }
        }
    }

    pub(super) fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        self.by_directory.keys().for_each(mark);
    }
}
