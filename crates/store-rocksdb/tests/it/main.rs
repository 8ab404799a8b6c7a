//! Tests of the store on RocksDB: the conformance suite, and opening.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use esker_model::ErrorKind;
use esker_store::{Durability, Read, Store, StoreSettings, Table, WriteBatch, conformance};
use esker_store_rocksdb::RocksStore;

fn settings() -> StoreSettings {
    StoreSettings {
        memory_bytes: 64 << 20,
        threads: 2,
    }
}

#[test]
fn conformance() {
    let root = tempfile::tempdir().unwrap();
    conformance::run(root.path(), &mut |path| {
        Ok(Box::new(RocksStore::open(path, &settings(), true)?))
    })
    .unwrap();
}

#[test]
fn what_is_no_database_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let error = RocksStore::open(root.path(), &settings(), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("holds no RocksDB database"),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_database_is_open_once() {
    let root = tempfile::tempdir().unwrap();
    let first = RocksStore::open(root.path(), &settings(), true).unwrap();
    let error = RocksStore::open(root.path(), &settings(), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"a", *b"v");
    first.commit(batch, Durability::Relaxed).unwrap();
    drop(first);
    let again = RocksStore::open(root.path(), &settings(), false).unwrap();
    assert!(again.get(Table::Rows, b"a").unwrap().is_some());
}
