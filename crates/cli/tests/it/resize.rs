//! Clusters whose number of servers changes: their content, history included, stays the same.

use crate::cluster::{Cluster, describe_servers};
use crate::cluster_objects::{OBJECTS, fill, identity, renamed, search};
use crate::serve::{esker, files_of, patient, run, text, vertex, written};
use esker::{Database, OpenOptions};
use esker_model::filter::Expr;
use esker_model::object::{
    Find, Found, ObjectId, ObjectKey, ObjectRead as _, ObjectWrite as _, TagChange, TagWhere,
};
use esker_model::traversal::Budget;
use esker_model::{
    Batch, Edge, EdgeKey, EdgeSelect, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties,
    Traversal, Version, VersionRange, Versions, VertexId, VertexSelect,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of files that one job writes, so that its edges split.
const FILES: usize = 90;

pub(crate) fn open(cluster: &Cluster, server: usize) -> Database {
    patient(cluster.target(server))
}

/// Creates a graph with history; returns a version in its middle.
pub(crate) fn graph(database: &Database) -> Version {
    for n in 0..FILES {
        let batch = written(database, "1", &format!("/{n}"));
        database.apply(batch).unwrap();
    }
    let schema = database.schema().unwrap();
    let file = |n: usize| vertex(database, &format!("file:/{n}"));
    let set = |value: i64| {
        let mut batch = Batch::new();
        for n in (0..FILES).step_by(3) {
            batch.push(Op::SetAttributes {
                vertex: file(n),
                set: Properties::new().with("round", value),
                remove: vec![],
            });
        }
        database.apply(batch).unwrap().version
    };
    set(1);
    let middle = set(2);
    set(3);
    let write = schema.edge_type_id("write").unwrap();
    let mut batch = Batch::new();
    for n in (0..FILES).step_by(7) {
        batch.push(Op::DeleteEdge {
            source: vertex(database, "job:1"),
            edge_type: write,
            destination: file(n),
        });
    }
    for n in (1..FILES).step_by(11) {
        batch.push(Op::DeleteVertex { vertex: file(n) });
    }
    database.apply(batch).unwrap();
    middle
}

/// Results of all kinds of queries.
#[derive(Debug, PartialEq)]
pub(crate) struct Picture {
    vertices: BTreeMap<VertexId, String>,
    then: BTreeMap<VertexId, String>,
    histories: Vec<String>,
    edges: BTreeMap<(EdgeKey, Version), Edge>,
    edges_then: BTreeMap<EdgeKey, Edge>,
    counts: String,
    degrees: Vec<u64>,
    objects: BTreeMap<ObjectId, Found>,
    by_key: Vec<Option<Found>>,
    tags: Vec<(String, u64, bool)>,
    reached: BTreeSet<VertexId>,
    top: String,
}

pub(crate) fn picture(database: &Database, then: Version) -> Picture {
    let schema = database.schema().unwrap();
    let scan = |as_of: Version, deleted: bool| {
        let mut all = BTreeMap::new();
        for (type_id, _) in schema.vertex_types() {
            let select = VertexSelect {
                as_of,
                deleted,
                ..VertexSelect::of(type_id)
            };
            let mut sink = |v: esker_model::Vertex| {
                all.insert(v.id, format!("{v:?}"));
                ControlFlow::Continue(())
            };
            database.scan_vertices(&select, &mut sink).unwrap();
        }
        all
    };
    let vertices = scan(Version::MAX, true);
    let ids: Vec<VertexId> = vertices.keys().copied().collect();
    let scan_edges = |versions| {
        let mut all = BTreeMap::new();
        let select = EdgeSelect {
            types: vec![],
            versions,
            properties: true,
            after: None,
        };
        let mut sink = |_, edge: Edge| {
            let twice = all.insert((edge.key, edge.version), edge);
            assert_eq!(twice, None, "an edge that was found twice");
            ControlFlow::Continue(())
        };
        database.scan_edges(&ids, &select, &mut sink).unwrap();
        all
    };
    let edges = scan_edges(Versions::Range(VersionRange::ALL));
    let keys: BTreeSet<EdgeKey> = edges.keys().map(|(key, _)| *key).collect();
    let mut histories: Vec<String> = Vec::new();
    // A sample of the objects is enough.
    let some = |id: &&VertexId| ObjectId::of_vertex(**id).is_none_or(|o| o.0 % 19 == 0);
    for id in ids.iter().filter(some) {
        let history = database.vertex_history(*id, VersionRange::ALL).unwrap();
        histories.push(format!("{history:?}"));
    }
    for key in &keys {
        let history = database.edge_history(*key, VersionRange::ALL).unwrap();
        histories.push(format!("{history:?}"));
    }
    let of: BTreeSet<_> = keys.iter().map(|k| (k.source, k.edge_type)).collect();
    let of: Vec<_> = of.into_iter().collect();
    let (objects, report) = search(database, &Find::all(Expr::All));
    assert!(report.complete);
    let mut by_key: Vec<ObjectKey> = Vec::new();
    for n in 0..OBJECTS {
        by_key.extend([identity(n).into(), renamed(n).into()]);
    }
    let chain = Traversal::parse("v(\"job:1\").e(\"write\").v().e(\"wasWrittenBy\").v()").unwrap();
    let reached = database
        .travel(&chain, &Budget::default(), &NeverCancel)
        .unwrap();
    let tags = database.tags(None).unwrap().into_iter();
    Picture {
        then: scan(then, false),
        vertices,
        histories,
        edges_then: scan_edges(Versions::AsOf(then))
            .into_iter()
            .map(|((key, _), edge)| (key, edge))
            .collect(),
        edges,
        counts: format!("{:?}", database.counts().unwrap()),
        degrees: database.degrees(&of).unwrap(),
        objects: objects.into_iter().map(|o| (o.id, o)).collect(),
        by_key: database.read_objects(&by_key, None).unwrap(),
        tags: tags.map(|t| (t.name, t.objects, t.indexed)).collect(),
        reached: reached.sets[0].vertices.iter().copied().collect(),
        top: format!("{:?}", database.top_degrees(None, 3).unwrap()),
    }
}

/// Writes a file with another number of servers and another port.
fn rewrite(folder: &Path, servers: u32) {
    describe_servers(folder, servers, "threshold = 8\n");
}

pub(crate) fn resize(folder: &Path, args: &[&str]) -> (String, String) {
    let done = run(folder, &[&["cluster", "resize", "lab.toml"], args].concat());
    let said = text(&done.stderr);
    assert!(done.status.success(), "{args:?}: {said}");
    (text(&done.stdout), said)
}

pub(crate) fn folders(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("lab.cluster")).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names
        .filter(|n| n.starts_with("server-") && !n.contains(".log"))
        .collect();
    names.sort();
    names
}

