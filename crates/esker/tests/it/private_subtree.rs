//! Tests of private subtrees: invisible to others before the merge, and completely visible after it.

use crate::child::Child;
use crate::processes::{database, open};
use esker::model::NeverCancel;
use esker::model::namespace::{
    AppliedChange, Change, Content, Errno, Inode, Kind, Name, NamePath, Namespace, NewFile,
    SetAttributes, XattrMode,
};
use esker::model::object::Principal;
use esker::model::{Error, Result, VertexId};
use esker::{CheckOptions, Database, ErrorKind, Role};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn change(files: &dyn Namespace, change: Change) -> Result<AppliedChange> {
    files.change(None, &[change])?.remove(0)
}

fn make(at: &str, mode: u32) -> Change {
    Change::Create(path(at), NewFile::new(mode, 0, 0))
}

fn errno<T: std::fmt::Debug>(result: Result<T>) -> Errno {
    match result {
        Err(Error::File(e)) => e.errno,
        other => panic!("{other:?}"),
    }
}

/// The tree below a path, without ids, versions and the times of the merge.
fn tree_below(files: &dyn Namespace, at: &str) -> BTreeMap<NamePath, Inode> {
    let mut all = BTreeMap::new();
    files
        .walk(None, &path(at), &NeverCancel, &mut |path, _| {
            let mut inode = files.stat(None, path, false).unwrap();
            (inode.id, inode.version) = (VertexId::default(), esker::model::Version::ZERO);
            inode.tracked = false;
            let merged = inode.is_directory() || inode.links > 1 || !inode.xattrs.is_empty();
            if merged {
                inode.ctime = 0;
            }
            all.insert(path.clone(), inode);
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

fn sound(db: &Database) {
    let report = db
        .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
        .unwrap();
    assert!(
        report.complete && report.problems.is_empty(),
        "{:#?}",
        report.problems
    );
}

/// Creates files of all kinds.
fn fill(files: &dyn Namespace, top: &str) {
    let at = |text: &str| format!("{top}/{text}");
    for change_ in [
        make(&at("d"), 0o4_0755),
        make(&at("d/e"), 0o4_0711),
        make(&at("d/x.h5"), 0o10_0644),
        make(&at("y"), 0o10_0600),
        make(&at("gone"), 0o10_0600),
        Change::Create(
            path(&at("link")),
            NewFile {
                content: Content::Symlink(b"d/x.h5".to_vec()),
                ..NewFile::new(Kind::Symlink.bits() | 0o777, 0, 0)
            },
        ),
        Change::Link {
            from: path(&at("y")),
            to: path(&at("d/z")),
        },
        Change::Set {
            path: path(&at("link")),
            follow: true,
            set: SetAttributes {
                content: Some(Content::Inline(b"small".to_vec())),
                mtime: Some(5),
                ..SetAttributes::default()
            },
        },
        Change::Xattr {
            path: path(&at("d/x.h5")),
            name: b"user.note".to_vec(),
            value: Some(b"n".to_vec()),
            mode: XattrMode::Any,
        },
        Change::Xattr {
            path: path(&at("d/x.h5")),
            name: b"user.esker.step".to_vec(),
            value: Some(b"7".to_vec()),
            mode: XattrMode::Any,
        },
        Change::Unlink(path(&at("gone"))),
        Change::Rename {
            from: path(&at("d/e")),
            to: path(&at("e")),
            no_replace: true,
        },
        make(&at("e/last"), 0o10_0644),
    ] {
        change(files, change_.clone()).unwrap_or_else(|e| panic!("{change_:?}: {e}"));
    }
}

fn whole_life(db: &Database) {
    change(db, make("/runs", 0o4_0755)).unwrap();
    let mut private = db.private(None, &path("/runs/r1")).unwrap();
    fill(&private, "/runs/r1");
    assert_eq!(
        private.usage(None, &path("/runs/r1"), true).unwrap().files,
        5
    );
    // Invisible outside of the subtree.
    assert_eq!(
        errno(db.stat(None, &path("/runs/r1"), false)),
        Errno::NotFound
    );
    let made = tree_below(&private, "/runs/r1");
    assert_eq!(made.len(), 8);
    private.merge().unwrap();
    assert_eq!(tree_below(db, "/runs/r1"), made);
    let id = db.stat(None, &path("/runs/r1/d/x.h5"), false).unwrap().id;
    assert_eq!(id, VertexId::of("File", "/runs/r1/d/x.h5"));
    sound(db);
    // Visible in the database now.
    let over = private.stat(None, &path("/runs/r1"), false);
    assert_eq!(over.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(private.merge().unwrap_err().kind(), ErrorKind::Invalid);
    change(db, Change::Unlink(path("/runs/r1/y"))).unwrap();
    assert_eq!(
        db.stat(None, &path("/runs/r1/d/z"), false).unwrap().links,
        1
    );
    // A dropped subtree leaves no trace.
    let dropped = db.private(None, &path("/runs/r2")).unwrap();
    fill(&dropped, "/runs/r2");
    drop(dropped);
    assert_eq!(
        errno(db.stat(None, &path("/runs/r2"), false)),
        Errno::NotFound
    );
    sound(db);
}

#[test]
fn a_private_subtree_is_seen_when_it_is_merged() {
    let dir = tempfile::tempdir().unwrap();
    whole_life(&open(&database(dir.path())));
}

#[test]
fn another_process_has_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let mut child = Child::start();
    assert_eq!(child.open(&path), "owner");
    let db = open(&path);
    assert!(matches!(db.role(), Role::Attached { .. }));
    whole_life(&db);
}

#[test]
fn somebody_was_there_first() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&database(dir.path()));
    change(&db, make("/r", 0o4_0755)).unwrap();
    let mut first = db.private(None, &path("/r/x")).unwrap();
    let mut second = db.private(None, &path("/r/x")).unwrap();
    change(&first, make("/r/x/of-the-first", 0o10_0644)).unwrap();
    change(&second, make("/r/x/of-the-second", 0o10_0644)).unwrap();
    first.merge().unwrap();
    assert_eq!(errno(second.merge()), Errno::Exists);
    assert_eq!(
        errno(db.stat(None, &path("/r/x/of-the-second"), false)),
        Errno::NotFound
    );
    assert_eq!(errno(db.private(None, &path("/r/x"))), Errno::Exists);
    assert_eq!(errno(db.private(None, &path("/no/x"))), Errno::NotFound);
    // The subtree still exists: once the conflicting file is renamed, it can be merged.
    let (from, to) = (path("/r/x"), path("/r/y"));
    let no_replace = true;
    change(
        &db,
        Change::Rename {
            from,
            to,
            no_replace,
        },
    )
    .unwrap();
    second.merge().unwrap();
    db.stat(None, &path("/r/x/of-the-second"), false).unwrap();
    db.stat(None, &path("/r/y/of-the-first"), false).unwrap();
    sound(&db);
}

#[test]
fn changes_stay_inside_and_need_permission() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&database(dir.path()));
    change(&db, make("/r", 0o4_0755)).unwrap();
    change(&db, make("/tmp", 0o4_1777)).unwrap();
    let private = db.private(None, &path("/r/x")).unwrap();
    let invalid =
        |result: Result<AppliedChange>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    invalid(change(&private, make("/r/y", 0o10_0644)));
    invalid(change(
        &private,
        Change::Link {
            from: path("/r/x/a"),
            to: path("/a"),
        },
    ));
    assert_eq!(
        errno(change(&private, Change::Rmdir(path("/r/x")))),
        Errno::Busy
    );
    assert_eq!(
        errno(change(&private, make("/r/x", 0o4_0755))),
        Errno::Exists
    );
    let principal = Principal {
        uid: 7,
        gids: vec![8],
    };
    assert_eq!(
        errno(db.private(Some(principal.clone()), &path("/r/mine"))),
        Errno::Access
    );
    let mut mine = db
        .private(Some(principal.clone()), &path("/tmp/mine"))
        .unwrap();
    let file = |uid| Change::Create(path("/tmp/mine/f"), NewFile::new(0o10_0600, uid, 8));
    assert_eq!(errno(change(&mine, file(0))), Errno::NotPermitted);
    change(&mine, file(7)).unwrap();
    mine.merge().unwrap();
    let inode = db
        .stat(Some(&principal), &path("/tmp/mine"), false)
        .unwrap();
    assert_eq!((inode.uid, inode.gid), (7, 8));
    sound(&db);
}

