//! Handwritten histories, each for one rule.

use super::recorded::{Recorded, at, lasting};
use crate::{LineageOptions, Provenance, graph_of_paths, impact, lineage};
use esker_model::traversal::{PathNode, PathStep, Paths, StopReason};
use esker_model::{Cancel, EdgeKey, NeverCancel, Properties, SchemaChange, Version};
use std::sync::atomic::{AtomicU64, Ordering};

const NONE: Properties = Properties::new();

fn find(graph: &Recorded, target: &str) -> Provenance {
    find_with(graph, target, &LineageOptions::default())
}

fn find_with(graph: &Recorded, target: &str, options: &LineageOptions) -> Provenance {
    lineage(graph, graph.id(target), options, &NeverCancel).unwrap()
}

fn came_of(graph: &Recorded, target: &str, options: &LineageOptions) -> Provenance {
    impact(graph, graph.id(target), options, &NeverCancel).unwrap()
}

/// Names of the vertices found, sorted.
fn names(found: &Provenance) -> Vec<String> {
    let schema = esker_model::Schema::default();
    let mut names: Vec<_> = found.vertices.iter().map(|v| v.name(&schema)).collect();
    names.sort();
    names
}

/// Files, each with the second at which every found version was written.
fn versions(found: &Provenance) -> Vec<(String, Option<u64>)> {
    let schema = esker_model::Schema::default();
    let mut all: Vec<_> = found
        .nodes
        .iter()
        .filter(|n| !n.execution)
        .map(|n| {
            (
                found.vertex(n.vertex).unwrap().name(&schema),
                n.version.map(|v| v.millis() / 1000),
            )
        })
        .collect();
    all.sort();
    all
}

fn as_of(seconds: u64) -> LineageOptions {
    LineageOptions {
        as_of: at(seconds),
        ..LineageOptions::default()
    }
}

#[test]
fn the_example_of_the_paper() {
    let mut g = Recorded::new();
    g.job("job:app_write", &[], &["file:A", "file:B"], 10);
    g.job(
        "job:app_readAB_writeC",
        &["file:A", "file:B"],
        &["file:C"],
        20,
    );
    g.link("user:alice", "run", "job:app_readAB_writeC", at(19), NONE);
    g.link(
        "job:app_readAB_writeC",
        "exe",
        "executable:/bin/app",
        at(19),
        NONE,
    );
    let found = find(&g, "file:C");
    assert!(found.complete);
    assert_eq!(
        names(&found),
        [
            "executable:/bin/app",
            "file:A",
            "file:B",
            "file:C",
            "job:app_readAB_writeC",
            "job:app_write",
            "user:alice"
        ]
    );
    assert_eq!(found.edges.len(), 7);
    assert_eq!(
        versions(&found),
        [
            ("file:A".into(), Some(11)),
            ("file:B".into(), Some(11)),
            ("file:C".into(), Some(21))
        ]
    );
}

#[test]
fn a_reader_depends_on_the_version_that_existed_when_it_read() {
    let mut g = Recorded::new();
    g.job("job:first", &["file:raw1"], &["file:A"], 10);
    g.job("job:early", &["file:A"], &["file:E"], 20);
    g.job("job:second", &["file:raw2"], &["file:A"], 30);
    g.job("job:late", &["file:A"], &["file:L"], 40);
    assert_eq!(
        names(&find(&g, "file:E")),
        ["file:A", "file:E", "file:raw1", "job:early", "job:first"]
    );
    assert_eq!(
        names(&find(&g, "file:L")),
        ["file:A", "file:L", "file:raw2", "job:late", "job:second"]
    );
    assert_eq!(
        names(&find(&g, "file:A")),
        ["file:A", "file:raw2", "job:second"]
    );
    assert_eq!(
        names(&find_with(&g, "file:A", &as_of(25))),
        ["file:A", "file:raw1", "job:first"]
    );
    // In the other direction: the second write does not depend on the first.
    let from_raw1 = came_of(&g, "file:raw1", &LineageOptions::default());
    assert_eq!(
        names(&from_raw1),
        ["file:A", "file:E", "file:raw1", "job:early", "job:first"]
    );
}

