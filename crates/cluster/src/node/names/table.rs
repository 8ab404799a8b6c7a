//! Entries of a partition as a file: a sorted table that one server writes and another adds to its store.
//!
//! The format is [`esker_store::segment`] of kind table: each block has rows of `names` in the order of their keys,
//! compressed and with a checksum. A reader compares the file with the giver's description ([`TableFile`]): length,
//! checksum, number of rows, and that each row is an entry of that directory with a hash of that partition, or a
//! record of a departed entry.

use crate::peer::{RawRow, RawTable, TableFile};
use crate::vnode::ServerId;
use esker_model::VertexId;
use esker_model::codec::DecodeError;
use esker_model::namespace::record::{dentry_key, removed_entry_key};
use esker_store::segment::{
    BLOCK_BYTES, Head, Kind, SegmentError, SegmentReader, SegmentWriter, checksum, commits,
    put_commit,
};
use esker_store::{Table, WriteBatch};

/// Description of what is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidTable(String);

impl std::fmt::Display for InvalidTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SegmentError> for InvalidTable {
    fn from(e: SegmentError) -> Self {
        Self(match e {
            SegmentError::Damaged { at, expected } => format!("byte {at}: expected {expected}"),
            SegmentError::Io(e) => e.to_string(),
        })
    }
}

impl From<DecodeError> for InvalidTable {
    fn from(e: DecodeError) -> Self {
        Self(e.to_string())
    }
}

/// Key ranges of a partition's rows: entries, then records of departed entries; from the first key up to the second, exclusive.
pub(crate) fn ranges_of(directory: VertexId, (first, last): (u64, u64)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let behind = |key: &[u8]| [key, &[0]].concat();
    vec![
        (
            dentry_key(directory, first, 0).to_vec(),
            behind(&dentry_key(directory, last, u8::MAX)),
        ),
        (
            removed_entry_key(directory, first).to_vec(),
            behind(&removed_entry_key(directory, last)),
        ),
    ]
}

/// A table file being written.
pub(crate) struct TableWriter {
    about: TableFile,
    file: Vec<u8>,
    block: WriteBatch,
    packed: Vec<u8>,
    segment: SegmentWriter,
}

impl TableWriter {
    /// Begins a file of server `giver` that is to contain `rows` rows.
    pub(crate) fn new(
        giver: ServerId,
        (incarnation, number): (u64, u64),
        hashes: (u64, u64),
        rows: u64,
    ) -> Self {
        let about = TableFile {
            giver,
            incarnation,
            number,
            rows,
            bytes: 0,
            checksum: [0; 8],
            hashes,
        };
        let mut file = Vec::new();
        let segment = SegmentWriter::begin(&head_of(&about), &mut file);
        Self {
            about,
            file,
            block: WriteBatch::default(),
            packed: Vec::new(),
            segment,
        }
    }

    /// Appends a row, in the order of keys.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.block.put(Table::Names, key, value);
        if self.block.bytes() >= BLOCK_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.block.is_empty() {
            return;
        }
        self.packed.clear();
        put_commit(&mut self.packed, &std::mem::take(&mut self.block));
        self.segment.block(&self.packed, &mut self.file);
    }

    /// Ends the file; returns its description and its bytes.
    pub(crate) fn end(mut self) -> (TableFile, Vec<u8>) {
        self.flush();
        self.segment.end(&mut self.file);
        self.about.bytes = self.file.len() as u64;
        self.about.checksum = checksum(&self.file);
        (self.about, self.file)
    }
}

fn head_of(about: &TableFile) -> Head {
    Head {
        kind: Kind::Table,
        store: u64::from(about.giver.0),
        generation: about.incarnation,
        first: about.number,
        last: about.rows,
    }
}

