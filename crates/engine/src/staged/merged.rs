//! Rows of the store and rows in memory, in one order.

use super::Watch;
use super::run::{Present, RunCursor};
use esker_model::{Flow, Result};
use esker_store::{Cursor, KeyRange, Read, Table};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// What is staged of a range at one moment: of two rows of one key the newer one.
pub(super) struct Staged {
    active: RunCursor,
    frozen: Option<RunCursor>,
}

impl Staged {
    pub(super) fn new(active: RunCursor, frozen: Option<RunCursor>) -> Self {
        Self { active, frozen }
    }

    /// Which of the two comes next: the frozen one only if its key is smaller.
    fn next(&self) -> Option<(Present<'_>, Ordering)> {
        let frozen = self.frozen.as_ref().and_then(RunCursor::peek);
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

    pub(super) fn peek(&self) -> Option<Present<'_>> {
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

/// Gives all rows of a range that there are.
pub(super) fn scan(
    below: &(impl Read + ?Sized),
    mut staged: Staged,
    (table, range): (Table, &KeyRange),
    sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
) -> Result<()> {
    if staged.peek().is_none() {
        return below.scan(table, range, sink);
    }
    let mut ended = false;
    below.scan(table, range, &mut |key, value| {
        let mut flow = ControlFlow::Continue(());
        let mut shadowed = false;
        while let Some((staged_key, staged_value)) = staged.peek() {
            if staged_key > key {
                break;
            }
            shadowed = staged_key == key;
            if let Some(value) = staged_value {
                flow = sink(staged_key, value);
            }
            staged.advance();
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
    while !ended && let Some((key, value)) = staged.peek() {
        ended = value.is_some_and(|value| sink(key, value).is_break());
        staged.advance();
    }
    Ok(())
}

/// The same, row by row.
pub(super) struct Merged<'s> {
    below: Box<dyn Cursor + 's>,
    staged: Staged,
    /// Whether `below` stands at a row that has not been given; none before the first.
    row_below: Option<bool>,
    /// Whether the present row is a staged one.
    staged_now: bool,
    /// Whether there is a present row.
    given: bool,
    /// What is staged is kept as it was as long as this is there.
    _watch: Option<Watch<'s>>,
}

impl<'s> Merged<'s> {
    pub(super) fn new(
        below: Box<dyn Cursor + 's>,
        staged: Staged,
        watch: Option<Watch<'s>>,
    ) -> Self {
        Self {
            _watch: watch,
            below,
            staged,
            row_below: None,
            staged_now: false,
            given: false,
        }
    }
}

impl Cursor for Merged<'_> {
    fn advance(&mut self) -> Result<bool> {
        if self.given && self.staged_now {
            self.staged.advance();
        }
        if self.row_below.is_none() || self.given && !self.staged_now {
            self.row_below = Some(self.below.advance()?);
        }
        loop {
            let below = (self.row_below == Some(true)).then(|| self.below.key());
            let Some((key, value)) = self.staged.peek() else {
                (self.staged_now, self.given) = (false, below.is_some());
                return Ok(self.given);
            };
            let (shadows, later) = (below == Some(key), below.is_some_and(|b| b < key));
            let there = value.is_some();
            if later {
                (self.staged_now, self.given) = (false, true);
                return Ok(true);
            }
            if shadows {
                self.row_below = Some(self.below.advance()?);
            }
            if there {
                (self.staged_now, self.given) = (true, true);
                return Ok(true);
            }
            self.staged.advance();
        }
    }

    fn key(&self) -> &[u8] {
        if self.staged_now {
            self.staged.peek().map_or(&[], |(key, _)| key)
        } else {
            self.below.key()
        }
    }

    fn value(&self) -> &[u8] {
        if self.staged_now {
            self.staged
                .peek()
                .and_then(|(_, value)| value)
                .unwrap_or_default()
        } else {
            self.below.value()
        }
    }
}
