//! `esker run`, `log` and `spool`: programs are not affected, and runs are not lost.

use esker_testkit::port::free_port;
use esker_testkit::wait::wait_until;
use serde_json::Value as Json;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder with a database and a spool.
pub(crate) struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn esker(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        command
            .args(words)
            .current_dir(self.dir.path())
            .env("ESKER_TARGET", self.at("lab.esker"))
            .env("ESKER_SPOOL", self.at("spool"))
            .env_remove("SLURM_JOB_ID");
        command
    }

    pub(crate) fn said(&self, words: &[&str]) -> Output {
        self.esker(words).output().unwrap()
    }

    /// Returns the output of `log` as JSON, the latest run first.
    pub(crate) fn log(&self, words: &[&str]) -> Vec<Json> {
        let out = self.said(&[&["log"], words, &["--format", "json"]].concat());
        assert!(out.status.success(), "{out:?}");
        serde_json::from_slice(&out.stdout).unwrap()
    }

    pub(crate) fn get(&self, vertex: &str) -> String {
        let lab = self.at("lab.esker");
        let out = self.said(&["get", lab.to_str().unwrap(), vertex, "--format", "json"]);
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    }
}

#[test]
fn a_program_does_not_notice_and_its_run_is_in_the_graph() {
    let lab = Lab::new();
    fs::write(lab.at("raw.nc"), "raw").unwrap();
    let mut run = lab.esker(&[
        "run",
        "--in",
        "raw.nc",
        "--out",
        "clean.nc",
        "--param",
        "k=3",
        "--tag",
        "campaign=winter",
        "--keep",
        "CASE",
        "--",
        "sh",
        "-c",
        "cat > clean.nc; echo $ESKER_RUN; echo oops >&2; exit 7",
        "--token",
        "abc",
    ]);
    let mut child = run
        .env("CASE", "x")
        .env("OMP_NUM_THREADS", "2")
        .env("MPI_API_TOKEN", "hidden")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"clean").unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(7));
    assert_eq!(out.stderr, b"oops\n");
    assert_eq!(fs::read(lab.at("clean.nc")).unwrap(), b"clean");
    let id = String::from_utf8(out.stdout).unwrap().trim().to_owned();

    let log = lab.log(&["--mine", "--last"]);
    assert_eq!(log.len(), 1);
    assert_eq!(log[0]["run"], format!("execution:{id}"));
    assert_eq!(log[0]["state"], "exit 7");
    assert_eq!(log[0]["name"], "sh");
    let all = lab.get(&format!("execution:{id}"));
    for kept in [
        "k=3",
        "winter",
        "CASE=x",
        "OMP_NUM_THREADS=2",
        "MPI_API_TOKEN=[redacted]",
        "--token [redacted]",
    ] {
        assert!(all.contains(kept), "{kept}: {all}");
    }
    assert!(!all.contains("hidden") && !all.contains("abc"), "{all}");
    let clean = format!(
        "file:{}",
        fs::canonicalize(lab.at("clean.nc")).unwrap().display()
    );
    let target = lab.at("lab.esker");
    let out = lab.said(&["lineage", target.to_str().unwrap(), &clean]);
    let lineage = String::from_utf8(out.stdout).unwrap();
    assert!(
        lineage.contains("raw.nc") && lineage.contains(&id),
        "{lineage}"
    );
    // After delivery the run is no longer in the spool.
    let out = lab.said(&["spool", "deliver", "--format", "json"]);
    let left: Json = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(left[0]["left"], 0, "{left}");
    assert_eq!(lab.log(&["--failed"]).len(), 1);
    assert_eq!(lab.log(&["--since", "2999-01-01"]).len(), 0);
}