#[test]
fn a_subtree_has_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&database(dir.path()));
    let private = db.private(None, &path("/x")).unwrap();
    let mut private = private.with_bytes_max(40_000);
    let name = |n: u32| path(&format!("/x/file-with-a-name.{n:06}"));
    let mut made = 0;
    let refused = loop {
        match change(
            &private,
            Change::Create(name(made), NewFile::new(0o10_0644, 0, 0)),
        ) {
            Ok(_) => made += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::Limit { .. }), "{refused}");
    assert!((500..2_000).contains(&made), "{made}");
    // Removals free space.
    for n in 0..made / 2 {
        change(&private, Change::Unlink(name(n))).unwrap();
    }
    change(
        &private,
        Change::Create(name(0), NewFile::new(0o10_0644, 0, 0)),
    )
    .unwrap();
    private.merge().unwrap();
    let usage = db.usage(None, &path("/x"), true).unwrap();
    assert_eq!(usage.files, u64::from(made - made / 2 + 1));
    sound(&db);
}

#[test]
fn many_files_are_a_table_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&database(dir.path()));
    let mut private = db.private(None, &path("/many")).unwrap();
    let name = |n: u32| Name::new(format!("f{n}").as_bytes()).unwrap();
    let all: Vec<Change> = (0..10_000)
        .map(|n| Change::Create(path("/many").join(&name(n)), NewFile::new(0o10_0644, 7, 7)))
        .collect();
    for some in all.chunks(1_000) {
        assert!(
            private
                .change(None, some)
                .unwrap()
                .iter()
                .all(Result::is_ok)
        );
    }
    private.merge().unwrap();
    assert_eq!(db.usage(None, &path("/many"), true).unwrap().files, 10_000);
    assert_eq!(errno(change(&db, all[77].clone())), Errno::Exists);
    change(&db, Change::Unlink(path("/many/f77"))).unwrap();
    change(&db, all[77].clone()).unwrap();
    sound(&db);
    db.close().unwrap();
    let db = open(&dir.path().join("lab.esker"));
    assert_eq!(db.usage(None, &path("/many"), true).unwrap().files, 10_000);
    db.stat(None, &path("/many/f9999"), false).unwrap();
    sound(&db);
}
