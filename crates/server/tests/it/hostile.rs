//! Clients that try to exhaust the server's resources.

use crate::common::{Served, filled, settings};
use esker_model::GraphRead as _;
use esker_rpc::proto;
use esker_server::Settings;
use esker_server::settings::{Limits, Sparql};
use esker_testkit::wait::{HANG, wait_until};
use prost::Message as _;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const VARIABLE: &str = "ESKER_TEST_HOSTILE";
const HELD: &str = "#held";
/// Connections of one child process, which may have 1,024 open files.
const EACH: usize = 600;
const NOBODY: u32 = 65_534;

/// Run in a child process, not a test: opens many connections, sends one byte on each, and keeps them open until its input ends.
#[test]
#[allow(clippy::print_stdout, reason = "a child speaks to its parent so")]
fn a_child_holds_connections() {
    let Ok(address) = std::env::var(VARIABLE) else {
        return;
    };
    let mut all = Vec::new();
    for _ in 0..EACH {
        if let Ok(mut stream) = TcpStream::connect(&address) {
            let _ = stream.write_all(b"P");
            all.push(stream);
        }
    }
    println!("{HELD}");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Starts a child process of another user that has opened its connections; `None` if this process cannot change users.
fn holding(folder: &Path, at: SocketAddr) -> Option<Child> {
    if !is_root() {
        eprintln!("skipped: only user 0 can start processes of others");
        return None;
    }
    // The build folder may be inaccessible to other users.
    let copy = folder.join("child");
    if !copy.exists() {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    }
    let mut child = Command::new(copy)
        .args([
            "--exact",
            "hostile::a_child_holds_connections",
            "--nocapture",
        ])
        .env(VARIABLE, at.to_string())
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    let held = said.map_while(Result::ok).any(|line| line.contains(HELD));
    assert!(held, "the child has not connected");
    Some(child)
}

fn is_root() -> bool {
    esker_access::peer::own_user() == 0
}

/// Sends a POST request; returns the complete answer.
fn post(served: &Served, path: &str, header: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(served.server.address()).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads until the server closes the connection, and answers its pings.
fn closes(mut stream: TcpStream, http2: bool) {
    stream.set_read_timeout(Some(HANG)).unwrap();
    let began = Instant::now();
    let mut bytes = Vec::new();
    let mut piece = [0; 4_096];
    loop {
        // Pings on a connection that is kept open never end.
        assert!(
            began.elapsed() < HANG,
            "a connection on which nothing was asked is open still"
        );
        match stream.read(&mut piece) {
            Ok(0) => return,
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
        while http2 && bytes.len() >= 9 {
            let length =
                usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
            if bytes.len() < 9 + length {
                break;
            }
            let mut frame: Vec<u8> = bytes.drain(..9 + length).collect();
            // Acknowledge settings and pings.
            if matches!(frame[3], 4 | 6) && frame[4] & 1 == 0 {
                frame[4] = 1;
                if frame[3] == 4 {
                    frame.truncate(9);
                    frame[..3].fill(0);
                }
                let _ = stream.write_all(&frame);
            }
        }
    }
}

/// Another user opens 1,200 connections and sends one byte on each.
#[test]
fn the_owner_is_answered_despite_a_thousand_one_byte_connections() {
    let served = Served::start(settings());
    drop(filled(&served));
    let folder = tempfile::tempdir().unwrap();
    let at = served.server.address();
    let Some(mut first) = holding(folder.path(), at) else {
        return;
    };
    let mut second = holding(folder.path(), at).unwrap();
    assert!(served.open().counts().is_ok());
    let (status, _, body) = served.http("GET", "/api/v1/schema", "");
    assert_eq!(status, 200, "{body}");
    // Few of them stay open.
    let (_, _, metrics) = served.http("GET", "/metrics", "");
    let open = metrics
        .lines()
        .find_map(|l| l.strip_prefix("esker_connections "));
    let open: usize = open.unwrap().parse().unwrap();
    assert!(open <= 300, "{open}");
    for child in [&mut first, &mut second] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A connection without a valid request is closed: after one byte of the HTTP/2 preface, and after a complete one.
#[test]
fn silence_is_not_waited_for() {
    let served = Served::start(settings());
    let at = served.server.address();
    let say = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let preface = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
    ]
    .concat();
    let waits = [
        (say(b"P"), false),
        (say(&preface[..20]), false),
        (say(&preface), true),
        // An incomplete TLS handshake.
        (say(&[22, 3, 1]), false),
    ]
    .map(|(stream, http2)| std::thread::spawn(move || closes(stream, http2)));
    for wait in waits {
        wait.join().unwrap();
    }
}

/// Strings that double until they exceed any memory, and queries that together need more memory than is allowed.
#[test]
fn queries_have_the_memory_that_is_set() {
    let served = Served::start(Settings {
        sparql: Sparql {
            memory_bytes: 200 << 20,
            memory_all_bytes: 100 << 20,
            ..Sparql::default()
        },
        ..settings()
    });
    drop(filled(&served));
    let ask = |query: &str| {
        let kind = "content-type: application/sparql-query";
        let answer = post(&served, "/sparql", kind, query.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    };
    let mut doubled = "SELECT (STRLEN(?x35) AS ?n) { BIND(\"aaaaaaaaaa\" AS ?x0)".to_owned();
    for n in 1..=35 {
        let _ = write!(doubled, " BIND(CONCAT(?x{0}, ?x{0}) AS ?x{n})", n - 1);
    }
    let (status, _, body) = ask(&(doubled + " }"));
    assert_eq!(status, 400, "{body}");
    assert!(
        body.contains("a string of more than 16777216 bytes") || body.contains("more memory"),
        "{body}"
    );
    // Less than one query may use, and more than all may use.
    let values: Vec<String> = (0..4_000).map(|n| n.to_string()).collect();
    let values = values.join(" ");
    let product = format!(
        "SELECT ?a ?b ?c {{ VALUES ?a {{{values}}} VALUES ?b {{{values}}} VALUES ?c {{ 1 }} }}"
    );
    let (status, head, body) = ask(&product);
    assert_eq!(status, 429, "{body}");
    assert!(body.contains("sparql.memory_all"), "{body}");
    assert!(head.to_ascii_lowercase().contains("retry-after"), "{head}");
    let (status, _, body) = ask("ASK {}");
    assert_eq!(status, 200, "{body}");
}

/// A client that repeatedly fails to prove a key is delayed; a key with rights still works.
#[test]
fn failed_proofs_are_answered_ever_later() {
    let served = Served::start(settings());
    let key = || {
        esker_access::HostKey::generate()
            .unwrap()
            .public()
            .to_openssh()
            .unwrap()
    };
    let show = |key: &str| {
        let request = proto::ProveRequest {
            keys: vec![key.to_owned()],
            ..Default::default()
        };
        let kind = "content-type: application/x-protobuf";
        post(&served, "/api/v1/prove", kind, &request.encode_to_vec())
    };
    let said = show(&key());
    assert!(said.contains("no presented key gives access"), "{said}");
    let hindered = (0..50).any(|_| show(&key()).contains("failed to prove who it is too often"));
    assert!(hindered, "50 failures are answered as one is");
    let ann = esker_access::HostKey::generate().unwrap();
    let terms = esker_access::authorized::Terms {
        role: Some(esker_access::Role::Read),
        ..Default::default()
    };
    esker_access::grants::grant(&served.folder(), ann.public(), &terms).unwrap();
    // The server checks its access files twice a second.
    wait_until("the key that was granted has no rights", || {
        !show(&ann.public().to_openssh().unwrap()).contains("too often")
    });
    let said = show(&ann.public().to_openssh().unwrap());
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    // The owner's processes need no proof.
    assert!(served.open().counts().is_ok());
}

/// A client's queries leave threads for other clients, and have a time limit.
#[test]
fn limits_are_on_by_default() {
    let settings = Settings::default();
    assert_eq!(settings.limits.time, Some(Duration::from_mins(5)));
    assert_eq!(settings.sparql.each * 2, settings.sparql.threads);
    assert!(settings.sparql.memory_bytes <= settings.sparql.memory_all_bytes);
    let limits = Limits::default();
    assert!(limits.connections_each <= limits.connections);
}
