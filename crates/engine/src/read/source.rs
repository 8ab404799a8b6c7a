//! The source of a read: a snapshot of the live store and, if the requested versions may have been archived, a view of the
//! archive.
//!
//! A [`Source`] is read like a snapshot: its `history` combines the live store and the archive, as if no row had ever been
//! moved. A row in both (see `compact`) appears once, as in the live store. Reads of the past of many vertices or edges go
//! through [`Source::in_pieces`]: it reads the archive once for all of them, in key order, so that their order in the request
//! costs nothing. Rows that were not prefetched are looked up individually.

use super::FirstError;
use crate::archive::{ArchiveCursor, ArchiveView};
use esker_model::{Flow, Result, VersionRange};
use esker_store::{Cursor, KeyRange, Read, Snapshot, Table};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

/// Items for which archived rows are prefetched at a time.
const PIECE: usize = 1 << 10;
/// Maximum bytes of archived rows prefetched for a piece. A larger piece is halved.
const PREFETCH_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of archived rows prefetched for one range. A hub with more is read as a stream.
const RANGE_BYTES_MAX: usize = 8 << 20;
/// Overhead of a row in memory, in bytes.
const ROW_BYTES: usize = 2 * size_of::<Vec<u8>>();

type KeyValue = (Vec<u8>, Vec<u8>);

/// A consistent source to read from.
pub(crate) struct Source<'e> {
    live: Box<dyn Snapshot + 'e>,
    archived: Option<Archived<'e>>,
}

struct Archived<'e> {
    view: Box<dyn ArchiveView + 'e>,
    /// Versions that the read may need.
    versions: VersionRange,
    prefetched: RefCell<Prefetched>,
}

/// Prefetched archived rows: complete ranges, by their start.
#[derive(Default)]
struct Prefetched(BTreeMap<Vec<u8>, PrefetchedRange>);

struct PrefetchedRange {
    until: Option<Vec<u8>>,
    rows: Rc<[KeyValue]>,
}

impl<'e> Source<'e> {
    /// Creates a source over the live store alone.
    pub(crate) fn live(live: Box<dyn Snapshot + 'e>) -> Self {
        Self {
            live,
            archived: None,
        }
    }

    /// Creates a source over the live store and the archive; archived rows outside `versions` may be omitted.
    pub(crate) fn with_archive(
        live: Box<dyn Snapshot + 'e>,
        view: Box<dyn ArchiveView + 'e>,
        versions: VersionRange,
    ) -> Self {
        Self {
            live,
            archived: Some(Archived {
                view,
                versions,
                prefetched: RefCell::default(),
            }),
        }
    }

    /// Number of items that are best read at once.
    pub(crate) fn piece(&self) -> usize {
        if self.archived.is_some() { PIECE } else { 1 }
    }

    /// Passes `items` to `work`, in order, in pieces whose archived rows are prefetched; with each piece, the number of items
    /// before it. `ranges` returns the key ranges in `history` that belong to an item.
    pub(crate) fn in_pieces<T>(
        &self,
        items: &[T],
        ranges: impl Fn(&T, &mut Vec<KeyRange>),
        mut work: impl FnMut(usize, &[T]) -> Result<Flow>,
    ) -> Result<()> {
        let Some(archived) = &self.archived else {
            return work(0, items).map(|_| ());
        };
        let (mut done, mut size) = (0, PIECE);
        while let Some(rest) = items.get(done..).filter(|rest| !rest.is_empty()) {
            let piece = rest.get(..size).unwrap_or(rest);
            let mut wanted = Vec::new();
            piece.iter().for_each(|item| ranges(item, &mut wanted));
            if !archived.prefetch(wanted)? && piece.len() > 1 {
                size = piece.len() / 2;
                continue;
            }
            if work(done, piece)?.is_break() {
                break;
            }
            done += piece.len();
        }
        archived.prefetched.take();
        Ok(())
    }
}

impl Archived<'_> {
    /// Prefetches the archived rows of these ranges in one pass; returns false if they exceed the limit and some are missing.
    fn prefetch(&self, mut ranges: Vec<KeyRange>) -> Result<bool> {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by(|a, b| a.from.cmp(&b.from));
        let mut prefetched = Prefetched::default();
        let mut held = 0;
        let mut cursor = self.view.cursor(self.versions)?;
        for range in ranges {
            if prefetched.get(&range).is_some() {
                continue;
            }
            cursor.seek(&range);
            let (mut rows, mut bytes, mut whole) = (Vec::new(), 0, true);
            while whole && cursor.advance()? {
                bytes += cursor.key().len() + cursor.value().len() + ROW_BYTES;
                whole = bytes <= RANGE_BYTES_MAX;
                rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
            }
            if !whole {
                continue;
            }
            held += bytes;
            if held > PREFETCH_BYTES_MAX {
                return Ok(false);
            }
            let KeyRange { from, until } = range;
            let rows = rows.into();
            prefetched.0.insert(from, PrefetchedRange { until, rows });
        }
        *self.prefetched.borrow_mut() = prefetched;
        Ok(true)
    }

    /// Returns the archived rows of a range: from memory if they were prefetched, else from the archive.
    fn rows(&self, range: &KeyRange) -> Result<ArchivedCursor<'_>> {
        if let Some(rows) = self.prefetched.borrow().get(range) {
            let at = rows.partition_point(|(key, _)| *key < range.from);
            let until = range.until.as_ref();
            let end = until.map_or(rows.len(), |u| rows.partition_point(|(key, _)| key < u));
            let next = at;
            return Ok(ArchivedCursor::Prefetched {
                rows,
                at,
                next,
                end,
            });
        }
        let mut cursor = self.view.cursor(self.versions)?;
        cursor.seek(range);
        Ok(ArchivedCursor::Stream(cursor))
    }
}

