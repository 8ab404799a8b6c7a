//! Open files: their state while their names change, and without any name.

use super::{change, directory, errno, file, mkdir, path, rename, small, sound, stat, touch};
use esker_engine::Engine;
use esker_model::namespace::{
    Change, Content, Errno, Handle, NamePath, Namespace, NewFile, Open, OpenFile, SetAttributes,
    SpaceBy, XattrMode,
};
use esker_model::object::Principal;
use esker_model::{Error, NeverCancel, Result};
use std::ops::ControlFlow;

fn open(engine: &Engine, at: &str, how: Open) -> OpenFile {
    OpenFile::open(engine, None, &path(at), how, None)
        .unwrap()
        .0
}

fn unlink(engine: &Engine, at: &str) {
    change(engine, None, Change::Unlink(path(at))).unwrap();
}

fn list(engine: &Engine, open: &OpenFile) -> Result<Vec<String>> {
    let mut names = Vec::new();
    open.list(engine, None, &mut |_, entry| {
        names.push(entry.name.to_string());
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

#[test]
fn an_open_file_stays_the_same_file() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/a");
    let id = touch(engine, "/a/x").id;
    let open = open(engine, "/a/x", Open::BOTH);
    rename(engine, "/a/x", "/a/y").unwrap();
    rename(engine, "/a", "/b").unwrap();
    let other = touch_at(engine, "/a", "/a/x");
    open.write(engine, Some(0), b"one").unwrap();
    assert_eq!(open.read(engine, 0, 99).unwrap(), b"one");
    assert_eq!(stat(engine, "/b/y").unwrap().size, 3);
    assert_eq!(open.stat(engine).unwrap().id, id);
    assert_ne!(other, id);
    // A second name is added, and the first one removed.
    let (from, to) = (path("/b/y"), path("/z"));
    change(engine, None, Change::Link { from, to }).unwrap();
    unlink(engine, "/b/y");
    open.write(engine, None, b" two").unwrap();
    assert_eq!(open.stat(engine).unwrap().links, 1);
    let inode = stat(engine, "/z").unwrap();
    assert_eq!(inode.content, Content::Inline(b"one two".to_vec()));
    sound(engine);
}

fn touch_at(engine: &Engine, above: &str, at: &str) -> esker_model::VertexId {
    mkdir(engine, above);
    touch(engine, at).id
}

#[test]
fn a_file_without_a_name_stays_for_processes_that_have_it_open() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/a");
    let id = touch(engine, "/a/x").id;
    let first = open(engine, "/a/x", Open::BOTH);
    let second = open(engine, "/a/x", Open::READ);
    first.write(engine, Some(0), b"before").unwrap();
    unlink(engine, "/a/x");
    let at = engine.usage(None, &NamePath::root(), true).unwrap();
    assert_eq!((at.files, at.bytes), (0, 0), "it counts nowhere");
    first.write(engine, Some(6), b", after").unwrap();
    let set = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    first.set(engine, set).unwrap();
    first
        .set_xattr(engine, b"user.a", Some(b"1"), XattrMode::Any)
        .unwrap();
    let inode = second.stat(engine).unwrap();
    assert_eq!((inode.links, inode.size, inode.mode), (0, 13, 0o100_600));
    assert_eq!(inode.xattrs, [(b"user.a".to_vec(), b"1".to_vec())]);
    assert_eq!(second.read(engine, 0, 99).unwrap(), b"before, after");
    // Tags belong to the vertex, which is deleted.
    let tag = first.set_xattr(engine, b"user.esker.a", Some(b"1"), XattrMode::Any);
    assert_eq!(errno(tag), Errno::NotFound);
    // The name is free, and a new file gets it.
    let again = touch(engine, "/a/x").id;
    assert_ne!(again, id);
    assert_eq!(second.stat(engine).unwrap().id, id);
    assert_eq!(stat(engine, "/a/x").unwrap().size, 0);
    first.truncate(engine, 2).unwrap();
    assert_eq!(second.read(engine, 0, 9).unwrap(), b"be");
    // Neither the name, nor sums, nor entries reappeared.
    assert_eq!(engine.usage(None, &path("/a"), true).unwrap().bytes, 0);
    let sums = engine.space(SpaceBy::Kind).unwrap();
    assert!(sums.iter().all(|s| s.usage.bytes == 0), "{sums:?}");
    sound(engine);
}

#[test]
fn what_a_rename_replaces_stays_open() {
    let small = small();
    let engine = &small.engine;
    touch(engine, "/x");
    touch(engine, "/y");
    let (x, y) = (
        open(engine, "/x", Open::BOTH),
        open(engine, "/y", Open::BOTH),
    );
    rename(engine, "/x", "/y").unwrap();
    y.write(engine, Some(0), b"gone").unwrap();
    x.write(engine, Some(0), b"here").unwrap();
    assert_eq!(y.stat(engine).unwrap().links, 0);
    let inode = stat(engine, "/y").unwrap();
    assert_eq!(inode.content, Content::Inline(b"here".to_vec()));
    assert_eq!(y.read(engine, 0, 9).unwrap(), b"gone");
    sound(engine);
}

#[test]
fn open_directories() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/a");
    touch(engine, "/a/x");
    let root = open(engine, "/", Open::READ);
    let a = open(engine, "/a", Open::READ);
    rename(engine, "/a", "/b").unwrap();
    assert_eq!(list(engine, &root).unwrap(), ["b"]);
    assert_eq!(list(engine, &a).unwrap(), ["x"]);
    assert_eq!(errno(a.read(engine, 0, 1)), Errno::IsDirectory);
    assert_eq!(errno(a.write(engine, None, b"x")), Errno::BadHandle);
    unlink(engine, "/b/x");
    change(engine, None, Change::Rmdir(path("/b"))).unwrap();
    assert_eq!(a.stat(engine).unwrap().links, 0);
    assert_eq!(errno(list(engine, &a)), Errno::NotFound);
    sound(engine);
}

