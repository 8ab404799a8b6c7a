//! Rows of a table in memory, in key order: the present ones, and older ones that snapshots still see.

use esker_model::{Error, Result};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Maximum length of a key in the memtable, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 63;
/// Rows that a cursor copies at a time.
const CHUNK: usize = 256;
/// Maximum capacity for values that is kept for reuse, in bytes.
const CAPACITY_KEPT_MAX: usize = 64 << 20;
/// Approximate overhead of a row besides its value, in bytes.
const ROW_BYTES: usize = 128;

/// A key stored inline, so that comparisons follow no pointers: its bytes, zeros, and its length in the last byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key([u8; KEY_BYTES_MAX + 1]);

impl Key {
    pub(super) fn new(key: &[u8]) -> Result<Self> {
        let mut bytes = [0; KEY_BYTES_MAX + 1];
        let Some(place) = bytes
            .get_mut(..key.len())
            .filter(|_| key.len() <= KEY_BYTES_MAX)
        else {
            return Err(Error::Limit {
                what: "a key of table `names`, in bytes,".into(),
                got: key.len() as u64,
                limit: KEY_BYTES_MAX as u64,
            });
        };
        place.copy_from_slice(key);
        bytes[KEY_BYTES_MAX] = key.len() as u8;
        Ok(Self(bytes))
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        let len = self.0[KEY_BYTES_MAX];
        self.0.get(..len.into()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.as_slice())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    /// The order of the slices. A key that is the beginning of another one differs from it in the first byte that is not zero, or else in
    /// the length.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, _) = self.0.as_chunks::<8>();
        let (theirs, _) = other.0.as_chunks::<8>();
        mine.iter()
            .zip(theirs)
            .map(|(a, b)| u64::from_be_bytes(*a).cmp(&u64::from_be_bytes(*b)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

/// Position and length of a value; `None` for a removed row.
#[derive(Debug, Clone, Copy)]
struct ValueSlot(Option<(usize, u32)>);

#[derive(Debug, Clone, Copy)]
struct Cell {
    place: ValueSlot,
    /// Number of the commit that wrote the row.
    commit: u64,
}

/// Result of a look-up in a memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup<'r> {
    /// The memtable has no entry: the store below decides.
    Unknown,
    /// The row was removed.
    Removed,
    /// The value of the row.
    Row(&'r [u8]),
}

/// Content of a memtable.
#[derive(Debug, Default)]
pub(super) struct MemtableRows {
    now: BTreeMap<Key, Cell>,
    /// Replaced values that snapshots still see, by key and commit.
    before: BTreeMap<(Key, u64), ValueSlot>,
    values: Vec<u8>,
}

impl MemtableRows {
    /// Sets or removes a row. `watched` is the newest commit that a snapshot sees as the last.
    pub(super) fn put(
        &mut self,
        key: Key,
        value: Option<&[u8]>,
        commit: u64,
        watched: Option<u64>,
    ) {
        let place = ValueSlot(value.map(|value| {
            let at = self.values.len();
            self.values.extend_from_slice(value);
            (at, value.len() as u32)
        }));
        let old = self.now.insert(key, Cell { place, commit });
        if let Some(old) = old
            && watched.is_some_and(|as_of| as_of >= old.commit)
        {
            self.before.insert((key, old.commit), old.place);
        }
    }

    fn value(&self, place: ValueSlot) -> Option<&[u8]> {
        place.0.map(|(at, len)| {
            let value = self.values.get(at..at + len as usize);
            value.unwrap_or_default()
        })
    }

    fn value_slot(&self, key: &Key, cell: &Cell, as_of: Option<u64>) -> Option<ValueSlot> {
        match as_of {
            Some(as_of) if cell.commit > as_of => {
                let older = self.before.range((*key, 0)..=(*key, as_of)).next_back();
                older.map(|(_, place)| *place)
            }
            _ => Some(cell.place),
        }
    }

    /// Looks up a key, now or as of a commit.
    pub(super) fn get(&self, key: &Key, as_of: Option<u64>) -> Lookup<'_> {
        let cell = self.now.get(key);
        match cell.and_then(|cell| self.value_slot(key, cell, as_of)) {
            None => Lookup::Unknown,
            Some(place) => self.value(place).map_or(Lookup::Removed, Lookup::Row),
        }
    }

    /// All rows in key order; removed ones have no value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let rows = self.now.iter();
        rows.map(|(key, cell)| (key.as_slice(), self.value(cell.place)))
    }

    /// Takes over the allocation of another memtable if this one is empty.
    pub(super) fn reuse(&mut self, other: Self) {
        if self.values.is_empty() && other.values.capacity() <= CAPACITY_KEPT_MAX {
            self.values = other.values;
            self.values.clear();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.now.len()
    }

    /// Approximate memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.values.len() + (self.now.len() + self.before.len()) * ROW_BYTES
    }
}

/// A memtable that is shared with snapshots.
#[derive(Debug, Default)]
pub(super) struct Memtable(RwLock<MemtableRows>);

impl Memtable {
    pub(super) fn into_rows(self) -> MemtableRows {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rows(&self) -> RwLockReadGuard<'_, MemtableRows> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rows_mut(&self) -> RwLockWriteGuard<'_, MemtableRows> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A row at a cursor's position: its key, and its value unless it was removed.
pub(super) type CursorRow<'r> = (&'r [u8], Option<&'r [u8]>);

/// Cursor over a range of a memtable as of a commit. Rows are copied in chunks, and no lock is kept between them.
pub(super) struct MemtableCursor {
    memtable: Arc<Memtable>,
    as_of: u64,
    /// Start of the next chunk; `None` at the end.
    from: Option<Key>,
    until: Option<Vec<u8>>,
    keys: Vec<(Key, ValueSlot)>,
    values: Vec<u8>,
    at: usize,
}

impl MemtableCursor {
    pub(super) fn new(
        memtable: Arc<Memtable>,
        as_of: u64,
        from: &[u8],
        until: Option<&[u8]>,
    ) -> Self {
        // Keys that are a prefix of a longer bound precede it.
        let cut = from.get(..KEY_BYTES_MAX).unwrap_or(from);
        let mut cursor = Self {
            memtable,
            as_of,
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
        let rows = self.memtable.rows();
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
            let Some(place) = rows.value_slot(key, cell, Some(self.as_of)) else {
                continue;
            };
            let place = ValueSlot(rows.value(place).map(|value| {
                let at = self.values.len();
                self.values.extend_from_slice(value);
                (at, value.len() as u32)
            }));
            self.keys.push((*key, place));
        }
        None
    }

    pub(super) fn peek(&self) -> Option<CursorRow<'_>> {
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
