//! Random commits, snapshots and merges of a memtable, compared with a map.

use super::*;
use esker_store::memory::MemoryStore;
use proptest::prelude::*;
use std::ops::ControlFlow;

fn open() -> MemtableStore {
    MemtableStore::new(Arc::new(MemoryStore::default()), 1 << 16, Arc::default())
}

fn one(key: u8, value: Option<u8>) -> WriteBatch {
    let mut batch = WriteBatch::default();
    match value {
        Some(value) => batch.put(TABLE, [key], [value]),
        None => batch.remove(TABLE, [key]),
    }
    batch
}

type Model = BTreeMap<u8, u8>;

fn all(read: &(impl Read + ?Sized), from: u8, until: Option<u8>) -> Vec<(u8, u8)> {
    let range = KeyRange {
        from: vec![from],
        until: until.map(|u| vec![u]),
    };
    let mut rows = Vec::new();
    read.scan(TABLE, &range, &mut |key, value| {
        rows.push((key[0], value[0]));
        ControlFlow::Continue(())
    })
    .unwrap();
    let mut cursor = read.cursor(TABLE, &range).unwrap();
    for row in &rows {
        assert!(cursor.advance().unwrap());
        assert_eq!((cursor.key()[0], cursor.value()[0]), *row);
    }
    assert!(!cursor.advance().unwrap());
    rows
}

fn part(model: &Model, from: u8, until: Option<u8>) -> Vec<(u8, u8)> {
    let rows = model.iter().map(|(k, v)| (*k, *v));
    rows.filter(|(k, _)| *k >= from && until.is_none_or(|u| *k < u))
        .collect()
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Remove(u8),
    Get(u8),
    WriteOut,
    /// Freezes without writing, as a failed merge does.
    Freeze,
    Look,
    Compare(u8, Option<u8>),
}

fn steps() -> impl Strategy<Value = Step> {
    let key = || 0_u8..12;
    prop_oneof![
        6 => (key(), any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        3 => key().prop_map(Step::Remove),
        4 => key().prop_map(Step::Get),
        1 => Just(Step::WriteOut),
        1 => Just(Step::Freeze),
        1 => Just(Step::Look),
        2 => (key(), prop::option::of(key())).prop_map(|(f, u)| Step::Compare(f, u)),
    ]
}

proptest! {
    /// In any order of commits, writes, reads and snapshots, the store reads as a map does, and a snapshot as the map was.
    #[test]
    fn reads_are_those_of_a_map(steps in prop::collection::vec(steps(), 1..80)) {
        let store = open();
        let mut model = Model::new();
        let mut looks = Vec::new();
        for step in steps {
            match step {
                Step::Put(key, value) => {
                    store.add(&one(key, Some(value))).unwrap();
                    model.insert(key, value);
                }
                Step::Remove(key) => {
                    store.add(&one(key, None)).unwrap();
                    model.remove(&key);
                }
                Step::Get(key) => {
                    let value = store.get(TABLE, &[key]).unwrap();
                    prop_assert_eq!(value, model.get(&key).map(|v| vec![*v]));
                }
                Step::WriteOut => store.write_out().unwrap(),
                Step::Freeze => {
                    let mut state = store.state_mut();
                    if state.frozen.is_none() {
                        state.frozen = Some(std::mem::take(&mut state.active));
                    }
                }
                Step::Look => looks.push((store.take_snapshot().unwrap(), model.clone())),
                Step::Compare(from, until) => {
                    prop_assert_eq!(all(&store, from, until), part(&model, from, until));
                    for (look, model) in &looks {
                        prop_assert_eq!(all(look, from, until), part(model, from, until));
                        let value = look.get(TABLE, &[from]).unwrap();
                        prop_assert_eq!(value, model.get(&from).map(|v| vec![*v]));
                    }
                }
            }
        }
        drop(looks);
        prop_assert!(store.open_snapshots().is_empty());
        store.write_out().unwrap();
        prop_assert_eq!(store.bytes(), 0);
        prop_assert_eq!(all(&*store.inner, 0, None), part(&model, 0, None));
    }

    #[test]
    fn rows_come_back(rows in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), prop::option::of(prop::collection::vec(any::<u8>(), 0..40))), 0..9)) {
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, b"other", b"row");
        for (key, value) in &rows {
            match value {
                Some(value) => batch.put(TABLE, key, value),
                None => batch.remove(TABLE, key),
            }
        }
        let mut out = Vec::new();
        encode(&batch, &mut out);
        let read = decode(&mut Reader::new(&out)).unwrap();
        let read: Vec<_> = read.iter().map(|w| (w.key.to_vec(), w.value.map(<[u8]>::to_vec))).collect();
        prop_assert_eq!(read, rows);
    }
}

proptest! {
    /// Keys have the order of their bytes; zeros at the end count.
    #[test]
    fn keys_are_in_the_order_of_their_bytes(a in prop::collection::vec(0_u8..3, 0..64), more in prop::collection::vec(0_u8..3, 0..20), cut in 0_usize..64) {
        let mut b: Vec<u8> = a.iter().take(cut).copied().chain(more).collect();
        b.truncate(rows::KEY_BYTES_MAX);
        let (key_a, key_b) = (Key::new(&a).unwrap(), Key::new(&b).unwrap());
        prop_assert_eq!(key_a.cmp(&key_b), a.cmp(&b));
        prop_assert_eq!(key_a == key_b, a == b);
        prop_assert_eq!(key_a.as_slice(), a.as_slice());
    }
}

