//! `esker bench cluster failover`, `add` and `soak` at minimal size: no call fails, nothing is lost. Times are not checked.

use crate::etcd_program::program;
use serde_json::Value as Json;
use std::process::{Command, Stdio};

fn bench(args: &str) -> Json {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("ESKER_ETCD", program())
        .stdin(Stdio::null())
        .args(["--quiet", "cluster"])
        .args(args.split(' '))
        .args(["--vnodes", "64", "--lease", "2s", "--format", "json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{args}: {said} {report}");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let settings = &report["settings"];
    assert_eq!(settings["errors"], 0, "{report}");
    assert_eq!(settings["violations"], 0, "{report}");
    for what in ["writes", "reads", "looked_at"] {
        assert!(settings[what].as_u64().unwrap() > 0, "{report}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    report
}

#[test]
fn a_killed_server_is_replaced() {
    let report = bench("failover --servers 2 --stores 4 --kills 2 --writers 2 --readers 1");
    assert_eq!(report["results"][0]["count"], 2);
    assert_eq!(report["results"][1]["count"], 4);
    let kills = report["settings"]["kills"].as_array().unwrap();
    assert!(kills.iter().all(|k| k["stores"] == 2), "{report}");
}

#[test]
fn one_is_added() {
    let report = bench("add --servers 2 --stores 6 --writers 2 --readers 1 --phase 1s");
    let when: Vec<&Json> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["when"])
        .collect();
    assert_eq!(when, ["before", "while", "after"]);
    let stores = &report["settings"]["stores_by_server"];
    assert_eq!(stores, &serde_json::json!([2.0, 2.0, 2.0]));
}

#[test]
fn faults_of_all_kinds_do_no_harm() {
    let report = bench(
        "soak --servers 3 --stores 6 --writers 2 --readers 1 --minutes 0 --seconds 15 --seed 3",
    );
    assert!(report["settings"]["faults"].as_u64().unwrap() > 0);
}
