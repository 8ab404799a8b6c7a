//! Files as vertices: names that follow renames, tags as extended attributes.

use super::{change, errno, file, mkdir, path, rename, small, sound, stat, touch};
use esker_engine::{Engine, View};
use esker_model::namespace::{Change, Errno, FileRefResolver, Namespace, XattrMode, resolve};
use esker_model::object::Principal;
use esker_model::traversal::Budget;
use esker_model::{
    Batch, GraphRead, GraphWrite, Mutation, NeverCancel, Op, Properties, Traversal, Value, Version,
    Vertex, VertexId, VertexName, VertexRef,
};

pub(super) fn vertex(engine: &Engine, name: &str) -> VertexRef {
    let name = VertexName::parse(name).unwrap();
    resolve(engine, None, &engine.schema().unwrap(), &[name]).unwrap()[0]
}

fn read(engine: &Engine, name: &str) -> Option<Vertex> {
    let id = vertex(engine, name).id;
    let view = View::new(engine, None);
    view.read_vertices(&[id], Version::MAX).unwrap().remove(0)
}

/// Ensures a vertex and gives it a tag.
fn tag(engine: &Engine, name: &str, tag: &str, value: impl Into<Value>) {
    let vertex = vertex(engine, name);
    let key = name.split_once(':').unwrap().1.to_owned();
    let mut batch = Batch::new();
    batch.push(Op::EnsureVertex { vertex, key });
    batch.push(Op::SetAttributes {
        vertex,
        set: Properties::new().with(tag, value),
        remove: Vec::new(),
    });
    engine.apply(batch).unwrap();
}

fn tags(engine: &Engine, name: &str) -> Vec<(String, Value)> {
    let user = read(engine, name).map(|v| v.user).unwrap_or_default();
    user.into_iter().map(|a| (a.name, a.value)).collect()
}

fn xattrs(engine: &Engine, at: &str) -> Vec<(String, String)> {
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    let all = stat(engine, at).unwrap().xattrs;
    all.into_iter().map(|(n, v)| (text(n), text(v))).collect()
}

fn set_xattr(
    engine: &Engine,
    at: &str,
    name: &str,
    value: Option<&str>,
) -> esker_model::Result<()> {
    let one = Change::Xattr {
        path: path(at),
        name: name.as_bytes().to_vec(),
        value: value.map(|v| v.as_bytes().to_vec()),
        mode: XattrMode::Any,
    };
    change(engine, None, one).map(|_| ())
}

#[test]
fn a_renamed_file_is_found_by_its_present_path() {
    let small = small();
    let engine = &small.engine;
    touch(engine, "/a");
    tag(engine, "file:/a", "kind", "raw");
    rename(engine, "/a", "/b").unwrap();
    assert_eq!(tags(engine, "file:/b"), [("kind".into(), "raw".into())]);
    assert_eq!(read(engine, "file:/b").unwrap().key, "/b");
    assert_eq!(
        read(engine, "file:/a").unwrap().key,
        "/b",
        "nothing is at /a: it means what was made there"
    );
    touch(engine, "/a");
    assert!(
        read(engine, "file:/a").is_none(),
        "another file, of which nobody spoke"
    );
    tag(engine, "file:/a", "kind", "new");
    assert_eq!(tags(engine, "file:/a"), [("kind".into(), "new".into())]);
    assert_eq!(tags(engine, "file:/b"), [("kind".into(), "raw".into())]);
    assert_eq!(read(engine, "file:/nowhere"), None);
    assert_ne!(
        vertex(engine, "directory:/a").id,
        stat(engine, "/a").unwrap().id
    );
    sound(engine);
}

