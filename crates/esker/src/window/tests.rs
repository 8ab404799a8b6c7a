//! Tests of the store with a window: crashes at random times, damaged files, full storage, replaced processes.

use super::*;
use esker_store::KeyRange;
use esker_store::memory::MemoryStore;
use esker_testkit::wait::wait_until;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

struct TestStore {
    dir: tempfile::TempDir,
    options: WindowOptions,
}

impl TestStore {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = WindowOptions {
            live: dir.path().join("live"),
            to: vec![dir.path().join("fast"), dir.path().join("slow")],
            reserve: 0,
            writes: 5,
            every: Duration::from_hours(1),
            base_least: 1 << 40,
        };
        Self { dir, options }
    }

    fn open(&self, generation: u64) -> Result<WindowStore> {
        let empty = |_: &Path| Ok(Arc::new(MemoryStore::new()) as Arc<dyn Store>);
        let create = generation == 1;
        WindowStore::open(self.dir.path(), &self.options, generation, create, empty)
    }

    /// All checkpoint files.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for folder in &self.options.to {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                files.push(entry.unwrap().path());
            }
        }
        files.sort();
        files
    }

    /// A copy of the durable files, as a crash now would leave them.
    fn copy(&self) -> Self {
        let mut other = Self::new();
        other.options.writes = self.options.writes;
        let pairs = [
            ("fast", "fast"),
            ("slow", "slow"),
            ("checkpoint", "checkpoint"),
        ];
        for (from, to) in pairs {
            let (from, to) = (self.dir.path().join(from), other.dir.path().join(to));
            std::fs::create_dir_all(&to).unwrap();
            for entry in std::fs::read_dir(&from).into_iter().flatten() {
                let entry = entry.unwrap();
                // The file may have been removed because a base replaced it.
                let _ = std::fs::copy(entry.path(), to.join(entry.file_name()));
            }
        }
        let manifest = Manifest::path(&home(other.dir.path()));
        let text = std::fs::read_to_string(&manifest).unwrap();
        let (old, new) = (self.dir.path().display(), other.dir.path().display());
        let text = text.replace(&old.to_string(), &new.to_string());
        std::fs::write(&manifest, text).unwrap();
        other
    }
}

