//! Hash tables over rows: sets of distinct rows, and rows by key.

use super::table::Table;
use crate::id::Id;
use crate::quads::sort;

const K: u64 = 0x9E37_79B9_7F4A_7C15;

pub(crate) fn mix(h: u64, id: Id) -> u64 {
    let wide = u128::from(h ^ u64::from(id)).wrapping_mul(u128::from(K | 1));
    (wide as u64) ^ (wide >> 64) as u64
}

const fn mix64(key: u64) -> u64 {
    let wide = (key as u128).wrapping_mul(K as u128);
    (wide as u64) ^ (wide >> 64) as u64
}

fn hash_row<'a>(columns: impl Iterator<Item = &'a [Id]>, row: usize) -> u64 {
    columns.fold(K, |h, c| mix(h, c[row]))
}

/// A set of rows. Up to two columns are packed into one number stored in the hash table itself, so that a lookup costs one cache line;
/// wider rows are numbered.
#[derive(Debug, Default)]
pub(crate) struct DistinctRows {
    /// Open-addressing table of packed rows; 0 marks a free slot.
    slots: Vec<u64>,
    /// Number of used slots.
    filled: usize,
    /// Whether the row of zeros is in the set.
    zero: bool,
    len: usize,
    wide: RowSet,
}

impl DistinctRows {
    /// Returns the number of distinct rows.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Adds the rows of a table and returns those that are new. Each table must have the same columns.
    pub(crate) fn add(&mut self, table: &Table) -> Vec<u32> {
        let rows = 0..table.len() as u32;
        let new: Vec<u32> = match table.columns() {
            [] => rows.take(usize::from(!self.zero)).collect(),
            [a] => rows
                .filter(|r| self.insert(u64::from(a[*r as usize])))
                .collect(),
            [a, b] => rows
                .filter(|r| {
                    self.insert(u64::from(a[*r as usize]) << 32 | u64::from(b[*r as usize]))
                })
                .collect(),
            _ => rows
                .filter(|r| self.wide.find_or_insert(table, *r as usize).1)
                .collect(),
        };
        if table.columns().is_empty() {
            self.zero |= !new.is_empty();
        }
        self.len += new.len();
        new
    }

    /// Adds a pair; returns whether it is new. For sets that contain only pairs.
    pub(crate) fn insert_pair(&mut self, a: u32, b: Id) -> bool {
        self.insert(u64::from(a) << 32 | u64::from(b))
    }

    /// Adds a number; returns whether it is new.
    fn insert(&mut self, key: u64) -> bool {
        if key == 0 {
            return !std::mem::replace(&mut self.zero, true);
        }
        if self.filled * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = mix64(key) as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == key {
                return false;
            }
            if slot == 0 {
                self.slots[at] = key;
                self.filled += 1;
                return true;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 4).max(256);
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        for key in old.into_iter().filter(|k| *k != 0) {
            let mut at = mix64(key) as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = key;
        }
    }
}

/// Filter that removes duplicate rows from a stream while that pays: if most rows are new, it passes everything for a while and then
/// measures again. For results in which duplicates are harmless.
#[derive(Debug, Default)]
pub(crate) struct DuplicateFilter {
    seen: DistinctRows,
    looked: usize,
    /// Rows still to pass unchecked.
    off: usize,
}

impl DuplicateFilter {
    /// Rows checked before each decision.
    const LOOK: usize = 1 << 17;
    /// Rows passed unchecked afterwards.
    const PASS: usize = 1 << 20;

    /// Returns the rows that pass; `None` for all.
    pub(crate) fn add(&mut self, table: &Table) -> Option<Vec<u32>> {
        if self.off > 0 {
            self.off = self.off.saturating_sub(table.len());
            return None;
        }
        let kept = self.seen.add(table);
        self.looked += table.len();
        // A single column has at most as many values as there are terms.
        let pairs = table.columns().len() > 1;
        if pairs && self.looked >= Self::LOOK && self.seen.len() * 4 > self.looked * 3 {
            *self = Self {
                off: Self::PASS,
                ..Self::default()
            };
        }
        (kept.len() < table.len()).then_some(kept)
    }

    pub(crate) const fn len(&self) -> usize {
        self.seen.len()
    }
}

