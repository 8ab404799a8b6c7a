//! `esker bench cluster` at minimal size: its counts and reports. Times are not checked.

use esker_testkit::wait::eventually;
use serde_json::Value as Json;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a workload on two servers, in one round; returns its report. Plots are in the folder's `plots`.
fn bench(folder: &Path, args: &[&str]) -> Json {
    let output = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .args(["--quiet", "cluster"])
        .args(args)
        .args(["--rounds", "1", "--vnodes", "64"])
        .args(["--json", "report.json", "--plots", "plots"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    let report: Json =
        serde_json::from_slice(&std::fs::read(folder.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["workload"], format!("cluster {}", args[0]));
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(report["wishes"].is_array());
    // The scratch folder is removed, and the servers are stopped.
    let left: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("esker-bench"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    report
}

fn rows(report: &Json) -> &Vec<Json> {
    report["results"].as_array().unwrap()
}

/// Returns a column of all rows.
fn column<'a>(report: &'a Json, name: &str) -> Vec<&'a Json> {
    rows(report).iter().map(|row| &row[name]).collect()
}

/// Asserts that all values of these columns are positive numbers.
fn positive(report: &Json, names: &[&str]) {
    for name in names {
        for value in column(report, name) {
            assert!(
                value.as_f64().is_some_and(|n| n > 0.0),
                "{name}: {value} in {report}"
            );
        }
    }
}

fn drawn(folder: &Path, name: &str) {
    let svg = std::fs::read_to_string(folder.join("plots").join(name)).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("dido"), "{name}");
}

#[test]
fn inserts() {
    let folder = tempfile::tempdir().unwrap();
    let args = "insert --servers 1,2 --clients 3 --graph rmat:8:500 --batch 100 --singles --single-edges 50 --threshold 8";
    let report = bench(folder.path(), &args.split(' ').collect::<Vec<_>>());
    assert_eq!(column(&report, "servers"), [1, 2, 1, 2]);
    assert_eq!(column(&report, "batch"), [100, 100, 1, 1]);
    assert_eq!(column(&report, "edges"), [500, 500, 50, 50]);
    assert_eq!(column(&report, "clients"), [3, 3, 3, 3]);
    positive(&report, &["edges_per_s", "ratio", "p50_us", "p99_us"]);
    assert_eq!(rows(&report)[0]["ratio"], 1.0);
    assert_eq!(report["wishes"].as_array().unwrap().len(), 4);
    drawn(folder.path(), "figure-11-insert-batches.svg");
    drawn(folder.path(), "figure-11-insert-singles.svg");
}

#[test]
fn a_hot_vertex() {
    let folder = tempfile::tempdir().unwrap();
    let args = "hot-vertex --servers 2 --clients 3 --inserts 30 --threshold 16 --placement dido,vertex-cut";
    let report = bench(folder.path(), &args.split(' ').collect::<Vec<_>>());
    assert_eq!(column(&report, "placement"), ["dido", "vertex-cut"]);
    assert_eq!(column(&report, "inserts"), [90, 90]);
    positive(&report, &["hot_per_s", "uniform_per_s", "times_slower"]);
    assert_eq!(report["wishes"].as_array().unwrap().len(), 1);
    drawn(folder.path(), "figure-17-hot-vertex.svg");
}

#[test]
fn thresholds() {
    let folder = tempfile::tempdir().unwrap();
    let args = "threshold --servers 2 --sweep 16,64 --edges 150 --batch 5";
    let report = bench(folder.path(), &args.split(' ').collect::<Vec<_>>());
    assert_eq!(column(&report, "threshold"), [16, 64]);
    assert_eq!(column(&report, "edges"), [150, 150]);
    positive(&report, &["insert_ms", "scan_ms", "travel_ms"]);
    let picture = folder.path().join("plots/figure-8-insert.svg");
    assert!(
        std::fs::read_to_string(picture)
            .unwrap()
            .contains("threshold")
    );
}

#[test]
fn splits_of_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let args = "splits --servers 2 --files 900 --directory-threshold 100";
    let report = bench(folder.path(), &args.split(' ').collect::<Vec<_>>());
    assert_eq!(column(&report, "way"), ["message", "table"]);
    positive(&report, &["splits", "rows", "ms", "message_bytes"]);
    let bytes = column(&report, "message_bytes");
    let bytes: Vec<f64> = bytes.iter().map(|n| n.as_f64().unwrap()).collect();
    assert!(bytes[1] * 10.0 < bytes[0], "{bytes:?}");
}

