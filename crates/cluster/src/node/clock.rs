//! The cluster's clock: a hybrid logical clock on each server (Kulkarni et al., "Logical Physical Clocks", 2014).
//!
//! Every message carries its sender's clock, and the receiver's is never behind it afterwards. Each server issues
//! versions of its own residue only, so that no two servers issue the same one.

use esker_model::Version;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Distance of versions with the same residue, and so the largest number of servers that never issue the same version.
pub(crate) const STRIDE: u64 = 64;

/// Hybrid logical clock of one server.
#[derive(Debug)]
pub(crate) struct Clock {
    residue: u64,
    last: Mutex<Version>,
}

impl Clock {
    /// Creates the clock of the server with that index in the cluster, never behind `last`.
    pub(crate) fn new(index: u64, last: Version) -> Self {
        Self {
            residue: index % STRIDE,
            last: Mutex::new(last),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Version> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the clock to at least `version`.
    pub(crate) fn witness(&self, version: Version) {
        let mut last = self.lock();
        *last = last.max(version);
    }

    /// Returns the time, never behind any version issued or witnessed; issues none.
    pub(crate) fn now(&self, millis: u64) -> Version {
        let mut last = self.lock();
        *last = last.max(Version::new(millis, 0));
        *last
    }

    /// Issues a version of this server, later than all that it has issued or witnessed.
    pub(crate) fn tick(&self, millis: u64) -> Version {
        let mut last = self.lock();
        *last = self.own_after(last.0.max(Version::new(millis, 0).0.saturating_sub(1)));
        *last
    }

    /// Chooses the version of a transaction with these floors; `own` is a tick of this clock for that transaction
    /// alone. If `own` is the latest it is used, since no other transaction has it; otherwise a new version is
    /// issued.
    pub(crate) fn decide(&self, own: Version, latest: Version, millis: u64) -> Version {
        if own >= latest {
            return own;
        }
        self.witness(latest);
        self.tick(millis)
    }

    fn own_after(&self, version: u64) -> Version {
        let next = version + 1;
        let up = (self.residue + STRIDE - next % STRIDE) % STRIDE;
        Version(next + up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_and_no_two_servers_give_the_same() {
        let (a, b) = (
            Clock::new(1, Version::ZERO),
            Clock::new(2, Version::new(7, 0)),
        );
        let mut given = Vec::new();
        for millis in [5, 5, 4, 9, 9] {
            given.push(a.tick(millis));
            b.witness(a.now(millis));
            given.push(b.tick(millis));
            a.witness(b.now(millis));
        }
        assert!(given.is_sorted_by(|x, y| x < y), "{given:?}");
        assert!(given.iter().step_by(2).all(|v| v.0 % STRIDE == 1));
        assert!(given.iter().skip(1).step_by(2).all(|v| v.0 % STRIDE == 2));
        let (one, other) = (a.tick(9), a.tick(9));
        let decided = a.decide(one, Version(other.0 - 1), 9);
        assert!(decided > other, "what another transaction may take");
        assert_eq!(a.decide(other, one, 9), other);
    }
}
