//! Guarantees beyond a file system: ids through renames, sums, persistence after a crash.

use super::{change, directory, errno, file, mkdir, path, rename, small, sound, stat, touch};
use esker_model::VertexId;
use esker_model::namespace::{Change, Errno, Namespace, NewFile, SetAttributes, SpaceBy, Usage};
use esker_store::fault::Operation;
use std::sync::{Arc, Mutex};

fn rm(engine: &esker_engine::Engine, at: &str) {
    change(engine, None, Change::Unlink(path(at))).unwrap();
}

#[test]
fn a_new_file_is_what_was_said_of_its_path_and_a_renamed_one_stays_what_it_was() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/a");
    let first = touch(engine, "/a/x").id;
    assert_eq!(
        first,
        VertexId::of("File", "/a/x"),
        "what a log says of /a/x is said of it"
    );
    rename(engine, "/a/x", "/a/y").unwrap();
    assert_eq!(stat(engine, "/a/y").unwrap().id, first);
    let second = touch(engine, "/a/x").id;
    assert_ne!(second, first, "another file at the old path");
    rm(engine, "/a/x");
    let third = touch(engine, "/a/x").id;
    assert!(third != first && third != second);
    sound(engine);
}

#[test]
fn files_of_a_moved_directory_and_of_its_successor_differ() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/a");
    let x = touch(engine, "/a/x").id;
    rename(engine, "/a", "/b").unwrap();
    assert_eq!(stat(engine, "/b/x").unwrap().id, x);
    let a = mkdir(engine, "/a");
    assert_ne!(a.id, stat(engine, "/b").unwrap().id);
    let again = touch(engine, "/a/x").id;
    assert_ne!(again, x);
    // In the moved directory, paths are free unless another directory has files there.
    let y = touch(engine, "/b/y").id;
    assert_eq!(y, VertexId::of("File", "/b/y"));
    rename(engine, "/b", "/c").unwrap();
    mkdir(engine, "/b");
    assert_ne!(touch(engine, "/b/y").id, y);
    sound(engine);
}

#[test]
fn a_directory_made_again_names_its_files_after_their_paths_again() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/run");
    let old = touch(engine, "/run/x").id;
    rm(engine, "/run/x");
    change(engine, None, Change::Rmdir(path("/run"))).unwrap();
    mkdir(engine, "/run");
    assert_eq!(touch(engine, "/run/y").id, VertexId::of("File", "/run/y"));
    assert_ne!(touch(engine, "/run/x").id, old);
    sound(engine);
}

#[test]
fn one_commit_makes_a_file_twice() {
    let small = small();
    let at = || path("/x");
    let changes = [
        Change::Create(at(), file(0o644)),
        Change::Unlink(at()),
        Change::Create(at(), file(0o600)),
        Change::Unlink(at()),
        Change::Create(at(), file(0o666)),
    ];
    let done = small.engine.change(None, &changes).unwrap();
    let ids: std::collections::BTreeSet<_> = [0, 2, 4]
        .map(|i: usize| done[i].as_ref().unwrap().id)
        .into();
    assert_eq!(ids.len(), 3);
    assert_eq!(stat(&small.engine, "/x").unwrap().mode, 0o100_666);
    sound(&small.engine);
}

#[test]
fn changes_of_one_call_see_each_other_and_fail_alone() {
    let small = small();
    let changes = [
        Change::Create(path("/a"), directory(0o755)),
        Change::Create(path("/a/b"), file(0o644)),
        Change::Create(path("/a/b"), file(0o644)),
        Change::Rename {
            from: path("/a"),
            to: path("/c"),
            no_replace: false,
        },
        Change::Create(path("/a/d"), file(0o644)),
        Change::Create(path("/c/d"), file(0o644)),
    ];
    let mut done = small.engine.change(None, &changes).unwrap();
    assert_eq!(errno(done.remove(4)), Errno::NotFound);
    assert_eq!(errno(done.remove(2)), Errno::Exists);
    assert!(done.iter().all(Result::is_ok));
    let usage = small.engine.usage(None, &path("/"), true).unwrap();
    assert_eq!((usage.files, usage.directories), (2, 2));
    sound(&small.engine);
}

