//! A sharded read-write lock for data that is read often and changed seldom: several copies, each behind its own lock
//! on its own cache lines.
//!
//! A lock that two processors take, even to read, is written by both, so its cache line travels between them, which
//! takes longer than a look-up. Each thread reads the copy of its shard. A writer updates all copies one after the
//! other, or only its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// Number of copies. With more threads than that, threads share a shard.
const SHARDS: usize = 16;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

/// A lock aligned to two cache lines, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CacheAligned<T>(RwLock<T>);

/// Copies of a value, each behind its own lock; a thread reads the copy of its shard.
#[derive(Debug)]
pub struct ShardedLock<T>([CacheAligned<T>; SHARDS]);

impl<T: Default> Default for ShardedLock<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| CacheAligned::default()))
    }
}

impl<T> ShardedLock<T> {
    /// Creates one copy for each shard.
    pub fn new(mut copy: impl FnMut() -> T) -> Self {
        Self(std::array::from_fn(|_| CacheAligned(RwLock::new(copy()))))
    }

    /// Returns the lock of this thread's shard.
    fn shard(&self) -> &RwLock<T> {
        // A thread that is ending has no shard any more.
        let shard = SHARD.try_with(|shard| *shard).unwrap_or_default();
        let [first, ..] = &self.0;
        let CacheAligned(lock) = self.0.get(shard).unwrap_or(first);
        lock
    }

    /// Calls `look` with the copy of this thread's shard. `look` must not write to this lock.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.shard().read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes only the copy of this thread's shard.
    pub fn write_shard(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.shard().write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Changes all copies, one after the other. Meanwhile threads see different copies, and two concurrent writers may
    /// reach the copies in different orders.
    pub fn write(&self, mut change: impl FnMut(&mut T)) {
        for CacheAligned(lock) in &self.0 {
            change(&mut lock.write().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_reads_what_was_written_to_all() {
        let lock = ShardedLock::new(|| 1);
        lock.write(|n| *n += 1);
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| assert_eq!(lock.read(|n| *n), 2));
            }
        });
        lock.write_shard(|n| *n += 1);
        assert_eq!(lock.read(|n| *n), 3);
        let mut all = Vec::new();
        lock.write(|n| all.push(*n));
        all.sort_unstable();
        assert_eq!(all, [[2; SHARDS - 1].as_slice(), &[3]].concat());
        assert_eq!(ShardedLock::<u8>::default().read(|n| *n), 0);
    }
}
