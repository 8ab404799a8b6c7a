//! The cluster's clock: a hybrid logical clock on each server (Kulkarni et al., "Logical Physical Clocks", 2014).
//!
//! Every message carries its sender's clock, and the receiver's is never behind it afterwards. Each server gives versions
//! of its own residue only, so that no two servers give the same one.

use esker_model::Version;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Versions go up by this, so that up to so many servers never give the same one.
pub(crate) const STRIDE: u64 = 64;

/// A server's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    residue: u64,
    last: Mutex<Version>,
}

impl Clock {
    /// The clock of the server at that place among all, never behind `last`.
    pub(crate) fn new(place: u64, last: Version) -> Self {
        Self {
            residue: place % STRIDE,
            last: Mutex::new(last),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Version> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of another clock.
    pub(crate) fn witness(&self, version: Version) {
        let mut last = self.lock();
        *last = last.max(version);
    }

    /// The time, never behind any version given or seen; gives none.
    pub(crate) fn now(&self, millis: u64) -> Version {
        let mut last = self.lock();
        *last = last.max(Version::new(millis, 0));
        *last
    }

    /// A version of this server's own, later than all that it has given or seen.
    pub(crate) fn tick(&self, millis: u64) -> Version {
        let mut last = self.lock();
        *last = self.own_after(last.0.max(Version::new(millis, 0).0.saturating_sub(1)));
        *last
    }

    /// The version of a transaction whose parts have these floors, one of them (`own`) a tick of this clock for that
    /// transaction alone. If that is the latest it will do: nobody else has it. Else it is a new one.
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
