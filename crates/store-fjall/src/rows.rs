//! Rows on their way to fjall, with few copies, and single rows on their way back.

use crate::engine::Engine;
use crate::memtable_filter::FilterWriter;
use byteview::ByteView;
use esker_store::{Table, WriteBatch};
use fjall::{AbstractTree, OwnedWriteBatch, PersistMode, SeqNo, Slice, UserValue};
use lsm_tree::ValueType;
use lsm_tree::table::filter::standard_bloom::Builder;
use std::ops::Range;

/// Smallest number of rows of table `rows` in a batch for which they share the batch's buffer.
const SHARED_ROWS_MIN: usize = 16;
/// Largest buffer that rows share, in bytes. All of it stays in memory until the last of the rows is flushed.
const SHARED_BYTES_MAX: usize = 4 << 20;

/// A batch in the form that fjall takes.
pub(crate) struct Rows {
    pub(crate) batch: OwnedWriteBatch,
    /// Number of rows, and bytes of keys and values, by table.
    pub(crate) sizes: [(usize, usize); Table::ALL.len()],
    /// Hashes of the keys of table `rows`.
    hashes: Vec<u64>,
}

impl Rows {
    pub(crate) fn new(engine: &Engine, batch: &WriteBatch, mode: PersistMode) -> Self {
        let mut sizes = [(0, 0); Table::ALL.len()];
        for (table, key, value) in batch.positions() {
            let (rows, bytes) = &mut sizes[table as usize];
            *rows += 1;
            *bytes += key.len() + value.map_or(0, |value| value.len());
        }
        let mut copies = Copies::new(batch.buffer(), sizes[Table::Rows as usize]);
        let mut hashes = Vec::with_capacity(sizes[Table::Rows as usize].0);
        let mut rows = OwnedWriteBatch::with_capacity(engine.database.clone(), batch.len())
            .durability(Some(mode));
        for (table, key, value) in batch.positions() {
            if table == Table::Rows {
                hashes.push(key_hash(&batch.buffer()[key.clone()]));
            }
            let key = copies.key(table, key);
            match value {
                Some(value) => rows.insert(engine.table(table), key, copies.value(table, value)),
                None => rows.remove(engine.table(table), key),
            }
        }
        Self {
            batch: rows,
            sizes,
            hashes,
        }
    }

    /// Adds the keys of table `rows` to the filter of its memtables.
    pub(crate) fn add_to_filter(&self, engine: &Engine, writer: &FilterWriter) {
        for hash in &self.hashes {
            engine.row_filter.add(writer, *hash);
        }
    }
}

/// Copies of keys and values of a batch's buffer.
struct Copies<'b> {
    buffer: &'b [u8],
    /// A copy of the buffer that the rows of table `rows` share: one allocation for all of them, also for a value of two rows.
    shared: Option<ByteView>,
    /// The last value, which the next row may have as well: an edge and its inverse follow one another in a small batch.
    last: Option<(Range<usize>, Slice)>,
}

impl<'b> Copies<'b> {
    fn new(buffer: &'b [u8], (rows, bytes): (usize, usize)) -> Self {
        // The buffer would keep other tables' rows, which may be flushed earlier or later. So most of it must be rows of this table.
        let shares = rows >= SHARED_ROWS_MIN
            && 2 * bytes >= buffer.len()
            && buffer.len() <= SHARED_BYTES_MAX;
        Self {
            buffer,
            shared: shares.then(|| ByteView::new(buffer)),
            last: None,
        }
    }

    fn key(&self, table: Table, key: Range<usize>) -> Slice {
        match &self.shared {
            Some(shared) if table == Table::Rows => shared.slice(key).into(),
            _ => Slice::from(&self.buffer[key]),
        }
    }

    fn value(&mut self, table: Table, value: Range<usize>) -> Slice {
        match (&self.shared, &self.last) {
            (Some(shared), _) if table == Table::Rows => shared.slice(value).into(),
            (_, Some((range, copy))) if *range == value => copy.clone(),
            _ => {
                let copy = Slice::from(&self.buffer[value.clone()]);
                self.last = Some((value, copy.clone()));
                copy
            }
        }
    }
}

/// The hash of a key in filters, those of table files included.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    Builder::get_hash(key)
}

/// Returns the newest value of a key of table `rows`.
pub(crate) fn get(engine: &Engine, key: &[u8]) -> fjall::Result<Option<UserValue>> {
    let keyspace = engine.table(Table::Rows);
    let hash = key_hash(key);
    if engine.row_filter.may_contain(hash) {
        return keyspace.get(key);
    }
    // The tables are those of a version that is not older than the answer of the filter.
    let version = keyspace.tree.current_version();
    let runs = version.iter_levels().flat_map(|level| level.iter());
    for table in runs.filter_map(|run| run.get_for_key(key)) {
        let Some(row) = table.get(key, SeqNo::MAX, hash)? else {
            continue;
        };
        return match row.key.value_type {
            ValueType::Value => Ok(Some(row.value)),
            ValueType::Tombstone | ValueType::WeakTombstone => Ok(None),
            // The value is in another file.
            ValueType::Indirection => keyspace.get(key),
        };
    }
    Ok(None)
}
