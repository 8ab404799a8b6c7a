//! `esker doctor`: checks, failures and remedies.

use crate::runs::Lab;
use serde_json::Value as Json;
use std::fs;

/// Returns the rows and the exit code.
fn doctor(lab: &Lab, words: &[&str]) -> (Vec<Json>, Option<i32>) {
    let out = lab.said(&[&["doctor"], words, &["--format", "json"]].concat());
    let rows = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"));
    (rows, out.status.code())
}

fn state<'a>(rows: &'a [Json], part: &str) -> &'a Json {
    let row = rows.iter().find(|r| r["part"] == part);
    row.unwrap_or_else(|| panic!("no {part} in {rows:#?}"))
}

#[test]
fn all_is_well_in_a_new_database() {
    let lab = Lab::new();
    assert!(lab.said(&["run", "--wait", "--", "true"]).status.success());
    let (rows, code) = doctor(&lab, &[]);
    for part in ["version", "target", "access", "spool", "git", "trace"] {
        assert_eq!(state(&rows, part)["state"], "ok", "{rows:#?}");
    }
    let absent = |r: &&Json| r["state"] == "wrong";
    let wrong: Vec<_> = rows
        .iter()
        .filter(absent)
        .map(|r| r["part"].clone())
        .collect();
    // A Slurm installation on this machine may be down.
    assert!(wrong.iter().all(|part| part == "slurm"), "{rows:#?}");
    assert_eq!(code, Some(i32::from(!wrong.is_empty())));
}

#[test]
fn what_is_wrong_is_told_with_its_remedy() {
    let lab = Lab::new();
    fs::write(lab.at("file"), "").unwrap();
    let (rows, code) = doctor(&lab, &["esker://127.0.0.1:1"]);
    assert_eq!(code, Some(1));
    let target = state(&rows, "target");
    assert_eq!(target["state"], "wrong");
    assert!(
        target["remedy"].as_str().unwrap().contains("esker serve"),
        "{target}"
    );
    let (rows, code) = doctor(&lab, &["file", "--spool", "/proc/no/spool"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        state(&rows, "target")["state"],
        "wrong",
        "a file is not a database"
    );
    assert!(
        state(&rows, "spool")["remedy"]
            .as_str()
            .unwrap()
            .contains("--spool DIR")
    );
    let (rows, _) = doctor(&lab, &["not-yet.esker"]);
    assert_eq!(state(&rows, "target")["state"], "absent");
    assert!(!lab.at("not-yet.esker").exists(), "nothing is made");
    // A waiting run and a torn one.
    let out = lab.said(&["run", "--leave", "--", "true"]);
    assert!(out.status.success());
    let (rows, code) = doctor(&lab, &[]);
    assert_eq!(code, Some(1));
    assert!(
        state(&rows, "spool")["remedy"]
            .as_str()
            .unwrap()
            .contains("esker spool deliver")
    );
    fs::write(lab.at("spool").join("x.done"), "torn").unwrap();
    let (rows, _) = doctor(&lab, &[]);
    assert!(
        state(&rows, "spool")["found"]
            .as_str()
            .unwrap()
            .contains("1 broken"),
        "{rows:#?}"
    );
}