/// Creates one more object; its number must be new.
pub(crate) fn one_more(database: &Database, n: i64, known: &Picture) {
    let mut batch = Batch::new();
    batch.push(Op::CreateObject {
        identity: identity(n),
        attributes: Properties::new(),
        tags: Properties::new(),
    });
    assert_eq!(database.apply(batch).unwrap().vertices_created, 1);
    let key = [ObjectKey::from(identity(n))];
    let found = database.read_objects(&key, None).unwrap();
    let id = found[0].as_ref().unwrap().id;
    assert!(!known.objects.contains_key(&id));
}

#[test]
fn another_number_of_servers_has_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    rewrite(folder, 4);
    let refused = run(folder, &["cluster", "resize", "lab.toml", "--servers", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("there is no cluster in"));
    let cluster = Cluster::up(folder);
    let database = open(&cluster, 1);
    fill(&database);
    let then = graph(&database);
    let mut marked = written(&database, "2", "/marked");
    marked.idempotency_key = Some(b"source/1".to_vec());
    assert!(database.apply(marked.clone()).unwrap().applied);
    assert!(database.set_index("note", false).unwrap());
    let mut before = picture(&database, then);
    assert!(before.histories.len() > 200 && before.edges.len() > 200);
    let refused = run(folder, &["cluster", "resize", "lab.toml", "--servers", "2"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(
        said.contains("is up") && said.contains("cluster down"),
        "{said}"
    );
    let refused = run(
        folder,
        &["cluster", "resize", "lab.toml", "--servers", "65"],
    );
    assert_eq!(refused.status.code(), Some(2));
    drop(database);
    cluster.down(folder);

    for (turn, servers) in [(0, 2_u32), (1, 3), (2, 1), (3, 4)] {
        let said = if turn == 0 {
            // The file still has the old number.
            let number = servers.to_string();
            let (_, said) = resize(folder, &["--servers", &number]);
            assert!(said.contains("line 1 is to be `servers = 2`"), "{said}");
            let refused = run(folder, &["cluster", "up", "lab.toml"]);
            assert!(!refused.status.success());
            rewrite(folder, servers);
            said
        } else {
            rewrite(folder, servers);
            let (out, said) = resize(folder, &["--format", "json"]);
            assert_eq!(
                out.matches("\"objects\"").count(),
                servers as usize,
                "{out}"
            );
            said
        };
        assert!(said.contains(&format!("has {servers} server")), "{said}");
        assert!(said.contains("had split, and stay split"), "{said}");
        assert!(!said.contains("warning"), "{said}");
        let expected: Vec<_> = (0..servers).map(|n| format!("server-{n}")).collect();
        assert_eq!(folders(folder), expected);
        let cluster = Cluster::up(folder);
        for server in BTreeSet::from([0, servers as usize - 1]) {
            let database = open(&cluster, server);
            let after = picture(&database, then);
            assert!(after == before, "{servers} servers, by server {server}");
            assert!(!database.apply(marked.clone()).unwrap().applied);
        }
        // The cluster works like any other.
        let database = open(&cluster, servers as usize - 1);
        one_more(&database, OBJECTS + turn, &before);
        for n in 0..20 {
            let batch = written(&database, "1", &format!("/{turn}/{n}"));
            database.apply(batch).unwrap();
        }
        let change = TagWhere {
            filter: Expr::parse("step < 100", None).unwrap(),
            change: TagChange {
                set: Properties::new().with("turn", turn),
                keep: false,
                remove: vec![],
            },
            principal: None,
            dry_run: false,
            idempotency_key: None,
        };
        let tagged = database.tag_where(&change, &NeverCancel).unwrap();
        assert!(tagged.changed > 80, "{tagged:?}");
        before = picture(&database, then);
        let files = files_of(&database, "1");
        let distinct: BTreeSet<_> = files.iter().collect();
        assert_eq!(files.len(), distinct.len());
        drop(database);
        cluster.down(folder);
    }
    let (_, said) = resize(folder, &[]);
    assert!(said.contains("has 4 servers already"), "{said}");
}

/// Killed at any time and repeated, the resize completes; in between, the cluster is either the old one or asks for the resize.
#[test]
fn a_resize_may_be_killed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    rewrite(folder, 2);
    let cluster = Cluster::up(folder);
    let database = open(&cluster, 0);
    fill(&database);
    let then = graph(&database);
    let before = picture(&database, then);
    drop(database);
    cluster.down(folder);
    let (mut killed, mut servers, mut whole) = (0, 2, Duration::ZERO);
    for turn in 0..5 {
        servers = 5 - servers;
        rewrite(folder, servers);
        let mut child = esker(folder)
            .args(["cluster", "resize", "lab.toml"])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Killed immediately, then later and later within the duration of a resize.
        std::thread::sleep(whole * turn / 5);
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let began = Instant::now();
        let (_, said) = resize(folder, &[]);
        whole = began.elapsed();
        assert!(said.contains(&format!("has {servers} servers")), "{said}");
        let expected: Vec<_> = (0..servers).map(|n| format!("server-{n}")).collect();
        assert_eq!(folders(folder), expected);
    }
    assert!(killed > 1, "it was over before it was killed: {killed}");
    let cluster = Cluster::up(folder);
    assert!(picture(&open(&cluster, servers as usize - 1), then) == before);
    cluster.down(folder);
}

/// A single database becomes a cluster, with its archive.
#[test]
fn a_database_becomes_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let alone = || {
        OpenOptions::new()
            .create(true)
            .open(folder.join("lab.esker").to_str().unwrap())
            .unwrap()
    };
    let database = alone();
    fill(&database);
    let then = graph(&database);
    let moved = database.compact(Some(then), &NeverCancel).unwrap();
    let before = picture(&database, then);
    let archived = |picture: &Picture| {
        let said = picture.histories.iter();
        said.map(|h| h.matches("archived: true").count())
            .sum::<usize>()
    };
    assert!(archived(&before) > 10, "{moved:?}");
    rewrite(folder, 3);
    let args = ["cluster", "resize", "lab.toml", "--from", "lab.esker"];
    let refused = run(folder, &args);
    assert_eq!(refused.status.code(), Some(1), "it is open");
    assert!(text(&refused.stderr).contains("has `lab.esker` open"));
    database.close().unwrap();
    resize(folder, &["--from", "lab.esker"]);
    let refused = run(folder, &args);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("there is a cluster in"));
    let cluster = Cluster::up(folder);
    for server in [0, 2] {
        let after = picture(&open(&cluster, server), then);
        assert_eq!(archived(&after), archived(&before));
        assert!(after == before, "by server {server}");
    }
    cluster.down(folder);
    assert!(picture(&alone(), then) == before, "it stays as it is");
}

