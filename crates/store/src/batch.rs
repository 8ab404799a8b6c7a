//! Batches of writes in one buffer: keys and values need no allocations of their own, and several keys can share a
//! value.

use crate::{Table, check_key, check_value};
use esker_model::Result;
use std::ops::Range;

/// One write of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    /// Table of the key.
    pub table: Table,
    /// The key to write.
    pub key: &'a [u8],
    /// The new value; `None` removes the key.
    pub value: Option<&'a [u8]>,
}

/// Position of a value in the buffer of a batch, if there is one. Valid only for the batch that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueRange(Option<(usize, usize)>);

impl ValueRange {
    /// The absence of a value: a removal.
    pub const REMOVED: Self = Self(None);
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    table: Table,
    /// First bytes of the key, which decide most comparisons.
    prefix: u64,
    /// Offset and length in the buffer.
    key: (usize, usize),
    value: ValueRange,
}

fn sort(entries: &mut [Entry], bytes: &[u8]) {
    let key = |entry: &Entry| &bytes[entry.key.0..entry.key.0 + entry.key.1];
    entries.sort_unstable_by(|a, b| {
        (a.table, a.prefix)
            .cmp(&(b.table, b.prefix))
            .then_with(|| key(a).cmp(key(b)))
    });
}

/// Writes that become visible, and durable, together. The last write of a key wins.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl WriteBatch {
    /// Sets the value of a key.
    pub fn put(&mut self, table: Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let value = self.add_value(value.as_ref());
        self.push(table, key.as_ref(), value);
    }

    /// Removes a key from a table.
    pub fn remove(&mut self, table: Table, key: impl AsRef<[u8]>) {
        self.push(table, key.as_ref(), ValueRange::REMOVED);
    }

    /// Adds a value that several keys can be set to, by [`Self::push`] or [`Self::replace`].
    pub fn add_value(&mut self, value: &[u8]) -> ValueRange {
        let range = (self.bytes.len(), value.len());
        self.bytes.extend_from_slice(value);
        ValueRange(Some(range))
    }

    /// Adds a write with a value of this batch; returns its index.
    pub fn push(&mut self, table: Table, key: &[u8], value: ValueRange) -> usize {
        let range = (self.bytes.len(), key.len());
        self.bytes.extend_from_slice(key);
        let mut prefix = [0; 8];
        for (byte, of_key) in prefix.iter_mut().zip(key) {
            *byte = *of_key;
        }
        self.entries.push(Entry {
            table,
            prefix: u64::from_be_bytes(prefix),
            key: range,
            value,
        });
        self.entries.len() - 1
    }

    /// Replaces the value of a write by another value of this batch; returns the previous one.
    pub fn replace(&mut self, number: usize, value: ValueRange) -> ValueRange {
        std::mem::replace(&mut self.entries[number].value, value)
    }

    /// Keeps only the first `len` writes.
    pub fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
    }

    /// Reserves capacity for more writes.
    pub fn reserve(&mut self, writes: usize, bytes: usize) {
        self.entries.reserve(writes);
        self.bytes.reserve(bytes);
    }

    /// Sorts the writes by table and key. No key may occur twice.
    pub fn sort(&mut self) {
        sort(&mut self.entries, &self.bytes);
    }

    /// Sorts the writes by table and key, except those for which `excluded` returns true: they follow all others, in
    /// the order in which they were pushed.
    pub fn sort_except(&mut self, excluded: impl Fn(Table, &[u8]) -> bool) {
        let bytes = &self.bytes;
        let key = |p: &Entry| &bytes[p.key.0..p.key.0 + p.key.1];
        let (behind, mut sorted): (Vec<Entry>, Vec<Entry>) = self
            .entries
            .drain(..)
            .partition(|p| excluded(p.table, key(p)));
        sort(&mut sorted, bytes);
        sorted.extend(behind);
        self.entries = sorted;
    }

    fn slice(&self, (at, len): (usize, usize)) -> &[u8] {
        &self.bytes[at..at + len]
    }

    fn write(&self, entry: &Entry) -> Write<'_> {
        Write {
            table: entry.table,
            key: self.slice(entry.key),
            value: entry.value.0.map(|value| self.slice(value)),
        }
    }

    /// Returns the write with this index.
    pub fn get(&self, number: usize) -> Write<'_> {
        self.write(&self.entries[number])
    }

    /// Iterates over all writes, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Write<'_>> {
        self.entries.iter().map(|entry| self.write(entry))
    }

    /// Iterates over the tables of all writes, in order, and the positions of their keys and values in [`Self::buffer`].
    pub fn positions(
        &self,
    ) -> impl ExactSizeIterator<Item = (Table, Range<usize>, Option<Range<usize>>)> {
        let range = |(at, len): (usize, usize)| at..at + len;
        self.entries
            .iter()
            .map(move |entry| (entry.table, range(entry.key), entry.value.0.map(range)))
    }

    /// Returns the buffer with the keys and values of all writes.
    pub fn buffer(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the approximate size of keys and values in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Copies the writes of all tables but one.
    #[must_use]
    pub fn without(&self, table: Table) -> Self {
        let mut rest = Self::default();
        for write in self.iter().filter(|w| w.table != table) {
            match write.value {
                Some(value) => rest.put(write.table, write.key, value),
                None => rest.remove(write.table, write.key),
            }
        }
        rest
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the batch has no writes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Checks that all stores accept every key and value. A store checks a batch before it applies anything.
    pub fn check(&self) -> Result<()> {
        for write in self.iter() {
            check_key(write.key)?;
            if let Some(value) = write.value {
                check_value(value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_share_a_value_and_change_it() {
        let mut batch = WriteBatch::default();
        let shared = batch.add_value(b"both");
        batch.push(Table::Rows, b"b", shared);
        let a = batch.push(Table::Rows, b"a", shared);
        batch.remove(Table::Meta, b"c");
        assert_eq!(batch.get(a).value, Some(b"both".as_slice()));
        assert_eq!(batch.replace(a, ValueRange::REMOVED), shared);
        batch.put(Table::History, b"d", b"");
        batch.sort();
        let all: Vec<_> = batch.iter().map(|w| (w.table, w.key, w.value)).collect();
        let expected: [(Table, &[u8], Option<&[u8]>); 4] = [
            (Table::Rows, b"a", None),
            (Table::Rows, b"b", Some(b"both")),
            (Table::History, b"d", Some(b"")),
            (Table::Meta, b"c", None),
        ];
        assert_eq!(all, expected);
        batch.sort_except(|table, _| table == Table::Rows);
        let all: Vec<_> = batch.iter().map(|w| w.key).collect();
        assert_eq!(all, [b"d".as_slice(), b"c", b"a", b"b"]);
        for (write, (table, key, value)) in batch.iter().zip(batch.positions()) {
            let value = value.map(|value| &batch.buffer()[value]);
            let expected = (write.table, write.key, write.value);
            assert_eq!((table, &batch.buffer()[key], value), expected);
        }
        batch.sort();
        batch.truncate(1);
        assert_eq!(batch.len(), 1);
        batch.check().unwrap();
        batch.remove(Table::Rows, b"");
        batch.check().unwrap_err();
    }
}