#[test]
fn a_job_that_writes_a_file_in_several_steps_makes_several_versions() {
    let mut g = Recorded::new();
    g.link(
        "job:w",
        "write",
        "file:A",
        at(10),
        NONE.with("bytes", 1_i64),
    );
    g.link("job:r", "read", "file:A", at(15), NONE);
    g.link(
        "job:w",
        "write",
        "file:A",
        at(20),
        NONE.with("bytes", 2_i64),
    );
    g.link("job:r", "write", "file:B", at(30), NONE);
    // The newest event of the edge hides the one that the reader saw, but not from lineage.
    assert_eq!(
        versions(&find(&g, "file:B")),
        [("file:A".into(), Some(10)), ("file:B".into(), Some(30))]
    );
    assert_eq!(versions(&find(&g, "file:A")), [("file:A".into(), Some(20))]);
}

#[test]
fn a_read_before_any_write_has_no_known_writer() {
    let mut g = Recorded::new();
    g.job("job:r", &["file:A"], &["file:B"], 10);
    g.job("job:w", &[], &["file:A"], 20);
    let found = find(&g, "file:B");
    assert_eq!(names(&found), ["file:A", "file:B", "job:r"]);
    assert_eq!(
        versions(&found),
        [("file:A".into(), None), ("file:B".into(), Some(11))]
    );
    assert!(found.complete);
}

#[test]
fn what_a_job_wrote_itself_is_no_input_of_it() {
    let mut g = Recorded::new();
    g.job("job:origin", &["file:raw"], &["file:A"], 10);
    // Read, modified, written back: the input is the previous version.
    g.job("job:update", &["file:A"], &["file:A"], 20);
    let found = find(&g, "file:A");
    assert_eq!(
        names(&found),
        ["file:A", "file:raw", "job:origin", "job:update"]
    );
    assert_eq!(
        versions(&found),
        [
            ("file:A".into(), Some(11)),
            ("file:A".into(), Some(21)),
            ("file:raw".into(), None)
        ]
    );

    // Written and then read back: the previous version is hidden.
    g.link("job:check", "write", "file:A", at(30), NONE);
    g.link("job:check", "read", "file:A", at(31), NONE);
    g.link("job:check", "write", "file:report", at(32), NONE);
    let found = find(&g, "file:report");
    assert_eq!(names(&found), ["file:A", "file:report", "job:check"]);

    // All edges have one version: the read counts as first, or it would be irrelevant.
    let mut g = Recorded::new();
    g.job("job:origin", &[], &["file:A"], 10);
    g.link("job:update", "read", "file:A", at(20), NONE);
    g.link("job:update", "write", "file:A", at(20), NONE);
    assert_eq!(
        names(&find(&g, "file:A")),
        ["file:A", "job:origin", "job:update"]
    );
}

#[test]
fn writers_that_overlap_the_read_are_marked() {
    let mut g = Recorded::new();
    g.link("job:old", "write", "file:A", at(5), lasting(1, 5));
    g.link("job:long", "write", "file:A", at(40), lasting(10, 40));
    g.link("job:later", "write", "file:A", at(60), lasting(50, 60));
    g.link("job:r", "read", "file:A", at(30), lasting(20, 30));
    g.link("job:r", "write", "file:B", at(35), lasting(31, 35));
    let found = find(&g, "file:B");
    assert_eq!(
        names(&found),
        ["file:A", "file:B", "job:long", "job:old", "job:r"]
    );
    let concurrent: Vec<_> = found
        .edges
        .iter()
        .filter(|e| e.concurrent)
        .map(|e| e.edge.key.destination)
        .collect();
    assert_eq!(concurrent, [g.id("job:long")]);
    let from_long = came_of(&g, "job:long", &LineageOptions::default());
    assert_eq!(names(&from_long), ["file:A", "file:B", "job:long", "job:r"]);
    assert_eq!(from_long.edges.iter().filter(|e| e.concurrent).count(), 1);
}

#[test]
fn writers_that_overlapped_each_other_both_made_the_version() {
    let mut g = Recorded::new();
    g.link("job:one", "write", "file:A", at(20), lasting(10, 20));
    g.link("job:two", "write", "file:A", at(25), lasting(15, 25));
    let found = find(&g, "file:A");
    assert_eq!(names(&found), ["file:A", "job:one", "job:two"]);
    assert_eq!(
        found.roots.iter().map(|r| r.concurrent).collect::<Vec<_>>(),
        [false, true]
    );
    // Consecutive writes do not.
    let mut g = Recorded::new();
    g.link("job:one", "write", "file:A", at(20), lasting(10, 20));
    g.link("job:two", "write", "file:A", at(25), lasting(20, 25));
    assert_eq!(names(&find(&g, "file:A")), ["file:A", "job:two"]);
}