#[test]
fn signals_are_the_programs_own() {
    let lab = Lab::new();
    let out = lab.said(&["run", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(out.status.signal(), Some(15), "{out:?}");
    // A signal to the recorder is passed to the program, which decides.
    let mut child = lab
        .esker(&[
            "run",
            "--",
            "sh",
            "-c",
            "trap 'exit 5' TERM; : > ready; while :; do sleep 0.05; done",
        ])
        .spawn()
        .unwrap();
    wait_until("the program does not start", || lab.at("ready").exists());
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let states: Vec<String> = lab
        .log(&[])
        .iter()
        .map(|r| r["state"].as_str().unwrap().into())
        .collect();
    assert_eq!(states, ["exit 5", "signal 15"]);
}

#[test]
fn a_program_that_is_not_there_is_told_as_shells_do() {
    let lab = Lab::new();
    let out = lab.said(&["run", "--", "./no-such-program"]);
    assert_eq!(out.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&out.stderr).contains("`./no-such-program` cannot be started"));
    let log = lab.log(&["--last"]);
    assert!(
        log[0]["state"].as_str().unwrap().starts_with("not started"),
        "{log:?}"
    );
}

#[test]
fn a_run_that_is_killed_is_known_to_have_been() {
    let lab = Lab::new();
    let mut child = lab.esker(&["run", "--", "sleep", "600"]).spawn().unwrap();
    let spool = lab.at("spool");
    let begun = || fs::read_dir(&spool).is_ok_and(|mut d| d.next().is_some());
    wait_until("nothing is in the spool", begun);
    let target = lab.at("lab.esker");
    assert_eq!(lab.log(&[]).len(), 0, "it goes on");
    // The program and its recorder.
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in children.split_whitespace() {
        let _ = Command::new("kill").args(["-KILL", pid]).status();
    }
    let log = lab.log(&[]);
    assert!(
        log[0]["state"].as_str().unwrap().starts_with("killed"),
        "{log:?}"
    );
    assert!(target.exists());
}

#[test]
fn a_database_that_is_away_gets_its_runs_later() {
    let lab = Lab::new();
    let port = free_port();
    let target = format!("esker://127.0.0.1:{port}");
    let out = lab
        .esker(&["run", "--target", &target, "--wait", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("1 run waits for"),
        "{out:?}"
    );
    let out = lab.said(&["spool", "list", "--format", "json"]);
    let list: Json = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&list[0]["state"], &list[0]["target"]),
        (&"waits".into(), &target.as_str().into())
    );
    let mut server = lab
        .esker(&[
            "serve",
            lab.at("served.esker").to_str().unwrap(),
            "--create",
            "--listen",
            &format!("127.0.0.1:{port}"),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it is not delivered", || {
        let out = lab.said(&["spool", "deliver", "--target", &target, "--format", "json"]);
        serde_json::from_slice::<Json>(&out.stdout).is_ok_and(|d| d[0]["delivered"] == 1)
    });
    let out = lab.said(&["log", &target, "--format", "json"]);
    let log: Json = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(log[0]["state"], "done");
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Tasks of a job array record concurrently.
#[test]
fn tasks_that_record_at_once_lose_none() {
    let lab = Lab::new();
    let tasks: usize = std::env::var("ESKER_TASKS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(120);
    std::thread::scope(|scope| {
        for part in 0..8 {
            let lab = &lab;
            scope.spawn(move || {
                for n in (part..tasks).step_by(8) {
                    let task = n.to_string();
                    let out = lab
                        .esker(&["run", "--name", &format!("task {n}"), "--", "true"])
                        .env("SLURM_JOB_ID", (1000 + n).to_string())
                        .env("SLURM_ARRAY_JOB_ID", "999")
                        .env("SLURM_ARRAY_TASK_ID", &task)
                        .output()
                        .unwrap();
                    assert!(out.status.success(), "{out:?}");
                }
            });
        }
    });
    let most = (tasks + 1).to_string();
    wait_until("runs are missing", || {
        lab.log(&["--limit", &most]).len() == tasks
    });
    let target = lab.at("lab.esker");
    let out = lab.said(&[
        "edges",
        target.to_str().unwrap(),
        "job:999",
        "contains",
        "--format",
        "json",
    ]);
    let jobs: Vec<Json> = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(jobs.len(), tasks, "each is a task of the array");
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let lab = Lab::new();
    let out = Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(["run", "--", "touch", "ran"])
        .current_dir(Path::new(&lab.at("")))
        .env_remove("ESKER_TARGET")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("--target"),
        "{out:?}"
    );
    assert!(!lab.at("ran").exists());
    let out = lab.said(&["run", "--param", "k", "--", "touch", "ran"]);
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("expected NAME=VALUE, not `k`"),
        "{out:?}"
    );
    let out = lab.said(&["log", "--user", "nobody-there"]);
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("there is no user `nobody-there`"),
        "{out:?}"
    );
}
