//! What was published lately: an answer to a request that was sent before the change must not be believed.

use crate::entry::{Change, Happened, Request, Wants};
use crate::path::{PathId, Paths};
use crate::queue::Run;
use crate::recent::Recent;

/// Changes that are remembered one by one.
const REMEMBERED: usize = 1 << 16;

/// The last run before a change, of each sort; zero if there was none.
#[derive(Debug, Clone, Copy, Default)]
struct Noted {
    itself: u64,
    /// Of what stands right below it.
    below: u64,
    /// Of it and all below it.
    tree: u64,
}

/// Changes by path.
#[derive(Debug)]
pub(super) struct Log {
    noted: Recent<PathId, Noted>,
    /// Requests sent before the last change may be touched by it.
    last: u64,
    /// Requests sent before a change that is not remembered any more are taken to be touched by it.
    floor: u64,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            noted: Recent::new(REMEMBERED),
            last: 0,
            floor: 0,
        }
    }

    fn at(&mut self, path: PathId) -> &mut Noted {
        let (noted, gone) = self.noted.get_or_put(path, Noted::default);
        if let Some((_, gone)) = gone {
            self.floor = self.floor.max(gone.itself.max(gone.below).max(gone.tree));
        }
        noted
    }

    /// A change; requests were sent up to that run.
    pub(super) fn note(&mut self, change: &Change, until: Run, paths: &Paths) {
        self.last = until.0;
        match change.happened {
            Happened::Changed(_) => self.at(change.path).itself = until.0,
            Happened::Deleted | Happened::Forgotten | Happened::Doubted => {
                self.at(change.path).tree = until.0;
            }
        }
        if let Some(parent) = paths.parent(change.path) {
            self.at(parent).below = until.0;
        }
    }

    /// Whether what a request that was sent then has read may have changed since.
    pub(super) fn touched(&self, request: Request, sent: Run, paths: &Paths) -> bool {
        if sent.0 >= self.last {
            return false;
        }
        if sent.0 < self.floor {
            return true;
        }
        let of = |path: PathId| self.noted.peek(path).copied().unwrap_or_default();
        let own = of(request.path);
        own.itself > sent.0
            || (request.wants == Wants::List && own.below > sent.0)
            || paths.upwards(request.path).any(|p| of(p).tree > sent.0)
    }

    pub(super) fn held(&self, mark: &mut dyn FnMut(PathId)) {
        self.noted.keys().for_each(mark);
    }
}
