//! What a query has in memory: tables that are in use, strings of the expression that is evaluated, and the terms that it
//! computed. All of it together stays below [`super::Options::memory`], and the host is told as it grows.

use super::{Context, Table};
use crate::error::{Error, Result};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one computed string may have.
pub const STRING_BYTES_MAX: usize = 16 << 20;
/// Bytes that a term takes beside its text: its place in the dictionary and in the table over it.
const TERM_BYTES: usize = 32;
/// Bytes by which a query grows before the host is told.
const TOLD_BYTES: usize = 1 << 20;
/// Bytes of strings that are looked at between two questions whether to stop.
const WORK_BYTES: usize = 4 << 20;

/// Counts of bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// Tables and strings in use. What is done inside something else gives back what it took when it ends.
    held: Cell<usize>,
    /// Terms that were computed, of all threads of the query: they stay until its end.
    kept: Arc<AtomicUsize>,
    /// What the host knows of.
    told: Cell<usize>,
    /// Bytes of strings since the host was last asked whether to stop.
    work: Cell<usize>,
}

impl Context<'_> {
    /// What is held now, for [`Self::release_to`].
    pub(crate) fn held(&self) -> usize {
        self.memory.held.get()
    }

    /// Ends the use of all that was held after `held` was read.
    pub(crate) fn release_to(&self, held: usize) {
        self.memory.held.set(held);
    }

    /// Counts so many more bytes as held.
    pub(crate) fn hold(&self, bytes: usize) -> Result<()> {
        let held = self.memory.held.get().saturating_add(bytes);
        self.memory.held.set(held);
        if held + self.memory.kept.load(Ordering::Relaxed) > self.options.memory {
            return Err(Error::MemoryOfStrings {
                limit: self.options.memory,
            });
        }
        self.tell(held)
    }

    /// Counts a string that an expression has in hand; if there is no memory for it, or the query is to stop, the query fails
    /// with that.
    pub(crate) fn hold_text(&self, bytes: usize) -> Option<()> {
        if bytes == 0 {
            return Some(());
        }
        let work = self.memory.work.get().saturating_add(bytes);
        self.memory.work.set(work);
        let mut counted = self.hold(bytes);
        if work >= WORK_BYTES {
            self.memory.work.set(0);
            counted = counted.and_then(|()| self.check());
        }
        self.or_fail(counted)
    }

    /// The value, or none: then the query fails with the error.
    pub(crate) fn or_fail<T>(&self, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(e) => {
                self.failed.borrow_mut().get_or_insert(e);
                None
            }
        }
    }

    /// Counts a term of so many bytes that stays until the query ends.
    pub(super) fn keep(&self, bytes: usize) -> Result<()> {
        let bytes = bytes.saturating_add(TERM_BYTES);
        let kept = self.memory.kept.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let held = self.memory.held.get();
        if held + kept > self.options.memory {
            return Err(Error::MemoryOfStrings {
                limit: self.options.memory,
            });
        }
        self.tell(held)
    }

    /// Fails if so many rows of so many columns, beside what is in use, are more than the query may have in memory.
    pub(crate) fn fits(&self, rows: usize, columns: usize) -> Result<()> {
        let bytes = rows.saturating_mul(columns.max(1)).saturating_mul(4);
        let held = self.memory.held.get().saturating_add(bytes);
        if held.saturating_add(self.memory.kept.load(Ordering::Relaxed)) > self.options.memory {
            return Err(Error::Memory {
                rows,
                columns,
                limit: self.options.memory,
            });
        }
        self.tell(held)
    }

    /// [`Self::fits`] of a table.
    pub(crate) fn fits_table(&self, table: &Table) -> Result<()> {
        self.fits(table.len(), table.vars().len())
    }

    /// Counts a table as held.
    pub(crate) fn hold_table(&self, table: &Table) -> Result<()> {
        self.fits_table(table)?;
        let bytes = table.len() * table.vars().len() * size_of::<crate::id::Id>();
        self.memory.held.set(self.memory.held.get() + bytes);
        Ok(())
    }

    /// Tells the host what the query has in memory, if that has grown.
    fn tell(&self, held: usize) -> Result<()> {
        let all = held + self.memory.kept.load(Ordering::Relaxed);
        if all < self.memory.told.get() + TOLD_BYTES {
            return Ok(());
        }
        self.memory.told.set(all);
        if (self.options.grows)(all) {
            Ok(())
        } else {
            Err(Error::MemoryOfAll)
        }
    }
}
