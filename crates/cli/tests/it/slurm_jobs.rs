//! Jobs reported by a real Slurm through its plug-in jobcomp/elasticsearch, and `esker import sacct` of tables.

use crate::slurm::Slurm;
use esker_testkit::port::free_port;
use esker_testkit::wait::{eventually, wait_until};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn esker(words: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(words)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{words:?}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

/// A server, killed on drop.
struct Server(Child);

impl Server {
    fn start(database: &Path, port: u16) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_esker"))
            .arg("serve")
            .arg(database)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self(child);
        eventually(|| std::net::TcpStream::connect(("127.0.0.1", port)));
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns all jobs that have a state, by number.
fn jobs(target: &str) -> BTreeMap<String, Json> {
    let told = esker(&[
        "export",
        "vertices",
        target,
        "-",
        "--type",
        "Job",
        "--output-format",
        "ndjson",
    ]);
    let rows = told
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    rows.filter(|row| row["user"]["state"]["value"].is_string())
        .map(|row| {
            let id = row["attributes"]["jobid"].as_str().unwrap().to_owned();
            (id, row)
        })
        .collect()
}

/// A hundred jobs, half of them while the server is down: each is a vertex with its final state and its script.
#[test]
fn every_job_that_ends_becomes_a_vertex() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("lab.esker");
    let port = free_port();
    let conf = format!(
        "JobCompType=jobcomp/elasticsearch\nJobCompLoc=http://127.0.0.1:{port}/ingest/slurm/_doc\nSchedulerParameters=sched_interval=1\n"
    );
    esker(&["init", database.to_str().unwrap()]);
    let server = Server::start(&database, port);
    let slurm = Slurm::start_with(dir.path(), 2, 23, &conf);

    // The expected state and script of each job, by number.
    let mut wanted: BTreeMap<String, (&str, String)> = BTreeMap::new();
    let mut submit = |n: u32| {
        let (state, code, words): (&str, u32, &[&str]) = match n % 10 {
            3 | 7 => ("FAILED", 3, &[]),
            5 => ("CANCELLED", 0, &["--hold"]),
            _ => ("COMPLETED", 0, &[]),
        };
        let script = format!("#!/bin/sh\n# number {n}\nexport API_TOKEN=key{n}\nexit {code}\n");
        let file = dir.path().join(format!("job{n}.sh"));
        fs::write(&file, &script).unwrap();
        let mut all = vec!["--parsable", "-N1", "-o", "/dev/null"];
        all.extend(words);
        all.push(file.to_str().unwrap());
        let out = slurm.run("sbatch", &all);
        assert!(out.status.success(), "{out:?}");
        let id = String::from_utf8(out.stdout).unwrap().trim().to_owned();
        if state == "CANCELLED" {
            assert!(slurm.run("scancel", &[&id]).status.success());
        }
        wanted.insert(
            id,
            (state, script.replace(&format!("key{n}"), "[redacted]")),
        );
    };
    (0..50).for_each(&mut submit);
    // The server is down for a while: the plug-in keeps unsent reports.
    drop(server);
    (50..100).for_each(&mut submit);
    wait_until("jobs do not end", || {
        slurm.run("squeue", &["--noheader"]).stdout.is_empty()
    });
    let server = Server::start(&database, port);
    let target = format!("esker://127.0.0.1:{port}");
    let found = eventually(|| {
        let found = jobs(&target);
        if found.len() >= wanted.len() {
            return Ok(found);
        }
        let log = fs::read_to_string(dir.path().join("slurm/controller.log")).unwrap_or_default();
        Err(format!("{} jobs are there: {log}", found.len()))
    });
    assert_eq!(wanted.len(), 100);
    assert!(found.keys().eq(wanted.keys()), "{:?}", found.keys());
    for (id, (state, script)) in &wanted {
        let job = &found[id]["user"];
        let text = |name: &str| job[name]["value"].as_str().map(str::trim_end);
        assert_eq!(text("state"), Some(*state), "{job}");
        assert_eq!(text("script"), Some(script.trim_end()), "{job}");
        assert!(job["submit"]["value"].is_object(), "{job}");
    }
    // The job's user is a vertex, by number.
    let one = wanted.keys().next().unwrap();
    let user = esker(&["edges", &target, &format!("job:{one}"), "wasRunBy"]);
    assert!(user.contains("user:"), "{user}");
    drop(server);
}

#[test]
fn tables_of_sacct_are_imported_once() {
    let dir = tempfile::tempdir().unwrap();
    let (database, file) = (dir.path().join("lab.esker"), dir.path().join("jobs.txt"));
    let database = database.to_str().unwrap();
    fs::write(
        &file,
        "JobID|JobIDRaw|JobName|User|UID|State|ExitCode|Submit|Start|End|NodeList|SubmitLine|Tomorrow\n\
         77|77|wrf|ada|1000|COMPLETED|0:0|2026-03-01T11:59:00|2026-03-01T12:00:00|2026-03-01T12:00:30|n1|sbatch --token=abc wrf.sh|x\n\
         77.0|77.0|wrf.exe|||COMPLETED|0:0|2026-03-01T12:00:01|2026-03-01T12:00:01|2026-03-01T12:00:29|n1||\n\
         nonsense\n",
    )
    .unwrap();
    let import = || {
        let out = Command::new(env!("CARGO_BIN_EXE_esker"))
            .args([
                "import",
                "sacct",
                database,
                file.to_str().unwrap(),
                "--zone",
                "UTC",
                "--format",
                "json",
            ])
            .output()
            .unwrap();
        assert_eq!(
            out.status.code(),
            Some(1),
            "a bad line is told by the exit code"
        );
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(
            said.contains("line 4: 1 cells, and the heading has 13"),
            "{said}"
        );
        serde_json::from_slice::<Json>(&out.stdout).unwrap()
    };
    let first = import();
    assert_eq!(
        (&first["jobs"], &first["steps"], &first["bad"]),
        (&1.into(), &1.into(), &1.into())
    );
    assert_eq!(first["vertices_created"], 3);
    let again = import();
    assert_eq!(
        (&again["vertices_created"], &again["edges_created"]),
        (&0.into(), &0.into())
    );
    let shown = esker(&["get", database, "job:77", "--format", "json"]);
    assert!(
        shown.contains("sbatch --token=[redacted] wrf.sh"),
        "{shown}"
    );
    assert!(shown.contains("tomorrow"), "{shown}");
    // The job ran until its end.
    let then = esker(&[
        "get",
        database,
        "job:77",
        "--as-of",
        "2026-03-01T12:00:10Z",
        "--format",
        "json",
    ]);
    assert!(
        !then.contains("COMPLETED") && then.contains("wrf"),
        "{then}"
    );
    let steps = esker(&["edges", database, "job:77", "contains"]);
    assert!(steps.contains("process:slurm/77.0"), "{steps}");
}
