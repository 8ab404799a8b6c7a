//! SIGKILL of the real `esker`: all acknowledged writes are present afterwards, and `check` finds no errors.
//!
//! A shell gets numbered commands and is killed at some time; its output until then are the acknowledged commands.
//! `ESKER_KILLS=200` kills more often.

use crate::cluster::wait_for_count;
use esker_testkit::rng::Rng;
use esker_testkit::run::seeds;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn esker(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command
        .current_dir(folder)
        .env("HOME", folder)
        .args(args)
        .stdin(Stdio::null());
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    esker(folder, args).output().unwrap()
}

fn good(folder: &Path, args: &[&str]) -> String {
    let output = run(folder, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "esker {args:?}: {errors}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// `check` reads everything and finds no errors.
fn check(folder: &Path) {
    let report = good(folder, &["check", "lab.esker", "--format", "json"]);
    assert!(
        report.contains("\"complete\": true") && report.contains("\"problems_total\": 0"),
        "{report}"
    );
}

/// Returns the numbers of the files that job 1 wrote, from the database.
fn stored(folder: &Path) -> BTreeSet<usize> {
    let rows = good(
        folder,
        &["edges", "lab.esker", "job:1", "--format", "ndjson"],
    );
    let numbers: Vec<usize> = rows
        .lines()
        .filter_map(|l| l.split("file:/").nth(1))
        .filter_map(|l| l.split('"').next()?.parse().ok())
        .collect();
    let distinct: BTreeSet<usize> = numbers.iter().copied().collect();
    assert_eq!(distinct.len(), numbers.len(), "an edge is there twice");
    distinct
}

/// Sends a shell commands from `next` on and kills it some time after `enough` acknowledgements; returns the
/// acknowledged numbers and the
/// first number not sent.
fn write_and_die(
    folder: &Path,
    durability: &str,
    next: usize,
    enough: u64,
    then: Duration,
) -> (Vec<usize>, usize) {
    let mut shell = esker(folder, &["shell", "lab.esker", "--durability", durability])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    let output = BufReader::new(shell.stdout.take().unwrap());
    let feeder = std::thread::spawn(move || {
        let mut n = next;
        // The loop ends when the pipe closes.
        while writeln!(input, "link --create job:1 write file:/{n} bytes={n}").is_ok() {
            n += 1;
        }
        n
    });
    let heard = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let lines = output.lines().map_while(Result::ok);
            let acknowledged = lines.filter_map(|l| {
                heard.fetch_add(1, Ordering::Relaxed);
                // A truncated line is not an acknowledgement.
                let rest = l
                    .strip_prefix("linked ")
                    .and_then(|r| r.split("file:/").nth(1)?.split_once(' '));
                rest.and_then(|(n, _)| n.parse().ok())
            });
            acknowledged.collect::<Vec<usize>>()
        });
        wait_for_count(&heard, enough);
        std::thread::sleep(then);
        shell.kill().unwrap();
        shell.wait().unwrap();
        let next = feeder.join().unwrap();
        (reader.join().unwrap(), next)
    })
}

fn killed_writers(durability: &str, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    good(folder, &["init", "lab.esker"]);
    good(folder, &["put", "lab.esker", "job:1"]);
    let mut rng = Rng::new(seed);
    let mut acknowledged: BTreeSet<usize> = BTreeSet::new();
    let mut next = 0;
    let mut kills = 0;
    for _ in seeds("ESKER_KILLS", 15) {
        let enough = 10 + rng.number_below(50) as u64;
        let then = Duration::from_micros(rng.number_below(100_000) as u64);
        let (answers, end) = write_and_die(folder, durability, next, enough, then);
        next = end;
        kills += 1;
        acknowledged.extend(answers);
        check(folder);
        let there = stored(folder);
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(
            lost.is_empty(),
            "kill {kills}, {durability}: acknowledged and lost: {lost:?}"
        );
        let unheard = there.difference(&acknowledged).count();
        // The acknowledgement of the last command, and unread output in the pipe, may be lost.
        assert!(
            unheard <= 64 * kills,
            "kill {kills}: {unheard} that were never acknowledged"
        );
        let top = good(folder, &["top", "lab.esker", "--format", "ndjson"]);
        let degree = format!("\"degree\":{}}}", there.len());
        assert!(
            there.is_empty()
                || top
                    .lines()
                    .next()
                    .is_some_and(|l| l.replace(' ', "").contains(&degree)),
            "{top}"
        );
    }
    eprintln!(
        "{kills} kills, {durability}: {} acknowledged, all there",
        acknowledged.len()
    );
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
}

#[test]
fn a_relaxed_writer_is_killed() {
    killed_writers("relaxed", 1);
}

#[test]
fn a_synced_writer_is_killed() {
    killed_writers("sync", 2);
}

/// A killed import leaves a consistent database; repeating the import completes it.
#[test]
fn an_import_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let edges = 60_000;
    let mut csv = String::from("source,type,destination\n");
    for n in 0..edges {
        writeln!(csv, "job:1,write,file:/{n}").unwrap();
    }
    std::fs::write(folder.join("edges.csv"), csv).unwrap();
    good(folder, &["init", "lab.esker"]);
    good(folder, &["put", "lab.esker", "job:1"]);
    let import = ["import", "edges", "lab.esker", "edges.csv"];
    let mut rng = Rng::new(3);
    let mut partial = 0;
    let mut before = 0;
    for _ in seeds("ESKER_KILLS", 8) {
        let mut child = esker(folder, &import)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(rng.number_below(1500) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        check(folder);
        let now = stored(folder).len();
        assert!(now >= before, "{now} of {before} are left");
        partial += u32::from(now > 0 && now < edges);
        before = now;
    }
    good(folder, &import);
    check(folder);
    assert_eq!(stored(folder).len(), edges);
    eprintln!("{partial} kills left a part of the import");
}
