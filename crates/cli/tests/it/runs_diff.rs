//! `esker diff` of two runs: the differences, by job number, run id and `last`.

use crate::runs::Lab;
use serde_json::Value as Json;
use std::fs;

/// Returns the rows of a comparison without equal ones.
fn diff(lab: &Lab, words: &[&str]) -> Vec<Json> {
    let out = lab.said(&[&["diff"], words, &["--format", "json"]].concat());
    assert!(out.status.success(), "{out:?}");
    serde_json::from_slice(&out.stdout).unwrap()
}

fn row<'a>(rows: &'a [Json], part: &str, name: &str) -> &'a Json {
    rows.iter()
        .find(|r| r["part"] == part && r["name"] == name)
        .unwrap_or_else(|| panic!("no {part} {name} in {rows:#?}"))
}

fn record(lab: &Lab, job: &str, threads: &str, words: &[&str]) {
    let out = lab
        .esker(&[&["run", "--wait"], words].concat())
        .env("SLURM_JOB_ID", job)
        .env("SLURM_SRUN_COMM_PORT", job)
        .env("OMP_NUM_THREADS", threads)
        .env("LOADEDMODULES", format!("gcc/{threads}:hdf5/1.14"))
        .output()
        .unwrap();
    assert!(out.stderr.is_empty(), "{out:?}");
}

#[test]
fn two_jobs_are_compared() {
    let lab = Lab::new();
    for folder in ["a", "b"] {
        fs::create_dir(lab.at(folder)).unwrap();
        fs::write(lab.at(folder).join("mask.nc"), "m").unwrap();
    }
    fs::write(lab.at("raw.nc"), "first").unwrap();
    fs::write(lab.at("grid.nc"), "g").unwrap();
    record(
        &lab,
        "4711",
        "8",
        &[
            "--in",
            "raw.nc",
            "--in",
            "grid.nc",
            "--in",
            "a/mask.nc",
            "--out",
            "clean.nc",
            "--param",
            "k=3",
            "--param",
            "n=1",
            "--",
            "sh",
            "-c",
            "true",
            "--fast",
            "x",
        ],
    );
    // Another user creates a new version of an input.
    record(
        &lab,
        "4700",
        "8",
        &[
            "--name",
            "fetch",
            "--out",
            "raw.nc",
            "--",
            "sh",
            "-c",
            "echo other > raw.nc",
        ],
    );
    record(
        &lab,
        "4698",
        "4",
        &[
            "--in",
            "raw.nc",
            "--in",
            "grid.nc",
            "--in",
            "b/mask.nc",
            "--out",
            "clean.nc",
            "--param",
            "k=4",
            "--param",
            "n=1",
            "--",
            "sh",
            "-c",
            "true",
            "x",
        ],
    );
    let rows = diff(&lab, &["4711", "4698"]);
    let set = row(&rows, "setting", "k");
    assert_eq!((&set["before"], &set["after"]), (&"3".into(), &"4".into()));
    assert_eq!(row(&rows, "module", "gcc")["before"], "8");
    assert_eq!(row(&rows, "environment", "OMP_NUM_THREADS")["after"], "4");
    let gone = row(&rows, "argument", "3");
    assert_eq!(
        (&gone["change"], &gone["before"]),
        (&"removed".into(), &"--fast".into())
    );
    let raw = lab.at("raw.nc");
    let raw = row(&rows, "input", raw.to_str().unwrap());
    assert_eq!(raw["change"], "other version");
    assert!(
        raw["before"].as_str().unwrap().starts_with("5 bytes"),
        "{raw}"
    );
    assert!(
        raw["after"].as_str().unwrap().contains("by execution:"),
        "{raw}"
    );
    let mask = row(&rows, "input", "mask.nc");
    assert_eq!(mask["change"], "other file");
    assert!(
        mask["after"].as_str().unwrap().contains("/b/mask.nc"),
        "{mask}"
    );
    // Equal items, and items that differ between any two runs, are shown with --all only.
    for name in [
        "n",
        "hdf5",
        "SLURM_JOB_ID",
        "SLURM_SRUN_COMM_PORT",
        "job",
        "start",
    ] {
        assert!(!rows.iter().any(|r| r["name"] == name), "{name}");
    }
    let all = diff(&lab, &["4711", "4698", "--all"]);
    assert_eq!(row(&all, "setting", "n")["change"], "same");
    assert_eq!(
        row(&all, "environment", "SLURM_JOB_ID")["change"],
        "changed"
    );
    assert_eq!(row(&all, "place", "host")["change"], "same");
    // By `last`, by id, and with the database named.
    let log = lab.log(&[]);
    let [last, _, first] = [0, 1, 2].map(|n| log[n]["run"].as_str().unwrap());
    let lab_esker = lab.at("lab.esker");
    let named = diff(&lab, &[lab_esker.to_str().unwrap(), first, last]);
    assert_eq!(named, diff(&lab, &["last~2", "last"]));
    assert_eq!(row(&named, "setting", "k")["after"], "4");
    let short = last.strip_prefix("execution:").unwrap();
    assert!(diff(&lab, &["last", short]).is_empty());
    // The table for display.
    let out = lab.said(&["diff", "4711", "4698"]);
    let table = String::from_utf8(out.stdout).unwrap();
    assert!(
        table.contains("PART") && table.contains("other version"),
        "{table}"
    );
    assert!(
        String::from_utf8(out.stderr)
            .unwrap()
            .contains("before: job:4711")
    );
}

#[test]
fn how_a_run_failed_is_a_difference() {
    let lab = Lab::new();
    record(&lab, "1", "1", &["--", "sh", "-c", "exit 0"]);
    record(&lab, "2", "1", &["--", "sh", "-c", "exit 3"]);
    let rows = diff(&lab, &["1", "2"]);
    let exit = row(&rows, "ended", "exit");
    assert_eq!(
        (&exit["before"], &exit["after"]),
        (&"0".into(), &"3".into())
    );
}

#[test]
fn what_is_neither_a_run_nor_a_time_is_told() {
    let lab = Lab::new();
    record(&lab, "1", "1", &["--", "true"]);
    for (words, wanted) in [
        (&["diff", "1", "99"][..], "there is no run `99`"),
        (&["diff", "1", "wrf"], "`wrf` is not a run"),
        (
            &["diff", "last", "last~7"],
            "there are only 1 recorded runs",
        ),
        (
            &["diff", "execution:no", "last"],
            "there is no run `execution:no`",
        ),
        (&["diff", "2026-01-01", "1"], "1"),
    ] {
        let out = lab.said(words);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
    let out = lab
        .esker(&["diff", "1", "2"])
        .env_remove("ESKER_TARGET")
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("ESKER_TARGET"),
        "{out:?}"
    );
}