#[test]
fn a_write_that_was_over_before_a_read_began_does_not_depend_on_it() {
    let mut g = Recorded::new();
    g.link("job:j", "read", "file:in1", at(10), lasting(5, 10));
    g.link("job:j", "write", "file:out1", at(15), lasting(11, 15));
    g.link("job:j", "read", "file:in2", at(20), lasting(16, 20));
    g.link("job:j", "write", "file:out2", at(25), lasting(21, 25));
    assert_eq!(
        names(&find(&g, "file:out1")),
        ["file:in1", "file:out1", "job:j"]
    );
    assert_eq!(
        names(&find(&g, "file:out2")),
        ["file:in1", "file:in2", "file:out2", "job:j"]
    );
    let came = came_of(&g, "file:in2", &LineageOptions::default());
    assert_eq!(names(&came), ["file:in2", "file:out2", "job:j"]);

    // An edge without times gives no order: it depends on all reads.
    g.link("job:j", "write", "file:byhand", at(26), NONE);
    g.link("job:j", "read", "file:late", at(90), NONE);
    assert_eq!(
        names(&find(&g, "file:byhand")),
        ["file:byhand", "file:in1", "file:in2", "file:late", "job:j"]
    );
    assert_eq!(
        names(&find(&g, "file:out1")),
        ["file:in1", "file:late", "file:out1", "job:j"]
    );
}

#[test]
fn meeting_an_execution_again_through_a_later_write_follows_the_rest() {
    let mut g = Recorded::new();
    g.link("job:j", "read", "file:in1", at(10), lasting(5, 10));
    g.link("job:j", "write", "file:out1", at(15), lasting(11, 15));
    g.link("job:j", "read", "file:in2", at(20), lasting(16, 20));
    g.link("job:j", "write", "file:out2", at(25), lasting(21, 25));
    g.link("job:k", "read", "file:out2", at(30), lasting(29, 30));
    g.link("job:k", "write", "file:mid", at(35), lasting(31, 35));
    g.link("job:end", "read", "file:out1", at(40), lasting(39, 40));
    g.link("job:end", "read", "file:mid", at(40), lasting(39, 40));
    g.link("job:end", "write", "file:end", at(45), lasting(41, 45));
    let found = find(&g, "file:end");
    assert!(
        names(&found).contains(&"file:in2".to_owned()),
        "{:?}",
        names(&found)
    );
    // With two levels the path through `mid` is not followed, so in2 is not found, and the result says why.
    let found = find_with(
        &g,
        "file:end",
        &LineageOptions {
            depth: Some(2),
            ..LineageOptions::default()
        },
    );
    assert!(!names(&found).contains(&"file:in2".to_owned()));
    assert_eq!(
        found.stopped.iter().map(|s| s.reason).collect::<Vec<_>>(),
        [StopReason::Depth]
    );
}

#[test]
fn deleted_vertices_stay_and_are_marked() {
    let mut g = Recorded::new();
    g.job("job:w", &["file:raw"], &["file:A"], 10);
    g.job("job:r", &["file:A"], &["file:B"], 20);
    g.delete("file:A", at(30));
    g.delete("file:B", at(40));
    let deleted = |found: &Provenance| -> Vec<String> {
        let schema = esker_model::Schema::default();
        let gone = found
            .vertices
            .iter()
            .filter(|v| v.vertex.as_ref().is_some_and(|v| v.deleted));
        gone.map(|v| v.name(&schema)).collect()
    };
    let found = find(&g, "file:B");
    assert_eq!(
        names(&found),
        ["file:A", "file:B", "file:raw", "job:r", "job:w"]
    );
    assert_eq!(deleted(&found), ["file:B", "file:A"]);
    assert_eq!(deleted(&find_with(&g, "file:B", &as_of(35))), ["file:A"]);
    assert!(deleted(&find_with(&g, "file:B", &as_of(25))).is_empty());
}

