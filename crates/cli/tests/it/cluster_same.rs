//! A cluster of four with Darshan logs and an RMAT graph gives the same results as an embedded database: with every
//! placement, through
//! every server, with every traversal engine.

use crate::cases::darshan_logs;
use crate::cluster::{Cluster, describe_servers};
use crate::serve::{run, text};
use esker::{Database, OpenOptions};
use esker_model::traversal::{Budget, Strategy, TravelResult};
use esker_model::{
    EdgeKey, EdgeSelect, GraphRead as _, NeverCancel, Traversal, Versions, Vertex, VertexId,
    VertexSelect,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

/// Edges of a small RMAT graph (Chakrabarti et al., 2004) as a table: jobs write files, since `file:n contains…` has
/// no such type.
fn rmat(scale: u32, edges: u32) -> String {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut table = String::from("source,type,destination,size\n");
    for n in 0..edges {
        let (mut from, mut to) = (0, 0);
        for _ in 0..scale {
            let at = random();
            from = 2 * from + u32::from(at >= 0.76);
            to = 2 * to + u32::from((0.57..0.76).contains(&at) || at >= 0.95);
        }
        let _ = writeln!(table, "job:{from},write,file:{to},{n}");
    }
    table
}

/// All vertices and edges with attributes and properties, without versions: versions assigned by the database differ.
type Content = (
    BTreeMap<VertexId, (String, bool, String)>,
    BTreeMap<EdgeKey, String>,
    BTreeMap<String, u64>,
);

fn content(database: &Database) -> Content {
    let schema = database.schema().unwrap();
    let mut vertices = BTreeMap::new();
    for (type_id, _) in schema.vertex_types() {
        let sink = &mut |v: Vertex| {
            // Two of the logs are identical; their order depends on threads.
            let mut attributes = v.attributes.clone();
            attributes.remove("log");
            let attributes = format!("{attributes:?} {:?}", v.user);
            vertices.insert(v.id, (v.name(&schema), v.deleted, attributes));
            ControlFlow::Continue(())
        };
        database
            .scan_vertices(&VertexSelect::of(type_id), sink)
            .unwrap();
    }
    let select = EdgeSelect {
        types: vec![],
        versions: Versions::NOW,
        properties: true,
        after: None,
    };
    let ids: Vec<VertexId> = vertices.keys().copied().collect();
    let mut edges = BTreeMap::new();
    database
        .scan_edges(&ids, &select, &mut |place, edge| {
            assert_eq!(edge.key.source, ids[place]);
            let twice = edges.insert(edge.key, format!("{:?}", edge.properties));
            assert_eq!(twice, None, "an edge that was told twice");
            ControlFlow::Continue(())
        })
        .unwrap();
    let counts = database.counts().unwrap();
    let vertex_counts = counts
        .vertices
        .iter()
        .map(|(t, n)| (format!("vertices {t:?}"), *n));
    let edge_counts = counts
        .edges
        .iter()
        .map(|(t, n)| (format!("edges {t:?}"), *n));
    (vertices, edges, vertex_counts.chain(edge_counts).collect())
}

/// The result of a traversal without order and versions.
type Found = (
    Vec<(u32, BTreeSet<VertexId>)>,
    BTreeSet<(u32, VertexId, bool, Vec<EdgeKey>)>,
    bool,
);

fn found(result: &TravelResult) -> Found {
    let set = |s: &esker_model::traversal::WorkingSet| {
        let vertices: BTreeSet<_> = s.vertices.iter().copied().collect();
        assert_eq!(
            vertices.len(),
            s.vertices.len(),
            "a vertex that is twice in a set"
        );
        (s.hop, vertices)
    };
    let nodes = result.paths.iter().flat_map(|p| &p.nodes);
    let node = |n: &esker_model::traversal::PathNode| {
        let mut edges: Vec<EdgeKey> = n.parents.iter().map(|p| p.edge).collect();
        edges.sort_unstable();
        (n.level, n.vertex, n.end, edges)
    };
    (
        result.sets.iter().map(set).collect(),
        nodes.map(node).collect(),
        result.complete,
    )
}

/// Asserts equality and prints only the differences.
fn same_maps<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    got: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
    what: &str,
) {
    let keys: BTreeSet<&K> = got.keys().chain(expected.keys()).collect();
    let differs = |k: &&K| got.get(*k) != expected.get(*k);
    let line = |k: &K| format!("{k:?}: {:?} instead of {:?}", got.get(k), expected.get(k));
    let different: Vec<String> = keys.into_iter().filter(differs).map(line).collect();
    assert!(different.is_empty(), "{what}: {different:#?}");
}

