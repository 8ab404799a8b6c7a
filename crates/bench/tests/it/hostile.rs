//! `esker bench serve --hostile` at small size: the honest client gets responses, and the server's memory stays
//! bounded. Latency is
//! left to `esker bench`.

use serde_json::Value as Json;
use std::process::{Command, Stdio};

#[test]
fn one_client_is_answered_among_hostile_ones() {
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .args([
            "--quiet",
            "serve",
            "--hostile",
            "48",
            "--seconds",
            "1",
            "--format",
            "json",
        ])
        .arg(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("only user 0 can make some") {
        eprintln!("skipped: only user 0 can be other users");
        return;
    }
    assert!(out.status.success(), "{said}");
    let report: Json = serde_json::from_slice(&out.stdout).unwrap();
    let results = report["results"].as_array().unwrap();
    let of = |part: &str| {
        let case = |r: &&Json| r["case"].as_str().unwrap().contains(part);
        results
            .iter()
            .find(case)
            .unwrap_or_else(|| panic!("{part}: {report}"))
    };
    assert_eq!(of("were not answered")["esker"], 0.0, "{report}");
    assert_eq!(of("memory")["met"], true, "{report}");
    let alone = of("alone")["esker"].as_f64().unwrap();
    assert!(alone.is_finite() && alone > 0.0, "{report}");
}
