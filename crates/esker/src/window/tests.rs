//! The store with its window: crashes at random moments, damage, storages without room, processes that were replaced.

use super::*;
use esker_store::KeyRange;
use esker_store::memory::MemoryStore;
use esker_testkit::wait::wait_until;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

struct Place {
    dir: tempfile::TempDir,
    options: WindowOptions,
}

impl Place {
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

    /// All files of checkpoints.
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

    /// A copy of what lies in storage, as a crash now would leave it.
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
                // A file may be gone that a base has replaced.
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
    let mut place = Place::new();
    // Bases, too, while commits go on.
    place.options.base_least = 300;
    let store = place.open(1).unwrap();
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
        // A copy is not of one moment: files that a base replaces may be gone from it. A crash is, so take another then.
        let mut why = String::new();
        let restored = (0..100).find_map(|_| {
            let opened = place.copy().open(2);
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
    let store = place.open(2).unwrap();
    assert_eq!(store.window().written(), 400);
    assert_eq!(rows(&store), expected(400));
}

#[test]
fn openings_follow_each_other() {
    let place = Place::new();
    for generation in 1..6 {
        let store = place.open(generation).unwrap();
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
    let mut place = Place::new();
    let store = place.open(1).unwrap();
    let window = store.window();
    for n in 1..=4 {
        store.commit(batch(n), Durability::Relaxed).unwrap();
    }
    assert_eq!((window.written(), window.persisted()), (4, 0));
    assert!(place.files().is_empty());
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
    place.options.every = Duration::from_millis(1);
    let store = place.open(2).unwrap();
    store.commit(batch(12), Durability::Relaxed).unwrap();
    wait_until("it is not persisted", || store.window().persisted() == 12);
}

#[test]
fn bulk_loads_are_persisted() {
    let place = Place::new();
    let store = place.open(1).unwrap();
    let mut load = store.bulk_load(Table::Rows).unwrap();
    for n in 0..100_u64 {
        load.push(&n.to_be_bytes(), b"loaded").unwrap();
    }
    load.finish().unwrap();
    let all = rows(&store);
    assert_eq!(all.len(), 100);
    std::mem::forget(store);
    assert_eq!(rows(&place.copy().open(2).unwrap()), all);
}

#[test]
fn who_was_replaced_writes_no_more() {
    let place = Place::new();
    let first = place.open(1).unwrap();
    first.commit(batch(1), Durability::Sync).unwrap();
    let second = place.open(2).unwrap();
    second.commit(batch(2), Durability::Sync).unwrap();
    first.commit(batch(90), Durability::Relaxed).unwrap();
    let why = first.persist().unwrap_err().to_string();
    assert!(why.contains("another process has taken over"), "{why}");
    let why = first.commit(batch(91), Durability::Relaxed).unwrap_err();
    assert!(why.to_string().contains("writes no more"), "{why}");
    // What it may have written before it noticed does not count.
    let mut stray = Vec::new();
    let head = esker_store::segment::Head {
        kind: esker_store::segment::Kind::Segment,
        store: Manifest::read(&home(place.dir.path()))
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
    let name = place::Name { head }.text();
    std::fs::write(place.options.to[0].join(name), stray).unwrap();
    drop(second);
    assert_eq!(rows(&place.open(3).unwrap()), expected(2));
}

#[test]
fn damage_and_missing_files_are_named() {
    let place = Place::new();
    let store = place.open(1).unwrap();
    for n in 1..=3 {
        store.commit(batch(n), Durability::Sync).unwrap();
    }
    drop(store);
    let files = place.files();
    assert_eq!(files.len(), 3);
    let whole = std::fs::read(&files[1]).unwrap();
    let mut damaged = whole.clone();
    damaged[60] ^= 1;
    std::fs::write(&files[1], damaged).unwrap();
    let open = || place.open(2).map(|_| ()).unwrap_err().to_string();
    let why = open();
    assert!(
        why.contains(&files[1].display().to_string()) && why.contains("damaged at byte"),
        "{why}"
    );
    std::fs::remove_file(&files[1]).unwrap();
    let why = open();
    assert!(why.contains("the segment with commits 2 to 2"), "{why}");
    std::fs::write(&files[1], whole).unwrap();
    // What is not mounted may hold the last of them.
    let fast = &place.options.to[0];
    std::fs::rename(fast, place.dir.path().join("away")).unwrap();
    let why = open();
    assert!(why.contains("is that storage mounted here?"), "{why}");
    std::fs::rename(place.dir.path().join("away"), fast).unwrap();
    assert_eq!(rows(&place.open(2).unwrap()), expected(3));
}

#[test]
fn a_storage_without_room_is_passed_over_and_none_with_room_stops_writes() {
    let mut place = Place::new();
    // A folder cannot lie below a file.
    std::fs::write(place.dir.path().join("file"), "").unwrap();
    place.options.to[0] = place.dir.path().join("file/fast");
    let store = place.open(1).unwrap();
    store.commit(batch(1), Durability::Sync).unwrap();
    assert_eq!(
        store.window().figures().place,
        Some(place.options.to[1].clone())
    );
    // Now the second is gone, too.
    std::fs::rename(&place.options.to[1], place.dir.path().join("away")).unwrap();
    std::fs::write(&place.options.to[1], "").unwrap();
    store.commit(batch(2), Durability::Relaxed).unwrap();
    let why = store.persist().unwrap_err().to_string();
    assert!(why.contains("no storage takes the checkpoint"), "{why}");
    let why = store.commit(batch(3), Durability::Relaxed).unwrap_err();
    assert!(
        why.to_string().contains("no more writes are taken"),
        "{why}"
    );
    // And back: what was taken is kept.
    std::fs::remove_file(&place.options.to[1]).unwrap();
    std::fs::rename(place.dir.path().join("away"), &place.options.to[1]).unwrap();
    store.window().harden().unwrap();
    store.commit(batch(3), Durability::Sync).unwrap();
    drop(store);
    assert_eq!(rows(&place.open(2).unwrap()), expected(3));
    place.options.reserve = u64::MAX;
    let why = place.open(3).map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("the reserve included"), "{why}");
}

#[test]
fn a_folder_with_something_else_is_not_emptied() {
    let place = Place::new();
    std::fs::create_dir_all(&place.options.live).unwrap();
    std::fs::write(place.options.live.join("thesis.tex"), "").unwrap();
    let why = place.open(1).map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("would be emptied"), "{why}");
}

#[test]
fn who_only_looks_leaves_it_as_it_was_found() {
    let place = Place::new();
    let closed = |place: &Place| {
        let manifest = Manifest::read(&home(place.dir.path())).unwrap();
        manifest.unwrap().closed
    };
    let store = place.open(1).unwrap();
    store.commit(batch(1), Durability::Sync).unwrap();
    let crashed = place.copy();
    drop(store);
    for (place, lost) in [(place, false), (crashed, true)] {
        let store = place.open(2).unwrap();
        let window = store.window();
        assert_eq!(window.may_have_lost(), lost);
        window.stay_as_found();
        drop(store);
        assert_eq!(closed(&place), !lost);
    }
}

#[test]
fn what_goes_with_its_folder_goes_from_everywhere() {
    let place = Place::new();
    let store = place.open(1).unwrap();
    store.commit(batch(1), Durability::Sync).unwrap();
    drop(store);
    let files = place.files();
    assert_eq!(files.len(), 1);
    // Another store's, and what a writer that died left.
    let other = place.options.to[0].join("0000000000000007-3-1-2.seg");
    std::fs::write(&other, "").unwrap();
    std::fs::write(files[0].with_extension("seg.draft"), "").unwrap();
    for _ in 0..2 {
        remove_checkpoint(place.dir.path()).unwrap();
        assert_eq!(place.files(), std::slice::from_ref(&other));
    }
}
