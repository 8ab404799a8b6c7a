//! `esker bench namespace` at minimal size: its counts and reports. Times are not checked.

use serde_json::Value as Json;
use std::process::{Command, Stdio};

/// Returns the reported figures and the settings.
fn bench(args: &[&str]) -> (Vec<Json>, Json) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .args(["--quiet", "namespace", "--format", "json"])
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("esker-bench"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap().clone();
    (results, report)
}

fn cases(results: &[Json]) -> Vec<&str> {
    results
        .iter()
        .map(|f| f["case"].as_str().unwrap())
        .collect()
}

#[test]
fn mdtest_phases_are_compared_with_a_file_system() {
    let phases = [
        "tree creation",
        "directory creation",
        "directory stat",
        "directory removal",
        "file creation",
        "file stat",
        "file read",
        "file removal",
        "tree removal",
    ];
    let (results, _) = bench(&["--mdtest-like", "--files", "1000", "--alone"]);
    assert_eq!(cases(&results), phases);
    assert!(results.iter().all(|f| f["esker"].as_f64().unwrap() > 0.0));
    let (results, _) = bench(&[
        "--mdtest-like",
        "--files",
        "1000",
        "--bytes",
        "100",
        "--beside",
        "tmpfs",
    ]);
    assert_eq!(cases(&results), phases);
    assert!(results.iter().all(|f| f["raw"].as_f64().unwrap() > 0.0));
}

/// After caches are dropped, data is read from disk again, with all changes.
#[test]
fn what_is_forgotten_is_read_again() {
    let (results, _) = bench(&[
        "--alone",
        "--files",
        "3000",
        "--case",
        "stat,chmod,utime,list",
        "--random",
        "3000",
        "--forget",
        "1000",
        "--disk",
    ]);
    let read = |case: &str| {
        let found = results.iter().find(|f| f["case"] == case);
        found.unwrap_or_else(|| panic!("{case}: {results:?}"))["esker"]
            .as_f64()
            .unwrap()
    };
    assert!(read("list with attributes") > 0.0);
    // If the scratch folder is in memory, nothing is read from disk.
    for case in ["stat", "chmod", "utime"] {
        assert!(read(&format!("{case}, at random: read from disk")) >= 0.0);
        assert!(read(&format!("{case}, at random")) > 0.0);
    }
}

#[test]
fn private_subtrees_are_measured_through_a_server() {
    let (results, report) = bench(&["--clients", "2", "--files", "2000", "--bulk", "500"]);
    let cases = cases(&results);
    let bulk = cases
        .iter()
        .position(|case| *case == "create, in private subtrees of 500, 2 clients");
    let bulk = &results[bulk.unwrap_or_else(|| panic!("{cases:?}"))];
    assert!(bulk["esker"].as_f64().is_some_and(|v| v > 0.0), "{bulk}");
    assert_eq!(report["settings"]["bulk"], 500);
}
