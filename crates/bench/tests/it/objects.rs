//! `esker bench objects` and `esker bench boss` at minimal size: their counts and reports. Times are not checked.

use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn esker(folder: &Path, args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .args(["--quiet"])
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    let left: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("esker-bench"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    output
}

fn results(output: &Output) -> Vec<Json> {
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap().clone();
    for figure in &results {
        assert!(
            figure["esker"].as_f64().is_some_and(|n| n >= 0.0),
            "{figure}"
        );
    }
    results
}

/// Returns the figure of a case.
fn figure<'a>(results: &'a [Json], case: &str) -> &'a Json {
    let found = results.iter().find(|figure| figure["case"] == case);
    found.unwrap_or_else(|| panic!("{case} is not in {results:?}"))
}

#[test]
fn every_case_of_objects_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let output = esker(
        folder.path(),
        &[
            "objects",
            "--objects",
            "2000",
            "--indexed-objects",
            "4000",
            "--hashed",
            "1000",
            "--batch",
            "300",
            "--clients",
            "2",
            "--workload",
            "one,unique",
            "--rounds",
            "1",
            "--format",
            "json",
        ],
    );
    let results = results(&output);
    for case in [
        "create, one name",
        "create, the slowest of them",
        "create through a server, all unique",
        "memory of a server, 2,000 objects, all unique",
        "restart of a server, one name",
        "a checkpoint of all, all unique",
        "disk, one name",
        "E-search of 20 %, one by one, all unique",
        "P-search of 2.5 %, one name",
        "E-search of 5 % through a server, 1000 at once",
        "update of 10 %, all unique",
        "delete of 20 %, one name",
        "P-search without an index: a number, 1 %",
        "P-search of 100 among 4,000: a number",
    ] {
        assert!(
            figure(&results, case)["esker"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    // Counts are equal on all machines.
    let least = &figure(&results, "objects of a vnode, all unique: least")["esker"];
    let most = &figure(&results, "objects of a vnode, all unique: most")["esker"];
    assert!(least.as_f64().unwrap() < 16.0 && most.as_f64().unwrap() > 16.0);
    let wrong = figure(&results, "1,000 objects, one name: false positives");
    assert_eq!(wrong["esker"], 0.0);
}

#[test]
fn the_boss_case_is_compared_with_other_databases() {
    let folder = tempfile::tempdir().unwrap();
    esker(folder.path(), &["boss", "--write-data", "boss.csv"]);
    let table = std::fs::read_to_string(folder.path().join("boss.csv")).unwrap();
    assert_eq!(table.lines().count(), 276_576);
    assert!(table.starts_with("plate,mjd,fiber,name\n3586,"));
    let peers = json!({"peers": [
        {"peer": "A 1", "variant": "x", "embedded": true, "rows": {"load": {"ms": 1e9}, "tag one": {"per_s": 1e9}}},
        {"peer": "B 2", "variant": "y", "embedded": false, "rows": {"load": {"ms": 1e-9}}},
    ]});
    std::fs::write(folder.path().join("peers.json"), peers.to_string()).unwrap();
    let output = esker(
        folder.path(),
        &[
            "boss",
            "--objects",
            "3000",
            "--lookups",
            "50",
            "--rounds",
            "1",
            "--server",
            "--peers",
            "peers.json",
            "--format",
            "json",
        ],
    );
    let results = results(&output);
    let load = figure(&results, "load");
    assert_eq!(load["met"], true, "{load}");
    assert!(
        load["note"]
            .as_str()
            .unwrap()
            .ends_with("A 1, x: 1000000000.00 ms")
    );
    assert_eq!(figure(&results, "tag one object")["met"], false);
    assert_eq!(figure(&results, "load, through a server")["met"], false);
    for case in ["group 32 %", "retrieve 1 %", "range P-search of 16 %"] {
        let alone = figure(&results, case);
        assert!(alone["raw"].is_null(), "{alone}");
        figure(&results, &format!("{case}, through a server"));
    }
}