#[test]
fn a_handle_stands_for_nothing_else() {
    let small = small();
    let engine = &small.engine;
    touch(engine, "/x");
    let x = open(engine, "/x", Open::BOTH);
    let at = || x.path().clone();
    for refused in [
        Change::Create(at(), file(0o644)),
        Change::Create(at(), directory(0o755)),
        Change::Unlink(at()),
        Change::Rmdir(at()),
        Change::Rename {
            from: at(),
            to: path("/y"),
            no_replace: false,
        },
        Change::Rename {
            from: path("/x"),
            to: at(),
            no_replace: false,
        },
        Change::Link {
            from: at(),
            to: path("/y"),
        },
    ] {
        assert_eq!(errno(change(engine, None, refused)), Errno::Invalid);
    }
    let walked = engine.walk(
        None,
        &at(),
        &NeverCancel,
        &mut |_, _| ControlFlow::Break(()),
    );
    assert_eq!(errno(walked), Errno::Invalid);
    // Reading requires a handle opened for reading.
    let open = open(engine, "/x", Open::WRITE);
    open.write(engine, None, b"1").unwrap();
    assert_eq!(errno(open.read(engine, 0, 1)), Errno::BadHandle);
    assert_eq!(open.stat(engine).unwrap().content, Content::None);
    assert_eq!(engine.ids(None, &[at()]).unwrap(), [None]);
}

