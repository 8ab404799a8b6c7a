//! Memory that one cache does not need just now, for another to use.

use std::sync::atomic::{AtomicU64, Ordering};

/// How much is left of somebody's memory, in bytes. Its owner says so now and then; who borrows gives back when it is less.
#[derive(Debug, Default)]
pub(crate) struct Spare(AtomicU64);

impl Spare {
    pub(crate) fn of(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// The owner has so much left.
    pub(crate) fn set(&self, bytes: u64) {
        // Only who sees another figure writes: others read it all the time.
        if self.bytes() != bytes {
            self.0.store(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
