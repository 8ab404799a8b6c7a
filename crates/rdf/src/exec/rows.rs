//! Rows hashed: which are the same, and which have the same key.

use super::table::Table;
use crate::id::Id;

const K: u64 = 0x9E37_79B9_7F4A_7C15;

pub(crate) fn mix(h: u64, id: Id) -> u64 {
    let wide = u128::from(h ^ u64::from(id)).wrapping_mul(u128::from(K | 1));
    (wide as u64) ^ (wide >> 64) as u64
}

fn hash_row<'a>(columns: impl Iterator<Item = &'a [Id]>, row: usize) -> u64 {
    columns.fold(K, |h, c| mix(h, c[row]))
}

/// Rows that were seen.
#[derive(Debug, Default)]
pub(crate) struct RowSet {
    /// Row numbers plus one, open addressing.
    slots: Vec<u32>,
    hashes: Vec<u32>,
    columns: Vec<Vec<Id>>,
    len: usize,
}

impl RowSet {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The rows of a table that were not seen before, which now are.
    pub(crate) fn add(&mut self, table: &Table) -> Vec<u32> {
        let mut new = Vec::new();
        if self.columns.is_empty() {
            self.columns = vec![Vec::new(); table.columns().len()];
        }
        for r in 0..table.len() {
            let (_, fresh) = self.place(table, r);
            if fresh {
                new.push(r as u32);
            }
        }
        new
    }

    /// The number of a row among the different ones, and whether it is new.
    pub(crate) fn place(&mut self, table: &Table, r: usize) -> (usize, bool) {
        if self.columns.len() != table.columns().len() {
            self.columns = vec![Vec::new(); table.columns().len()];
        }
        let cells = table.columns();
        if (self.len + 1) * 10 > self.slots.len() * 6 {
            self.grow();
        }
        let hash = hash_row(cells.iter().map(Vec::as_slice), r);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let n = slot as usize - 1;
            if self.hashes[n] == (hash >> 32) as u32
                && self.columns.iter().zip(cells).all(|(a, b)| a[n] == b[r])
            {
                return (n, false);
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = self.len as u32 + 1;
        self.hashes.push((hash >> 32) as u32);
        for (to, from) in self.columns.iter_mut().zip(cells) {
            to.push(from[r]);
        }
        self.len += 1;
        (self.len - 1, true)
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(64);
        self.slots = vec![0; size];
        for n in 0..self.len {
            let hash = hash_row(self.columns.iter().map(Vec::as_slice), n);
            let mut at = hash as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = n as u32 + 1;
        }
    }
}

/// Rows of a table by the hash of some of their columns.
#[derive(Debug)]
pub(crate) struct KeyMap {
    /// The first row of each chain plus one.
    heads: Vec<u32>,
    /// The next row with the same slot plus one.
    next: Vec<u32>,
}

impl KeyMap {
    /// Of keys in columns.
    pub(crate) fn new(keys: &[&[Id]], len: usize) -> Self {
        let size = (len * 2).next_power_of_two().max(16);
        let mut heads = vec![0u32; size];
        let mut next = vec![0u32; len];
        // From the end, so that chains ascend.
        for r in (0..len).rev() {
            let slot = hash_row(keys.iter().copied(), r) as usize & (size - 1);
            next[r] = heads[slot];
            heads[slot] = r as u32 + 1;
        }
        Self { heads, next }
    }

    /// The rows whose key may be that of another table's row, ascending; the caller compares.
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
