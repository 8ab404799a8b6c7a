//! Tests that an attached database and a server give the same answers and the same errors as an owned database.

use crate::graph::{edge_type, file, link, put_file, vertex, written};
use esker::model::traversal::{Budget, StopReason};
use esker::model::{
    AttributeDefinition, Batch, Cancel, DiffSelect, Difference, EdgeSelect, GraphRead, GraphWrite,
    NeverCancel, Op, Properties, SchemaChange, Traversal, Value, ValueKind, Version, VersionRange,
    Versions, VertexSelect,
};
use esker::{CheckOptions, Database, OpenOptions, Role};
use esker_server::{Server, Settings};
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};

/// One database, opened twice in one process.
pub(crate) struct Pair {
    pub(crate) owner: Database,
    pub(crate) other: Database,
    // Dropped after the handles, in this order.
    _server: Option<Server>,
    _dir: tempfile::TempDir,
}

/// The second handle goes through the owner's socket, or through a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    Socket,
    Server,
}

pub(crate) const EITHER: [Through; 2] = [Through::Socket, Through::Server];

pub(crate) fn both(through: Through) -> Pair {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.esker");
    let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
    let owner = options.open(path.to_str().unwrap()).unwrap();
    assert_eq!(owner.role(), Role::Owner);
    let pid = std::process::id();
    let (other, server) = match through {
        Through::Socket => {
            let attached = options.open(path.to_str().unwrap()).unwrap();
            assert_eq!(attached.role(), Role::Attached { pid });
            (attached, None)
        }
        Through::Server => {
            let settings = Settings {
                listen: "127.0.0.1:0".into(),
                ..Settings::default()
            };
            let server = Server::start(owner.clone(), settings).unwrap();
            let target = format!("esker://{}", server.address());
            let client = OpenOptions::new().open(&target).unwrap();
            assert_eq!(client.role(), Role::Client { pid });
            (client, Some(server))
        }
    };
    Pair {
        owner,
        other,
        _server: server,
        _dir: dir,
    }
}

pub(crate) fn same<T: Debug>(what: &str, owner: &esker::Result<T>, attached: &esker::Result<T>) {
    let text = |r: &esker::Result<T>| match r {
        Ok(value) => format!("{value:#?}"),
        Err(e) => format!("{:?}: {e}\n{e:?}", e.kind()),
    };
    assert_eq!(text(owner), text(attached), "{what}");
}

#[test]
fn every_read_gives_the_same() {
    EITHER
        .into_iter()
        .for_each(every_read_gives_the_same_through);
}