fn rows(store: &dyn Store) -> Rows {
    let mut rows = Rows::new();
    for table in Table::ALL {
        store
            .scan(table, &KeyRange::ALL, &mut |k, v| {
                rows.insert((table, k.to_vec()), v.to_vec());
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    rows
}

/// The n-th commit: rewrites some keys, removes others.
fn batch(n: u64) -> WriteBatch {
    let mut batch = WriteBatch::default();
    let table = Table::ALL[n as usize % Table::ALL.len()];
    batch.put(table, format!("k{}", n % 7), n.to_be_bytes());
    batch.put(Table::Meta, "n", n.to_be_bytes());
    batch.remove(Table::Rows, format!("k{}", (n * 3) % 7));
    batch
}

fn expected(commits: u64) -> Rows {
    let mut rows = Rows::new();
    for n in 1..=commits {
        for write in batch(n).iter() {
            let key = (write.table, write.key.to_vec());
            match write.value {
                Some(value) => rows.insert(key, value.to_vec()),
                None => rows.remove(&key),
            };
        }
    }
    rows
}

#[test]
fn a_crash_leaves_a_prefix_that_holds_all_that_was_persisted() {
    let mut setup = TestStore::new();
    // Bases are written while commits continue.
    setup.options.base_least = 300;
    let store = setup.open(1).unwrap();
    let window = store.window();
    let mut prefixes = std::collections::BTreeSet::new();
    for n in 1..=400_u64 {
        store.commit(batch(n), Durability::Relaxed).unwrap();
        if n % 17 == 0 {
            store.persist().unwrap();
        }
        if n % 23 != 0 {
            continue;
        }
        let persisted = window.persisted();
        // The copy is not atomic, and files that a base replaces may be missing from it. A crash is atomic, so copy
        // again in that case.
        let mut why = String::new();
        let restored = (0..100).find_map(|_| {
            let opened = setup.copy().open(2);
            opened.inspect_err(|e| why = e.to_string()).ok()
        });
        let restored = restored.unwrap_or_else(|| panic!("{why}"));
        let last = restored.window().written();
        assert!(last >= persisted && last <= n, "{persisted} {last} {n}");
        assert_eq!(rows(&restored), expected(last));
        prefixes.insert(last);
    }
    assert!(prefixes.len() > 5, "{prefixes:?}");
    drop(store);
    assert!(window.figures().bases > 0, "{:?}", window.figures());
    let store = setup.open(2).unwrap();
    assert_eq!(store.window().written(), 400);
    assert_eq!(rows(&store), expected(400));
}

#[test]
fn openings_follow_each_other() {
    let setup = TestStore::new();
    for generation in 1..6 {
        let store = setup.open(generation).unwrap();
        let before = store.window().written();
        assert_eq!(before, (generation - 1) * 8);
        assert_eq!(rows(&store), expected(before));
        for n in before + 1..=before + 8 {
            store.commit(batch(n), Durability::Relaxed).unwrap();
        }
    }
}

#[test]
fn a_window_is_written_when_it_is_full_or_old_or_wanted() {
    let mut setup = TestStore::new();
    let store = setup.open(1).unwrap();
    let window = store.window();
    for n in 1..=4 {
        store.commit(batch(n), Durability::Relaxed).unwrap();
    }
    assert_eq!((window.written(), window.persisted()), (4, 0));
    assert!(setup.files().is_empty());
    store.commit(batch(5), Durability::Sync).unwrap();
    assert_eq!(window.persisted(), 5);
    store.commit(batch(6), Durability::Relaxed).unwrap();
    store.persist().unwrap();
    assert_eq!(window.persisted(), 6);
    assert_eq!(window.figures().segments, 2);
    for n in 7..=11 {
        store.commit(batch(n), Durability::Relaxed).unwrap();
    }
    wait_until("they are not persisted", || window.persisted() == 11);
    drop(store);
    setup.options.every = Duration::from_millis(1);
    let store = setup.open(2).unwrap();
    store.commit(batch(12), Durability::Relaxed).unwrap();
    wait_until("it is not persisted", || store.window().persisted() == 12);
}

#[test]
fn bulk_loads_are_persisted() {
    let setup = TestStore::new();
    let store = setup.open(1).unwrap();
    let mut load = store.bulk_load(Table::Rows).unwrap();
    for n in 0..100_u64 {
        load.push(&n.to_be_bytes(), b"loaded").unwrap();
    }
    load.finish().unwrap();
    let all = rows(&store);
    assert_eq!(all.len(), 100);
    std::mem::forget(store);
    assert_eq!(rows(&setup.copy().open(2).unwrap()), all);
}

#[test]
fn a_replaced_process_writes_no_more() {
    let setup = TestStore::new();
    let first = setup.open(1).unwrap();
    first.commit(batch(1), Durability::Sync).unwrap();
    let second = setup.open(2).unwrap();
    second.commit(batch(2), Durability::Sync).unwrap();
    first.commit(batch(90), Durability::Relaxed).unwrap();
    let why = first.persist().unwrap_err().to_string();
    assert!(why.contains("another process has taken over"), "{why}");
    let why = first.commit(batch(91), Durability::Relaxed).unwrap_err();
    assert!(why.to_string().contains("writes no more"), "{why}");
    // Files that it may have written before it noticed are not valid.
    let mut stray = Vec::new();
    let head = esker_store::segment::Head {
        kind: esker_store::segment::Kind::Segment,
        store: Manifest::read(&home(setup.dir.path()))
            .unwrap()
            .unwrap()
            .store,
        generation: 1,
        first: 2,
        last: 2,
    };
    let mut writer = esker_store::segment::SegmentWriter::begin(&head, &mut stray);
    let mut commit = Vec::new();
    put_commit(&mut commit, &batch(90));
    writer.block(&commit, &mut stray);
    writer.end(&mut stray);
    let name = storage::FileName { head }.text();
    std::fs::write(setup.options.to[0].join(name), stray).unwrap();
    drop(second);
    assert_eq!(rows(&setup.open(3).unwrap()), expected(2));
}

#[test]
fn damage_and_missing_files_are_named() {
    let setup = TestStore::new();
    let store = setup.open(1).unwrap();
    for n in 1..=3 {
        store.commit(batch(n), Durability::Sync).unwrap();
    }
    drop(store);
    let files = setup.files();
    assert_eq!(files.len(), 3);
    let whole = std::fs::read(&files[1]).unwrap();
    let mut damaged = whole.clone();
    damaged[60] ^= 1;
    std::fs::write(&files[1], damaged).unwrap();
    let open = || setup.open(2).map(|_| ()).unwrap_err().to_string();
    let why = open();
    assert!(
        why.contains(&files[1].display().to_string()) && why.contains("damaged at byte"),
        "{why}"
    );
    std::fs::remove_file(&files[1]).unwrap();
    let why = open();
    assert!(why.contains("the segment with commits 2 to 2"), "{why}");
    std::fs::write(&files[1], whole).unwrap();
    // An unmounted folder may have the last segments.
    let fast = &setup.options.to[0];
    std::fs::rename(fast, setup.dir.path().join("away")).unwrap();
    let why = open();
    assert!(why.contains("is that storage mounted here?"), "{why}");
    std::fs::rename(setup.dir.path().join("away"), fast).unwrap();
    assert_eq!(rows(&setup.open(2).unwrap()), expected(3));
}

#[test]
fn a_full_folder_is_skipped_and_without_space_writes_stop() {
    let mut setup = TestStore::new();
    // A folder cannot be created below a file.
    std::fs::write(setup.dir.path().join("file"), "").unwrap();
    setup.options.to[0] = setup.dir.path().join("file/fast");
    let store = setup.open(1).unwrap();
    store.commit(batch(1), Durability::Sync).unwrap();
    assert_eq!(
        store.window().figures().last_folder,
        Some(setup.options.to[1].clone())
    );
    // Now the second folder is unusable as well.
    std::fs::rename(&setup.options.to[1], setup.dir.path().join("away")).unwrap();
    std::fs::write(&setup.options.to[1], "").unwrap();
    store.commit(batch(2), Durability::Relaxed).unwrap();
    let why = store.persist().unwrap_err().to_string();
    assert!(why.contains("no storage accepts the checkpoint"), "{why}");
    let why = store.commit(batch(3), Durability::Relaxed).unwrap_err();
    assert!(
        why.to_string().contains("no more writes are accepted"),
        "{why}"
    );
    // The folder is usable again: accepted commits are kept.
    std::fs::remove_file(&setup.options.to[1]).unwrap();
    std::fs::rename(setup.dir.path().join("away"), &setup.options.to[1]).unwrap();
    store.window().harden().unwrap();
    store.commit(batch(3), Durability::Sync).unwrap();
    drop(store);
    assert_eq!(rows(&setup.open(2).unwrap()), expected(3));
    setup.options.reserve = u64::MAX;
    let why = setup.open(3).map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("the reserve included"), "{why}");
}

#[test]
fn a_folder_with_something_else_is_not_emptied() {
    let setup = TestStore::new();
    std::fs::create_dir_all(&setup.options.live).unwrap();
    std::fs::write(setup.options.live.join("thesis.tex"), "").unwrap();
    let why = setup.open(1).map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("would be emptied"), "{why}");
}

#[test]
fn a_reader_preserves_the_loss_mark() {
    let setup = TestStore::new();
    let closed = |setup: &TestStore| {
        let manifest = Manifest::read(&home(setup.dir.path())).unwrap();
        manifest.unwrap().closed
    };
    let store = setup.open(1).unwrap();
    store.commit(batch(1), Durability::Sync).unwrap();
    let crashed = setup.copy();
    drop(store);
    for (setup, lost) in [(setup, false), (crashed, true)] {
        let store = setup.open(2).unwrap();
        let window = store.window();
        assert_eq!(window.may_have_lost(), lost);
        window.preserve_loss_mark();
        drop(store);
        assert_eq!(closed(&setup), !lost);
    }
}

#[test]
fn what_goes_with_its_folder_goes_from_everywhere() {
    let setup = TestStore::new();
    let store = setup.open(1).unwrap();
    store.commit(batch(1), Durability::Sync).unwrap();
    drop(store);
    let files = setup.files();
    assert_eq!(files.len(), 1);
    // A file of another store, and a leftover of a killed writer.
    let other = setup.options.to[0].join("0000000000000007-3-1-2.seg");
    std::fs::write(&other, "").unwrap();
    std::fs::write(files[0].with_extension("seg.draft"), "").unwrap();
    for _ in 0..2 {
        remove_checkpoint(setup.dir.path()).unwrap();
        assert_eq!(setup.files(), std::slice::from_ref(&other));
    }
}