impl Prefetched {
    /// Returns the prefetched rows that include those of a range, if the range is inside one that was prefetched.
    fn get(&self, range: &KeyRange) -> Option<Rc<[KeyValue]>> {
        let up_to = (Bound::Unbounded, Bound::Included(range.from.as_slice()));
        let (_, loaded) = self.0.range::<[u8], _>(up_to).next_back()?;
        let inside = match (&loaded.until, &range.until) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(loaded), Some(wanted)) => wanted <= loaded,
        };
        inside.then(|| Rc::clone(&loaded.rows))
    }
}

/// Archived rows of one range.
enum ArchivedCursor<'s> {
    Prefetched {
        rows: Rc<[KeyValue]>,
        at: usize,
        next: usize,
        end: usize,
    },
    Stream(Box<dyn ArchiveCursor + 's>),
}

impl Cursor for ArchivedCursor<'_> {
    fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Prefetched { at, next, end, .. } => {
                *at = *next;
                *next += 1;
                Ok(*at < *end)
            }
            Self::Stream(cursor) => cursor.advance(),
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Self::Prefetched { rows, at, .. } => rows.get(*at).map_or(&[], |(key, _)| key),
            Self::Stream(cursor) => cursor.key(),
        }
    }

    fn value(&self) -> &[u8] {
        match self {
            Self::Prefetched { rows, at, .. } => rows.get(*at).map_or(&[], |(_, value)| value),
            Self::Stream(cursor) => cursor.value(),
        }
    }
}

impl Read for Source<'_> {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if self.live.get_with(table, key, sink)? {
            return Ok(true);
        }
        let Some(archived) = self.archived.as_ref().filter(|_| table == Table::History) else {
            return Ok(false);
        };
        let just_behind = [key, &[0]].concat();
        let mut below = archived.rows(&KeyRange::between(key, &just_behind))?;
        let found = below.advance()?;
        if found {
            sink(below.value());
        }
        Ok(found)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        let Some(archived) = self.archived.as_ref().filter(|_| table == Table::History) else {
            return self.live.scan(table, range, sink);
        };
        let mut below = archived.rows(range)?;
        let mut more = below.advance()?;
        let mut flow = Flow::Continue(());
        let mut error = FirstError::default();
        self.live.scan(table, range, &mut |key, value| {
            while more && below.key() < key {
                flow = sink(below.key(), below.value());
                flow?;
                more = error.keep(below.advance())?;
            }
            if more && below.key() == key {
                more = error.keep(below.advance())?;
            }
            flow = sink(key, value);
            flow
        })?;
        error.into_result()?;
        while more && flow.is_continue() {
            flow = sink(below.key(), below.value());
            more = below.advance()?;
        }
        Ok(())
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let live = self.live.cursor(table, range)?;
        let Some(archived) = self.archived.as_ref().filter(|_| table == Table::History) else {
            return Ok(live);
        };
        let below = archived.rows(range)?;
        Ok(Box::new(MergedHistory {
            live: Side::new(live),
            below: Side::new(Box::new(below)),
            from_below: false,
        }))
    }
}

/// One of two cursors that are merged.
struct Side<'s> {
    cursor: Box<dyn Cursor + 's>,
    /// Whether the cursor must advance before its row is read.
    stale: bool,
    more: bool,
}

impl<'s> Side<'s> {
    fn new(cursor: Box<dyn Cursor + 's>) -> Self {
        Self {
            cursor,
            stale: true,
            more: true,
        }
    }

    fn key(&mut self) -> Result<Option<&[u8]>> {
        if self.stale && self.more {
            self.more = self.cursor.advance()?;
        }
        self.stale = false;
        Ok(self.more.then(|| self.cursor.key()))
    }
}

/// A cursor over `history` that merges live and archived rows.
struct MergedHistory<'s> {
    live: Side<'s>,
    below: Side<'s>,
    /// Whether the present row is from the archive.
    from_below: bool,
}

impl Cursor for MergedHistory<'_> {
    fn advance(&mut self) -> Result<bool> {
        let (live, below) = (self.live.key()?, self.below.key()?);
        let (from_live, from_below) = match (live, below) {
            (None, None) => return Ok(false),
            (Some(_), None) => (true, false),
            (None, Some(_)) => (false, true),
            // A row in both counts as one, with the value of the live store.
            (Some(live), Some(below)) => (live <= below, below <= live),
        };
        self.live.stale = from_live;
        self.below.stale = from_below;
        self.from_below = !from_live;
        Ok(true)
    }

    fn key(&self) -> &[u8] {
        if self.from_below {
            self.below.cursor.key()
        } else {
            self.live.cursor.key()
        }
    }

    fn value(&self) -> &[u8] {
        if self.from_below {
            self.below.cursor.value()
        } else {
            self.live.cursor.value()
        }
    }
}