#[test]
fn a_deleted_edge_takes_back_what_it_said() {
    let mut g = Recorded::new();
    g.job("job:wrong", &[], &["file:A"], 10);
    g.job("job:right", &[], &["file:A"], 5);
    g.unlink("job:wrong", "write", "file:A", at(50));
    assert_eq!(names(&find(&g, "file:A")), ["file:A", "job:right"]);
    assert_eq!(
        names(&find_with(&g, "file:A", &as_of(40))),
        ["file:A", "job:wrong"]
    );
}

#[test]
fn everything_is_as_it_was_then() {
    let mut g = Recorded::new();
    g.put("job:w", at(9), NONE.with("command", "./w --old"));
    g.job("job:w", &[], &["file:A"], 10);
    g.put("job:w", at(50), NONE.with("command", "./w --corrected"));
    let command = |found: &Provenance| {
        let vertex = found
            .vertices
            .iter()
            .find(|v| v.id == g.id("job:w"))
            .unwrap()
            .vertex
            .clone()
            .unwrap();
        vertex.attributes.get("command").cloned().unwrap()
    };
    assert_eq!(
        command(&find_with(&g, "file:A", &as_of(30))),
        "./w --old".into()
    );
    assert_eq!(command(&find(&g, "file:A")), "./w --corrected".into());

    // A user inserted after the requested version is shown, and marked.
    g.link("user:u", "run", "job:w", at(10), NONE);
    let mut late = Recorded::new();
    late.link("job:w", "write", "file:A", at(10), NONE);
    let err = lineage(&late, late.id("file:A"), &as_of(5), &NeverCancel)
        .unwrap_err()
        .to_string();
    assert!(
        err.contains("no vertex `file:A` as of 1970-01-01T00:00:05.000Z; it was inserted later"),
        "{err}"
    );
    let err = lineage(&late, late.id("file:none"), &as_of(5), &NeverCancel).unwrap_err();
    assert_eq!(err.kind(), esker_model::ErrorKind::Missing);
}

#[test]
fn a_shared_ancestor_is_visited_once() {
    let mut g = Recorded::new();
    g.job("job:root", &[], &["file:R"], 10);
    g.job("job:left", &["file:R"], &["file:X"], 20);
    g.job("job:right", &["file:R"], &["file:Y"], 20);
    g.job("job:join", &["file:X", "file:Y"], &["file:Z"], 30);
    let found = find(&g, "file:Z");
    assert_eq!(found.nodes.len(), 8);
    assert_eq!(found.edges.len(), 8);
}

#[test]
fn a_cycle_ends() {
    let mut g = Recorded::new();
    // All at one version, as an import without versions makes them: without an order, each made the other.
    for (job, from, to) in [("job:1", "file:A", "file:B"), ("job:2", "file:B", "file:A")] {
        g.link(job, "read", from, at(10), NONE);
        g.link(job, "write", to, at(10), NONE);
    }
    let found = find(&g, "file:A");
    assert!(found.complete);
    assert_eq!(names(&found), ["file:A", "file:B", "job:1", "job:2"]);
    assert!(came_of(&g, "file:A", &LineageOptions::default()).complete);
}

#[test]
fn settings_of_the_surrounding_job_are_found() {
    let mut g = Recorded::new();
    g.link("process:7", "write", "file:A", at(10), NONE);
    g.link("process:7", "belongs", "job:1", at(9), NONE);
    g.link("job:1", "belongs", "job:workflow", at(8), NONE);
    g.link("user:bob", "run", "job:workflow", at(8), NONE);
    let found = find(&g, "file:A");
    assert_eq!(
        names(&found),
        ["file:A", "job:1", "job:workflow", "process:7", "user:bob"]
    );
    let by_user = came_of(&g, "process:7", &LineageOptions::default()).by_user();
    assert_eq!(by_user.len(), 1);
    assert!(
        by_user[0].user.is_some(),
        "the workflow's user is the process's user"
    );
}

