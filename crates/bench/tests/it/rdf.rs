//! `esker bench rdf` at minimal size: its counts, and the report of another store's differing answer. Times are not checked.

use serde_json::Value as Json;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn bench(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .args(["--quiet", "rdf", "--format", "json"])
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn queries_are_compared_with_peers() {
    let folder = tempfile::tempdir().unwrap();
    let peer = "p=printf '%s\\n' '{\"load\":true,\"cpu_s\":2.5}' '{\"query\":\"star\",\"cpu_ms\":1e6,\"rows\":3}' \
                '{\"query\":\"ask\",\"error\":\"too long\"}'";
    let args = ["--runs-of", "300", "--runs", "1", "--threads", "2"];
    let output = bench(folder.path(), &[&args[..], &["--peer", peer]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap();
    let figure = |case: &str| results.iter().find(|f| f["case"] == case).unwrap();
    // Loading, memory and twelve queries.
    assert_eq!(results.len(), 14, "{results:?}");
    assert_eq!(figure("load")["raw"], 2.5);
    assert!(figure("star")["ratio"].as_f64().unwrap() > 1.0);
    assert!(
        figure("star")["note"]
            .as_str()
            .unwrap()
            .starts_with("3 rows,")
    );
    assert!(
        figure("ask")["note"]
            .as_str()
            .unwrap()
            .ends_with("; p too long")
    );
    assert!(figure("ask")["raw"].is_null());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let peer = peer.replace("\"rows\":3", "\"rows\":4");
    let output = bench(folder.path(), &[&args[..], &["--peer", &peer]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("star: p counts 4 rows, Esker 3"), "{said}");
}