/// Reads the rows of a file, if the file matches its description.
pub(crate) fn read(
    about: &TableFile,
    directory: VertexId,
    file: &[u8],
) -> Result<Vec<RawRow>, InvalidTable> {
    if file.len() as u64 != about.bytes || checksum(file) != about.checksum {
        return Err(InvalidTable(format!(
            "it has {} bytes, and its sender wrote {} with another checksum or another length",
            file.len(),
            about.bytes
        )));
    }
    let mut reader = SegmentReader::begin(file)?;
    if reader.head() != head_of(about) {
        return Err(InvalidTable("its head is that of another file".into()));
    }
    let ranges = ranges_of(directory, about.hashes);
    let belongs = |key: &[u8]| {
        let within = |(from, until): &(Vec<u8>, Vec<u8>)| from.as_slice() <= key && key < until;
        ranges.iter().any(within)
    };
    let mut rows: Vec<RawRow> = Vec::new();
    while let Some(block) = reader.block()? {
        commits::<InvalidTable>(&block, &mut |batch| {
            for write in batch.iter() {
                let follows = rows
                    .last()
                    .is_none_or(|last| last.key.as_slice() < write.key);
                match write.value {
                    Some(value) if write.table == Table::Names && follows && belongs(write.key) => {
                        rows.push(RawRow {
                            table: RawTable::Names,
                            key: write.key.to_vec(),
                            value: value.to_vec(),
                        });
                    }
                    _ => {
                        return Err(InvalidTable(format!(
                            "row {} is not of that partition, or out of order",
                            rows.len()
                        )));
                    }
                }
            }
            Ok(())
        })?;
    }
    if rows.len() as u64 != about.rows {
        return Err(InvalidTable(format!(
            "it has {} rows, and its sender wrote {}",
            rows.len(),
            about.rows
        )));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    const HASHES: (u64, u64) = (1 << 63, (1 << 63) + (1 << 62) - 1);

    fn directory() -> VertexId {
        VertexId([9; 16])
    }

    fn file(
        entries: &std::collections::BTreeMap<(bool, u64, u8), Vec<u8>>,
    ) -> (TableFile, Vec<u8>) {
        let number = (3, 17);
        let mut writer = TableWriter::new(ServerId(5), number, HASHES, entries.len() as u64);
        for ((left, hash, n), value) in entries {
            if *left {
                writer.push(&removed_entry_key(directory(), *hash), value);
            } else {
                writer.push(&dentry_key(directory(), *hash, *n), value);
            }
        }
        writer.end()
    }

    fn entries() -> impl Strategy<Value = std::collections::BTreeMap<(bool, u64, u8), Vec<u8>>> {
        let key = (any::<bool>(), HASHES.0..=HASHES.1, 0..3_u8);
        let key = key.prop_map(|(left, hash, n)| (left, hash, if left { 0 } else { n }));
        btree_map(key, vec(any::<u8>(), 0..80), 0..60)
    }

    proptest! {
        /// Written rows are read back, and a description matches no other file.
        #[test]
        fn rows_come_back(entries in entries()) {
            let (about, bytes) = file(&entries);
            let rows = read(&about, directory(), &bytes).unwrap();
            prop_assert_eq!(rows.len(), entries.len());
            for (row, ((left, hash, n), value)) in rows.iter().zip(&entries) {
                let key = if *left {
                    removed_entry_key(directory(), *hash).to_vec()
                } else {
                    dentry_key(directory(), *hash, *n).to_vec()
                };
                prop_assert_eq!((&row.key, &row.value), (&key, value));
            }
            let other = TableFile { number: 18, ..about.clone() };
            prop_assert!(read(&other, directory(), &bytes).is_err());
            let fewer = TableFile { rows: about.rows + 1, ..about.clone() };
            prop_assert!(read(&fewer, directory(), &bytes).is_err());
            if !entries.is_empty() {
                prop_assert!(read(&about, VertexId([8; 16]), &bytes).is_err());
                let elsewhere = TableFile { hashes: (0, 7), ..about };
                prop_assert!(read(&elsewhere, directory(), &bytes).is_err());
            }
        }

        /// Truncated or changed bytes are refused, even with a matching checksum; arbitrary bytes never panic.
        #[test]
        fn damage_is_refused(entries in entries(), at in any::<prop::sample::Index>(), bit in 0..8_u32, noise in vec(any::<u8>(), 0..300)) {
            let (about, bytes) = file(&entries);
            let at = at.index(bytes.len());
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            for damaged in [&bytes[..at], &changed, &noise] {
                prop_assert!(read(&about, directory(), damaged).is_err());
                let believed = TableFile {
                    bytes: damaged.len() as u64,
                    checksum: checksum(damaged),
                    ..about.clone()
                };
                prop_assert!(read(&believed, directory(), damaged).is_err());
            }
        }
    }

    #[test]
    fn large_files_have_several_blocks() {
        let mut writer = TableWriter::new(ServerId(0), (1, 1), (0, u64::MAX), 40_000);
        for n in 0..40_000_u64 {
            // Random bytes do not compress.
            let value: Vec<u8> = (0..12)
                .flat_map(|k| crate::hash::mix(n * 12 + k).to_be_bytes())
                .collect();
            writer.push(&dentry_key(directory(), n, 0), &value);
        }
        let (about, bytes) = writer.end();
        assert!(about.bytes > 3 * BLOCK_BYTES as u64);
        assert_eq!(read(&about, directory(), &bytes).unwrap().len(), 40_000);
    }

    #[test]
    fn names_tell_the_giver() {
        let (about, _) = file(&std::collections::BTreeMap::default());
        assert_eq!(about.name(), "split-5-3-11.table");
        assert_eq!(TableFile::parse_name(&about.name()), Some((ServerId(5), 3)));
        for other in [
            "split-5-3-11.table.new",
            "split-5-3.table",
            "split-5-3-011.table",
            "CLUSTER",
            "split-5-3-11-1.table",
        ] {
            assert_eq!(TableFile::parse_name(other), None, "{other}");
        }
    }
}