#[test]
fn what_lies_below_a_renamed_directory_is_found_too_whatever_its_id_was_made_of() {
    let small = small();
    let engine = &small.engine;
    for at in ["/a", "/a/d"] {
        mkdir(engine, at);
    }
    touch(engine, "/a/d/x");
    tag(engine, "file:/a/d/x", "n", 1_i64);
    tag(engine, "directory:/a/d", "n", 2_i64);
    rename(engine, "/a", "/b").unwrap();
    // The directory that was moved owns the path of this one.
    mkdir(engine, "/a");
    mkdir(engine, "/a/d");
    touch(engine, "/a/d/x");
    tag(engine, "file:/a/d/x", "n", 3_i64);
    rename(engine, "/a", "/c").unwrap();
    rename(engine, "/b/d", "/e").unwrap();
    for (name, key, n) in [
        ("file:/e/x", "/e/x", 1),
        ("directory:/e", "/e", 2),
        ("file:/c/d/x", "/c/d/x", 3),
    ] {
        assert_eq!(tags(engine, name), [("n".into(), Value::I64(n))], "{name}");
        assert_eq!(read(engine, name).unwrap().key, key);
    }
    sound(engine);
    // Traversals print, and filters compare, their present paths.
    let chain = "v(type=File).va(\"key\", EQ, \"/e/x\")";
    let chain = Traversal::parse_at(chain, 0).unwrap();
    let found = View::new(engine, None)
        .travel(&chain, &Budget::default(), &NeverCancel)
        .unwrap();
    assert_eq!(found.sets[0].vertices, [stat(engine, "/e/x").unwrap().id]);
}

#[test]
fn a_log_speaks_of_the_file_that_has_the_path() {
    let small = small();
    let engine = &small.engine;
    touch(engine, "/a");
    rename(engine, "/a", "/b").unwrap();
    let schema = engine.schema().unwrap();
    let plain = |name: &str| VertexName::parse(name).unwrap().resolve(&schema).unwrap();
    let (job, b) = (plain("job:1"), plain("file:/b"));
    let write = schema.edge_type_id("write").unwrap();
    let ensure = |vertex, key: &str| Op::EnsureVertex {
        vertex,
        key: key.into(),
    };
    let mut batches = [
        vec![ensure(job, "1"), ensure(b, "/b")],
        // A later batch of the same log refers to the file by its id alone.
        vec![Op::PutEdge {
            source: job,
            edge_type: write,
            destination: b,
            properties: Properties::new(),
        }],
    ];
    let mut resolver = FileRefResolver::default();
    for ops in &mut batches {
        let mut mutations: Vec<Mutation> = std::mem::take(ops)
            .into_iter()
            .map(|op| Mutation { version: None, op })
            .collect();
        resolver
            .resolve_mutations(engine, &schema, &mut mutations)
            .unwrap();
        let batch = Batch {
            mutations,
            idempotency_key: None,
        };
        engine.apply(batch).unwrap();
    }
    let file = stat(engine, "/b").unwrap().id;
    assert_eq!(file, VertexId::of("File", "/a"));
    let inverse = schema.inverse(write);
    assert_eq!(
        engine.degrees(&[(file, inverse), (b.id, inverse)]).unwrap(),
        [1, 0]
    );
    assert_eq!(read(engine, "file:/b").unwrap().key, "/b");
    sound(engine);
}

#[test]
fn ids_that_are_no_files_names_are_refused_still() {
    let small = small();
    let engine = &small.engine;
    touch(engine, "/a");
    let mut stranger = vertex(engine, "file:/a");
    stranger.id = VertexId::of("File", "/other");
    let mut batch = Batch::new();
    batch.push(Op::EnsureVertex {
        vertex: stranger,
        key: "/a".into(),
    });
    let refused = engine.apply(batch).unwrap_err().to_string();
    assert!(refused.contains("is not the id of"), "{refused}");
}

