//! Memory that one cache leaves unused and another may borrow.

use std::sync::atomic::{AtomicU64, Ordering};

/// Unused memory of a cache, in bytes. The owner updates it now and then; the borrower shrinks when it falls.
#[derive(Debug, Default)]
pub(crate) struct FreeMemory(AtomicU64);

impl FreeMemory {
    pub(crate) fn of(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Sets the unused memory.
    pub(crate) fn set(&self, bytes: u64) {
        // The store is skipped if the value is unchanged: other threads read it all the time.
        if self.bytes() != bytes {
            self.0.store(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
