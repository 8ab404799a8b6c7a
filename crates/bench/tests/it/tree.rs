//! `esker bench tree`: its cases, and that it leaves no folder.

use serde_json::Value as Json;
use std::process::{Command, Stdio};

#[test]
fn an_import_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .args(["--quiet", "tree", "--files", "300", "--rounds", "1"])
        .args(["--format", "json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap();
    let rates = results.iter().filter(|f| f["unit"] == "files/s");
    let cases: Vec<_> = rates.map(|f| f["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["new", "unchanged"]);
    assert!(results.iter().all(|f| f["raw"].as_f64().is_some()));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
