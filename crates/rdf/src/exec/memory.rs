//! Memory accounting of a query: tables in use, strings of the expression being evaluated, and computed terms. The total stays below
//! [`super::Options::memory`], and the host is notified as it grows.

use super::{Context, Table};
use crate::error::{Error, Result};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit of one computed string, in bytes.
pub const STRING_BYTES_MAX: usize = 16 << 20;
/// Bytes of a term in addition to its text: its slots in the dictionary and in its hash table.
const TERM_BYTES: usize = 32;
/// Growth in bytes after which the host is notified.
const REPORT_BYTES: usize = 1 << 20;
/// Bytes of strings between two cancellation checks.
const WORK_BYTES: usize = 4 << 20;

/// Memory counters of a query.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// Tables and strings in use. A nested operation releases at its end what it reserved.
    reserved: Cell<usize>,
    /// Computed terms of all threads of the query; they stay until its end.
    kept: Arc<AtomicUsize>,
    /// Memory last reported to the host.
    reported: Cell<usize>,
    /// Bytes of strings since the last cancellation check.
    work: Cell<usize>,
}

impl Context<'_> {
    /// Returns the reserved bytes, to be passed to [`Self::release_to`].
    pub(crate) fn reserved(&self) -> usize {
        self.memory.reserved.get()
    }

    /// Releases everything reserved since `reserved` was read.
    pub(crate) fn release_to(&self, reserved: usize) {
        self.memory.reserved.set(reserved);
    }

    /// Reserves memory; fails above the limit.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<()> {
        let reserved = self.memory.reserved.get().saturating_add(bytes);
        self.memory.reserved.set(reserved);
        if reserved + self.memory.kept.load(Ordering::Relaxed) > self.options.memory {
            return Err(Error::MemoryOfStrings {
                limit: self.options.memory,
            });
        }
        self.notify_host(reserved)
    }

    /// Reserves memory for a string of an expression. On failure or cancellation the query fails with that error.
    pub(crate) fn reserve_text(&self, bytes: usize) -> Option<()> {
        if bytes == 0 {
            return Some(());
        }
        let work = self.memory.work.get().saturating_add(bytes);
        self.memory.work.set(work);
        let mut counted = self.reserve(bytes);
        if work >= WORK_BYTES {
            self.memory.work.set(0);
            counted = counted.and_then(|()| self.check());
        }
        self.or_fail(counted)
    }

    /// Returns `None`, and fails the query, if a string of `bytes` bytes would be too long.
    pub(crate) fn fits_string(&self, bytes: usize) -> Option<()> {
        self.or_fail(if bytes > STRING_BYTES_MAX {
            Err(Error::LongString {
                limit: STRING_BYTES_MAX,
            })
        } else {
            Ok(())
        })
    }

    /// Returns the value; or records the error, with which the query fails, and returns `None`.
    pub(crate) fn or_fail<T>(&self, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(e) => {
                self.failed.borrow_mut().get_or_insert(e);
                None
            }
        }
    }

    /// Counts a computed term of `bytes` bytes, which stays until the query ends.
    pub(super) fn reserve_term(&self, bytes: usize) -> Result<()> {
        let bytes = bytes.saturating_add(TERM_BYTES);
        let kept = self.memory.kept.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let reserved = self.memory.reserved.get();
        if reserved + kept > self.options.memory {
            return Err(Error::MemoryOfStrings {
                limit: self.options.memory,
            });
        }
        self.notify_host(reserved)
    }

    /// Fails if `rows` rows of `columns` columns would exceed the memory limit.
    pub(crate) fn fits(&self, rows: usize, columns: usize) -> Result<()> {
        let bytes = rows.saturating_mul(columns.max(1)).saturating_mul(4);
        let reserved = self.memory.reserved.get().saturating_add(bytes);
        if reserved.saturating_add(self.memory.kept.load(Ordering::Relaxed)) > self.options.memory {
            return Err(Error::Memory {
                rows,
                columns,
                limit: self.options.memory,
            });
        }
        self.notify_host(reserved)
    }

    /// Fails if a table would exceed the memory limit.
    pub(crate) fn fits_table(&self, table: &Table) -> Result<()> {
        self.fits(table.len(), table.vars().len())
    }

    /// Reserves memory for a table.
    pub(crate) fn reserve_table(&self, table: &Table) -> Result<()> {
        self.fits_table(table)?;
        let bytes = table.len() * table.vars().len() * size_of::<crate::id::Id>();
        self.memory.reserved.set(self.memory.reserved.get() + bytes);
        Ok(())
    }

    /// Notifies the host if the query's memory has grown.
    fn notify_host(&self, reserved: usize) -> Result<()> {
        let all = reserved + self.memory.kept.load(Ordering::Relaxed);
        if all < self.memory.reported.get() + REPORT_BYTES {
            return Ok(());
        }
        self.memory.reported.set(all);
        if (self.options.on_growth)(all) {
            Ok(())
        } else {
            Err(Error::MemoryOfAll)
        }
    }
}
