//! What a read looks at: one moment of the live store and, where what it asks for may have been archived, the archive
//! below it.
//!
//! A [`Source`] is read like a snapshot: its `history` is that of the live store and of the archive in one, as if nothing
//! had ever been moved. A row that lies in both (see `compact`) shows once, as the live store has it. Whoever reads the
//! past of many things asks through [`Source::in_pieces`]: it reads the archive once for all of them, in key order, so
//! that the order in which they are asked for costs nothing. What it did not read ahead is looked up where it is needed.

use super::FirstError;
use crate::archive::{ArchiveCursor, ArchiveView};
use esker_model::{Flow, Result, VersionRange};
use esker_store::{Cursor, KeyRange, Read, Snapshot, Table};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

/// So many things are read ahead for at once.
const PIECE: usize = 1 << 10;
/// Bytes of archived rows that are held for a piece. If there are more, the piece is halved.
const AHEAD_BYTES_MAX: usize = 64 << 20;
/// Bytes of archived rows that are held for one range. A hub with more is read as a stream.
const RANGE_BYTES_MAX: usize = 8 << 20;
/// What a row held in memory takes beyond its bytes.
const ROW_BYTES: usize = 2 * size_of::<Vec<u8>>();

type Row = (Vec<u8>, Vec<u8>);

/// One moment to read in.
pub(crate) struct Source<'e> {
    live: Box<dyn Snapshot + 'e>,
    archived: Option<Archived<'e>>,
}

struct Archived<'e> {
    view: Box<dyn ArchiveView + 'e>,
    /// Versions that the read can want.
    versions: VersionRange,
    ahead: RefCell<Ahead>,
}

/// Archived rows that were read ahead: whole ranges, by where they begin.
#[derive(Default)]
struct Ahead(BTreeMap<Vec<u8>, Loaded>);

struct Loaded {
    until: Option<Vec<u8>>,
    rows: Rc<[Row]>,
}

impl<'e> Source<'e> {
    /// The live store alone.
    pub(crate) fn live(live: Box<dyn Snapshot + 'e>) -> Self {
        Self {
            live,
            archived: None,
        }
    }

    /// The live store with the archive below it, of which rows outside `versions` need not show.
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
                ahead: RefCell::default(),
            }),
        }
    }

    /// How many things are best read at once.
    pub(crate) fn piece(&self) -> usize {
        if self.archived.is_some() { PIECE } else { 1 }
    }

    /// Hands `items` to `work`, in order, in pieces of which the archived rows are in memory by then; with each piece the
    /// number of items before it. `ranges` says what of `history` belongs to an item.
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
            if !archived.read_ahead(wanted)? && piece.len() > 1 {
                size = piece.len() / 2;
                continue;
            }
            if work(done, piece)?.is_break() {
                break;
            }
            done += piece.len();
        }
        archived.ahead.take();
        Ok(())
    }
}

impl Archived<'_> {
    /// Reads the archived rows of these ranges in one pass; false if they were too many and some are missing.
    fn read_ahead(&self, mut ranges: Vec<KeyRange>) -> Result<bool> {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by(|a, b| a.from.cmp(&b.from));
        let mut ahead = Ahead::default();
        let mut held = 0;
        let mut cursor = self.view.cursor(self.versions)?;
        for range in ranges {
            if ahead.get(&range).is_some() {
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
            if held > AHEAD_BYTES_MAX {
                return Ok(false);
            }
            let KeyRange { from, until } = range;
            let rows = rows.into();
            ahead.0.insert(from, Loaded { until, rows });
        }
        *self.ahead.borrow_mut() = ahead;
        Ok(true)
    }

    /// The archived rows of a range: from memory if it was read ahead, else from the archive.
    fn rows(&self, range: &KeyRange) -> Result<Below<'_>> {
        if let Some(rows) = self.ahead.borrow().get(range) {
            let at = rows.partition_point(|(key, _)| *key < range.from);
            let until = range.until.as_ref();
            let end = until.map_or(rows.len(), |u| rows.partition_point(|(key, _)| key < u));
            let next = at;
            return Ok(Below::Ahead {
                rows,
                at,
                next,
                end,
            });
        }
        let mut cursor = self.view.cursor(self.versions)?;
        cursor.seek(range);
        Ok(Below::Stream(cursor))
    }
}

impl Ahead {
    /// The rows among which those of a range are, if it lies inside one that was read.
    fn get(&self, range: &KeyRange) -> Option<Rc<[Row]>> {
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
enum Below<'s> {
    Ahead {
        rows: Rc<[Row]>,
        at: usize,
        next: usize,
        end: usize,
    },
    Stream(Box<dyn ArchiveCursor + 's>),
}

impl Cursor for Below<'_> {
    fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Ahead { at, next, end, .. } => {
                *at = *next;
                *next += 1;
                Ok(*at < *end)
            }
            Self::Stream(cursor) => cursor.advance(),
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Self::Ahead { rows, at, .. } => rows.get(*at).map_or(&[], |(key, _)| key),
            Self::Stream(cursor) => cursor.key(),
        }
    }

    fn value(&self) -> &[u8] {
        match self {
            Self::Ahead { rows, at, .. } => rows.get(*at).map_or(&[], |(_, value)| value),
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
        Ok(Box::new(Merged {
            live: Side::new(live),
            below: Side::new(Box::new(below)),
            from_below: false,
        }))
    }
}

/// One of two cursors that are merged.
struct Side<'s> {
    cursor: Box<dyn Cursor + 's>,
    /// Whether it has to be moved before it is looked at.
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

/// A cursor over `history`: live rows and archived ones in one order.
struct Merged<'s> {
    live: Side<'s>,
    below: Side<'s>,
    /// Which of them the present row is of.
    from_below: bool,
}

impl Cursor for Merged<'_> {
    fn advance(&mut self) -> Result<bool> {
        let (live, below) = (self.live.key()?, self.below.key()?);
        let (from_live, from_below) = match (live, below) {
            (None, None) => return Ok(false),
            (Some(_), None) => (true, false),
            (None, Some(_)) => (false, true),
            // In both: as the live store has it.
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