/// Ephemeral stores: their checkpoints are redistributed, and old checkpoints in other folders are removed.
#[test]
fn checkpoints_become_those_of_another_number_of_servers() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let describe = |servers: u32, to: &str| {
        let more = format!(
            "threshold = 8\ndurability = \"window\"\n[checkpoint]\nlive = \"live\"\nreserve = \"1MiB\"\n{to}\n"
        );
        describe_servers(folder, servers, &more);
    };
    let files_in = |place: &str| {
        let entries = std::fs::read_dir(folder.join("bb/lab").join(place));
        entries.map_or(0, Iterator::count)
    };
    std::fs::create_dir(folder.join("bb")).unwrap();
    // The cluster has no checkpoints yet.
    rewrite(folder, 2);
    let cluster = Cluster::up(folder);
    let database = open(&cluster, 0);
    fill(&database);
    let then = graph(&database);
    let before = picture(&database, then);
    drop(database);
    cluster.down(folder);
    for (servers, to) in [(3, "to = [\"bb\"]"), (1, ""), (2, "")] {
        describe(servers, to);
        resize(folder, &[]);
        let live = std::fs::read_dir(folder.join("live/lab")).unwrap();
        assert!(live.count() <= servers as usize);
        assert_eq!(files_in("server-0") > 0, !to.is_empty());
        // The live stores are not needed.
        std::fs::remove_dir_all(folder.join("live")).unwrap();
        let cluster = Cluster::up(folder);
        let database = open(&cluster, servers as usize - 1);
        assert!(picture(&database, then) == before, "{servers} servers");
        drop(database);
        cluster.down(folder);
    }
    // The checkpoints of the previous servers are removed.
    let left: usize = (0..3).map(|n| files_in(&format!("server-{n}"))).sum();
    assert_eq!(left, 0);
}
