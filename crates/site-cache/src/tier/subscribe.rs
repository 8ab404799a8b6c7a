//! Which tiers fetched what, so that they are told of changes. Kept by directory: whoever fetched a path is told of all that
//! happens in its directory, and whoever listed a directory of all in there.

use crate::entry::{Change, Happened, Request, Wants};
use crate::path::{PathId, Paths};
use crate::recent::Recent;

/// Tiers: mostly one.
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

/// Subscribers by directory, so many directories at most.
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

    /// A tier fetches something. Which directory is forgotten for that, and who is to be told so.
    pub(super) fn add(
        &mut self,
        tier: u32,
        request: Request,
        paths: &Paths,
        forgotten: &mut Option<(PathId, Subscribers)>,
    ) {
        // A root has no directory above it: what happens to it is noted with itself.
        let directory = match request.wants {
            Wants::List => request.path,
            Wants::Stat => paths.parent(request.path).unwrap_or(request.path),
        };
        let (tiers, gone) = self
            .by_directory
            .get_or_put(directory, Subscribers::default);
        tiers.add(tier);
        *forgotten = gone;
    }

    /// Who is to be told of a change. Who is told that something is forgotten does not hold it any more.
    pub(super) fn concerned(
        &mut self,
        change: &Change,
        paths: &Paths,
        forgotten: &mut Option<(PathId, Subscribers)>,
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
        match change.happened {
            Happened::Changed(_) => all(self.by_directory.peek(change.path)),
            // Who is told that all of it is gone must hear of it again when it comes back.
            Happened::Deleted | Happened::Doubted => {
                for path in paths.subtree(change.path) {
                    all(self.by_directory.peek(path));
                }
            }
            Happened::Forgotten => {
                for path in paths.subtree(change.path) {
                    all(self.by_directory.remove(path).as_ref());
                }
            }
        }
        if change.happened == Happened::Deleted && !tiers.is_empty() {
            // Whoever is told keeps that it is gone, and must hear when it is there again.
            let directory = paths.parent(change.path).unwrap_or(change.path);
            let (known, gone) = self
                .by_directory
                .get_or_put(directory, Subscribers::default);
            tiers.iter().for_each(|tier| known.add(*tier));
            *forgotten = gone;
        }
        tiers
    }

    /// Who is told of what happens in a directory.
    pub(super) fn of(&self, directory: PathId) -> Vec<u32> {
        let tiers = self.by_directory.peek(directory);
        tiers.into_iter().flat_map(Subscribers::iter).collect()
    }

    /// A tier is gone.
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

    pub(super) fn held(&self, mark: &mut dyn FnMut(PathId)) {
        self.by_directory.keys().for_each(mark);
    }
}