/// A job reads and writes nothing itself: its programs do, and so do those of the tasks of its array.
#[test]
fn a_job_is_followed_through_its_parts() {
    let mut g = Recorded::new();
    for (part, whole) in [
        ("job:77-1", "job:77"),
        ("execution:a", "job:77"),
        ("job:78", "job:77"),
    ] {
        g.link(part, "belongs", whole, at(9), NONE);
    }
    g.link("execution:b", "belongs", "job:78", at(9), NONE);
    g.job("job:77-1", &["file:in"], &["file:mid"], 10);
    g.job("execution:a", &["file:mid"], &["file:out"], 20);
    g.job("execution:b", &["file:other"], &["file:last"], 20);
    g.job("job:later", &["file:out"], &["file:plot"], 30);
    let found = find(&g, "job:77");
    assert!(found.complete);
    let all = [
        "execution:a",
        "execution:b",
        "file:in",
        "file:mid",
        "file:other",
    ];
    assert_eq!(names(&found)[..5], all);
    assert_eq!(names(&found)[5..], ["job:77", "job:77-1", "job:78"]);
    let derived = names(&came_of(&g, "job:77", &LineageOptions::default()));
    for file in ["file:mid", "file:out", "file:last", "file:plot"] {
        assert!(derived.contains(&file.to_owned()), "{file}: {derived:?}");
    }
    let files = came_of(&g, "job:77", &LineageOptions::default()).by_user();
    assert_eq!(files[0].files.len(), 4, "parts are not counted as files");
    let few = LineageOptions {
        vertices: Some(3),
        ..LineageOptions::default()
    };
    assert!(!came_of(&g, "job:77", &few).complete);
}

#[test]
fn impact_follows_executables_and_users() {
    let mut g = Recorded::new();
    g.job("job:compile", &["file:main.c"], &["executable:/bin/app"], 5);
    g.link("user:eve", "run", "job:run", at(10), NONE);
    g.link("job:run", "exe", "executable:/bin/app", at(10), NONE);
    g.link(
        "job:run",
        "write",
        "file:out",
        at(12),
        NONE.with("bytes", 100_i64),
    );
    g.job("job:other", &["file:out"], &["file:more"], 20);
    let of_source = came_of(&g, "file:main.c", &LineageOptions::default());
    assert!(names(&of_source).contains(&"file:more".to_owned()));
    let of_user = came_of(&g, "user:eve", &LineageOptions::default());
    let names_of_user = names(&of_user);
    assert_eq!(
        names_of_user,
        [
            "executable:/bin/app",
            "file:more",
            "file:out",
            "job:other",
            "job:run",
            "user:eve"
        ]
    );
    let by_user = of_user.by_user();
    assert_eq!(by_user.len(), 2);
    assert_eq!((by_user[0].files.len(), by_user[0].bytes), (1, 100));
    let err = lineage(
        &g,
        g.id("user:eve"),
        &LineageOptions::default(),
        &NeverCancel,
    )
    .unwrap_err();
    assert!(err.to_string().contains("`user:eve` is a User"), "{err}");
}

#[test]
fn impact_since_a_time_leaves_earlier_readers_out() {
    let mut g = Recorded::new();
    g.job("job:w1", &[], &["file:A"], 10);
    g.job("job:early", &["file:A"], &["file:E"], 20);
    g.job("job:w2", &[], &["file:A"], 30);
    g.job("job:late", &["file:A"], &["file:L"], 40);
    let since = LineageOptions {
        since: Some(at(31)),
        ..LineageOptions::default()
    };
    assert_eq!(
        names(&came_of(&g, "file:A", &since)),
        ["file:A", "file:L", "job:late"]
    );
    let all = came_of(&g, "file:A", &LineageOptions::default());
    assert_eq!(
        names(&all),
        ["file:A", "file:E", "file:L", "job:early", "job:late"]
    );
}

#[test]
fn relations_of_ones_own_can_be_followed() {
    let mut g = Recorded::new();
    g.define(&SchemaChange::VertexType {
        name: "Sample".into(),
        parent: None,
        attributes: vec![],
    });
    for (name, inverse) in [("prepared", "wasPreparedBy"), ("consumed", "wasConsumedBy")] {
        g.define(&SchemaChange::EdgeType {
            name: name.into(),
            inverse: inverse.into(),
            source: "Execution".into(),
            destination: "Sample".into(),
        });
    }
    g.link("job:grow", "prepared", "sample:crystal", at(10), NONE);
    g.link("job:grind", "consumed", "sample:crystal", at(20), NONE);
    g.link("job:grind", "prepared", "sample:powder", at(21), NONE);
    let names = |list: [&str; 2]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let options = LineageOptions {
        made_by: names(["wasWrittenBy", "wasPreparedBy"]),
        used: names(["read", "consumed"]),
        ..LineageOptions::default()
    };
    let found = find_with(&g, "sample:powder", &options);
    assert_eq!(found.nodes.len(), 4);
    let unknown = LineageOptions {
        used: names(["read", "konsumed"]),
        ..LineageOptions::default()
    };
    let err = lineage(&g, g.id("sample:powder"), &unknown, &NeverCancel).unwrap_err();
    assert!(
        err.to_string().contains("did you mean `consumed`?"),
        "{err}"
    );
}

