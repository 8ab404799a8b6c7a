//! Objects on disk, in table `objects` of the store.
//!
//! ```text
//!  [01][commit 8][part 4]   changes of one commit, in parts of some 1 MiB: entries
//!  [02][chunk 4]            the objects in 4,096 slots at a checkpoint: see `chunk`
//!  [03]                     numbers of objects and texts at the last checkpoint: a hint for reserving memory
//!
//!  entry   [01][length][object id 8][hash 16][row, as VertexRecord encodes it]   new state of the object; the hash is its
//!                                                                                identity's
//!          [03][chunk]    new objects, in columns (see `chunk`), to the end of the part
//!          [02][name][version 8][00, or 01 and a value][length][slots]      sets or removes a tag of many (a roaring
//!                                                                           bitmap in its portable format)
//! ```
//!
//! Opening reads all chunks and then all commits, in order. A checkpoint writes the chunks that changed since the last
//! one, in ascending order, and then removes the commits up to its start. If it is interrupted, commits are replayed over
//! chunks that already include them: each entry is a state, not a difference, so replaying it again is harmless, and since all
//! later commits are replayed, the result is the last state.

use super::chunk::{self, CHUNK};
use super::table::Table;
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use esker_model::object::ObjectId;
use esker_model::value::ValueView;
use esker_model::{Error, Result, Version};
use roaring::RoaringBitmap;

/// Approximate size of a row of the log, in bytes.
const PART_BYTES: usize = 1 << 20;

/// Bytes of a key of the log.
pub(super) const KEY_BYTES: usize = 13;
pub(super) const LOG: u8 = 1;
pub(super) const CHUNKS: u8 = 2;
/// The key of [`Table::sizes`] at the last checkpoint.
pub(super) const SIZES: [u8; 1] = [3];

const RECORD: u8 = 1;
const TAG: u8 = 2;
const CREATE: u8 = 3;

/// A tag set or removed on many objects in one commit.
#[derive(Debug)]
pub(crate) struct BulkTag {
    pub(crate) name: String,
    /// The value; `None` removes the tag.
    pub(crate) value: Option<esker_model::Value>,
    pub(crate) version: Version,
    pub(crate) slots: RoaringBitmap,
}

pub(super) fn log_key(commit: u64, part: u32) -> Vec<u8> {
    let mut key = vec![LOG];
    put_u64(&mut key, commit);
    key.extend_from_slice(&part.to_be_bytes());
    key
}

/// Decodes the commit number of a key of the log.
pub(super) fn commit_of(key: &[u8]) -> Result<u64, DecodeError> {
    let mut r = Reader::new(key);
    r.u8("a marker")?;
    r.u64("a commit's number")
}

pub(super) fn chunk_key(chunk: u32) -> Vec<u8> {
    let mut key = vec![CHUNKS];
    key.extend_from_slice(&chunk.to_be_bytes());
    key
}

/// Log entries, collected into parts.
#[derive(Debug, Default)]
pub(super) struct LogEntries {
    parts: Vec<Vec<u8>>,
    current: Vec<u8>,
}

impl LogEntries {
    /// Adds the new state of an object.
    pub(super) fn record(&mut self, id: ObjectId, hash: u128, row: &[u8]) {
        self.current.push(RECORD);
        put_varint(&mut self.current, row.len() as u64);
        put_u64(&mut self.current, id.0);
        self.current.extend_from_slice(&hash.to_be_bytes());
        self.current.extend_from_slice(row);
        self.cut();
    }

    /// The parts so far; none is empty.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let parts = self.parts.iter().chain([&self.current]);
        parts.map(Vec::as_slice).filter(|part| !part.is_empty())
    }

    pub(super) fn tag(&mut self, tag: &BulkTag) -> Result<()> {
        let out = &mut self.current;
        out.push(TAG);
        put_bytes(out, tag.name.as_bytes());
        put_u64(out, tag.version.0);
        match &tag.value {
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
            None => out.push(0),
        }
        let mut slots = Vec::with_capacity(tag.slots.serialized_size());
        let written = tag.slots.serialize_into(&mut slots);
        written.map_err(|e| Error::io("encoding a set of objects", e))?;
        put_bytes(out, &slots);
        self.cut();
        Ok(())
    }

    fn cut(&mut self) {
        if self.current.len() >= PART_BYTES {
            self.parts.push(std::mem::take(&mut self.current));
        }
    }
}

