//! The in-memory store passes the conformance suite.

use esker_store::memory::MemoryStore;
use esker_store::{Durability, KeyRange, Read, Store, Table, WriteBatch, conformance};
use std::collections::HashMap;
use std::path::PathBuf;

#[test]
fn conformance() {
    let root = tempfile::tempdir().unwrap();
    // Each directory has one store: the first open creates it, or reads the checkpoint in the directory.
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
        Ok(Box::new(stores[path].clone()))
    })
    .unwrap();
}

#[test]
fn superseded_versions_go_when_no_reader_is_left() {
    let store = MemoryStore::new();
    let bytes = |store: &MemoryStore| -> u64 {
        store
            .stats()
            .unwrap()
            .table_bytes
            .iter()
            .map(|(_, b)| b)
            .sum()
    };
    let put = |value: Vec<u8>| {
        let mut batch = WriteBatch::default();
        batch.put(Table::Rows, *b"k", value);
        store.commit(batch, Durability::Relaxed).unwrap();
    };
    put(vec![0; 1000]);
    for _ in 0..10 {
        put(vec![0; 1000]);
    }
    assert_eq!(bytes(&store), 1001);
    let snapshot = store.snapshot().unwrap();
    put(vec![0; 10]);
    assert_eq!(bytes(&store), 1011);
    assert_eq!(
        snapshot.get(Table::Rows, b"k").unwrap().unwrap().len(),
        1000
    );
    drop(snapshot);
    store.compact().unwrap();
    assert_eq!(bytes(&store), 11);
    let mut batch = WriteBatch::default();
    batch.remove(Table::Rows, *b"k");
    store.commit(batch, Durability::Relaxed).unwrap();
    assert_eq!(bytes(&store), 0);
}

#[test]
fn a_foreign_or_cut_checkpoint_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let error = MemoryStore::open(root.path()).unwrap_err().to_string();
    assert!(error.contains("memory.store"), "{error}");
    let file = root.path().join("memory.store");
    std::fs::write(&file, b"not one at all").unwrap();
    let error = MemoryStore::open(root.path()).unwrap_err().to_string();
    assert!(error.contains("not a checkpoint"), "{error}");

    let store = MemoryStore::new();
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, *b"key", *b"value");
    store.commit(batch, Durability::Relaxed).unwrap();
    std::fs::remove_file(&file).unwrap();
    store.checkpoint(root.path()).unwrap();
    let whole = std::fs::read(&file).unwrap();
    for cut in [10, whole.len() - 1] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        assert!(MemoryStore::open(root.path()).is_err(), "cut at {cut}");
    }
    std::fs::write(&file, &whole).unwrap();
    let back = MemoryStore::open(root.path()).unwrap();
    let mut rows = 0;
    back.scan(Table::Rows, &KeyRange::ALL, &mut |_, _| {
        rows += 1;
        esker_model::Flow::Continue(())
    })
    .unwrap();
    assert_eq!(rows, 1);
}