/// Number of rows from which sorting is cheaper than a hash table larger than the caches.
const SORTED: usize = 1 << 18;

/// Removes duplicate rows; the order is unspecified.
pub(crate) fn distinct(table: Table) -> Table {
    let pack = |a: Id, b: Id| u64::from(a) << 32 | u64::from(b);
    let mut keys: Vec<u64> = match table.columns() {
        [a] if table.len() >= SORTED => a.iter().map(|a| u64::from(*a)).collect(),
        [a, b] if table.len() >= SORTED => a.iter().zip(b).map(|(a, b)| pack(*a, *b)).collect(),
        _ => return distinct_in_order(table),
    };
    let vars = table.vars().to_vec();
    drop(table);
    sort(&mut keys);
    keys.dedup();
    let mut columns = vec![keys.iter().map(|k| *k as Id).collect()];
    if vars.len() == 2 {
        columns.insert(0, keys.iter().map(|k| (*k >> 32) as Id).collect());
    }
    Table::new(vars, columns, keys.len())
}

/// Removes duplicate rows; keeps the first of each in order.
pub(crate) fn distinct_in_order(table: Table) -> Table {
    let kept = DistinctRows::default().add(&table);
    if kept.len() == table.len() {
        table
    } else {
        table.select(&kept)
    }
}

/// Distinct rows, numbered in the order of their first occurrence.
#[derive(Debug, Default)]
pub(crate) struct RowSet {
    /// Open-addressing table: upper half of the hash, and row number plus one.
    slots: Vec<u64>,
    /// Cells of the rows, row by row.
    cells: Vec<Id>,
    len: usize,
}

impl RowSet {
    /// Returns the number of a row among the distinct ones, and whether it is new. Each table must have the same columns.
    pub(crate) fn find_or_insert(&mut self, table: &Table, r: usize) -> (usize, bool) {
        let columns = table.columns();
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow(columns.len());
        }
        let hash = hash_row(columns.iter().map(Vec::as_slice), r);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            if slot >> 32 == hash >> 32 {
                let n = (slot as u32 - 1) as usize;
                let row = &self.cells[n * columns.len()..][..columns.len()];
                if row.iter().zip(columns).all(|(a, b)| *a == b[r]) {
                    return (n, false);
                }
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = hash >> 32 << 32 | (self.len as u64 + 1);
        self.cells.extend(columns.iter().map(|c| c[r]));
        self.len += 1;
        (self.len - 1, true)
    }

    fn grow(&mut self, width: usize) {
        let size = (self.slots.len() * 4).max(64);
        self.slots = vec![0; size];
        for n in 0..self.len {
            let row = &self.cells[n * width..][..width];
            let hash = row.iter().fold(K, |h, id| mix(h, *id));
            let mut at = hash as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = hash >> 32 << 32 | (n as u64 + 1);
        }
    }
}

/// Chained hash table of a table's rows by key columns.
#[derive(Debug)]
pub(crate) struct KeyMap {
    /// First row of each chain, plus one.
    heads: Vec<u32>,
    /// Next row of the same chain, plus one.
    next: Vec<u32>,
}

impl KeyMap {
    /// Builds the table from key columns.
    pub(crate) fn new(keys: &[&[Id]], len: usize) -> Self {
        let size = (len * 2).next_power_of_two().max(16);
        let mut heads = vec![0u32; size];
        let mut next = vec![0u32; len];
        // Inserted from the end, so that chains ascend.
        for r in (0..len).rev() {
            let slot = hash_row(keys.iter().copied(), r) as usize & (size - 1);
            next[r] = heads[slot];
            heads[slot] = r as u32 + 1;
        }
        Self { heads, next }
    }

    /// Returns the rows whose key may equal that of another table's row, ascending; the caller must compare.
    pub(crate) fn candidates(
        &self,
        keys: &[&[Id]],
        row: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let slot = hash_row(keys.iter().copied(), row) as usize & (self.heads.len() - 1);
        let mut at = self.heads[slot];
        std::iter::from_fn(move || {
            let row = (at as usize).checked_sub(1)?;
            at = self.next[row];
            Some(row)
        })
    }
}
