//! A real database taken over, while its previous holder is alive or gone.

use super::*;
use esker::{Database, OpenOptions as Open};
use esker_model::object::{Find, Identity, ObjectRead as _};
use esker_model::{Batch, GraphWrite as _, NeverCancel, Op, Properties};
use esker_testkit::wait::eventually;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

fn open(folder: &Path) -> Database {
    Open::new()
        .create(true)
        .part_of("a test")
        .open(&folder.to_string_lossy())
        .unwrap()
}

fn write(database: &Database, step: i64) {
    let mut batch = Batch::new();
    batch.push(Op::CreateObject {
        identity: Identity {
            name: "run".into(),
            app: "vpic".into(),
            owner: 1,
            step,
        },
        attributes: Properties::new(),
        tags: Properties::new().with("text", "x".repeat(200)),
    });
    database.apply(batch).unwrap();
}

fn steps(database: &Database) -> BTreeSet<i64> {
    let mut all = BTreeSet::new();
    let mut sink = |object: esker_model::object::Found| {
        all.insert(object.identity().unwrap().step);
        ControlFlow::Continue(())
    };
    let find = Find::all(esker_model::filter::Expr::All);
    database.find(&find, &NeverCancel, &mut sink).unwrap();
    all
}

/// The last holder still has the database open and writes: the copy has everything up to the takeover and nothing later, and neither
/// process harms the other.
#[test]
fn a_holder_that_wakes_writes_where_nobody_reads() {
    let dir = tempfile::tempdir().unwrap();
    let storage = dir.path();
    let first = open(&take_over(storage, 5, 1).unwrap());
    (0..300).for_each(|step| write(&first, step));
    first.persist().unwrap();
    (300..400).for_each(|step| write(&first, step));
    let folder = take_over(storage, 5, 2).unwrap();
    let second = open(&folder);
    assert_eq!(steps(&second), (0..400).collect());
    (1_000..1_400).for_each(|step| write(&first, step));
    (2_000..2_400).for_each(|step| write(&second, step));
    first.persist().unwrap();
    let both = || (0..400).chain(2_000..2_400).collect::<BTreeSet<_>>();
    assert_eq!(steps(&second), both());
    remove_older(storage, 5, 2).unwrap();
    // The first holder's folder has been removed while it is open.
    let _ = first.close();
    second.close().unwrap();
    assert_eq!(newest(storage, 5).unwrap(), 2);
    let third = open(&take_over(storage, 5, 3).unwrap());
    assert_eq!(steps(&third), both());
    let late = take_over(storage, 5, 2).unwrap_err().to_string();
    assert!(late.contains("out of date"), "{late}");
}

/// A copy during writes is of one instant: it has everything acknowledged before, and no partial write.
#[test]
fn a_store_is_taken_over_while_it_is_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let storage = dir.path();
    let database = open(&take_over(storage, 0, 1).unwrap());
    (0..100).for_each(|step| write(&database, step));
    let stop = AtomicBool::new(false);
    let acknowledged = std::sync::atomic::AtomicI64::new(100);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pause = Duration::from_millis(350);
            for step in 100.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                write(&database, step);
                acknowledged.store(step + 1, Ordering::Relaxed);
                // Pauses in which a copy can succeed; they grow until one is long enough for this machine.
                if step % 20 == 0 {
                    pause *= 2;
                    std::thread::sleep(pause);
                } else {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        for epoch in 2..5 {
            let before = acknowledged.load(Ordering::Relaxed);
            let copy = open(&eventually(|| take_over(storage, 0, epoch)));
            let found = steps(&copy);
            // The source of each later copy is the copy before, which receives no writes.
            if epoch == 2 {
                assert!((0..before).all(|step| found.contains(&step)));
            }
            assert_eq!(found.len() as i64, found.last().unwrap() + 1);
            copy.close().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_was_cut_short_is_made_anew_and_nothing_is_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let storage = dir.path();
    let made = take_over(storage, 7, 3).unwrap();
    assert_eq!(fs::read_dir(&made).unwrap().count(), 0);
    // Creation that was interrupted before anything was stored.
    fs::create_dir_all(made.join("store")).unwrap();
    fs::create_dir_all(storage.join("server-7.e4.new/store")).unwrap();
    let next = take_over(storage, 7, 5).unwrap();
    assert_eq!(fs::read_dir(&next).unwrap().count(), 0);
    assert!(!storage.join("server-7.e4.new").exists());
    remove_older(storage, 7, 5).unwrap();
    assert_eq!(newest(storage, 7).unwrap(), 5);
    // The folder of another store must not count.
    fs::create_dir(storage.join("server-70.e9")).unwrap();
    fs::create_dir(storage.join("server-7.old")).unwrap();
    assert_eq!(newest(storage, 7).unwrap(), 5);
}

/// Holes are not copied; data are, at any offset.
#[test]
fn holes_stay_holes() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("a"), dir.path().join("b"));
    let mut file = File::create(&from).unwrap();
    file.write_all(b"begin").unwrap();
    file.seek(io::SeekFrom::Start(40 << 20)).unwrap();
    file.write_all(b"middle").unwrap();
    file.set_len(64 << 20).unwrap();
    drop(file);
    copy_file(&from, &to).unwrap();
    assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
    assert!(fs::metadata(&to).unwrap().blocks() * 512 < 2 << 20);
}
