//! Databases written by earlier builds, one for each format, are readable by this one: `docs/book/format-stability.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn esker(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn said(folder: &Path, words: &[&str]) -> String {
    let out = esker(folder, words);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{words:?}: {error}");
    String::from_utf8(out.stdout).unwrap()
}

fn kept() -> Vec<PathBuf> {
    let folder = std::path::absolute("testdata/formats").unwrap();
    let entries = fs::read_dir(folder).unwrap();
    let mut all: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn databases_of_all_supported_formats_are_read() {
    let kept = kept();
    assert!(!kept.is_empty());
    let mut newest = 0;
    for archive in kept {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let unpacked = Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .current_dir(at)
            .status();
        assert!(unpacked.unwrap().success(), "{archive:?}");
        let name = archive.file_name().unwrap().to_str().unwrap();
        let format: u64 = name.strip_suffix(".tar.gz").unwrap().parse().unwrap();

        let told = esker(
            at,
            &["upgrade", "old.esker", "--check", "--format", "ndjson"],
        );
        let row: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(row["format"], format, "{row}");
        assert_eq!(row["upgraded"], false, "{row}");
        newest = row["newest"].as_u64().unwrap();
        assert_eq!(told.status.code(), Some(i32::from(format < newest)));
        said(at, &["upgrade", "old.esker"]);
        let after = said(at, &["upgrade", "old.esker", "--check"]);
        assert!(after.contains("nothing to do"), "{after}");

        said(at, &["check", "old.esker"]);
        let lineage = said(at, &["lineage", "old.esker", "file:/plot.png"]);
        assert!(
            lineage.contains("file:/raw.h5") && lineage.contains("job:71"),
            "{lineage}"
        );
        let history = said(at, &["history", "old.esker", "file:/raw.h5"]);
        assert!(
            history.contains("4096") && history.contains("8192"),
            "{history}"
        );
        let filter = "TELESCOP = 'HST' and EXPTIME > 100";
        let found = said(at, &["find", "old.esker", filter, "--count"]);
        assert!(found.starts_with('1'), "{found}");
        assert!(said(at, &["ls", "old.esker", "/scratch"]).contains("a.nc"));
        let triples = said(
            at,
            &[
                "sparql",
                "old.esker",
                "SELECT ?o WHERE { ?s <http://example.org/p> ?o }",
            ],
        );
        assert!(triples.contains('o'), "{triples}");
    }
    let today = std::path::absolute(".")
        .unwrap()
        .join(format!("testdata/formats/{newest}.tar.gz"));
    assert!(
        today.exists(),
        "keep a database of this format: scripts/make-format-fixture.sh"
    );
}

#[test]
fn what_cannot_be_upgraded_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let no = esker(at, &["upgrade", "none.esker"]);
    assert_eq!(no.status.code(), Some(2));
    let no = esker(at, &["upgrade", "esker://127.0.0.1:1", "--check"]);
    let error = String::from_utf8_lossy(&no.stderr).into_owned();
    assert!(error.contains("on the machine that holds it"), "{error}");
}
