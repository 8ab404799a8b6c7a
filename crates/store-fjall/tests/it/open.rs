//! Opening: directories without a database, open in another process, created incompletely, or written by another
//! version.

use esker_model::{Error, ErrorKind};
use esker_store::{Durability, Read, Store, StoreSettings, Table, WriteBatch};
use esker_store_fjall::FjallStore;
use std::path::Path;

fn open(path: &Path, create: bool) -> Result<FjallStore, Error> {
    let settings = StoreSettings {
        memory_bytes: 64 << 20,
        threads: 2,
    };
    FjallStore::open(path, &settings, create)
}

fn put(store: &FjallStore, key: &str) {
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, key, *b"v");
    store.commit(batch, Durability::Relaxed).unwrap();
}

#[test]
fn what_is_no_database_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    for path in [root.path().to_path_buf(), root.path().join("absent")] {
        let error = open(&path, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.to_string().contains("holds no fjall database"),
            "{error}"
        );
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    let file = root.path().join("file");
    std::fs::write(&file, "text").unwrap();
    assert!(open(&file, false).is_err());
    assert!(open(&file, true).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
}

#[test]
fn a_database_is_open_once() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path(), true).unwrap();
    let error = open(root.path(), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("open in another process"),
        "{error}"
    );
    put(&first, "a");
    drop(first);
    let again = open(root.path(), false).unwrap();
    assert!(again.get(Table::Rows, b"a").unwrap().is_some());
}

#[test]
fn a_creation_that_was_cut_short_is_begun_anew() {
    let root = tempfile::tempdir().unwrap();
    // The files that fjall has created when it writes its version file.
    std::fs::create_dir(root.path().join("keyspaces")).unwrap();
    std::fs::write(root.path().join("lock"), b"").unwrap();
    std::fs::write(root.path().join("0.jnl"), vec![0; 4096]).unwrap();
    put(&open(root.path(), true).unwrap(), "a");
    let store = open(root.path(), false).unwrap();
    assert!(store.get(Table::Rows, b"a").unwrap().is_some());
}

#[test]
fn another_version_is_refused() {
    let root = tempfile::tempdir().unwrap();
    put(&open(root.path(), true).unwrap(), "a");
    let version = root.path().join("version");
    let bytes = std::fs::read(&version).unwrap();
    std::fs::write(&version, b"FJL\x02").unwrap();
    let error = open(root.path(), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("format 2"), "{error}");
    std::fs::write(&version, b"rubbish").unwrap();
    let error = open(root.path(), false).unwrap_err();
    assert!(error.to_string().contains("unknown format"), "{error}");
    std::fs::write(&version, bytes).unwrap();
    assert!(
        open(root.path(), false)
            .unwrap()
            .get(Table::Rows, b"a")
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_damaged_table_is_an_error_and_no_panic() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), true).unwrap();
    let mut batch = WriteBatch::default();
    for n in 0..2000u32 {
        batch.put(Table::Rows, n.to_be_bytes(), vec![1; 100]);
    }
    store.commit(batch, Durability::Relaxed).unwrap();
    store.compact().unwrap();
    drop(store);
    // Damages bytes in the middle of every table file, in blocks of rows.
    for tree in std::fs::read_dir(root.path().join("keyspaces")).unwrap() {
        let tree = tree.unwrap();
        if tree.file_name() == "0" {
            continue;
        }
        for table in std::fs::read_dir(tree.path().join("tables")).unwrap() {
            let table = table.unwrap().path();
            let mut bytes = std::fs::read(&table).unwrap();
            let middle = bytes.len() / 4;
            bytes[middle] ^= 0xff;
            std::fs::write(&table, bytes).unwrap();
        }
    }
    let looked = open(root.path(), false).and_then(|store| {
        for n in 0..2000u32 {
            if store.get(Table::Rows, &n.to_be_bytes())? != Some(vec![1; 100]) {
                return Ok(false);
            }
        }
        Ok(true)
    });
    let error = looked.expect_err("damaged bytes were taken for rows");
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("restore a backup"), "{error}");
}

#[test]
fn a_close_leaves_no_long_log_and_later_writes_count() {
    let root = tempfile::tempdir().unwrap();
    let log = || -> u64 {
        std::fs::read_dir(root.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "jnl"))
            .map(|entry| entry.metadata().unwrap().len())
            .sum()
    };
    let store = open(root.path(), true).unwrap();
    for n in 0..100u32 {
        let mut batch = WriteBatch::default();
        for m in 0..100u32 {
            batch.put(Table::Rows, (n * 100 + m).to_be_bytes(), vec![1; 1000]);
        }
        store.commit(batch, Durability::Relaxed).unwrap();
    }
    drop(store);
    assert_eq!(log(), 0);
    // Later commits are newer than those in the tables, also for a process that dies.
    let store = open(root.path(), false).unwrap();
    let mut batch = WriteBatch::default();
    batch.put(Table::Rows, 1u32.to_be_bytes(), *b"new");
    batch.remove(Table::Rows, 2u32.to_be_bytes());
    store.commit(batch, Durability::Relaxed).unwrap();
    drop(store);
    assert!((1..10_000).contains(&log()), "a short log is left as it is");
    let store = open(root.path(), false).unwrap();
    let get = |n: u32| store.get(Table::Rows, &n.to_be_bytes()).unwrap();
    assert_eq!(get(1), Some(b"new".to_vec()));
    assert_eq!(get(2), None);
    assert_eq!(get(3), Some(vec![1; 1000]));
}