fn every_read_gives_the_same_through(through: Through) {
    let pair = both(through);
    let (owner, attached) = (&pair.owner, &pair.other);
    // Written through either handle.
    for n in 0..300 {
        let db = if n % 2 == 0 { owner } else { attached };
        put_file(db, &format!("/in/{n}"), n).unwrap();
        link(db, &format!("{}", n % 7), &format!("/in/{n}"), n * 10).unwrap();
    }
    let before = owner.stats().unwrap().newest.unwrap();
    put_file(attached, "/in/5", 5_000).unwrap();
    link(owner, "5", "/in/5", 77).unwrap();
    let mut batch = Batch::new();
    batch.push(Op::DeleteVertex {
        vertex: vertex(owner, "file:/in/6"),
    });
    batch.push(Op::SetAttributes {
        vertex: vertex(owner, "file:/in/7"),
        set: Properties::new().with("colour", Value::List(vec![Value::I64(-1), Value::Null])),
        remove: vec![],
    });
    attached.apply(batch).unwrap();

    let on = |what: &str, call: &dyn Fn(&Database) -> esker::Result<String>| {
        same(what, &call(owner), &call(attached));
    };
    let ids: Vec<_> = (0..310)
        .map(|n| vertex(owner, &format!("file:/in/{n}")).id)
        .collect();
    let jobs: Vec<_> = (0..8)
        .map(|n| vertex(owner, &format!("job:{n}")).id)
        .collect();
    let keys: Vec<_> = (0..310)
        .map(|n| written(owner, &format!("{}", n % 7), &format!("/in/{n}")))
        .collect();
    let write = edge_type(owner, "write");
    let schema = owner.schema().unwrap();
    for as_of in [Version::MAX, before, Version::ZERO] {
        on("vertices", &|db| {
            Ok(format!("{:?}", db.read_vertices(&ids, as_of)?))
        });
        on("edges", &|db| {
            Ok(format!("{:?}", db.read_edges(&keys, as_of)?))
        });
        for versions in [
            Versions::AsOf(as_of),
            Versions::Range(VersionRange {
                from: as_of,
                until: Version::MAX,
            }),
        ] {
            for types in [vec![], vec![write], vec![write, edge_type(owner, "read")]] {
                let select = EdgeSelect {
                    types,
                    versions,
                    properties: true,
                    after: None,
                };
                on("scan of edges", &|db| {
                    let mut all = Vec::new();
                    db.scan_edges(&jobs, &select, &mut |i, e| {
                        all.push((i, e));
                        ControlFlow::Continue(())
                    })?;
                    assert!(
                        as_of == Version::ZERO
                            || versions != Versions::AsOf(as_of)
                            || !all.is_empty()
                    );
                    Ok(format!("{all:?}"))
                });
            }
        }
        on("scan of vertices", &|db| {
            let mut all = Vec::new();
            let select = VertexSelect {
                as_of,
                deleted: true,
                ..VertexSelect::of(schema.vertex_type_id("DataObject")?)
            };
            db.scan_vertices(&select, &mut |v| {
                all.push(v);
                ControlFlow::Continue(())
            })?;
            Ok(format!("{all:?}"))
        });
    }
    on("histories", &|db| {
        let of = |n: usize| db.vertex_history(ids[n], VersionRange::ALL);
        Ok(format!(
            "{:?}",
            (
                of(5)?,
                of(6)?,
                of(7)?,
                db.edge_history(keys[5], VersionRange::ALL)?
            )
        ))
    });
    on("degrees", &|db| {
        let of: Vec<_> = jobs.iter().map(|j| (*j, write)).collect();
        Ok(format!(
            "{:?} {:?} {:?}",
            db.degrees(&of)?,
            db.top_degrees(Some(write), 3)?,
            db.top_degrees(None, 5)?
        ))
    });
    on("counts and schema", &|db| {
        Ok(format!("{:?} {:?}", db.counts()?, db.schema()?))
    });
    on("differences", &|db| {
        let mut all: Vec<Difference> = Vec::new();
        db.diff(&DiffSelect::between(before, Version::MAX), &mut |d| {
            all.push(d);
            ControlFlow::Continue(())
        })?;
        assert!(all.len() >= 4, "{all:?}");
        Ok(format!("{all:?}"))
    });
    on("check", &|db| {
        let mut report = db.check(&CheckOptions::default(), &NeverCancel, &mut |_| {})?;
        report.problems.clear();
        Ok(format!("{report:?}"))
    });
    let mut stats = [owner.stats().unwrap(), attached.stats().unwrap()];
    stats.iter_mut().for_each(|s| s.store.cache_bytes = 0);
    assert_eq!(stats[0], stats[1]);
    on("applied", &|db| Ok(format!("{:?}", db.applied(b"x")?)));
    attached.persist().unwrap();
}

#[test]
fn traversals_come_back_whole() {
    EITHER
        .into_iter()
        .for_each(traversals_come_back_whole_through);
}

fn traversals_come_back_whole_through(through: Through) {
    let pair = both(through);
    let (owner, attached) = (&pair.owner, &pair.other);
    for n in 0..5_000 {
        if n % 100 == 0 {
            link(owner, "1", &format!("/f/{n}"), n).unwrap();
        }
        link(owner, &format!("{}", n % 20), &format!("/f/{}", n % 997), n).unwrap();
    }
    let schema = owner.schema().unwrap();
    for text in [
        r#"v("job:1").e("write").v().rtn().e("wasWrittenBy").v()"#,
        r#"v("job:1").e("write").v().e("wasWrittenBy").v().repeat().return_fp()"#,
        r#"v(type="Job").e("write").ea("bytes", RANGE, 10, 100).v()"#,
    ] {
        let traversal = Traversal::parse(text).unwrap();
        let run = |db: &Database, budget: &Budget| {
            let mut result = db.travel(&traversal, budget, &NeverCancel)?;
            for step in &mut result.profile {
                (step.micros, step.cached) = (0, 0);
            }
            Ok(result)
        };
        for edges in [None, Some(50)] {
            let budget = Budget {
                edges,
                ..Budget::default()
            };
            let whole = run(owner, &budget);
            assert!(
                whole.as_ref().is_ok_and(|r| r.complete == edges.is_none()),
                "{text}: {whole:?}"
            );
            same(text, &whole, &run(attached, &budget));
        }
    }
    drop(schema);
}

