//! Merges rows of the store and rows in memory in key order.

use super::SnapshotGuard;
use super::rows::{CursorRow, MemtableCursor};
use esker_model::{Flow, Result};
use esker_store::{Cursor, KeyRange, Read, Table};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// The rows of both memtables in a range, as of a commit: the newer of two rows with the same key.
pub(super) struct MemtableRange {
    active: MemtableCursor,
    frozen: Option<MemtableCursor>,
}

impl MemtableRange {
    pub(super) fn new(active: MemtableCursor, frozen: Option<MemtableCursor>) -> Self {
        Self { active, frozen }
    }

    /// Returns the next row and its origin: the frozen memtable only if its key is smaller.
    fn next(&self) -> Option<(CursorRow<'_>, Ordering)> {
        let frozen = self.frozen.as_ref().and_then(MemtableCursor::peek);
        match (self.active.peek(), frozen) {
            (None, None) => None,
            (Some(active), None) => Some((active, Ordering::Less)),
            (None, Some(frozen)) => Some((frozen, Ordering::Greater)),
            (Some(active), Some(frozen)) => match active.0.cmp(frozen.0) {
                Ordering::Greater => Some((frozen, Ordering::Greater)),
                order => Some((active, order)),
            },
        }
    }

    pub(super) fn peek(&self) -> Option<CursorRow<'_>> {
        self.next().map(|(row, _)| row)
    }

    pub(super) fn advance(&mut self) {
        let Some((_, order)) = self.next() else {
            return;
        };
        if order != Ordering::Greater {
            self.active.advance();
        }
        if order != Ordering::Less
            && let Some(frozen) = &mut self.frozen
        {
            frozen.advance();
        }
    }
}

/// Passes all rows of a range to `sink`.
pub(super) fn scan(
    below: &(impl Read + ?Sized),
    mut memtable: MemtableRange,
    (table, range): (Table, &KeyRange),
    sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
) -> Result<()> {
    if memtable.peek().is_none() {
        return below.scan(table, range, sink);
    }
    let mut ended = false;
    below.scan(table, range, &mut |key, value| {
        let mut flow = ControlFlow::Continue(());
        let mut shadowed = false;
        while let Some((staged_key, staged_value)) = memtable.peek() {
            if staged_key > key {
                break;
            }
            shadowed = staged_key == key;
            if let Some(value) = staged_value {
                flow = sink(staged_key, value);
            }
            memtable.advance();
            if shadowed || flow.is_break() {
                break;
            }
        }
        if !shadowed && flow.is_continue() {
            flow = sink(key, value);
        }
        ended = flow.is_break();
        flow
    })?;
    while !ended && let Some((key, value)) = memtable.peek() {
        ended = value.is_some_and(|value| sink(key, value).is_break());
        memtable.advance();
    }
    Ok(())
}

/// A cursor over the merged rows.
pub(super) struct MergedCursor<'s> {
    below: Box<dyn Cursor + 's>,
    memtable: MemtableRange,
    /// Whether `below` is at a row that was not returned yet; `None` before the first.
    row_below: Option<bool>,
    /// Whether the present row is from the memtable.
    from_memtable: bool,
    /// Whether there is a present row.
    has_row: bool,
    /// Keeps the rows that the cursor sees.
    _watch: Option<SnapshotGuard<'s>>,
}

impl<'s> MergedCursor<'s> {
    pub(super) fn new(
        below: Box<dyn Cursor + 's>,
        memtable: MemtableRange,
        watch: Option<SnapshotGuard<'s>>,
    ) -> Self {
        Self {
            _watch: watch,
            below,
            memtable,
            row_below: None,
            from_memtable: false,
            has_row: false,
        }
    }
}

impl Cursor for MergedCursor<'_> {
    fn advance(&mut self) -> Result<bool> {
        if self.has_row && self.from_memtable {
            self.memtable.advance();
        }
        if self.row_below.is_none() || self.has_row && !self.from_memtable {
            self.row_below = Some(self.below.advance()?);
        }
        loop {
            let below = (self.row_below == Some(true)).then(|| self.below.key());
            let Some((key, value)) = self.memtable.peek() else {
                (self.from_memtable, self.has_row) = (false, below.is_some());
                return Ok(self.has_row);
            };
            let (shadows, later) = (below == Some(key), below.is_some_and(|b| b < key));
            let there = value.is_some();
            if later {
                (self.from_memtable, self.has_row) = (false, true);
                return Ok(true);
            }
            if shadows {
                self.row_below = Some(self.below.advance()?);
            }
            if there {
                (self.from_memtable, self.has_row) = (true, true);
                return Ok(true);
            }
            self.memtable.advance();
        }
    }

    fn key(&self) -> &[u8] {
        if self.from_memtable {
            self.memtable.peek().map_or(&[], |(key, _)| key)
        } else {
            self.below.key()
        }
    }

    fn value(&self) -> &[u8] {
        if self.from_memtable {
            self.memtable
                .peek()
                .and_then(|(_, value)| value)
                .unwrap_or_default()
        } else {
            self.below.value()
        }
    }
}