fn chain(length: u32) -> Recorded {
    let mut g = Recorded::new();
    for i in 0..length {
        let (from, to) = (format!("file:{i}"), format!("file:{}", i + 1));
        g.job(&format!("job:{i}"), &[&from], &[&to], u64::from(i) * 2);
    }
    g
}

/// Longer than the stack could hold.
#[test]
fn a_chain_of_100_000_executions_is_followed_and_drawn() {
    let g = chain(100_000);
    let found = find(&g, "file:100000");
    assert!(found.complete);
    assert_eq!(found.nodes.len(), 200_001);
    let schema = esker_model::Schema::default();
    let style = crate::TreeStyle {
        width: Some(100),
        ..Default::default()
    };
    let tree = crate::render_tree(&found, &schema, &style);
    let is_node = |line: &&str| line.contains("file:") || line.contains("job:");
    assert_eq!(tree.lines().filter(is_node).count(), 200_001);
    assert!(tree.lines().all(|l| l.chars().count() <= 100));
    assert_eq!(
        came_of(&chain(1000), "file:0", &LineageOptions::default())
            .nodes
            .len(),
        2_001
    );
}

/// Darshan truncated the start of a job to full seconds before 3.41, so a reader may seem to precede the writer.
#[test]
fn a_coarse_clock_hides_no_dependency() {
    let coarse = |from, to| lasting(from, to).with("time_resolution_ms", 2_000_i64);
    let mut g = Recorded::new();
    g.link("job:w", "write", "file:A", at(12), coarse(11, 12));
    g.link("job:r", "read", "file:A", at(10), coarse(9, 10));
    g.link("job:r", "write", "file:B", at(13), coarse(11, 13));
    let found = find(&g, "file:B");
    assert_eq!(names(&found), ["file:A", "file:B", "job:r", "job:w"]);
    assert_eq!(found.edges.iter().filter(|e| e.concurrent).count(), 1);
    // A rewrite that may have come after the read does not hide the previous version.
    let mut g = Recorded::new();
    g.link("job:w1", "write", "file:A", at(5), lasting(4, 5));
    g.link("job:w2", "write", "file:A", at(9), coarse(8, 9));
    g.link("job:r", "read", "file:A", at(11), lasting(10, 11));
    g.link("job:r", "write", "file:B", at(13), lasting(12, 13));
    assert_eq!(
        names(&find(&g, "file:B")),
        ["file:A", "file:B", "job:r", "job:w1", "job:w2"]
    );
    // By its own clock an execution knows what it wrote before it read.
    let mut g = Recorded::new();
    g.link("job:old", "write", "file:A", at(2), lasting(1, 2));
    g.link("job:r", "write", "file:A", at(6), coarse(5, 6));
    g.link("job:r", "read", "file:A", at(8), coarse(7, 8));
    g.link("job:r", "write", "file:B", at(9), coarse(8, 9));
    assert_eq!(names(&find(&g, "file:B")), ["file:A", "file:B", "job:r"]);
}

