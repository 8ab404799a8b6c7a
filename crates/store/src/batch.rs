//! A batch of writes, in one buffer: a key or a value costs no allocation of its own, and several keys can share a value.

use crate::{Table, check_key, check_value};
use esker_model::Result;

/// One change of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    /// Where.
    pub table: Table,
    /// Which.
    pub key: &'a [u8],
    /// Its value from now on; `None` removes it.
    pub value: Option<&'a [u8]>,
}

/// Where a value lies in a batch's buffer, if there is one. Only of use to the batch it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuePlace(Option<(usize, usize)>);

impl ValuePlace {
    /// No value: a removal.
    pub const REMOVED: Self = Self(None);
}

#[derive(Debug, Clone, Copy)]
struct Place {
    table: Table,
    /// Offset and length.
    key: (usize, usize),
    value: ValuePlace,
}

/// Changes that become visible, and durable, together. For one key the last one counts.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl WriteBatch {
    /// Sets a key.
    pub fn put(&mut self, table: Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let value = self.add_value(value.as_ref());
        self.push(table, key.as_ref(), value);
    }

    /// Removes a key.
    pub fn remove(&mut self, table: Table, key: impl AsRef<[u8]>) {
        self.push(table, key.as_ref(), ValuePlace::REMOVED);
    }

    /// Adds a value for keys that are to be set to it, by [`Self::push`] or [`Self::replace`].
    pub fn add_value(&mut self, value: &[u8]) -> ValuePlace {
        let place = (self.bytes.len(), value.len());
        self.bytes.extend_from_slice(value);
        ValuePlace(Some(place))
    }

    /// Adds a change with a value of this batch; gives its number.
    pub fn push(&mut self, table: Table, key: &[u8], value: ValuePlace) -> usize {
        let place = (self.bytes.len(), key.len());
        self.bytes.extend_from_slice(key);
        self.places.push(Place {
            table,
            key: place,
            value,
        });
        self.places.len() - 1
    }

    /// Gives a change another value of this batch; returns the one that it had.
    pub fn replace(&mut self, number: usize, value: ValuePlace) -> ValuePlace {
        std::mem::replace(&mut self.places[number].value, value)
    }

    /// Keeps the first `len` changes.
    pub fn truncate(&mut self, len: usize) {
        self.places.truncate(len);
    }

    /// Makes room for that many more changes.
    pub fn reserve(&mut self, writes: usize, bytes: usize) {
        self.places.reserve(writes);
        self.bytes.reserve(bytes);
    }

    /// Puts the changes in the order of their keys, table by table. No key may be there twice.
    pub fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |p: &Place| &bytes[p.key.0..p.key.0 + p.key.1];
        self.places
            .sort_unstable_by(|a, b| a.table.cmp(&b.table).then_with(|| key(a).cmp(key(b))));
    }

    /// The same, but for keys that `apart` says yes to: they come behind all others, in the order in which they were pushed.
    pub fn sort_but(&mut self, apart: impl Fn(Table, &[u8]) -> bool) {
        let bytes = &self.bytes;
        let key = |p: &Place| &bytes[p.key.0..p.key.0 + p.key.1];
        let (behind, mut sorted): (Vec<Place>, Vec<Place>) =
            self.places.drain(..).partition(|p| apart(p.table, key(p)));
        sorted.sort_unstable_by(|a, b| a.table.cmp(&b.table).then_with(|| key(a).cmp(key(b))));
        sorted.extend(behind);
        self.places = sorted;
    }

    fn slice(&self, (at, len): (usize, usize)) -> &[u8] {
        &self.bytes[at..at + len]
    }

    fn write(&self, place: &Place) -> Write<'_> {
        Write {
            table: place.table,
            key: self.slice(place.key),
            value: place.value.0.map(|value| self.slice(value)),
        }
    }

    /// The change with a number.
    pub fn get(&self, number: usize) -> Write<'_> {
        self.write(&self.places[number])
    }

    /// All changes, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Write<'_>> {
        self.places.iter().map(|place| self.write(place))
    }

    /// Bytes of keys and values, about.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The changes of all tables but one.
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

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether every key and value is one that all back ends take. A back end checks before it applies anything.
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
        assert_eq!(batch.replace(a, ValuePlace::REMOVED), shared);
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
        batch.sort_but(|table, _| table == Table::Rows);
        let all: Vec<_> = batch.iter().map(|w| w.key).collect();
        assert_eq!(all, [b"d".as_slice(), b"c", b"a", b"b"]);
        batch.sort();
        batch.truncate(1);
        assert_eq!(batch.len(), 1);
        batch.check().unwrap();
        batch.remove(Table::Rows, b"");
        batch.check().unwrap_err();
    }
}
