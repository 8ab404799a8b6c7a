//! What is read all the time and seldom changed: several copies, each in a part of memory and behind a lock of its own.
//!
//! A lock that two processors take, even to read, is written by both, and its line of the cache travels between them: that
//! takes longer than a look-up. Each thread reads the copy of its lane; who writes goes through all, or adds to their own what they have
//! found elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// More threads than that share lanes.
const LANES: usize = 16;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
}

/// Two lines of a processor's cache: they are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(RwLock<T>);

/// Copies of a value, one for each lane.
#[derive(Debug)]
pub struct Lanes<T>([Apart<T>; LANES]);

impl<T: Default> Default for Lanes<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Apart::default()))
    }
}

impl<T> Lanes<T> {
    /// One copy for each lane.
    pub fn new(mut copy: impl FnMut() -> T) -> Self {
        Self(std::array::from_fn(|_| Apart(RwLock::new(copy()))))
    }

    /// The copy of this thread's lane.
    fn own(&self) -> &RwLock<T> {
        // A thread that is ending has no lane any more.
        let lane = LANE.try_with(|lane| *lane).unwrap_or_default();
        let [first, ..] = &self.0;
        let Apart(lock) = self.0.get(lane).unwrap_or(first);
        lock
    }

    /// Reads the copy of this thread's lane. `look` must not write here.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.own().read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the copy of this thread's lane alone.
    pub fn write_own(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.own().write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Changes all copies, one after the other. Meanwhile threads see different ones, and two that write may go through them in
    /// any order.
    pub fn write(&self, mut change: impl FnMut(&mut T)) {
        for Apart(lock) in &self.0 {
            change(&mut lock.write().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_reads_what_was_written_to_all() {
        let lanes = Lanes::new(|| 1);
        lanes.write(|n| *n += 1);
        std::thread::scope(|scope| {
            for _ in 0..2 * LANES {
                scope.spawn(|| assert_eq!(lanes.read(|n| *n), 2));
            }
        });
        lanes.write_own(|n| *n += 1);
        assert_eq!(lanes.read(|n| *n), 3);
        let mut all = Vec::new();
        lanes.write(|n| all.push(*n));
        all.sort_unstable();
        assert_eq!(all, [[2; LANES - 1].as_slice(), &[3]].concat());
        assert_eq!(Lanes::<u8>::default().read(|n| *n), 0);
    }
}
