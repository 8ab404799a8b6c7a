//! Servers as processes: started, queried, overloaded, killed, stopped.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::cluster::wait_for_more;
use esker::{Database, OpenOptions};
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile};
use esker_model::{
    Batch, EdgeSelect, GraphRead as _, GraphWrite as _, Op, Properties, Version, Versions,
    VertexId, VertexRef,
};
use esker_testkit::signal::signal;
use esker_testkit::wait::{HANG, eventually, wait_until};
use std::ops::ControlFlow;

/// A server on the folder `lab.esker`.
pub(crate) struct Served {
    child: Child,
    address: String,
}

pub(crate) fn esker(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null());
    command
}

pub(crate) fn run(folder: &Path, args: &[&str]) -> Output {
    esker(folder).args(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the address in a server's port file, once it listens.
pub(crate) fn address_in(port_file: &Path, child: &mut Child) -> String {
    eventually(|| {
        if let Ok(address) = std::fs::read_to_string(port_file) {
            return Ok(address.trim().to_owned());
        }
        if child.try_wait().unwrap().is_some() {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                stderr.read_to_string(&mut said).unwrap();
            }
            panic!("it ended at once: {said}");
        }
        Err("it does not start")
    })
}

/// Opens a client that waits without limit until a server is back.
pub(crate) fn patient(target: &str) -> Database {
    let target = format!("{target}?timeout={}s", HANG.as_secs());
    OpenOptions::new().open(&target).unwrap()
}

impl Served {
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        Self::start_at(folder, "127.0.0.1:0", args)
    }

    fn start_at(folder: &Path, listen: &str, args: &[&str]) -> Self {
        let port_file = folder.join("port");
        let _ = std::fs::remove_file(&port_file);
        let mut child = esker(folder)
            .args([
                "serve",
                "lab.esker",
                "--create",
                "--quiet",
                "--memory",
                "32MiB",
            ])
            .args(["--listen", listen, "--port-file", "port"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let address = address_in(&port_file, &mut child);
        Self { child, address }
    }

    pub(crate) fn target(&self) -> String {
        format!("esker://{}", self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn open(&self) -> Database {
        patient(&self.target())
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for the end; returns the exit code, if any, and the output.
    fn end(mut self) -> (Option<i32>, String) {
        let status = eventually(|| self.child.try_wait().unwrap().ok_or("it does not end"));
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (status.code(), said)
    }

    fn stop(self) {
        self.signal("TERM");
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
    }

    /// Sends a request over HTTP/1.1; returns the status and the complete response.
    fn http(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!(
            "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn vertex(database: &Database, name: &str) -> VertexRef {
    let schema = database.schema().unwrap();
    let name = esker_model::VertexName::parse(name).unwrap();
    name.resolve(&schema).unwrap()
}

/// Builds a batch that creates a file and a job that has written it.
pub(crate) fn written(database: &Database, job: &str, file: &str) -> Batch {
    let schema = database.schema().unwrap();
    let (source, destination) = (
        vertex(database, &format!("job:{job}")),
        vertex(database, &format!("file:{file}")),
    );
    let mut batch = Batch::new();
    batch.push(Op::EnsureVertex {
        vertex: source,
        key: job.into(),
    });
    batch.push(Op::EnsureVertex {
        vertex: destination,
        key: file.into(),
    });
    batch.push(Op::PutEdge {
        source,
        edge_type: schema.edge_type_id("write").unwrap(),
        destination,
        properties: Properties::new().with("bytes", 1),
    });
    batch
}

/// Returns the vertices of the files that a job wrote.
pub(crate) fn files_of(database: &Database, job: &str) -> Vec<VertexId> {
    let schema = database.schema().unwrap();
    let select = EdgeSelect {
        types: vec![schema.edge_type_id("write").unwrap()],
        versions: Versions::NOW,
        properties: true,
        after: None,
    };
    let mut files = Vec::new();
    let from = vertex(database, &format!("job:{job}")).id;
    database
        .scan_edges(&[from], &select, &mut |_, edge| {
            files.push(edge.key.destination);
            ControlFlow::Continue(())
        })
        .unwrap();
    files
}

/// A second server takes over a released folder, and local commands go through the process that has it open.
#[test]
fn a_served_folder_is_usable_on_its_own_machine() {
    let dir = tempfile::tempdir().unwrap();
    let server = Served::start(dir.path(), &[]);
    let put = run(dir.path(), &["put", "lab.esker", "user:1", "name=ada"]);
    assert!(put.status.success(), "{}", text(&put.stderr));
    let got = run(
        dir.path(),
        &["get", &server.target(), "user:1", "--format", "ndjson"],
    );
    assert!(text(&got.stdout).contains("ada"), "{}", text(&got.stderr));

    let second = run(
        dir.path(),
        &["serve", "lab.esker", "--listen", "127.0.0.1:0"],
    );
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stderr).contains("a server must be the one that opens it first"),
        "{}",
        text(&second.stderr)
    );
    server.stop();
    let again = Served::start(dir.path(), &[]);
    let got = run(
        dir.path(),
        &["get", &again.target(), "user:1", "--format", "ndjson"],
    );
    assert!(text(&got.stdout).contains("ada"));
    again.stop();
}

/// Writers continue while the server is stopped cleanly. Acknowledged batches are present afterwards; the others wait
/// for the next
/// server at the same port and are applied once.
#[test]
fn a_stop_under_load_loses_nothing() {
    under_load("TERM");
}

/// With a killed server: connections are not closed cleanly, and answers are lost.
#[test]
fn a_kill_under_load_applies_each_batch_once() {
    under_load("KILL");
}

fn under_load(signal: &str) {
    let dir = tempfile::tempdir().unwrap();
    let first = Served::start(dir.path(), &["--drain", "5s"]);
    let (address, target) = (first.address.clone(), first.target());
    let mut held = Some(first);
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let counted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (stop, acknowledged, counted, target) = (&stop, &acknowledged, &counted, &target);
            scope.spawn(move || {
                let database = patient(target);
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let batch = written(&database, &format!("{thread}"), &format!("/{thread}/{n}"));
                    let commit = database.apply(batch).unwrap();
                    assert!(commit.applied, "each batch is told as applied");
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                    counted.fetch_add(commit.edges_created, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..3 {
            wait_for_more(&acknowledged, 40);
            let server = held.take().unwrap();
            server.signal(signal);
            let (code, said) = server.end();
            assert_eq!(code, (signal == "TERM").then_some(0), "{said}");
            held = Some(Served::start_at(dir.path(), &address, &[]));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let server = held.unwrap();
    let database = server.open();
    let all: u64 = (0..4)
        .map(|t| files_of(&database, &format!("{t}")).len() as u64)
        .sum();
    assert_eq!(all, acknowledged.load(Ordering::Relaxed));
    // Only an answer that was lost with its counts can make the sum smaller.
    assert!(counted.load(Ordering::Relaxed) <= all);
    if signal == "TERM" {
        assert_eq!(counted.load(Ordering::Relaxed), all);
    }
    for thread in 0..4 {
        let file = vertex(&database, &format!("file:/{thread}/0"));
        let history = database
            .vertex_history(file.id, esker_model::VersionRange::ALL)
            .unwrap();
        assert_eq!(history.len(), 1, "{history:?}");
    }
    drop(database);
    server.stop();
}

/// A change is not applied again, and its answer is the first one: no directory exists before it is created.
#[test]
fn a_kill_under_load_makes_each_directory_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = Served::start(dir.path(), &[]);
    let (address, target) = (first.address.clone(), first.target());
    let mut held = Some(first);
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let path = |text: String| NamePath::parse(text.as_bytes()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (stop, acknowledged, target) = (&stop, &acknowledged, &target);
            scope.spawn(move || {
                let database = patient(target);
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (from, to) = (
                        path(format!("/{thread}-{n}")),
                        path(format!("/{thread}.{n}")),
                    );
                    let make = Change::Create(from.clone(), NewFile::new(0o4_0755, 0, 0));
                    let rename = Change::Rename {
                        from,
                        to,
                        no_replace: true,
                    };
                    for change in [make, rename] {
                        let done = database.change(None, &[change]).unwrap().remove(0);
                        assert!(done.is_ok(), "{done:?}");
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..4 {
            wait_for_more(&acknowledged, 200);
            let server = held.take().unwrap();
            server.signal("KILL");
            server.end();
            held = Some(Served::start_at(dir.path(), &address, &[]));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let server = held.unwrap();
    let usage = server.open().usage(None, &path("/".into()), false).unwrap();
    assert_eq!(usage.directories * 2, acknowledged.load(Ordering::Relaxed));
    server.stop();
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Served::start(dir.path(), &["--drain", "1h"]);
    // An unfinished request delays the first stop.
    let mut slow = TcpStream::connect(&server.address).unwrap();
    let head = "POST /api/v1/travel HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    server.signal("INT");
    std::thread::sleep(Duration::from_millis(50));
    server.signal("INT");
    let (code, said) = server.end();
    // The first signal may have been enough: no request was in progress.
    assert!(matches!(code, Some(0 | 130)), "{code:?} {said}");
}

/// With little memory, many concurrent clients are refused, retry, and are all served in the end. Afterwards a single call works
/// normally.
#[test]
fn overload_sheds_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("server.toml"),
        "[limits]\nwaiting = 2\n[threads]\nreaders = 1\nscanners = 1\n",
    )
    .unwrap();
    let server = Served::start(dir.path(), &["--config", "server.toml"]);
    let database = server.open();
    for n in 0..50 {
        database
            .apply(written(&database, "0", &format!("/{n}")))
            .unwrap();
    }
    let figure = |name: &str| -> f64 {
        let (status, metrics) = server.http("GET /metrics", "");
        assert_eq!(status, 200);
        let line = metrics.lines().find_map(|l| l.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}"))
            .trim()
            .parse()
            .unwrap()
    };
    let crowd = || {
        std::thread::scope(|scope| {
            for _ in 0..24 {
                let database = server.open();
                scope.spawn(move || {
                    for _ in 0..20 {
                        assert_eq!(files_of(&database, "0").len(), 50);
                    }
                });
            }
        });
    };
    // On a busy machine the clients may run one after the other.
    wait_until("nobody was turned away", || {
        crowd();
        figure("esker_shed_total ") > 0.0
    });
    // A call is counted as finished shortly after its answer.
    wait_until("something is under way still", || {
        figure("esker_in_flight ") < 0.5 && figure("esker_memory_bytes ") < 0.5
    });
    assert_eq!(files_of(&database, "0").len(), 50);
    drop(database);
    server.stop();
}

/// A listener that never answers.
#[test]
fn a_silent_server_is_given_up_with_words() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let target = format!("esker://{address}?timeout=300ms");
    let output = run(dir.path(), &["get", &target, "user:1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("accepts connections but did not greet within 300 ms"),
        "{said}"
    );
    drop(listener);
}

/// A server that hangs (here by SIGSTOP) is abandoned, and used again once it continues.
#[test]
fn a_server_that_falls_silent_is_given_up_with_words() {
    let dir = tempfile::tempdir().unwrap();
    let server = Served::start(dir.path(), &[]);
    let target = format!("{}?timeout=400ms", server.target());
    let database = eventually(|| {
        let database = OpenOptions::new().open(&target)?;
        database.apply(written(&database, "1", "/a"))?;
        Ok::<_, esker_model::Error>(database)
    });
    server.signal("STOP");
    // The signal takes some time to arrive.
    let e = eventually(|| {
        let read = database.read_vertices(&[], Version::MAX);
        read.err().ok_or("it answers still")
    });
    assert!(
        e.to_string().contains("did not answer within 400 ms"),
        "{e}"
    );
    server.signal("CONT");
    eventually(|| database.read_vertices(&[], Version::MAX));
    drop(database);
    server.stop();
}

#[test]
fn a_server_other_than_esker_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut bytes = [0; 64];
            let _ = stream.read(&mut bytes);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let target = format!("esker://{address}?timeout=20s");
    let output = run(dir.path(), &["get", &target, "user:1"]);
    let said = text(&output.stderr);
    // Either the answer or the closed connection may be reported.
    let told = ["not as an Esker server", "is that an Esker server"];
    assert!(told.iter().any(|t| said.contains(t)), "{said}");
}

#[test]
fn a_bad_configuration_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("server.toml"), "[limits]\nconections = 3\n").unwrap();
    let output = run(
        dir.path(),
        &["serve", "lab.esker", "--create", "--config", "server.toml"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: server.toml:2:1: unknown key `limits.conections`; did you mean `limits.connections`?\n"
    );
    assert!(!dir.path().join("lab.esker").exists());
    let server = Served::start(dir.path(), &[]);
    let output = run(
        dir.path(),
        &[
            "serve",
            "other.esker",
            "--create",
            "--listen",
            &server.address,
        ],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains(&format!("listening at `{}`", server.address)),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn logs_are_json_where_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let port_file = dir.path().join("port");
    let mut child = esker(dir.path())
        .args(["serve", "lab.esker", "--create", "--log-format", "json"])
        .args(["--listen", "127.0.0.1:0", "--port-file", "port"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    address_in(&port_file, &mut child);
    let id = child.id().to_string();
    Command::new("kill").arg(&id).status().unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    let lines: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["message"], "serving");
    assert_eq!(lines[0]["level"], "INFO");
    assert_eq!(lines.last().unwrap()["message"], "stopped");
    assert!(!port_file.exists(), "the address is gone with the server");
}