#[test]
fn a_round_costs_two_calls_however_wide() {
    let mut g = Recorded::new();
    let inputs: Vec<String> = (0..1000).map(|i| format!("file:in{i}")).collect();
    for (i, input) in inputs.iter().enumerate() {
        g.job(&format!("job:w{i}"), &[], &[input], 10);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    g.job("job:r", &inputs, &["file:out"], 20);
    let found = find(&g, "file:out");
    assert_eq!(found.vertices.len(), 2002);
    // The target; its writer; 1,000 inputs; their writers; and last their users.
    assert_eq!(g.scans.load(Ordering::Relaxed), 5);
}

#[test]
fn limits_stop_the_walk_and_name_what_was_left() {
    let g = chain(100);
    let limited = |options: LineageOptions| find_with(&g, "file:100", &options);
    for (options, reason) in [
        (
            LineageOptions {
                depth: Some(3),
                ..LineageOptions::default()
            },
            StopReason::Depth,
        ),
        (
            LineageOptions {
                vertices: Some(5),
                ..LineageOptions::default()
            },
            StopReason::Limit,
        ),
        (
            LineageOptions {
                edges: Some(5),
                ..LineageOptions::default()
            },
            StopReason::Edges,
        ),
        (
            LineageOptions {
                bytes: Some(1500),
                ..LineageOptions::default()
            },
            StopReason::Bytes,
        ),
    ] {
        let found = limited(options);
        assert!(!found.complete);
        assert_eq!(found.stopped.len(), 1, "{reason:?}");
        assert_eq!(found.stopped[0].reason, reason);
        assert_eq!(found.stopped[0].vertices_left, 1);
        let named = found.stopped[0].vertices[0];
        assert!(
            found.vertices.iter().any(|v| v.id == named),
            "it is among the vertices found"
        );
    }
    // A depth that exactly suffices is complete: inputs without known writers end there.
    assert!(
        limited(LineageOptions {
            depth: Some(100),
            ..LineageOptions::default()
        })
        .complete
    );
    assert!(
        !limited(LineageOptions {
            depth: Some(99),
            ..LineageOptions::default()
        })
        .complete
    );
    let nothing = limited(LineageOptions {
        depth: Some(0),
        ..LineageOptions::default()
    });
    assert_eq!((nothing.vertices.len(), nothing.complete), (1, false));
}

/// Cancels after a number of checks.
struct After(AtomicU64, StopReason);

impl Cancel for After {
    fn cancelled(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    fn reason(&self) -> StopReason {
        self.1
    }
}

#[test]
fn a_cancelled_walk_gives_what_it_found() {
    let g = chain(100);
    for reason in [StopReason::TimeOut, StopReason::Interrupted] {
        for asked in [0, 1, 2, 9, 50] {
            let cancel = After(AtomicU64::new(asked), reason);
            let found = lineage(&g, g.id("file:100"), &LineageOptions::default(), &cancel).unwrap();
            assert!(!found.complete);
            assert_eq!(found.stopped[0].reason, reason);
            assert!(
                found.vertices.len() as u64 >= asked && found.vertices.len() as u64 <= asked + 2
            );
        }
    }
    // Cancellation is also checked inside one wide step.
    let mut g = Recorded::new();
    let inputs: Vec<String> = (0..2000).map(|i| format!("file:in{i}")).collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    g.job("job:r", &inputs, &["file:out"], 20);
    let cancel = After(AtomicU64::new(4), StopReason::Interrupted);
    let found = lineage(&g, g.id("file:out"), &LineageOptions::default(), &cancel).unwrap();
    assert!(!found.complete);
    assert!(
        (200..1000).contains(&found.vertices.len()),
        "{}",
        found.vertices.len()
    );
}

#[test]
fn paths_become_the_same_kind_of_graph() {
    let mut g = Recorded::new();
    g.link(
        "job:w",
        "write",
        "file:A",
        at(10),
        NONE.with("bytes", 1_i64),
    );
    g.link(
        "job:w",
        "write",
        "file:A",
        at(20),
        NONE.with("bytes", 2_i64),
    );
    let by = esker_model::Schema::default()
        .edge_type_id("wasWrittenBy")
        .unwrap();
    let edge = EdgeKey {
        source: g.id("file:A"),
        edge_type: by,
        destination: g.id("job:w"),
    };
    let step = |version| PathStep {
        parent: 0,
        edge,
        version,
    };
    let paths = Paths {
        nodes: vec![
            PathNode {
                level: 0,
                vertex: g.id("file:A"),
                end: false,
                parents: vec![],
            },
            PathNode {
                level: 1,
                vertex: g.id("job:w"),
                end: true,
                parents: vec![step(at(10)), step(at(20)), step(at(20))],
            },
        ],
    };
    let (vertices, edges) = graph_of_paths(&g, &paths, Version::MAX).unwrap();
    assert_eq!(vertices.len(), 2);
    let bytes: Vec<_> = edges
        .iter()
        .map(|e| (e.edge.version, e.edge.properties.get("bytes").cloned()))
        .collect();
    assert_eq!(
        bytes,
        [(at(10), Some(1_i64.into())), (at(20), Some(2_i64.into()))]
    );
}
