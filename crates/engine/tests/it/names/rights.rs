//! Rights that a user cannot give a file: the object of another file as its content, and attributes reserved to the superuser.

use super::graph::vertex;
use super::{change, directory, errno, path, rename, small, sound, stat, touch};
use esker_engine::{Engine, View};
use esker_model::namespace::{
    Change, Content, Errno, Name, Namespace as _, NewFile, Open, OpenFile, SetAttributes,
    SubtreeBuilder,
};
use esker_model::object::Principal;
use esker_model::{Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Result, Version};
use std::ops::ControlFlow;

fn user() -> Principal {
    Principal {
        uid: 7,
        gids: vec![7],
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn object(text: &str) -> Content {
    Content::Object(text.as_bytes().to_vec())
}

fn leads_to(text: &str) -> SetAttributes {
    SetAttributes {
        content: Some(object(text)),
        size: Some(5),
        ..SetAttributes::default()
    }
}

fn set(engine: &Engine, principal: Option<&Principal>, at: &str, text: &str) -> Result<()> {
    let set = Change::Set {
        path: path(at),
        follow: false,
        set: leads_to(text),
    };
    change(engine, principal, set).map(drop)
}

/// Merges a directory of that user with one file in it.
fn merge(engine: &Engine, below: &NewFile) -> Result<()> {
    let mut builder = SubtreeBuilder::default();
    builder.in_existing_directory(&path("/"));
    builder.entry(&name("tree"), &NewFile::new(0o4_0755, 7, 7), false);
    builder.in_new_directory(0);
    builder.entry(&name("f"), below, false);
    let tree = Change::Merge(builder.finish().unwrap());
    change(engine, Some(&user()), tree).map(drop)
}

/// `usage` counted directories that the user may not list, and `usages` did not.
#[test]
fn the_space_of_a_tree_is_what_the_user_may_list_however_it_is_read() {
    let small = small();
    let engine = &small.engine;
    for (at, mode) in [("/d", 0o755), ("/d/open", 0o755), ("/d/closed", 0o700)] {
        change(engine, None, Change::Create(path(at), directory(mode))).unwrap();
    }
    touch(engine, "/d/open/f");
    touch(engine, "/d/closed/g");
    let usages = |principal: Option<&Principal>| {
        let mut all = Vec::new();
        engine
            .usages(principal, &path("/d"), &NeverCancel, &mut |path, usage| {
                all.push((path.to_string(), usage.files, usage.directories));
                ControlFlow::Continue(())
            })
            .unwrap();
        let sum = engine.usage(principal, &path("/d"), true).unwrap();
        assert_eq!(all[0], ("/d".to_owned(), sum.files, sum.directories));
        all
    };
    let row = |path: &str, files, directories| (path.to_owned(), files, directories);
    assert_eq!(
        usages(Some(&user())),
        [row("/d", 1, 2), row("/d/open", 1, 1)]
    );
    assert_eq!(
        usages(None),
        [
            row("/d", 2, 3),
            row("/d/closed", 1, 1),
            row("/d/open", 1, 1)
        ]
    );
}

#[test]
fn a_user_does_not_say_which_object_holds_a_content() {
    let small = small();
    let engine = &small.engine;
    let root = Some(Principal::default());
    change(engine, None, Change::Create(path("/d"), directory(0o777))).unwrap();
    let own = NewFile::new(0o10_0600, 7, 7);
    change(
        engine,
        Some(&user()),
        Change::Create(path("/d/own"), own.clone()),
    )
    .unwrap();
    let secret = touch(engine, "/secret").id;
    set(engine, None, "/secret", "/data/secret").unwrap();
    // The id of the object is visible to users who may search the directory.
    assert_eq!(
        engine
            .stat(Some(&user()), &path("/secret"), false)
            .unwrap()
            .id,
        secret
    );
    let refused = set(engine, Some(&user()), "/d/own", "/data/secret");
    assert_eq!(errno(refused), Errno::NotPermitted);
    let open = OpenFile::open(engine, Some(&user()), &path("/d/own"), Open::BOTH, None);
    let (open, _) = open.unwrap();
    let refused = open.set(engine, leads_to("/data/secret"));
    assert_eq!(errno(refused), Errno::NotPermitted);
    let with_object = NewFile {
        content: object("/data/secret"),
        ..own
    };
    let make = Change::Create(path("/d/new"), with_object.clone());
    assert_eq!(
        errno(change(engine, Some(&user()), make)),
        Errno::NotPermitted
    );
    assert_eq!(stat(engine, "/d/own").unwrap().content, Content::None);
    assert_eq!(errno(stat(engine, "/d/new")), Errno::NotFound);
    // The mount may, since it acts as the superuser; and the present content may be set again.
    set(engine, root.as_ref(), "/d/own", "/data/own").unwrap();
    set(engine, Some(&user()), "/d/own", "/data/own").unwrap();
    let refused = set(engine, Some(&user()), "/d/own", "/data/secret");
    assert_eq!(errno(refused), Errno::NotPermitted);
    assert_eq!(stat(engine, "/d/own").unwrap().content, object("/data/own"));
    // A subtree may not, either.
    let open_root = Change::Set {
        path: path("/"),
        follow: false,
        set: SetAttributes {
            mode: Some(0o777),
            ..SetAttributes::default()
        },
    };
    change(engine, None, open_root).unwrap();
    assert_eq!(errno(merge(engine, &with_object)), Errno::NotPermitted);
    sound(engine);
}

#[test]
fn attributes_of_a_new_file_are_those_that_its_maker_may_set() {
    let small = small();
    let engine = &small.engine;
    let open_root = Change::Set {
        path: path("/"),
        follow: false,
        set: SetAttributes {
            mode: Some(0o777),
            ..SetAttributes::default()
        },
    };
    change(engine, None, open_root).unwrap();
    let with = |attribute: &str| NewFile {
        xattrs: vec![(attribute.as_bytes().to_vec(), b"v".to_vec())],
        ..NewFile::new(0o10_0600, 7, 7)
    };
    for (attribute, expected) in [
        ("security.capability", Errno::NotPermitted),
        ("trusted.overlay.opaque", Errno::NotPermitted),
        ("system.other", Errno::NotSupported),
        ("user.esker.quality", Errno::Invalid),
    ] {
        let make = Change::Create(path("/f"), with(attribute));
        let refused = change(engine, Some(&user()), make);
        assert_eq!(errno(refused), expected, "{attribute}");
        assert_eq!(
            errno(merge(engine, &with(attribute))),
            expected,
            "{attribute}"
        );
    }
    merge(engine, &with("user.quality")).unwrap();
    let make = Change::Create(path("/f"), with("user.quality"));
    change(engine, Some(&user()), make).unwrap();
    // The superuser may import such attributes.
    let make = Change::Create(path("/g"), with("security.capability"));
    change(engine, None, make).unwrap();
    assert_eq!(stat(engine, "/g").unwrap().xattrs.len(), 1);
    sound(engine);
}

/// If a directory was cached, the error named the closed directory above it; for a name that does not exist, it named the requested
/// path. So a user could find out which directories there are in a closed one.
#[test]
fn the_error_is_the_same_whether_or_not_a_directory_exists() {
    let small = small();
    let engine = &small.engine;
    change(
        engine,
        None,
        Change::Create(path("/closed"), directory(0o700)),
    )
    .unwrap();
    change(
        engine,
        None,
        Change::Create(path("/closed/here"), directory(0o755)),
    )
    .unwrap();
    let list = |principal: Option<&Principal>, at: &str| {
        engine.list(principal, &path(at), None, &mut |_, _| {
            ControlFlow::Continue(())
        })
    };
    // The owner's request fills the cache.
    list(None, "/closed/here").unwrap();
    let refused = |at: &str| list(Some(&user()), at).unwrap_err().to_string();
    assert_eq!(
        refused("/closed/here").replace("here", "none"),
        refused("/closed/none")
    );
    assert!(refused("/closed/here").starts_with("/closed/here: "));
}

/// A removed file was shown under its first path, also if it had been moved out of a closed directory: the names in there were visible to
/// all who saw the file in its last place.
#[test]
fn a_removed_file_does_not_name_a_closed_directory_that_it_left() {
    let small = small();
    let engine = &small.engine;
    let closed = Change::Create(path("/closed"), directory(0o700));
    change(engine, None, closed).unwrap();
    touch(engine, "/closed/private");
    let file = vertex(engine, "file:/closed/private");
    let mut batch = Batch::new();
    let key = "/closed/private".to_owned();
    batch.push(Op::EnsureVertex { vertex: file, key });
    engine.apply(batch).unwrap();
    let shown = |principal: Option<&Principal>| {
        let view = View::new(engine, principal);
        let read = view.read_vertices(&[file.id], Version::MAX).unwrap();
        read[0].as_ref().map(|v| (v.key.clone(), v.deleted))
    };
    assert_eq!(shown(Some(&user())), None);
    rename(engine, "/closed/private", "/left").unwrap();
    let left = |deleted| Some(("/left".to_owned(), deleted));
    assert_eq!(shown(Some(&user())), left(false));
    change(engine, None, Change::Unlink(path("/left"))).unwrap();
    assert_eq!(shown(Some(&user())), left(true));
    assert_eq!(shown(None), Some(("/closed/private".to_owned(), true)));
    sound(engine);
}
