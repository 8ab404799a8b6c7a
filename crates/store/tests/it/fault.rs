//! Faults occur when requested, and a crash image has the synced rows.

use esker_model::Error;
use esker_store::fault::{FaultStore, Operation};
use esker_store::memory::MemoryStore;
use esker_store::{Durability, KeyRange, Read, Store, Table, WriteBatch, conformance};
use std::collections::HashMap;
use std::path::PathBuf;

fn full() -> Error {
    Error::io("writing", std::io::Error::from_raw_os_error(28))
}

fn put(store: &impl Store, key: &str, durability: Durability) -> esker_model::Result<()> {
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, key, *b"v");
    store.commit(batch, durability)
}

fn keys(store: &impl Store) -> String {
    let mut keys = String::new();
    store
        .scan(Table::Rows, &KeyRange::ALL, &mut |key, _| {
            keys.push_str(std::str::from_utf8(key).unwrap());
            esker_model::Flow::Continue(())
        })
        .unwrap();
    keys
}

#[test]
fn without_faults_it_is_the_store_inside() {
    let root = tempfile::tempdir().unwrap();
    let mut stores: HashMap<PathBuf, MemoryStore> = HashMap::new();
    conformance::run(root.path(), &mut |path| {
        if !stores.contains_key(path) {
            let store = if path.exists() {
                MemoryStore::open(path)?
            } else {
                MemoryStore::new()
            };
            stores.insert(path.to_path_buf(), store);
        }
        Ok(Box::new(FaultStore::new(stores[path].clone())?))
    })
    .unwrap();
}

#[test]
fn the_nth_commit_fails_and_changes_nothing() {
    let store = FaultStore::new(MemoryStore::new()).unwrap();
    store.fail_once(Operation::Commit, 2, full);
    put(&store, "a", Durability::Relaxed).unwrap();
    put(&store, "b", Durability::Relaxed).unwrap();
    let error = put(&store, "c", Durability::Relaxed).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
    put(&store, "d", Durability::Relaxed).unwrap();
    assert_eq!(keys(&store), "abd");
    assert_eq!(store.count(Operation::Commit), 4);
    store.fail_always(Operation::Commit, 0, full);
    for _ in 0..3 {
        put(&store, "e", Durability::Sync).unwrap_err();
    }
    store.heal();
    put(&store, "f", Durability::Sync).unwrap();
    assert_eq!(keys(&store), "abdf");
}

#[test]
fn reads_persists_and_loads_fail() {
    let store = FaultStore::new(MemoryStore::new()).unwrap();
    put(&store, "a", Durability::Relaxed).unwrap();
    store.fail_once(Operation::Read, 1, full);
    let snapshot = store.snapshot().unwrap();
    assert!(snapshot.get(Table::Rows, b"a").is_err());
    assert!(snapshot.get(Table::Rows, b"a").unwrap().is_some());
    store.fail_once(Operation::Read, 0, full);
    assert!(store.cursor(Table::Rows, &KeyRange::ALL).is_err());
    store.fail_once(Operation::Persist, 0, full);
    assert!(store.persist().is_err());
    assert_eq!(store.unsynced(), 1, "a failed persist synced nothing");
    store.fail_once(Operation::Load, 0, full);
    let mut load = store.bulk_load(Table::Rows).unwrap();
    load.push(b"b", b"v").unwrap();
    assert!(load.finish().is_err());
    drop(snapshot);
    assert_eq!(keys(&store), "a");
}

#[test]
fn a_power_failure_keeps_a_prefix_of_what_was_not_synced() {
    let store = FaultStore::new(MemoryStore::new()).unwrap();
    put(&store, "a", Durability::Relaxed).unwrap();
    put(&store, "b", Durability::Sync).unwrap();
    put(&store, "c", Durability::Relaxed).unwrap();
    put(&store, "d", Durability::Relaxed).unwrap();
    assert_eq!(keys(&store.crash_image(0).unwrap()), "ab");
    assert_eq!(keys(&store.crash_image(1).unwrap()), "abc");
    assert_eq!(keys(&store.crash_image(9).unwrap()), "abcd");
    store.persist().unwrap();
    assert_eq!(keys(&store.crash_image(0).unwrap()), "abcd");
    put(&store, "e", Durability::Relaxed).unwrap();
    let mut load = store.bulk_load(Table::Rows).unwrap();
    load.push(b"f", b"v").unwrap();
    assert_eq!(keys(&store.crash_image(0).unwrap()), "abcd");
    load.finish().unwrap();
    assert_eq!(keys(&store.crash_image(0).unwrap()), "abcdef");
    // Rows that existed before count as synced.
    let again = FaultStore::new(store.into_inner()).unwrap();
    assert_eq!(keys(&again.crash_image(0).unwrap()), "abcdef");
}