#[test]
fn errors_are_the_same() {
    EITHER.into_iter().for_each(errors_are_the_same_through);
}

fn errors_are_the_same_through(through: Through) {
    let pair = both(through);
    let (owner, attached) = (&pair.owner, &pair.other);
    put_file(owner, "/a", 1).unwrap();
    let on = |what: &str, call: &dyn Fn(&Database) -> esker::Result<String>| {
        let outcome = call(owner);
        assert!(outcome.is_err(), "{what}: {outcome:?}");
        same(what, &outcome, &call(attached));
    };
    let apply = |db: &Database, op: Op| {
        let mut batch = Batch::new();
        batch.push(op);
        db.apply(batch).map(|_| String::new())
    };
    let a = vertex(owner, "file:/a");
    on("a value of the wrong kind", &|db| {
        let attributes = Properties::new().with("size", "large");
        apply(
            db,
            Op::PutVertex {
                vertex: a,
                key: "/a".into(),
                attributes,
            },
        )
    });
    on("a vertex that is not there", &|db| {
        let vertex = vertex(db, "file:/nowhere");
        apply(
            db,
            Op::SetAttributes {
                vertex,
                set: Properties::new().with("x", 1),
                remove: vec![],
            },
        )
    });
    on("an edge between the wrong types", &|db| {
        let edge_type = edge_type(db, "write");
        apply(
            db,
            Op::PutEdge {
                source: a,
                edge_type,
                destination: a,
                properties: Properties::new(),
            },
        )
    });
    on("a type that exists", &|db| {
        let change = SchemaChange::VertexType {
            name: "File".into(),
            parent: None,
            attributes: vec![],
        };
        db.define(&[change]).map(|_| String::new())
    });
    on("an unknown type in a traversal", &|db| {
        let traversal = Traversal::parse(r#"v("fille:/a").e("write").v()"#).unwrap();
        db.travel(&traversal, &Budget::default(), &NeverCancel)
            .map(|_| String::new())
    });
    on("retention in the future", &|db| {
        db.compact(Some(Version::new(1 << 45, 0)), &NeverCancel)
            .map(|_| String::new())
    });
}

#[test]
fn definitions_are_seen_by_both() {
    EITHER
        .into_iter()
        .for_each(definitions_are_seen_by_both_through);
}

fn definitions_are_seen_by_both_through(through: Through) {
    let pair = both(through);
    let (owner, attached) = (&pair.owner, &pair.other);
    let attribute = AttributeDefinition {
        name: "depth".into(),
        kind: ValueKind::F64,
    };
    let change = SchemaChange::VertexType {
        name: "Sensor".into(),
        parent: Some("DataObject".into()),
        attributes: vec![attribute],
    };
    let defined = attached.define(&[change]).unwrap();
    assert_eq!(*defined, *owner.schema().unwrap());
    assert_eq!(*defined, *attached.schema().unwrap());
}

/// Cancels after a number of checks.
struct After(AtomicU32, StopReason);

impl Cancel for After {
    fn cancelled(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) > 3
    }
    fn reason(&self) -> StopReason {
        self.1
    }
}

/// A client that cancels stops the work in the owner, gets the partial result, and continues to use the connection.
#[test]
fn cancellation_passes_over_the_wire() {
    EITHER
        .into_iter()
        .for_each(cancellation_passes_over_the_wire_through);
}

