//! What follows what, for [`super::Guarded`]: requests after requests and directories after directories, by client.

use super::{Access, Outcome, View, Wish};
use crate::entry::Request;
use crate::path::PathId;
use crate::recent::Recent;

/// Requests and directories of which it is known what follows.
const KNOWN: usize = 1 << 17;
const CLIENTS: usize = 1 << 12;
/// A follower is believed when it came so often and was the usual one.
const TIMES: u16 = 2;
/// How far a chain of followers is prefetched.
const AHEAD: usize = 4;
/// Guesses whose end is remembered.
const GUESSES: usize = 1 << 14;

/// The usual follower: one that came more often than others since it is known (a majority vote).
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
            requests: Recent::new(KNOWN),
            directories: Recent::new(KNOWN),
            last: Recent::new(CLIENTS),
            guesses: Recent::new(GUESSES),
            used: 0,
            wasted: 0,
        }
    }

    pub(super) fn learn(&mut self, access: Access, view: &dyn View) {
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

    /// Wishes for what usually follows, as long as guesses of this kind pay.
    pub(super) fn predict(&mut self, access: Access, view: &dyn View, wishes: &mut Vec<Wish>) {
        if self.wasted > 32 + self.used {
            // From time to time one more guess tells whether it pays by now.
            self.wasted -= 1;
            return;
        }
        let mut at = access.request;
        for _ in 0..AHEAD {
            let Some(follower) = self.requests.peek(at).copied() else {
                break;
            };
            if follower.votes < TIMES {
                break;
            }
            at = follower.next;
            if !view.answers(at) {
                self.guess(at, 5, wishes);
            }
        }
        if access.outcome != Outcome::Hit
            && let Some(left) = view.paths().parent(access.request.path)
            && let Some(follower) = self.directories.peek(left).copied()
            && follower.votes >= TIMES
        {
            let listing = Request::list(follower.next);
            if !view.answers(listing) {
                self.guess(listing, 4, wishes);
            }
        }
    }

    fn guess(&mut self, request: Request, priority: u8, wishes: &mut Vec<Wish>) {
        self.guesses.put(request, ());
        wishes.push(Wish { request, priority });
    }

    /// Whether it was a guess of this kind that is over now.
    pub(super) fn over(&mut self, path: PathId, used: bool) -> bool {
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

    pub(super) fn held(&self, mark: &mut dyn FnMut(PathId)) {
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
