//! What a user may not give a file: the object of another file as its content, and attributes that are the superuser's.

use super::{change, directory, errno, path, small, sound, stat, touch};
use esker_engine::Engine;
use esker_model::Result;
use esker_model::namespace::{
    Change, Content, Errno, Make, Name, Namespace as _, Open, OpenFile, SetAttributes,
    SubtreeBuilder,
};
use esker_model::object::Asker;

fn user() -> Asker {
    Asker {
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

fn set(engine: &Engine, asker: Option<&Asker>, at: &str, text: &str) -> Result<()> {
    let set = Change::Set {
        path: path(at),
        follow: false,
        set: leads_to(text),
    };
    change(engine, asker, set).map(drop)
}

/// A directory of that user's with one file in it, made at once.
fn merge(engine: &Engine, below: &Make) -> Result<()> {
    let mut builder = SubtreeBuilder::default();
    builder.existing(&path("/"));
    builder.entry(&name("tree"), &Make::new(0o4_0755, 7, 7), false);
    builder.made(0);
    builder.entry(&name("f"), below, false);
    let tree = Change::Merge(builder.finish().unwrap());
    change(engine, Some(&user()), tree).map(drop)
}

#[test]
fn a_user_does_not_say_which_object_holds_a_content() {
    let small = small();
    let engine = &small.engine;
    let root = Some(Asker::default());
    change(engine, None, Change::Make(path("/d"), directory(0o777))).unwrap();
    let own = Make::new(0o10_0600, 7, 7);
    change(
        engine,
        Some(&user()),
        Change::Make(path("/d/own"), own.clone()),
    )
    .unwrap();
    let secret = touch(engine, "/secret").id;
    set(engine, None, "/secret", "/data/secret").unwrap();
    // The id of the object is told to who may search the directory.
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
    let with_object = Make {
        content: object("/data/secret"),
        ..own
    };
    let make = Change::Make(path("/d/new"), with_object.clone());
    assert_eq!(
        errno(change(engine, Some(&user()), make)),
        Errno::NotPermitted
    );
    assert_eq!(stat(engine, "/d/own").unwrap().content, Content::None);
    assert_eq!(errno(stat(engine, "/d/new")), Errno::NotFound);
    // The mount does, for it asks as the superuser; and what is there already may be said again.
    set(engine, root.as_ref(), "/d/own", "/data/own").unwrap();
    set(engine, Some(&user()), "/d/own", "/data/own").unwrap();
    let refused = set(engine, Some(&user()), "/d/own", "/data/secret");
    assert_eq!(errno(refused), Errno::NotPermitted);
    assert_eq!(stat(engine, "/d/own").unwrap().content, object("/data/own"));
    // Nor with a whole tree.
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
    let with = |attribute: &str| Make {
        xattrs: vec![(attribute.as_bytes().to_vec(), b"v".to_vec())],
        ..Make::new(0o10_0600, 7, 7)
    };
    for (attribute, expected) in [
        ("security.capability", Errno::NotPermitted),
        ("trusted.overlay.opaque", Errno::NotPermitted),
        ("system.posix_acl_access", Errno::NotSupported),
        ("user.esker.quality", Errno::Invalid),
    ] {
        let make = Change::Make(path("/f"), with(attribute));
        let refused = change(engine, Some(&user()), make);
        assert_eq!(errno(refused), expected, "{attribute}");
        assert_eq!(
            errno(merge(engine, &with(attribute))),
            expected,
            "{attribute}"
        );
    }
    merge(engine, &with("user.quality")).unwrap();
    let make = Change::Make(path("/f"), with("user.quality"));
    change(engine, Some(&user()), make).unwrap();
    // Who may do everything brings in what there is.
    let make = Change::Make(path("/g"), with("security.capability"));
    change(engine, None, make).unwrap();
    assert_eq!(stat(engine, "/g").unwrap().xattrs.len(), 1);
    sound(engine);
}