const CHAINS: [&str; 7] = [
    r#"v(type="User").e("run").v().e("write", "read").v().rtn().e("wasWrittenBy").v()"#,
    r#"v("job:0").e("write").v().e("wasWrittenBy").v().e("write").v()"#,
    r#"v("job:0").e("write").v().e("wasWrittenBy").v().repeat()"#,
    r#"v("job:0").e("write").v().e("wasWrittenBy").v().repeat(max=1).e("write").v().rtn()"#,
    r#"v("job:1", "job:2").e("write").ea("size", RANGE, 100, 900).v().e("wasWrittenBy").v().return_fp()"#,
    r#"v(type="Job").va("key", IN, "0", "1", "3").e().v().e().v().e().v()"#,
    r#"v("job:5").e("write").v().e("wasWrittenBy").v().e("write").v().return_fp()"#,
];

fn feed(folder: &Path, target: &str) {
    if let Some(logs) = darshan_logs() {
        let logs = logs.join("darshan");
        let logs = logs.to_string_lossy();
        let done = run(folder, &["import", "darshan", target, &logs]);
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    let done = run(folder, &["import", "edges", target, "rmat.csv"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// Checks that a traversal used the requested strategy. Returns the microseconds of prefetching and of waiting for other servers, which
/// may be zero for a single traversal on a busy machine.
fn ran_as_asked(
    traversal: &Traversal,
    strategy: Strategy,
    result: &TravelResult,
    what: &str,
) -> (u64, u64) {
    let ahead = result.servers.iter().map(|s| s.prefetch_micros).sum();
    let waits: u64 = result.servers.iter().map(|s| s.wait_micros).sum();
    match strategy {
        Strategy::Sync => assert_eq!(ahead, 0, "{what}"),
        Strategy::Prefetch => {}
        Strategy::Async => {
            let hops = traversal.segments.iter().map(|s| s.hops.len()).sum();
            assert!(result.profile.len() <= hops, "steps: {what}");
            assert!(waits == 0 && ahead == 0, "{what}");
        }
    }
    (ahead, waits)
}

fn same_with(placement: &str) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    std::fs::write(folder.join("rmat.csv"), rmat(8, 3_000)).unwrap();
    assert!(run(folder, &["init", "lab.esker"]).status.success());
    feed(folder, "lab.esker");
    let more = format!("threshold = 16\nplacement = \"{placement}\"\n");
    describe_servers(folder, 4, &more);
    let cluster = Cluster::up(folder);
    feed(folder, cluster.target(1));
    let open = |target: &str| OpenOptions::new().open(target).unwrap();
    let embedded = open(&folder.join("lab.esker").to_string_lossy());
    let expected = content(&embedded);
    assert!(expected.1.len() > 3_000);
    for server in [0, 3] {
        let got = content(&open(cluster.target(server)));
        let what = format!("by server {server}, {placement}");
        same_maps(&got.0, &expected.0, &format!("vertices {what}"));
        same_maps(&got.1, &expected.1, &format!("edges {what}"));
        same_maps(&got.2, &expected.2, &format!("counts {what}"));
    }
    let (mut read_ahead, mut waited) = (0, 0);
    for (i, chain) in CHAINS.iter().enumerate() {
        let traversal = Traversal::parse(chain).unwrap();
        let embedded = embedded.travel(&traversal, &Budget::default(), &NeverCancel);
        let expected = found(&embedded.unwrap());
        let there = open(cluster.target(i % 4));
        for strategy in Strategy::ALL {
            let budget = Budget {
                strategy,
                ..Budget::default()
            };
            let result = there.travel(&traversal, &budget, &NeverCancel).unwrap();
            let what = format!("{chain} with {strategy:?}, {placement}");
            assert_eq!(found(&result), expected, "{what}");
            let (ahead, waits) = ran_as_asked(&traversal, strategy, &result, &what);
            read_ahead += ahead;
            if strategy == Strategy::Prefetch {
                waited += waits;
            }
        }
    }
    assert!(read_ahead > 0, "nothing was read ahead, {placement}");
    assert!(waited > 0, "no server waited for another, {placement}");
    cluster.down(folder);
}

#[test]
fn with_dido() {
    same_with("dido");
}

#[test]
fn with_giga_plus() {
    same_with("giga+");
}

#[test]
fn with_edge_cut() {
    same_with("edge-cut");
}

#[test]
fn with_vertex_cut() {
    same_with("vertex-cut");
}
