//! Spools that servers empty, and unusable spools: on a full disk, in an impossible folder.

use crate::runs::Lab;
use esker_testkit::wait::wait_until;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that watches a spool; killed on drop.
pub(crate) struct Server {
    pub(crate) child: Child,
    address: String,
}

impl Server {
    pub(crate) fn start(lab: &Lab, spool: &Path) -> Self {
        let port = lab.at("port");
        let _ = fs::remove_file(&port);
        let child = lab
            .esker(&[
                "serve",
                "served.esker",
                "--create",
                "--listen",
                "127.0.0.1:0",
                "--port-file",
                "port",
                "--spool",
            ])
            .arg(spool)
            .stdout(Stdio::null())
            .stderr(fs::File::create(lab.at("server.log")).unwrap())
            .spawn()
            .unwrap();
        wait_until("the server does not start", || port.exists());
        let address = fs::read_to_string(&port).unwrap().trim().to_owned();
        Self { child, address }
    }

    pub(crate) fn target(&self) -> String {
        format!("esker://{}", self.address)
    }

    /// Returns one of the server's counters.
    pub(crate) fn counts(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        let line = all
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn done(spool: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(spool).unwrap().map(|e| e.unwrap().path());
    entries
        .filter(|p| p.extension().is_some_and(|e| e == "done"))
        .collect()
}

/// Tasks of a job array on many nodes know no server, and no server runs while most of them do.
#[test]
fn a_server_takes_in_what_tasks_leave() {
    let lab = Lab::new();
    let tasks: usize = std::env::var("ESKER_TASKS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(300);
    let spool = lab.at("shared");
    let run = |n: usize| {
        let out = lab
            .esker(&[
                "run",
                "--leave",
                "--spool",
                "shared",
                "--name",
                &format!("task {n}"),
                "--",
                "true",
            ])
            .env_remove("ESKER_TARGET")
            .env("SLURM_JOB_ID", (1000 + n).to_string())
            .env("SLURM_ARRAY_JOB_ID", "999")
            .env("SLURM_ARRAY_TASK_ID", n.to_string())
            .output()
            .unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    };
    run(0);
    let kept = done(&spool).pop().unwrap();
    let copy = fs::read(&kept).unwrap();
    let server = Server::start(&lab, &spool);
    std::thread::scope(|scope| {
        for part in 0..16 {
            let run = &run;
            scope.spawn(move || (1..tasks).filter(|n| n % 16 == part).for_each(run));
        }
    });
    wait_until("runs are missing", || {
        server.counts("esker_spool_runs_total") >= tasks as u64
    });
    assert!(done(&spool).is_empty());
    let target = server.target();
    let most = (tasks + 10).to_string();
    let log = lab.log(&[&target, "--limit", &most]);
    assert_eq!(log.len(), tasks);
    // A duplicate of the run, a torn one, and one that names another user.
    fs::write(&kept, &copy).unwrap();
    fs::write(spool.join("torn.done"), &copy[..40]).unwrap();
    wait_until("it is not moved aside", || {
        server.counts("esker_spool_aside_total") == 1
    });
    wait_until("it does not go", || done(&spool).is_empty());
    assert!(spool.join("aside/torn.done").exists());
    assert_eq!(
        lab.log(&[&target, "--limit", &most]).len(),
        tasks,
        "twice is once"
    );
    let said = fs::read_to_string(lab.at("server.log")).unwrap();
    assert!(said.contains("moved aside"), "{said}");
    let out = lab.said(&[
        "edges", &target, "job:999", "contains", "--format", "ndjson",
    ]);
    assert_eq!(
        String::from_utf8(out.stdout).unwrap().lines().count(),
        tasks
    );
}

#[test]
fn a_run_without_a_database_waits_for_a_command_with_one() {
    let lab = Lab::new();
    let out = lab
        .esker(&["run", "--leave", "--", "true"])
        .env_remove("ESKER_TARGET")
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let out = lab
        .esker(&["spool", "deliver"])
        .env_remove("ESKER_TARGET")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("names no database"),
        "{out:?}"
    );
    assert_eq!(lab.log(&[])[0]["state"], "done", "`esker log` brings it");
}

/// `esker run` returns before its run is delivered: a command that reads provenance delivers it first.
#[test]
fn a_command_that_asks_for_provenance_delivers_first() {
    let lab = Lab::new();
    let leave = |name: &str, words: &[&str]| {
        let out = lab.at(name);
        let out = out.to_str().unwrap();
        let (command, with) = (["run", "--leave", "--name", "made"], ["--out", out]);
        let program = ["--", "touch", out];
        lab.said(&[&command[..], words, &with, &program].concat());
        format!("file:{out}")
    };
    lab.said(&["init", "lab.esker"]);
    let unnamed = lab
        .esker(&["run", "--leave", "--", "true"])
        .env_remove("ESKER_TARGET")
        .output()
        .unwrap();
    assert!(unnamed.status.success(), "{unnamed:?}");
    for (name, words) in [
        ("a", &["lineage", "lab.esker", "FILE"][..]),
        ("b", &["impact", "lab.esker", "FILE"]),
        ("c", &["export", "prov", "lab.esker", "-", "FILE"]),
        ("d", &["export", "ro-crate", "lab.esker", "FILE", "-"]),
    ] {
        let file = leave(name, &[]);
        let words: Vec<&str> = words
            .iter()
            .map(|w| if *w == "FILE" { file.as_str() } else { w })
            .collect();
        let out = lab.said(&words);
        let answer = String::from_utf8_lossy(&out.stdout);
        assert!(
            answer.contains("touch") || name == "b",
            "{words:?}: {answer}"
        );
        assert!(out.status.success(), "{out:?}");
    }
    leave("e", &["--param", "k=1"]);
    leave("e", &["--param", "k=2"]);
    let out = lab.said(&["diff", "lab.esker", "last~1", "last"]);
    let answer = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && answer.contains('k'), "{out:?}");
    let left = done(&lab.at("spool"));
    assert_eq!(left.len(), 1, "only what names no database stays: {left:?}");
}

/// A file system of 64 KiB, unmounted on drop.
struct SmallFileSystem(PathBuf);

impl SmallFileSystem {
    /// Returns `None` if only root may mount and this is not root.
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let out = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "none"])
            .arg(at)
            .output()
            .unwrap();
        if !out.status.success() {
            eprintln!("skipped: no small file system can be mounted: {out:?}");
            return None;
        }
        Some(Self(at.to_owned()))
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Records a run that takes more than a page.
fn large(lab: &Lab, words: &[&str]) -> std::process::Output {
    let value = format!("text={}", "x".repeat(9000));
    let begin = ["run", "--spool", "small/spool", "--param", &value];
    lab.said(&[&begin, words].concat())
}