/// Returns parts of the log with all objects of a table, as new ones.
pub(super) fn created(table: &Table) -> Vec<Vec<u8>> {
    let (mut parts, mut from, all) = (Vec::new(), 0, table.slots() as u32);
    while from < all {
        let mut until = all.min(from + CHUNK);
        let part = loop {
            let mut part = vec![CREATE];
            chunk::write_slots(table, from..until, &mut part);
            if part.len() <= PART_BYTES || until == from + 1 {
                break part;
            }
            until = from + (until - from) / 2;
        };
        parts.push(part);
        from = until;
    }
    parts
}

/// Applies entries to a table.
pub(super) fn replay(table: &mut Table, entries: &[u8]) -> Result<(), DecodeError> {
    let mut r = Reader::new(entries);
    while r.remaining() > 0 {
        match r.u8("a kind of entry")? {
            RECORD => {
                let len = r.count(1, "a row's length")?;
                let id = ObjectId(r.u64("an object's number")?);
                let hash = u128::from_be_bytes(r.array("a hash")?);
                table.apply(id, r.take(len, "a row")?, hash)?;
            }
            TAG => {
                let name = r.str("a tag's name")?;
                let version = Version(r.u64("a version")?);
                let value = match r.u8("whether there is a value")? {
                    0 => None,
                    1 => Some(ValueView::decode(&mut r)?),
                    _ => return Err(r.error("whether there is a value (0 or 1)")),
                };
                let slots = r.bytes("a set of objects")?;
                let slots = RoaringBitmap::deserialize_from(slots)
                    .map_err(|_| r.error("a set of objects in the roaring format"))?;
                if slots.max().is_some_and(|s| s as usize >= table.slots()) {
                    return Err(r.error("slots that there are"));
                }
                table.tag(&slots, name, value.as_ref(), version);
            }
            CREATE => {
                let mut created = Table::new(table.type_id, u64::MAX);
                chunk::read(&mut created, r.take_rest())?;
                created.index_all()?;
                table.replay(&created)?;
            }
            _ => return Err(r.error("a kind of entry (1 to 3)")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::chunk::tests::{TYPE, check_same, table};

    fn replayed(table: &mut Table, parts: &[Vec<u8>]) {
        for part in parts {
            replay(table, part).unwrap();
        }
    }

    #[test]
    fn new_objects_are_replayed() {
        let new = table(u64::from(CHUNK) + 300);
        let mut again = Table::new(TYPE, 64);
        replayed(&mut again, &created(&new));
        check_same(&new, &again);
        // A checkpoint that was interrupted has the first chunk.
        let mut begun = Table::new(TYPE, 64);
        chunk::read(&mut begun, &chunk::write(&new, 0)).unwrap();
        begun.index_all().unwrap();
        for _ in 0..2 {
            replayed(&mut begun, &created(&new));
            check_same(&new, &begun);
        }
    }

    #[test]
    fn objects_are_appended_and_removed_again() {
        let all = table(900);
        for first in [0, 1, 63, 64, 65, 500] {
            let mut some = table(900);
            some.truncate(first);
            check_same(&table_of(&all, first), &some);
            for id in all.ids.iter().skip(first) {
                assert_eq!(some.slot_of(*id), None);
                assert_eq!(some.with_identity(&all.hash_of(*id).to_be_bytes()), None);
            }
            // The rest follows in columns that had other objects before.
            let mut rest = table(300);
            rest.truncate(0);
            copy(&all, first..900, &mut rest);
            some.append(&rest);
            check_same(&all, &some);
        }
    }

    fn copy(from: &Table, slots: std::ops::Range<usize>, to: &mut Table) {
        for slot in slots {
            let (id, mut row) = (from.id(slot as u32), Vec::new());
            from.encode(slot as u32, &mut row);
            to.apply(id, &row, from.hash_of(id)).unwrap();
        }
    }

    fn table_of(all: &Table, first: usize) -> Table {
        let mut table = Table::new(TYPE, 64);
        copy(all, 0..first, &mut table);
        table
    }
}
