//! Objects with several processes: collective searches, and imports that are killed.

use crate::processes::{esker, run, text};
use esker_testkit::wait::wait_until;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of objects that are searched.
const OBJECTS: usize = 2_000;

/// Creates a database with these objects and returns their ids.
fn database(folder: &Path) -> BTreeSet<String> {
    let mut csv = String::from("name,step,Conf\n");
    for i in 0..OBJECTS {
        writeln!(csv, "energy,{i},{}", i % 3).unwrap();
    }
    std::fs::write(folder.join("objects.csv"), csv).unwrap();
    let output = run(
        folder,
        &[
            "object",
            "import",
            "lab.esker",
            "objects.csv",
            "--id",
            "name=name,step=step",
        ],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = ids(&run(
        folder,
        &["find", "lab.esker", "--select", "id", "--format", "csv"],
    )
    .stdout);
    assert_eq!(all.len(), OBJECTS);
    all.into_iter().collect()
}

/// Returns the ids in CSV output.
fn ids(csv: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(csv).lines().map(str::to_owned).collect();
    lines.retain(|line| line != "id");
    lines
}

/// Asserts that the shares are non-empty, disjoint and complete.
fn are_shares_of(shares: &[Vec<String>], all: &BTreeSet<String>) {
    let mut union = BTreeSet::new();
    for (rank, share) in shares.iter().enumerate() {
        // About a quarter each.
        let fair = OBJECTS / shares.len();
        assert!(
            share.len() > fair / 2 && share.len() < fair * 2,
            "rank {rank} has {}",
            share.len()
        );
        for id in share {
            assert!(
                union.insert(id.clone()),
                "object {id} came twice, the second time to rank {rank}"
            );
        }
    }
    assert_eq!(&union, all);
}

#[test]
fn processes_share_a_search() {
    let dir = tempfile::tempdir().unwrap();
    let all = database(dir.path());
    let clients: Vec<_> = (0..4)
        .map(|rank| {
            esker(dir.path())
                .args(["find", "lab.esker", "--share", &format!("{rank}/4")])
                .args(["--select", "id", "--format", "csv"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let shares: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let output = client.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            ids(&output.stdout)
        })
        .collect();
    are_shares_of(&shares, &all);
}

#[test]
fn mpi_ranks_share_a_search() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("SKIPPED mpi_ranks_share_a_search: there is no mpirun (make setup installs it)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let all = database(dir.path());
    let output = Command::new("mpirun")
        .current_dir(dir.path())
        .env("HOME", dir.path())
        // Test machines have few cores and may run as root.
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .args(["-n", "4", "--oversubscribe", env!("CARGO_BIN_EXE_esker")])
        .args(["find", "lab.esker", "--collective", "--select", "id"])
        .args(["--output", "share-%r.csv"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shares: Vec<_> = (0..4)
        .map(|rank| ids(&std::fs::read(dir.path().join(format!("share-{rank}.csv"))).unwrap()))
        .collect();
    are_shares_of(&shares, &all);
}

/// Number of rows in the import that is killed.
const ROWS: usize = 30_000;

/// Rows whose names the database refuses, so that their batches are halved down to single rows.
const LONG: [usize; 3] = [700, 9_876, 25_000];
/// Number of rows that create an object.
const GOOD: usize = ROWS - ROWS / 500 - LONG.len();

fn row(i: usize) -> String {
    // Some rows are invalid, some are duplicates.
    match i % 1_000 {
        998 => "{\"step\":1}\n".to_owned(),
        999 => format!("{{\"name\":\"x{}\",\"n\":{i}}}\n", i - 2),
        _ if LONG.contains(&i) => format!("{{\"name\":\"{}\"}}\n", "x".repeat((1 << 20) + 1)),
        _ => format!("{{\"name\":\"x{i}\",\"n\":{i},\"Conf_0\":null}}\n"),
    }
}

#[test]
fn an_import_that_was_killed_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let table: String = (0..ROWS).map(row).collect();
    std::fs::write(dir.path().join("objects.ndjson"), &table).unwrap();
    let import = |file: &str| {
        let mut command = esker(dir.path());
        command
            .args(["object", "import", "lab.esker", file])
            .args(["--input-format", "ndjson", "--id", "name=name,step=:7"])
            .args(["--batch", "500", "--format", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    let count = || {
        let output = run(dir.path(), &["find", "lab.esker", "--count"]);
        text(&output.stdout).trim().parse::<usize>().unwrap_or(0)
    };
    // The import gets two thirds of the rows and is killed while it writes or waits, twice.
    let some: String = (0..ROWS * 2 / 3).map(row).collect();
    for enough in [2_000, 10_000] {
        let mut child = import("-").stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(some.as_bytes()).unwrap();
        wait_until("the import does not go on", || count() >= enough);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let before = count();

    let output = import("objects.ndjson").output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    // The invalid records make the exit code 1.
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    let sums: Vec<usize> = out
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect();
    let &[records, created, updated, skipped, known, bad] = sums.as_slice() else {
        panic!("{out}");
    };
    assert_eq!(records, ROWS, "{out}{err}");
    assert_eq!((updated, skipped), (0, 0), "{out}{err}");
    assert_eq!(created + before, GOOD, "{out}{err}");
    // Rows written by the first runs are recognized: none is reported as an existing object.
    assert!(known >= before, "{known} of {before}: {out}{err}");
    for line in err.lines().filter(|l| l.contains("there is an object")) {
        let (_, name) = line.split_once("name `x").unwrap();
        let number = name.split('`').next().unwrap();
        assert!(
            number.ends_with("997"),
            "only rows that are there twice: {line}"
        );
    }
    assert_eq!(bad + known + created, ROWS);
    assert_eq!(count(), GOOD);
}