#[test]
fn on_a_full_disk_runs_go_straight_to_the_database() {
    let lab = Lab::new();
    let Some(small) = SmallFileSystem::mount(&lab.at("small")) else {
        return;
    };
    small.fill();
    let out = large(
        &lab,
        &["--name", "full", "--", "sh", "-c", "echo well; exit 3"],
    );
    assert_eq!(
        (out.status.code(), out.stdout.as_slice()),
        (Some(3), &b"well\n"[..])
    );
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        said.contains("No space left") && said.contains("was recorded directly in"),
        "{said}"
    );
    assert_eq!(lab.log(&["--last"])[0]["state"], "exit 3");
    // The beginning of the run is in the database while it runs.
    let mut child = lab
        .esker(&[
            "run",
            "--spool",
            "small/spool",
            "--name",
            "long",
            "--",
            "sh",
            "-c",
            "while [ ! -e go ]; do sleep 0.05; done",
        ])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("its beginning is not recorded", || {
        let log = lab.log(&["--limit", "9"]);
        log.iter()
            .any(|r| r["name"] == "long" && r["state"] == "runs")
    });
    fs::write(lab.at("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(lab.log(&["--last"])[0]["state"], "done");
}

#[test]
fn a_disk_that_fills_up_meanwhile_loses_no_end() {
    let lab = Lab::new();
    let Some(_small) = SmallFileSystem::mount(&lab.at("small")) else {
        return;
    };
    let script = "cat /dev/zero > small/filler 2>/dev/null; exit 4";
    let out = large(&lab, &["--", "sh", "-c", script]);
    assert_eq!(out.status.code(), Some(4));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        said.contains("cannot be written any more") && said.contains("was recorded directly in"),
        "{said}"
    );
    assert_eq!(lab.log(&["--last"])[0]["state"], "exit 4");
    let left = fs::read_dir(lab.at("small/spool")).unwrap().count();
    assert_eq!(left, 0, "nothing is left that would be delivered again");
}

#[test]
fn what_is_lost_is_told_where_no_database_is_either() {
    let lab = Lab::new();
    fs::write(lab.at("file"), "").unwrap();
    let record = |spool: &str, target: &str| {
        let out = lab.said(&[
            "run",
            "--spool",
            spool,
            "--target",
            target,
            "--",
            "sh",
            "-c",
            "echo well; exit 3",
        ]);
        assert_eq!(
            (out.status.code(), out.stdout.as_slice()),
            (Some(3), &b"well\n"[..])
        );
        String::from_utf8(out.stderr).unwrap()
    };
    // Both fail: both are named.
    let said = record("file/spool", "esker://127.0.0.1:1");
    assert!(
        said.contains("this run is not recorded")
            && said.contains("file/spool")
            && said.contains("127.0.0.1:1"),
        "{said}"
    );
    // The spool accepts the run, though its database is gone.
    let said = record("spool", "esker://127.0.0.1:1");
    assert!(said.is_empty(), "{said}");
    let out = lab.said(&["spool", "list", "--format", "json"]);
    assert!(String::from_utf8(out.stdout).unwrap().contains("waits"));
    // An impossible spool: the database accepts the run.
    let target = lab.at("lab.esker");
    let said = record("file/spool", target.to_str().unwrap());
    assert!(said.contains("was recorded directly in"), "{said}");
    assert_eq!(lab.log(&["--last"])[0]["state"], "exit 3");
}

#[test]
fn a_user_without_a_home_has_a_spool_all_the_same() {
    let lab = Lab::new();
    let spool = lab.at(&format!(
        "esker-spool-{}",
        rustix::process::getuid().as_raw()
    ));
    let out = lab
        .esker(&["run", "--leave", "--", "true"])
        .env_remove("ESKER_SPOOL")
        .env_remove("XDG_STATE_HOME")
        .env("HOME", "/nonexistent")
        .env("TMPDIR", lab.at(""))
        .output()
        .unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    assert_eq!(done(&spool).len(), 1);
    assert!(!Path::new("/nonexistent").exists());
}
