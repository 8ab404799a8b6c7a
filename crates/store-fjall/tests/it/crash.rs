//! A process is killed while it writes. Afterwards all acknowledged writes exist, and others exist whole or not at all.
//!
//! The child is this test binary, started again for one ignored test. It commits over several tables, loads in bulk,
//! fills memtables so that flushes and merges are under way, and prints each number once it is acknowledged.

use esker_store::{Durability, KeyRange, Read, Store, StoreSettings, Table, WriteBatch};
use esker_store_fjall::FjallStore;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const DIRECTORY: &str = "ESKER_CRASH_TEST_DIRECTORY";
/// Number of rows of one commit in each table.
const ROWS: u64 = 20;
/// Number of commits after which a bulk load follows.
const LOAD_EVERY: u64 = 64;

fn open(path: &Path) -> FjallStore {
    let settings = StoreSettings {
        memory_bytes: 32 << 20,
        threads: 2,
    };
    FjallStore::open(path, &settings, true).unwrap()
}

fn number(store: &FjallStore, key: &[u8]) -> u64 {
    store
        .get(Table::Counts, key)
        .unwrap()
        .map_or(0, |v| u64::from_be_bytes(v.try_into().unwrap()))
}

/// Returns a key; consecutive numbers give unordered keys, like hashed ids.
fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Returns a value, sometimes large enough to be stored separately from its row.
fn value(n: u64) -> Vec<u8> {
    vec![n.to_be_bytes()[7]; if n.is_multiple_of(50) { 3000 } else { 200 }]
}

/// Does the bulk load that follows a commit, if there is one and it has not been done yet.
fn load(store: &FjallStore, commits: u64) {
    let row = |n: u64| [commits.to_be_bytes(), n.to_be_bytes()].concat();
    let done = || store.get(Table::Index, &row(0)).unwrap().is_some();
    if commits == 0 || !commits.is_multiple_of(LOAD_EVERY) || done() {
        return;
    }
    let mut load = store.bulk_load(Table::Index).unwrap();
    for n in 0..ROWS {
        load.push(&row(n), b"").unwrap();
    }
    load.finish().unwrap();
}

#[test]
#[ignore = "the child of the crash test"]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let store = open(Path::new(&directory));
    let mut out = std::io::stdout();
    let mut commits = number(&store, b"commits");
    // The child may have been killed between a commit and the load that follows it.
    load(&store, commits);
    loop {
        let mut batch = WriteBatch::default();
        for n in commits * ROWS..(commits + 1) * ROWS {
            batch.put(Table::Rows, key(n), value(n));
            batch.put(Table::History, key(n), value(n));
        }
        commits += 1;
        batch.put(Table::Counts, *b"commits", commits.to_be_bytes());
        let durability = match commits % 16 {
            0 => Durability::Sync,
            _ => Durability::Relaxed,
        };
        store.commit(batch, durability).unwrap();
        load(&store, commits);
        writeln!(out, "acknowledged {commits}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn kill() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("store");
    // Times soon after opening, before and after the first flushes (a memtable of rows has some 3 MiB here).
    for wanted in [1, 30, 500, 1200, 77] {
        let before = if directory.exists() {
            number(&open(&directory), b"commits")
        } else {
            0
        };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child", "--ignored", "--nocapture"])
            .env(DIRECTORY, &directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut acknowledged = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            // A complete line was acknowledged before the pipe broke; a line cut short does not parse.
            let line = line.unwrap();
            let Some(n) = line.strip_prefix("acknowledged ") else {
                continue;
            };
            acknowledged = n.parse().unwrap();
            if acknowledged == before + wanted {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(
            acknowledged >= before + wanted,
            "the child ended by itself at {acknowledged}"
        );
        check(&directory, acknowledged);
    }
}

fn check(directory: &Path, acknowledged: u64) {
    let store = open(directory);
    let commits = number(&store, b"commits");
    assert!(
        commits == acknowledged || commits == acknowledged + 1,
        "{commits} commits are left of {acknowledged}"
    );
    for table in [Table::Rows, Table::History] {
        let mut expected: Vec<_> = (0..commits * ROWS).map(|n| (key(n), value(n))).collect();
        expected.sort();
        let mut expected = expected.into_iter();
        store
            .scan(table, &KeyRange::ALL, &mut |k, v| {
                let (key, value) = expected.next().expect("a row that was never written");
                assert!(k == key && v == value, "row {k:?} of {}", table.name());
                esker_model::Flow::Continue(())
            })
            .unwrap();
        assert_eq!(expected.next(), None, "rows of {} are lost", table.name());
        assert_eq!(
            store.get(table, &key(commits * ROWS - 1)).unwrap(),
            Some(value(commits * ROWS - 1))
        );
    }
    let mut loaded = 0;
    store
        .scan(Table::Index, &KeyRange::ALL, &mut |_, _| {
            loaded += 1;
            esker_model::Flow::Continue(())
        })
        .unwrap();
    assert!(
        loaded == acknowledged / LOAD_EVERY * ROWS || loaded == commits / LOAD_EVERY * ROWS,
        "{loaded} loaded rows after {acknowledged} commits"
    );
}
