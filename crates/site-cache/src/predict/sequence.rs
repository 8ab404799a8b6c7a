//! Successor prediction for [`super::Guarded`]: requests after requests and directories after directories, by client.

use super::{Access, CacheView, Outcome, PrefetchRequest};
use crate::entry::Request;
use crate::path::PathId;
use crate::recent::Recent;

/// Maximum number of requests and of directories with known successors.
const ENTRIES_MAX: usize = 1 << 17;
const CLIENTS_MAX: usize = 1 << 12;
/// Minimum votes of a successor to be prefetched.
const VOTES_MIN: u16 = 2;
/// Maximum length of a prefetched chain of successors.
const CHAIN_MAX: usize = 4;
/// Maximum number of guesses whose outcome is awaited.
const GUESSES_MAX: usize = 1 << 14;

/// Usual successor of a request or directory, determined by a majority vote.
#[derive(Debug, Clone, Copy)]
struct Follower<T> {
    next: T,
    votes: u16,
}

impl<T: PartialEq> Follower<T> {
    fn vote(&mut self, next: T) {
        if self.next == next {
            self.votes = self.votes.saturating_add(1);
        } else if self.votes <= 1 {
            *self = Self { next, votes: 1 };
        } else {
            self.votes -= 1;
        }
    }
}

#[derive(Debug)]
pub(super) struct Sequences {
    requests: Recent<Request, Follower<Request>>,
    directories: Recent<PathId, Follower<PathId>>,
    last: Recent<u32, Request>,
    guesses: Recent<Request, ()>,
    used: u32,
    wasted: u32,
}

impl Sequences {
    pub(super) fn new() -> Self {
        Self {
            requests: Recent::new(ENTRIES_MAX),
            directories: Recent::new(ENTRIES_MAX),
            last: Recent::new(CLIENTS_MAX),
            guesses: Recent::new(GUESSES_MAX),
            used: 0,
            wasted: 0,
        }
    }

    pub(super) fn learn(&mut self, access: Access, view: &dyn CacheView) {
        let now = access.request;
        let Some(before) = self.last.get(access.client) else {
            self.last.put(access.client, now);
            return;
        };
        let before = std::mem::replace(before, now);
        if before == now {
            return;
        }
        vote(&mut self.requests, before, now);
        let paths = view.paths();
        if let (Some(left), Some(entered)) = (paths.parent(before.path), paths.parent(now.path))
            && left != entered
        {
            vote(&mut self.directories, left, entered);
        }
    }

    /// Appends prefetches of the usual successors, as long as such guesses pay.
    pub(super) fn predict(
        &mut self,
        access: Access,
        view: &dyn CacheView,
        prefetches: &mut Vec<PrefetchRequest>,
    ) {
        if self.wasted > 32 + self.used {
            // An occasional guess tests whether they pay again.
            self.wasted -= 1;
            return;
        }
        let mut at = access.request;
        for _ in 0..CHAIN_MAX {
            let Some(follower) = self.requests.peek(at).copied() else {
                break;
            };
            if follower.votes < VOTES_MIN {
                break;
            }
            at = follower.next;
            if !view.answers(at) {
                self.guess(at, 5, prefetches);
            }
        }
        if access.outcome != Outcome::Hit
            && let Some(left) = view.paths().parent(access.request.path)
            && let Some(follower) = self.directories.peek(left).copied()
            && follower.votes >= VOTES_MIN
        {
            let listing = Request::list(follower.next);
            if !view.answers(listing) {
                self.guess(listing, 4, prefetches);
            }
        }
    }

    fn guess(&mut self, request: Request, priority: u8, prefetches: &mut Vec<PrefetchRequest>) {
        self.guesses.put(request, ());
        prefetches.push(PrefetchRequest { request, priority });
    }

    /// Records the outcome of a guess; returns whether there was one for this path.
    pub(super) fn record_outcome(&mut self, path: PathId, used: bool) -> bool {
        let mine = [Request::stat(path), Request::list(path)]
            .into_iter()
            .any(|r| self.guesses.remove(r).is_some());
        if mine {
            if used {
                self.used += 1;
            } else {
                self.wasted += 1;
            }
            if self.used + self.wasted > 512 {
                (self.used, self.wasted) = (self.used / 2, self.wasted / 2);
            }
        }
        mine
    }

    pub(super) fn refused(&mut self, request: Request) -> bool {
        self.guesses.remove(request).is_some()
    }

    pub(super) fn mark_used_paths(&self, mark: &mut dyn FnMut(PathId)) {
        for (request, follower) in self.requests.iter() {
            mark(request.path);
            mark(follower.next.path);
        }
        for (path, follower) in self.directories.iter() {
            mark(path);
            mark(follower.next);
        }
        self.last.iter().for_each(|(_, request)| mark(request.path));
        self.guesses.keys().for_each(|request| mark(request.path));
    }
}

fn vote<T: Copy + Eq + std::hash::Hash>(known: &mut Recent<T, Follower<T>>, before: T, next: T) {
    let first = || Follower { next, votes: 0 };
    known.get_or_put(before, first).0.vote(next);
}