#[test]
fn sums_follow_each_change() {
    let small = small();
    let engine = &small.engine;
    let sized = |size| NewFile {
        size,
        blocks: size / 512,
        ..file(0o644)
    };
    mkdir(engine, "/p");
    mkdir(engine, "/p/q");
    for (at, size) in [("/p/a.h5", 1024), ("/p/q/b.H5", 2048), ("/p/q/c", 512)] {
        change(engine, None, Change::Create(path(at), sized(size))).unwrap();
    }
    let usage = |at: &str| engine.usage(None, &path(at), true).unwrap();
    assert_eq!(
        usage("/p"),
        Usage {
            files: 3,
            directories: 2,
            bytes: 3584,
            blocks: 7
        }
    );
    rename(engine, "/p/q", "/r").unwrap();
    assert_eq!((usage("/p").bytes, usage("/r").bytes), (1024, 2560));
    let set = SetAttributes {
        size: Some(1),
        uid: Some(7),
        ..SetAttributes::default()
    };
    change(
        engine,
        None,
        Change::Set {
            path: path("/r/c"),
            follow: true,
            set,
        },
    )
    .unwrap();
    assert_eq!(usage("/r").bytes, 2049);
    let by = |by| {
        engine
            .space(by)
            .unwrap()
            .into_iter()
            .map(|s| (s.key, s.usage.files, s.usage.bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        by(SpaceBy::User),
        [("0".to_owned(), 2, 3072), ("7".to_owned(), 1, 1)]
    );
    assert_eq!(
        by(SpaceBy::Ending),
        [(String::new(), 1, 1), ("h5".to_owned(), 2, 3072)]
    );
    assert_eq!(
        by(SpaceBy::Kind),
        [("directory".to_owned(), 0, 0), ("file".to_owned(), 3, 3073)]
    );
    rm(engine, "/r/b.H5");
    assert_eq!(
        by(SpaceBy::Ending),
        [(String::new(), 1, 1), ("h5".to_owned(), 1, 1024)]
    );
    sound(engine);
}

/// Rows are in the memtable, in the table, or in both: after a crash all exist, each once.
#[test]
fn what_waits_in_memory_is_there_after_a_crash() {
    for memtable_bytes in [1, 2_000, 32 << 20] {
        let small = crate::small::Small::with(esker_engine::Settings {
            durability: esker_store::Durability::Sync,
            memtable_bytes,
            ..esker_engine::Settings::default()
        });
        mkdir(&small.engine, "/a");
        for n in 0..40 {
            touch(&small.engine, &format!("/a/{n}"));
        }
        for n in (0..40).step_by(3) {
            rm(&small.engine, &format!("/a/{n}"));
        }
        rename(&small.engine, "/a/1", "/a/0").unwrap();
        sound(&small.engine);
        rm(&small.engine, "/a/2");
        for again in [small.after_crash(0), small.after_crash(0).after_crash(0)] {
            let names = || (0..40).filter(|n| stat(&again.engine, &format!("/a/{n}")).is_ok());
            let expected = (0..40).filter(|n| *n == 0 || n % 3 != 0 && *n > 2);
            assert!(
                names().eq(expected),
                "{memtable_bytes}: {:?}",
                names().collect::<Vec<_>>()
            );
            assert_eq!(
                again.engine.usage(None, &path("/"), true).unwrap().files,
                25
            );
            touch(&again.engine, "/a/2");
            sound(&again.engine);
        }
    }
}

/// A store that fails while the memtable is written out keeps answering, and tries again with the next commit.
#[test]
fn a_table_that_cannot_be_written_costs_nothing() {
    let small = crate::small::Small::with(esker_engine::Settings {
        memtable_bytes: 1,
        ..esker_engine::Settings::default()
    });
    mkdir(&small.engine, "/a");
    for n in 0..20_u64 {
        // The commit itself succeeds, the merge fails.
        let full = || esker_model::Error::io("writing", std::io::Error::from_raw_os_error(28));
        small.fault.fail_once(Operation::Commit, 1 + n % 2, full);
        touch(&small.engine, &format!("/a/{n}"));
        small.fault.heal();
        assert!(stat(&small.engine, &format!("/a/{n}")).is_ok());
    }
    sound(&small.engine);
    assert_eq!(
        small.engine.usage(None, &path("/"), true).unwrap().files,
        20
    );
}

#[test]
fn nothing_is_half_there_after_a_crash() {
    let settings = esker_engine::Settings {
        durability: esker_store::Durability::Sync,
        ..esker_engine::Settings::default()
    };
    let small = crate::small::Small::with(settings);
    mkdir(&small.engine, "/a");
    touch(&small.engine, "/a/x");
    rename(&small.engine, "/a", "/b").unwrap();
    let again = small.after_crash(0);
    assert_eq!(errno(stat(&again.engine, "/a")), Errno::NotFound);
    assert!(stat(&again.engine, "/b/x").is_ok());
    assert_eq!(again.engine.usage(None, &path("/"), true).unwrap().files, 1);
    sound(&again.engine);
}

/// Number of rows of a kind in table `names`.
fn rows(engine: &esker_engine::Engine, kind: u8) -> usize {
    let mut n = 0;
    let range = esker_store::KeyRange::prefix(&[kind]);
    engine
        .store()
        .scan(esker_store::Table::Names, &range, &mut |_, _| {
            n += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    n
}

#[test]
fn retention_forgets_what_files_were_and_files_that_are_gone() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/d");
    for at in ["/d/kept", "/d/gone", "/d/tagged"] {
        touch(engine, at);
    }
    let tag = |at: &str| Change::Xattr {
        path: path(at),
        name: b"user.esker.n".to_vec(),
        value: Some(b"1".to_vec()),
        mode: esker_model::namespace::XattrMode::Any,
    };
    change(engine, None, tag("/d/tagged")).unwrap();
    let resize = |at: &str, size| {
        let set = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let (path, follow) = (path(at), false);
        change(engine, None, Change::Set { path, follow, set }).unwrap()
    };
    for size in 1..=4 {
        resize("/d/kept", size);
        resize("/d/gone", size);
    }
    let middle = resize("/d/kept", 5).version;
    small.clock.advance(10);
    resize("/d/kept", 6);
    let gone = stat(engine, "/d/gone").unwrap().id;
    rm(engine, "/d/gone");
    let last = change(engine, None, Change::Unlink(path("/d/tagged")))
        .unwrap()
        .version;
    // /d/kept has six past states, /d/gone five, /d/tagged two.
    assert_eq!((rows(engine, 3), rows(engine, 2)), (13, 3));
    let compact = |since| {
        engine
            .compact(Some(since), &esker_model::NeverCancel)
            .unwrap()
    };
    // By then, /d/kept had been superseded five times, /d/gone four times, /d/tagged once.
    assert_eq!(compact(middle).dropped, 10);
    sound(engine);
    // The successor of the last past state of /d/kept is unknown without a search.
    let done = compact(last);
    assert_eq!((done.dropped, rows(engine, 3), rows(engine, 2)), (3, 1, 2));
    sound(engine);
    // No row of /d/gone is left, so a new file may get its id; /d/tagged has a vertex.
    assert_eq!(touch(engine, "/d/gone").id, gone);
    let tagged = touch(engine, "/d/tagged").id;
    assert_ne!(tagged, VertexId::of("File", "/d/tagged"));
    assert_eq!(compact(last).dropped, 0);
    sound(engine);
    let after = small.after_crash(usize::MAX);
    sound(&after.engine);
    assert_eq!(stat(&after.engine, "/d/kept").unwrap().size, 6);
}

/// The commit of a retention has a version of its own: an opening ignores pending rows of versions that are merged.
#[test]
fn a_crash_does_not_undo_retention() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/d");
    for n in 0..4 {
        touch(engine, &format!("/d/{n}"));
        rm(engine, &format!("/d/{n}"));
    }
    let last = mkdir(engine, "/e").version;
    engine.close().unwrap();
    let done = engine.compact(Some(last), &esker_model::NeverCancel);
    assert_eq!(done.unwrap().dropped, 8);
    let left = (rows(engine, 3), rows(engine, 2));
    let after = small.after_crash(usize::MAX);
    assert_eq!((rows(&after.engine, 3), rows(&after.engine, 2)), left);
    sound(&after.engine);
}

/// A listener that reads a path again finds what the change has made of it.
#[test]
fn a_listener_sees_the_change_that_it_is_told_of() {
    let engine = Arc::new(small().engine);
    mkdir(&engine, "/d");
    touch(&engine, "/d/x");
    // Both the directory and the file are in memory.
    stat(&engine, "/d/x").unwrap();
    engine.watch_directories(&[stat(&engine, "/").unwrap().id]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (reader, results) = (Arc::downgrade(&engine), Arc::clone(&seen));
    engine.set_names_listener(Arc::new(move |_| {
        let engine = reader.upgrade().unwrap();
        let found = [stat(&engine, "/d/x"), stat(&engine, "/e/x")];
        results.lock().unwrap().push(found.map(|f| f.is_ok()));
    }));
    rename(&engine, "/d", "/e").unwrap();
    assert_eq!(*seen.lock().unwrap(), [[false, true]]);
}

#[test]
fn the_root_is_shown_as_it_is_now() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/d");
    assert!(stat(engine, "/").unwrap().xattrs.is_empty());
    for at in ["/", "/d"] {
        let set = Change::Xattr {
            path: path(at),
            name: b"user.a".to_vec(),
            value: Some(b"x".to_vec()),
            mode: esker_model::namespace::XattrMode::Any,
        };
        change(engine, None, set).unwrap();
        let link = NewFile {
            content: esker_model::namespace::Content::Symlink(b"d/..".to_vec()),
            ..NewFile::new(0o12_0777, 0, 0)
        };
        let _ = change(engine, None, Change::Create(path("/up"), link));
        assert_eq!(stat(engine, at).unwrap().xattrs.len(), 1, "{at}");
        let up = engine.stat(None, &path("/up"), true).unwrap();
        assert_eq!(up.xattrs.len(), 1);
    }
}