fn cancellation_passes_over_the_wire_through(through: Through) {
    let pair = both(through);
    let (owner, attached) = (&pair.owner, &pair.other);
    // A chain of complete layers: the number of paths explodes, and so does the work.
    let (from, to) = (edge_type(owner, "write"), edge_type(owner, "read"));
    let mut batch = Batch::new();
    for n in 0..400 {
        for (kind, name) in [("job", n), ("file", n)] {
            let vertex = vertex(owner, &format!("{kind}:{name}"));
            batch.push(Op::EnsureVertex {
                vertex,
                key: name.to_string(),
            });
        }
    }
    for n in 0..400 {
        for m in 0..100 {
            let (source, destination) = (
                vertex(owner, &format!("job:{n}")),
                vertex(owner, &format!("file:{}", (n + m) % 400)),
            );
            for edge_type in [from, to] {
                batch.push(Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    properties: Properties::new(),
                });
            }
        }
    }
    owner.apply(batch).unwrap();
    let hops = r#".e("write").v().e("wasReadBy").v()"#.repeat(250);
    let traversal = Traversal::parse(&format!(r#"v(type="Job"){hops}"#)).unwrap();
    for reason in [StopReason::Interrupted, StopReason::TimeOut] {
        let cancel = After(AtomicU32::new(0), reason);
        let result = attached
            .travel(&traversal, &Budget::default(), &cancel)
            .unwrap();
        assert!(!result.complete);
        assert_eq!(result.stopped[0].reason, reason);
    }
    assert!(file(attached, "1").is_some());
}

/// A caller that stops a scan early need not read the rest.
#[test]
fn a_scan_can_break_off() {
    EITHER.into_iter().for_each(a_scan_can_break_off_through);
}

fn a_scan_can_break_off_through(through: Through) {
    let pair = both(through);
    let (owner, attached) = (&pair.owner, &pair.other);
    for n in 0..2_000 {
        put_file(owner, &format!("/{n}"), n).unwrap();
    }
    let kind = owner.schema().unwrap().vertex_type_id("File").unwrap();
    for _ in 0..50 {
        let mut seen = 0;
        attached
            .scan_vertices(&VertexSelect::of(kind), &mut |_| {
                seen += 1;
                if seen == 3 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        assert_eq!(seen, 3);
    }
}

/// `set` once read a vertex and wrote all of it: when two processes each changed one attribute, one change was lost.
#[test]
fn changes_of_single_attributes_from_both_are_kept() {
    EITHER
        .into_iter()
        .for_each(changes_of_single_attributes_from_both_are_kept_through);
}

fn changes_of_single_attributes_from_both_are_kept_through(through: Through) {
    let pair = both(through);
    let (owner, attached) = (&pair.owner, &pair.other);
    let names = ["a", "b", "c", "d"];
    let changes = names.map(|name| SchemaChange::Attribute {
        vertex_type: "File".into(),
        attribute: AttributeDefinition {
            name: name.into(),
            kind: ValueKind::I64,
        },
    });
    owner.define(&changes).unwrap();
    put_file(owner, "/shared", 0).unwrap();
    let file_ref = vertex(owner, "file:/shared");
    std::thread::scope(|scope| {
        for (i, name) in names.into_iter().enumerate() {
            let db = [owner, attached][i % 2];
            scope.spawn(move || {
                for n in 0..50_i64 {
                    let mut batch = Batch::new();
                    batch.push(Op::ChangeVertex {
                        vertex: file_ref,
                        set: Properties::new().with(name, n),
                        remove: Vec::new(),
                    });
                    db.apply(batch).unwrap();
                }
            });
        }
    });
    let now = file(attached, "/shared").unwrap();
    let values = names.map(|name| now.attribute(name).cloned());
    assert_eq!(values, [const { Some(Value::I64(49)) }; 4]);
    let changes = owner
        .vertex_history(file_ref.id, VersionRange::ALL)
        .unwrap();
    assert_eq!(changes.len(), 1 + 4 * 50);
}

/// Concurrent use of two handles: many threads on both handles, and no write is lost.
#[test]
fn many_threads_write_through_both() {
    EITHER
        .into_iter()
        .for_each(many_threads_write_through_both_through);
}

fn many_threads_write_through_both_through(through: Through) {
    let pair = both(through);
    let (owner, attached) = (&pair.owner, &pair.other);
    std::thread::scope(|s| {
        for thread in 0..8 {
            let db = if thread % 2 == 0 {
                owner.clone()
            } else {
                attached.clone()
            };
            s.spawn(move || {
                for n in 0..50 {
                    link(&db, "hot", &format!("/{thread}/{n}"), n).unwrap();
                }
            });
        }
    });
    let hot = vertex(owner, "job:hot").id;
    assert_eq!(
        attached
            .degrees(&[(hot, edge_type(owner, "write"))])
            .unwrap(),
        [400]
    );
}

/// A process that writes through another one reads its own write at once.
#[test]
fn a_process_reads_its_own_writes() {
    EITHER
        .into_iter()
        .for_each(a_process_reads_its_own_writes_through);
}

fn a_process_reads_its_own_writes_through(through: Through) {
    let pair = both(through);
    let attached = &pair.other;
    let mut last = Version::ZERO;
    for n in 0..100 {
        let commit = put_file(attached, "/a", n).unwrap();
        assert!(commit.version > last);
        last = commit.version;
        assert_eq!(
            file(attached, "/a").unwrap().attributes.get("size"),
            Some(&Value::I64(n))
        );
    }
}
