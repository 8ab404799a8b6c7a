//! `esker bench mount`: its cases, and that it leaves no folder.

use serde_json::Value as Json;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_mount_is_measured() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: needs root and /dev/fuse");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_esker-bench"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .args(["--quiet", "mount", "--files", "200", "--large", "2MiB"])
        .args(["--format", "json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["results"].as_array().unwrap();
    for case in [
        "create, one directory",
        "stat, cached, unique directories",
        "stat, not cached, one directory",
        "read a large file",
    ] {
        assert!(
            results.iter().any(|f| f["case"] == case),
            "{case}: {results:?}"
        );
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