#[test]
fn tags_are_extended_attributes_and_the_other_way_round() {
    let small = small();
    let engine = &small.engine;
    touch(engine, "/x");
    tag(engine, "file:/x", "step", 7_i64);
    tag(engine, "file:/x", "number", "42");
    set_xattr(engine, "/x", "user.note", Some("plain")).unwrap();
    set_xattr(engine, "/x", "user.esker.done", Some("true")).unwrap();
    set_xattr(engine, "/x", "user.esker.why", Some("because")).unwrap();
    let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
    assert_eq!(
        xattrs(engine, "/x"),
        [
            pair("user.esker.done", "true"),
            pair("user.esker.number", "\"42\""),
            pair("user.esker.step", "7"),
            pair("user.esker.why", "because"),
            pair("user.note", "plain"),
        ]
    );
    assert_eq!(
        tags(engine, "file:/x"),
        [
            ("done".into(), Value::Bool(true)),
            ("number".into(), "42".into()),
            ("step".into(), Value::I64(7)),
            ("why".into(), "because".into()),
        ]
    );
    set_xattr(engine, "/x", "user.esker.step", None).unwrap();
    assert_eq!(
        errno(set_xattr(engine, "/x", "user.esker.step", None)),
        Errno::NoData
    );
    assert_eq!(
        errno(set_xattr(engine, "/x", "user.esker.size", Some("1"))),
        Errno::Invalid
    );
    // A directory without a vertex, and the root, get vertices by it.
    mkdir(engine, "/d");
    set_xattr(engine, "/d", "user.esker.owner", Some("ada")).unwrap();
    set_xattr(engine, "/", "user.esker.site", Some("here")).unwrap();
    assert_eq!(
        tags(engine, "directory:/d"),
        [("owner".into(), "ada".into())]
    );
    assert_eq!(
        tags(engine, "directory:/"),
        [("site".into(), "here".into())]
    );
    // Tags stay with the file, and are removed with it.
    rename(engine, "/x", "/y").unwrap();
    assert_eq!(tags(engine, "file:/y").len(), 3);
    change(engine, None, Change::Unlink(path("/y"))).unwrap();
    assert!(read(engine, "file:/x").unwrap().deleted);
    sound(engine);
}

#[test]
fn tags_of_files_with_ids_not_derived_from_their_paths() {
    let small = small();
    let engine = &small.engine;
    mkdir(engine, "/a");
    touch(engine, "/a/x");
    rename(engine, "/a", "/b").unwrap();
    mkdir(engine, "/a");
    touch(engine, "/a/x");
    set_xattr(engine, "/a/x", "user.esker.n", Some("1")).unwrap();
    let odd = esker_model::namespace::NamePath::parse(b"/a/\xff").unwrap();
    change(engine, None, Change::Create(odd.clone(), file(0o644))).unwrap();
    let set = Change::Xattr {
        path: odd.clone(),
        name: b"user.esker.n".to_vec(),
        value: Some(b"2".to_vec()),
        mode: XattrMode::Create,
    };
    change(engine, None, set.clone()).unwrap();
    assert_eq!(errno(change(engine, None, set)), Errno::Exists);
    rename(engine, "/a", "/z").unwrap();
    assert_eq!(tags(engine, "file:/z/x"), [("n".into(), Value::I64(1))]);
    let odd = esker_model::namespace::NamePath::parse(b"/z/\xff").unwrap();
    let id = engine.ids(None, &[odd]).unwrap()[0].unwrap().0;
    let found = View::new(engine, None).read_vertices(&[id], Version::MAX);
    assert_eq!(found.unwrap()[0].as_ref().unwrap().key, "/z/\\xff");
    sound(engine);
}

#[test]
fn setting_and_seeing_tags_asks_for_the_same_rights_as_other_attributes() {
    let small = small();
    let engine = &small.engine;
    let mut make = file(0o640);
    (make.uid, make.gid) = (7, 8);
    change(engine, None, Change::Create(path("/x"), make)).unwrap();
    let principal = |uid, gid| Principal {
        uid,
        gids: vec![gid],
    };
    let set = Change::Xattr {
        path: path("/x"),
        name: b"user.esker.n".to_vec(),
        value: Some(b"1".to_vec()),
        mode: XattrMode::Any,
    };
    for (who, may) in [
        (principal(9, 9), false),
        (principal(9, 8), false),
        (principal(7, 9), true),
    ] {
        let done = change(engine, Some(&who), set.clone());
        assert_eq!(done.is_ok(), may, "{who:?}");
    }
    for (who, seen) in [
        (principal(9, 9), 0),
        (principal(9, 8), 1),
        (principal(7, 9), 1),
    ] {
        let inode = engine.stat(Some(&who), &path("/x"), false).unwrap();
        assert_eq!(inode.xattrs.len(), seen, "{who:?}");
    }
}