#[test]
fn rights_are_asked_for_when_it_is_opened() {
    let small = small();
    let engine = &small.engine;
    let ada = Principal {
        uid: 7,
        gids: vec![7],
    };
    let make = |uid, mode: u32| Change::Create(path("/x"), NewFile::new(0o10_0000 | mode, uid, 7));
    change(engine, None, make(8, 0o660)).unwrap();
    let x = OpenFile::open(engine, Some(&ada), &path("/x"), Open::BOTH, None);
    let (x, _) = x.unwrap();
    let set = SetAttributes {
        mode: Some(0),
        ..SetAttributes::default()
    };
    let (at, follow) = (path("/x"), true);
    change(
        engine,
        None,
        Change::Set {
            path: at,
            follow,
            set: set.clone(),
        },
    )
    .unwrap();
    x.write(engine, Some(0), b"still").unwrap();
    assert_eq!(x.read(engine, 0, 9).unwrap(), b"still");
    assert_eq!(errno(x.set(engine, set)), Errno::NotPermitted);
    let denied = OpenFile::open(engine, Some(&ada), &path("/x"), Open::READ, None);
    assert_eq!(errno(denied), Errno::Access);
    // Knowing a file's id does not suffice to open it.
    let forged = Handle {
        read: false,
        write: false,
        ..x.path().handle().unwrap()
    };
    let denied = engine.resolve_open(Some(&ada), &forged.path(), Open::BOTH);
    assert_eq!(errno(denied), Errno::Access);
    // The creator of a file may open it, regardless of its mode.
    let how = Open {
        create: true,
        exclusive: true,
        ..Open::BOTH
    };
    let mine = NewFile::new(0o10_0444, 7, 7);
    change(engine, None, Change::Create(path("/d"), directory(0o777))).unwrap();
    let (own, _) = OpenFile::open(engine, Some(&ada), &path("/d/f"), how, Some(&mine)).unwrap();
    own.write(engine, None, b"mine").unwrap();
    let again = OpenFile::open(engine, Some(&ada), &path("/d/f"), how, Some(&mine));
    assert_eq!(errno(again), Errno::Exists);
    sound(engine);
}

#[test]
fn content_that_is_elsewhere_is_read_there() {
    let small = small();
    let engine = &small.engine;
    let indexed = NewFile {
        size: 5,
        ..file(0o644)
    };
    let object = NewFile {
        content: Content::Object(b"/data/1".to_vec()),
        ..indexed.clone()
    };
    for (at, make, says) in [("/i", indexed, "indexed"), ("/o", object, "/data/1")] {
        change(engine, None, Change::Create(path(at), make)).unwrap();
        let open = open(engine, at, Open::BOTH);
        for result in [
            open.read(engine, 0, 1).map(|_| ()),
            open.write(engine, Some(0), b"x").map(|_| ()),
        ] {
            let Err(e @ Error::File(_)) = result else {
                panic!("{result:?}")
            };
            assert!(e.to_string().contains(says), "{e}");
            assert_eq!(errno::<()>(Err(e)), Errno::NotSupported);
        }
    }
    touch(engine, "/x");
    let x = open(engine, "/x", Open::BOTH);
    assert_eq!(
        errno(x.write(engine, Some(4_090), b"1234567")),
        Errno::TooBig
    );
    x.write(engine, Some(4_090), b"123456").unwrap();
    assert_eq!(x.read(engine, 4_088, 99).unwrap(), b"\0\x00123456");
    assert_eq!(errno(x.write(engine, Some(u64::MAX), b"1")), Errno::TooBig);
}

#[test]
fn a_crash_leaves_what_a_removed_file_leaves_and_retention_takes_it() {
    let small = small();
    let engine = &small.engine;
    touch(engine, "/x");
    let x = open(engine, "/x", Open::BOTH);
    unlink(engine, "/x");
    x.write(engine, None, b"lost to all but this").unwrap();
    let after = small.after_crash(usize::MAX);
    let engine = &after.engine;
    sound(engine);
    // The process that has it open continues, since its state is still stored.
    assert_eq!(x.read(engine, 0, 4).unwrap(), b"lost");
    after.clock.advance(10_000);
    let since = touch(engine, "/later").version;
    engine.compact(Some(since), &NeverCancel).unwrap();
    assert_eq!(errno(x.stat(engine)), Errno::Stale);
    // The next file may have its id, and is a different file.
    let next = touch(engine, "/x").id;
    assert_eq!(next, x.path().handle().unwrap().id);
    assert_eq!(errno(x.stat(engine)), Errno::Stale);
    sound(engine);
}