#[test]
fn traversals_and_scans() {
    let folder = tempfile::tempdir().unwrap();
    let args = "travel --servers 2 --graph rmat:7:300 --steps 1,4 --threshold 8";
    let report = bench(folder.path(), &args.split(' ').collect::<Vec<_>>());
    let engines = column(&report, "engine");
    assert_eq!(
        engines,
        ["sync", "prefetch", "async", "sync", "prefetch", "async"]
    );
    assert_eq!(column(&report, "steps"), [1, 1, 1, 4, 4, 4]);
    positive(&report, &["ms", "ratio", "edges", "reached"]);
    // The result does not depend on the engine.
    for of_steps in rows(&report).chunks(3) {
        assert!(
            of_steps
                .iter()
                .all(|row| row["reached"] == of_steps[0]["reached"])
        );
    }
    assert_eq!(report["wishes"].as_array().unwrap().len(), 1);
    let picture = folder.path().join("plots/figure-10-travel-dido.svg");
    assert!(
        std::fs::read_to_string(picture)
            .unwrap()
            .contains("prefetch")
    );
    drawn(folder.path(), "figure-16-placements.svg");

    let args =
        "scan --servers 2 --graph rmat:7:300 --samples 1 --threshold 8 --placement dido,edge-cut";
    let report = bench(folder.path(), &args.split(' ').collect::<Vec<_>>());
    positive(&report, &["scan_ms", "travel_ms", "scan_edges"]);
    // The placement changes the location of edges, not the edges.
    for of_degree in rows(&report).chunks(2) {
        assert_eq!(of_degree[0]["degree"], of_degree[1]["degree"]);
        assert_eq!(of_degree[0]["scan_edges"], of_degree[1]["scan_edges"]);
        assert_eq!(of_degree[0]["travel_edges"], of_degree[1]["travel_edges"]);
    }
    drawn(folder.path(), "figure-12-scan-time.svg");
}

#[test]
fn files_in_one_directory() {
    let folder = tempfile::tempdir().unwrap();
    let args = "mdtest --servers 1,2 --clients-per-server 2 --files 10 --threshold 8";
    let report = bench(folder.path(), &args.split(' ').collect::<Vec<_>>());
    assert_eq!(column(&report, "servers"), [1, 2]);
    assert_eq!(column(&report, "clients"), [2, 4]);
    assert_eq!(column(&report, "files"), [20, 40]);
    positive(&report, &["creates_per_s", "ratio"]);
    drawn(folder.path(), "figure-18-mdtest.svg");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (vec!["insert", "--vnodes", "3"], "--vnodes"),
        (vec!["insert", "--servers", "0"], "--servers"),
        (vec!["travel", "--engine", "quick"], "--engine"),
        (vec!["insert", "--placement", "dodo"], "--placement"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
            .current_dir(folder.path())
            .args(["cluster"])
            .args(&args)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// Process ids from the servers' logs, once both have started.
fn servers(folder: &Path) -> Option<Vec<u32>> {
    let scratch = std::fs::read_dir(folder).unwrap().next()?.unwrap().path();
    (0..2)
        .map(|n| {
            let log = scratch.join(format!("cluster/storage/server-{n}.log"));
            let text = std::fs::read_to_string(log).ok()?;
            let pid = text.split("pid=").nth(1)?.split_whitespace().next()?;
            pid.parse().ok()
        })
        .collect()
}

#[test]
fn nothing_is_left_of_a_benchmark_that_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .current_dir(folder.path())
        .args(["--quiet", "cluster", "mdtest", "--servers", "2"])
        .args(["--files", "1000000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pids = eventually(|| servers(folder.path()).ok_or("the servers do not start"));
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    // The benchmark cannot finish without them.
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid}");
    }
}