#[test]
fn many_rows_become_a_sorted_table_and_a_scan_takes_them_in_portions() {
    let store = open();
    let mut batch = WriteBatch::default();
    let rows = (BULK_LOAD_ROWS_MIN * 2) as u32;
    for n in 0..rows {
        batch.put(TABLE, n.to_be_bytes(), n.to_be_bytes());
    }
    store.add(&batch).unwrap();
    let count = || {
        let mut seen = 0;
        let scanned = store.scan(TABLE, &KeyRange::ALL, &mut |key, value| {
            assert_eq!((key, value), (&seen_bytes(seen)[..], &seen_bytes(seen)[..]));
            seen += 1;
            ControlFlow::Continue(())
        });
        scanned.unwrap();
        seen
    };
    assert_eq!(count(), rows);
    store.write_out().unwrap();
    assert_eq!((count(), store.bytes()), (rows, 0));
    assert_eq!(
        store.get(TABLE, &seen_bytes(5)).unwrap().unwrap(),
        seen_bytes(5)
    );
}

fn seen_bytes(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

#[test]
fn rows_come_with_their_commit() {
    let store = open();
    let meta = |key: &[u8]| {
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, key, b"x");
        batch
    };
    let before = store.take_snapshot().unwrap();
    let rows = one(1, Some(1));
    store
        .commit_with(meta(b"mine"), Some(&rows), Durability::Relaxed)
        .unwrap();
    assert_eq!(store.get(TABLE, &[1]).unwrap(), Some(vec![1]));
    assert_eq!(before.get(TABLE, &[1]).unwrap(), None);
    store
        .commit_with(meta(b"other"), None, Durability::Relaxed)
        .unwrap();
    assert_eq!(store.get(TABLE, &[1]).unwrap(), Some(vec![1]));
}

#[test]
fn what_is_staged_is_changed_by_transactions_only_and_long_keys_are_refused() {
    let store = open();
    store.add(&one(1, Some(1))).unwrap();
    let refused = store.commit(one(1, Some(2)), Durability::Relaxed);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    store.commit(one(2, Some(2)), Durability::Relaxed).unwrap();
    assert_eq!(store.get(TABLE, &[2]).unwrap(), Some(vec![2]));
    store.commit(one(2, Some(3)), Durability::Relaxed).unwrap();
    assert_eq!(
        store.get(TABLE, &[2]).unwrap(),
        Some(vec![3]),
        "the cache is told"
    );
    let mut long = WriteBatch::default();
    long.put(TABLE, [0; 64], []);
    assert!(MemtableStore::check(&long).is_err());
}

/// A store below whose snapshots wait for what another thread does first.
struct SlowSnapshots {
    inner: MemoryStore,
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Read for SlowSnapshots {
    fn get_with(&self, table: Table, key: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get_with(table, key, sink)
    }

    fn scan(
        &self,
        table: Table,
        range: &KeyRange,
        sink: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        self.inner.scan(table, range, sink)
    }

    fn cursor(&self, table: Table, range: &KeyRange) -> Result<Box<dyn Cursor + '_>> {
        self.inner.cursor(table, range)
    }
}

impl Store for SlowSnapshots {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        let before = self.before.lock().unwrap().take();
        if let Some(before) = before {
            before();
        }
        self.inner.snapshot()
    }

    fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.inner.commit(batch, durability)
    }

    fn persist(&self) -> Result<()> {
        self.inner.persist()
    }

    fn bulk_load(&self, table: Table) -> Result<Box<dyn BulkLoad + '_>> {
        self.inner.bulk_load(table)
    }

    fn check_writable(&self) -> Result<()> {
        self.inner.check_writable()
    }

    fn compact(&self) -> Result<()> {
        self.inner.compact()
    }

    fn checkpoint(&self, directory: &Path) -> Result<u64> {
        self.inner.checkpoint(directory)
    }

    fn stats(&self) -> Result<StoreStats> {
        self.inner.stats()
    }
}

/// A commit and a write-out between the two steps of a snapshot show all of the commit or nothing.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the race needs a second thread, and time for it"
)]
fn a_snapshot_during_a_write_out_sees_whole_commits() {
    let below = Arc::new(SlowSnapshots {
        inner: MemoryStore::default(),
        before: Mutex::default(),
    });
    let store = Arc::new(MemtableStore::new(
        Arc::clone(&below) as Arc<dyn Store>,
        1 << 16,
        Arc::default(),
    ));
    let commit = |store: &MemtableStore, number: u8| {
        let mut rows = WriteBatch::default();
        rows.put(TABLE, [1], [number]);
        // The key is new to the memtable in the second commit only.
        if number > 1 {
            rows.put(TABLE, [2], [number]);
        }
        let mut batch = WriteBatch::default();
        batch.put(Table::Meta, b"pending", [number]);
        store
            .commit_with(batch, Some(&rows), Durability::Relaxed)
            .unwrap();
    };
    commit(&store, 1);
    let writer = Arc::clone(&store);
    let (done, finished) = std::sync::mpsc::channel();
    *below.before.lock().unwrap() = Some(Box::new(move || {
        let committed = Arc::new(std::sync::Barrier::new(2));
        let other = Arc::clone(&committed);
        std::thread::spawn(move || {
            commit(&writer, 2);
            other.wait();
            writer.write_out().unwrap();
            done.send(()).unwrap();
        });
        committed.wait();
        // Without the gate the write-out ends now; with it, it waits for this snapshot.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }));
    let snapshot = store.snapshot().unwrap();
    let seen = all(&*snapshot, 0, None);
    assert!(seen == [(1, 1)] || seen == [(1, 2), (2, 2)], "{seen:?}");
    drop(snapshot);
    finished.recv().unwrap();
    assert_eq!(all(&*store, 0, None), [(1, 2), (2, 2)]);
}
