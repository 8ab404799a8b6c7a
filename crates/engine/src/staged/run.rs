//! Rows of a table in memory, in key order, as they are and as snapshots still see them.

use esker_model::{Error, Result};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The longest key that is staged, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 63;
/// Rows that a scan takes out at once.
const CHUNK: usize = 256;
/// Room for values up to this size is kept, in bytes.
const ROOM_MAX: usize = 64 << 20;
/// What a row takes beside its value, about, in bytes.
const ROW_BYTES: usize = 128;

/// A key, in place: comparing two of them follows no pointer.
#[derive(Clone, Copy)]
pub(super) struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    len: u8,
}

impl Key {
    pub(super) fn new(key: &[u8]) -> Result<Self> {
        let mut bytes = [0; KEY_BYTES_MAX];
        let Some(place) = bytes.get_mut(..key.len()) else {
            return Err(Error::Limit {
                what: "a key of table `names`, in bytes,".into(),
                got: key.len() as u64,
                limit: KEY_BYTES_MAX as u64,
            });
        };
        place.copy_from_slice(key);
        Ok(Self {
            bytes,
            len: key.len() as u8,
        })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.as_slice())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

/// Where a value lies; none says that the row was removed.
#[derive(Debug, Clone, Copy)]
struct Place(Option<(usize, u32)>);

#[derive(Debug, Clone, Copy)]
struct Cell {
    place: Place,
    /// The commit that made it so.
    commit: u64,
}

/// What a run says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Here<'r> {
    /// Nothing: what lies below counts.
    Unknown,
    /// It has no row any more.
    Removed,
    /// Its row.
    Row(&'r [u8]),
}

/// What a run holds.
#[derive(Debug, Default)]
pub(super) struct Rows {
    now: BTreeMap<Key, Cell>,
    /// What snapshots see of rows that have changed since, by key and commit.
    before: BTreeMap<(Key, u64), Place>,
    values: Vec<u8>,
}

impl Rows {
    /// Sets or removes a row. `watched` is the newest moment that a snapshot sees.
    pub(super) fn put(
        &mut self,
        key: Key,
        value: Option<&[u8]>,
        commit: u64,
        watched: Option<u64>,
    ) {
        let place = Place(value.map(|value| {
            let at = self.values.len();
            self.values.extend_from_slice(value);
            (at, value.len() as u32)
        }));
        let old = self.now.insert(key, Cell { place, commit });
        if let Some(old) = old
            && watched.is_some_and(|moment| moment >= old.commit)
        {
            self.before.insert((key, old.commit), old.place);
        }
    }

    fn value(&self, place: Place) -> Option<&[u8]> {
        place.0.map(|(at, len)| {
            let value = self.values.get(at..at + len as usize);
            value.unwrap_or_default()
        })
    }

    fn place(&self, key: &Key, cell: &Cell, moment: Option<u64>) -> Option<Place> {
        match moment {
            Some(moment) if cell.commit > moment => {
                let older = self.before.range((*key, 0)..=(*key, moment)).next_back();
                older.map(|(_, place)| *place)
            }
            _ => Some(cell.place),
        }
    }

    /// What is here of a key, now or at a moment.
    pub(super) fn get(&self, key: &Key, moment: Option<u64>) -> Here<'_> {
        let cell = self.now.get(key);
        match cell.and_then(|cell| self.place(key, cell, moment)) {
            None => Here::Unknown,
            Some(place) => self.value(place).map_or(Here::Removed, Here::Row),
        }
    }

    /// All rows, in key order; those that were removed have no value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let rows = self.now.iter();
        rows.map(|(key, cell)| (key.as_slice(), self.value(cell.place)))
    }

    /// Takes over the room of another one, if nothing is here yet.
    pub(super) fn reuse(&mut self, other: Self) {
        if self.values.is_empty() && other.values.capacity() <= ROOM_MAX {
            self.values = other.values;
            self.values.clear();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.now.len()
    }

    /// Memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.values.len() + (self.now.len() + self.before.len()) * ROW_BYTES
    }
}

/// Rows that are shared with snapshots.
#[derive(Debug, Default)]
pub(super) struct Run(RwLock<Rows>);

impl Run {
    pub(super) fn into_rows(self) -> Rows {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rows(&self) -> RwLockReadGuard<'_, Rows> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rows_mut(&self) -> RwLockWriteGuard<'_, Rows> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A row that a cursor stands at: its key, and its value unless it was removed.
pub(super) type Present<'r> = (&'r [u8], Option<&'r [u8]>);

/// Goes over a part of a run at one moment. Rows are copied some at a time, so nothing is locked between.
pub(super) struct RunCursor {
    run: Arc<Run>,
    moment: u64,
    /// Where the next portion begins; none at the end.
    from: Option<Key>,
    until: Option<Vec<u8>>,
    keys: Vec<(Key, Place)>,
    values: Vec<u8>,
    at: usize,
}

impl RunCursor {
    pub(super) fn new(run: Arc<Run>, moment: u64, from: &[u8], until: Option<&[u8]>) -> Self {
        // A bound longer than any key lies behind all keys that it begins with.
        let cut = from.get(..KEY_BYTES_MAX).unwrap_or(from);
        let mut cursor = Self {
            run,
            moment,
            from: Key::new(cut).ok(),
            until: until.map(<[u8]>::to_vec),
            keys: Vec::new(),
            values: Vec::new(),
            at: 0,
        };
        cursor.fill();
        if cut.len() < from.len() {
            while cursor.peek().is_some_and(|(key, _)| key < from) {
                cursor.advance();
            }
        }
        cursor
    }

    fn fill(&mut self) {
        (self.at, self.from) = (0, self.fill_from());
    }

    fn fill_from(&mut self) -> Option<Key> {
        let from = self.from?;
        self.keys.clear();
        self.values.clear();
        let rows = self.run.rows();
        for (key, cell) in rows.now.range(from..) {
            let inside = self
                .until
                .as_ref()
                .is_none_or(|until| key.as_slice() < until.as_slice());
            if !inside {
                return None;
            }
            if self.keys.len() == CHUNK {
                return Some(*key);
            }
            let Some(place) = rows.place(key, cell, Some(self.moment)) else {
                continue;
            };
            let place = Place(rows.value(place).map(|value| {
                let at = self.values.len();
                self.values.extend_from_slice(value);
                (at, value.len() as u32)
            }));
            self.keys.push((*key, place));
        }
        None
    }

    pub(super) fn peek(&self) -> Option<Present<'_>> {
        let (key, place) = self.keys.get(self.at)?;
        let value = place.0.map(|(at, len)| {
            let value = self.values.get(at..at + len as usize);
            value.unwrap_or_default()
        });
        Some((key.as_slice(), value))
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
        if self.at >= self.keys.len() {
            if self.from.is_some() {
                self.fill();
            } else {
                self.keys.clear();
            }
        }
    }
}
