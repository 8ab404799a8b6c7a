//! Files of commits: reading returns what was written, and damage is found and located.

use esker_store::segment::{
    Head, Kind, SegmentError, SegmentReader, SegmentWriter, commits, put_commit,
};
use esker_store::{Table, WriteBatch};
use proptest::prelude::*;

type Written = Vec<Vec<(Table, Vec<u8>, Option<Vec<u8>>)>>;

fn head(last: u64) -> Head {
    Head {
        kind: Kind::Segment,
        store: 77,
        generation: 3,
        first: 1,
        last,
    }
}

fn rows(batch: &WriteBatch) -> Vec<(Table, Vec<u8>, Option<Vec<u8>>)> {
    let row = |w: esker_store::Write<'_>| (w.table, w.key.to_vec(), w.value.map(<[u8]>::to_vec));
    batch.iter().map(row).collect()
}

/// Writes a file with a block for each list of commits.
fn file(blocks: &[Written]) -> Vec<u8> {
    let count: usize = blocks.iter().map(Vec::len).sum();
    let mut out = Vec::new();
    let mut writer = SegmentWriter::begin(&head(count as u64), &mut out);
    for block in blocks {
        let mut bytes = Vec::new();
        for commit in block {
            let mut batch = WriteBatch::default();
            for (table, key, value) in commit {
                match value {
                    Some(value) => batch.put(*table, key, value),
                    None => batch.remove(*table, key),
                }
            }
            put_commit(&mut bytes, &batch);
        }
        writer.block(&bytes, &mut out);
    }
    assert_eq!(writer.end(&mut out), out.len() as u64);
    out
}

fn read(bytes: &[u8]) -> Result<Written, SegmentError> {
    let mut reader = SegmentReader::begin(bytes)?;
    let mut all = Vec::new();
    while let Some(block) = reader.block()? {
        let done: Result<(), esker_model::codec::DecodeError> = commits(&block, &mut |batch| {
            all.push(rows(&batch));
            Ok(())
        });
        // Data with a matching checksum is as it was written.
        done.unwrap();
    }
    assert_eq!(reader.head(), head(reader.head().last));
    Ok(all)
}

fn is_damaged(bytes: &[u8]) -> bool {
    matches!(read(bytes), Err(SegmentError::Damaged { .. }))
}

fn write() -> impl Strategy<Value = (Table, Vec<u8>, Option<Vec<u8>>)> {
    let bytes = |n: usize| prop::collection::vec(any::<u8>(), 1..n);
    // Repetitive values are compressed, random ones are not.
    let value = prop_oneof![
        bytes(60),
        (any::<u8>(), 1_usize..4000).prop_map(|(b, n)| vec![b; n])
    ];
    let table = prop::sample::select(Table::ALL.to_vec());
    (table, bytes(20), prop::option::of(value))
}

fn blocks() -> impl Strategy<Value = Vec<Written>> {
    let commit = prop::collection::vec(write(), 1..6);
    prop::collection::vec(prop::collection::vec(commit, 1..5), 0..4)
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written(blocks in blocks()) {
        let all: Written = blocks.iter().flatten().cloned().collect();
        prop_assert_eq!(read(&file(&blocks)).unwrap(), all);
    }

    #[test]
    fn a_changed_byte_is_found(blocks in blocks(), at in any::<prop::sample::Index>(), change in 1_u8..) {
        let mut bytes = file(&blocks);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        match read(&bytes) {
            Err(SegmentError::Damaged { at: said, .. }) => prop_assert!(said <= bytes.len() as u64),
            other => prop_assert!(false, "byte {at}: {other:?}"),
        }
    }

    #[test]
    fn what_is_cut_short_or_goes_on_is_found(blocks in blocks(), at in any::<prop::sample::Index>()) {
        let bytes = file(&blocks);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(is_damaged(cut));
        let more = [bytes.as_slice(), b"x"].concat();
        prop_assert!(is_damaged(&more));
    }

    /// Short fuzz test: no input panics.
    #[test]
    fn anything_else_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
        let _: Result<(), esker_model::codec::DecodeError> = commits(&bytes, &mut |_| Ok(()));
    }
}
