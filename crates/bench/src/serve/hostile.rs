//! One honest client among many hostile ones: its latency for one small query, without and with them, and the server's memory.
//!
//! All are threads of this process under other user ids, which the kernel reports to the server: neither is the
//! owner. Both kinds have a
//! token of role `read`.

use super::child::Child;
use super::start;
use crate::report::{Figure, FigureTarget, Unit};
use crate::timed::Bench;
use anyhow::Context as _;
use esker_access::{Role, grants};
use esker_terminal::exit::usage;
use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// User ids of the clients.
const HONEST: u32 = 65_532;
const HOSTILE: u32 = 65_533;
/// Maximum ratio of the honest client's 99th percentile with hostile clients to the one without.
const RATIO_MAX: f64 = 10.0;
/// Pause of a hostile client before it reconnects.
const PAUSE: Duration = Duration::from_millis(50);
/// Time limit of a response.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time for the hostile clients to start.
const BEGINNING: Duration = Duration::from_secs(2);
const STACK: usize = 256 << 10;
const TOKEN_SECONDS: u64 = 3_600;

/// Changes the user of the calling thread.
fn become_user(user: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// State shared by all threads.
struct SharedState {
    address: String,
    honest: String,
    hostile: String,
    stop: AtomicBool,
    /// Number of connections of hostile clients.
    connected: AtomicU64,
    /// Number of their answered requests.
    answered: AtomicU64,
}

impl SharedState {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_millis(500)))?;
        stream.set_write_timeout(Some(Duration::from_millis(500)))?;
        Ok(stream)
    }
}

/// Behaviour of a hostile client.
#[derive(Clone, Copy)]
enum HostileKind {
    Silent,
    Slow,
    Malformed,
    Maximal,
}

const KINDS: [HostileKind; 4] = [
    HostileKind::Silent,
    HostileKind::Slow,
    HostileKind::Malformed,
    HostileKind::Maximal,
];

/// Waits until the server closes the connection or the test ends.
fn wait_closed(field: &SharedState, mut stream: &TcpStream) {
    let mut bytes = [0; 4_096];
    while !field.stopped() {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

fn hostile(field: &SharedState, kind: HostileKind, number: usize) {
    while !field.stopped() {
        // Failures are retried.
        let _ = attack(field, kind, number);
        std::thread::sleep(PAUSE);
    }
}

fn attack(field: &SharedState, kind: HostileKind, number: usize) -> std::io::Result<()> {
    let mut stream = field.connect()?;
    field.connected.fetch_add(1, Ordering::Relaxed);
    match kind {
        HostileKind::Silent => {
            let begun: [&[u8]; 3] = [b"", b"P", b"\x16\x03\x01"];
            stream.write_all(begun[number % begun.len()])?;
            wait_closed(field, &stream);
        }
        HostileKind::Slow => {
            let head = b"GET /api/v1/schema HTTP/1.1\r\nhost: 127.0.0.1\r\nx-filling: ";
            for byte in head.iter().chain([b'x'; 10_000].iter()) {
                if field.stopped() {
                    break;
                }
                stream.write_all(&[*byte])?;
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        HostileKind::Malformed => {
            let mut bytes = match number % 3 {
                0 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
                1 => b"POST /sparql HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n"
                    .to_vec(),
                _ => Vec::new(),
            };
            let mut state = number as u64 | 1;
            for _ in 0..512 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                bytes.push((state >> 56) as u8);
            }
            stream.write_all(&bytes)?;
            wait_closed(field, &stream);
        }
        HostileKind::Maximal => {
            let query = largest(number);
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(
                stream,
                "POST /sparql HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
                 content-type: application/sparql-query\r\ncontent-length: {}\r\n\r\n{query}",
                field.hostile,
                query.len()
            )?;
            let mut bytes = vec![0; 65_536];
            while !field.stopped() && stream.read(&mut bytes)? > 0 {}
            field.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Returns the numbers below `n`, separated by spaces.
fn numbers(n: usize) -> String {
    let all: Vec<String> = (0..n).map(|n| n.to_string()).collect();
    all.join(" ")
}

/// Returns queries that use all the time and memory they are given.
fn largest(number: usize) -> String {
    match number / KINDS.len() % 3 {
        // Strings that double in length.
        0 => {
            let mut text = "SELECT (STRLEN(?x35) AS ?n) { BIND(\"aaaaaaaaaa\" AS ?x0)".to_owned();
            for n in 1..=35 {
                let _ = write!(text, " BIND(CONCAT(?x{0}, ?x{0}) AS ?x{n})", n - 1);
            }
            text + " }"
        }
        // A product that is materialized.
        1 => {
            let values = numbers(1_000);
            format!(
                "SELECT * {{ VALUES ?a {{{values}}} VALUES ?b {{{values}}} VALUES ?c {{{values}}} }}"
            )
        }
        // A product that is only iterated.
        _ => {
            let values = numbers(1_000);
            format!(
                "SELECT (COUNT(*) AS ?n) {{ VALUES ?a {{{values}}} VALUES ?b {{{values}}} VALUES ?c {{{values}}} FILTER(?a + ?b + ?c = -1) }}"
            )
        }
    }
}

/// The results of the honest client.
struct HonestResult {
    /// Latencies in microseconds, ascending.
    micros: Vec<f64>,
    failures: u64,
}

impl HonestResult {
    fn percentile(&self, part: f64) -> f64 {
        let at = (self.micros.len() as f64 * part) as usize;
        let last = self.micros.len().saturating_sub(1);
        self.micros
            .get(at.min(last))
            .copied()
            .unwrap_or(f64::INFINITY)
    }
}

/// The honest client: sequential queries on one connection, which is reopened after a failure.
fn honest(field: &SharedState, time: Duration) -> HonestResult {
    let mut met = HonestResult {
        micros: Vec::new(),
        failures: 0,
    };
    let until = Instant::now() + time;
    let mut open = None;
    while Instant::now() < until {
        let began = Instant::now();
        if open.is_none() {
            open = field.connect().ok().map(BufReader::new);
        }
        let answered = open
            .as_mut()
            .is_some_and(|stream| query(field, stream).is_ok());
        if answered {
            met.micros.push(began.elapsed().as_secs_f64() * 1e6);
        } else {
            met.failures += 1;
            open = None;
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    met.micros.sort_by(f64::total_cmp);
    met
}

/// Sends one small query and reads its response.
fn query(field: &SharedState, stream: &mut BufReader<TcpStream>) -> std::io::Result<()> {
    let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    stream.get_ref().set_read_timeout(Some(PATIENCE))?;
    let request = format!(
        "GET /api/v1/schema HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\n\r\n",
        field.honest
    );
    stream.get_mut().write_all(request.as_bytes())?;
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200") {
        return Err(wrong());
    }
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(wrong());
        }
        if line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(n) = lower.strip_prefix("content-length:") {
            length = n.trim().parse().map_err(|_| wrong())?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)
}

/// Runs the honest client under its user id.
fn as_honest(field: &SharedState, time: Duration) -> anyhow::Result<HonestResult> {
    std::thread::scope(|scope| {
        let run = scope.spawn(|| -> anyhow::Result<HonestResult> {
            become_user(HONEST).context("becoming another user")?;
            Ok(honest(field, time))
        });
        run.join()
            .map_err(|_| anyhow::anyhow!("the honest client's thread panicked"))?
    })
}

pub(super) fn run(bench: &mut Bench<'_>, clients: usize, seconds: u64) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(usage(
            "the hostile clients are other users of this machine, and only user 0 can make some: run it as that user (in a container, say)"
                .to_owned(),
        ));
    }
    raise_open_files();
    let server: Child = start(bench)?;
    let token = |comment: &str| {
        grants::make_token(&server.folder, &Role::Read.into(), TOKEN_SECONDS, comment)
    };
    let field = Arc::new(SharedState {
        address: server.address().to_owned(),
        honest: token("honest")?,
        hostile: token("hostile")?,
        stop: AtomicBool::new(false),
        connected: AtomicU64::new(0),
        answered: AtomicU64::new(0),
    });
    let time = Duration::from_secs(seconds);
    bench.say("one client, and nobody else");
    // The server reloads permissions twice a second.
    as_honest(&field, Duration::from_secs(1))?;
    let quiet = as_honest(&field, time)?;
    bench.say(&format!("one client beside {clients} hostile ones"));
    let threads = begin(&field, clients)?;
    std::thread::sleep(BEGINNING);
    let loaded = as_honest(&field, time);
    let memory = server.memory();
    field.stop.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    let loaded = loaded?;
    bench.check_interrupt()?;
    report(bench, clients, &quiet, &loaded);
    let note = format!(
        "most {} MiB; hostile clients connected {} times and had {} answers",
        memory.peak >> 20,
        field.connected.load(Ordering::Relaxed),
        field.answered.load(Ordering::Relaxed),
    );
    let settings = esker_server::Settings::default();
    let set = settings.sparql.memory_all_bytes + settings.limits.memory_bytes;
    let set = set as u64 + bench.context.globals.memory;
    let figure = Figure::new("the server's memory", Unit::Bytes, memory.now as f64)
        .target(FigureTarget::AtMost(set as f64))
        .note(note);
    bench.report.add(figure);
    server.stop()
}

fn report(bench: &mut Bench<'_>, clients: usize, quiet: &HonestResult, loaded: &HonestResult) {
    let words = |met: &HonestResult| {
        format!(
            "p50 {:.0} us; {} answers, {} failures",
            met.percentile(0.5),
            met.micros.len(),
            met.failures
        )
    };
    let figure = |name: String, met: &HonestResult| {
        Figure::new(name, Unit::Micros, met.percentile(0.99)).note(words(met))
    };
    bench
        .report
        .add(figure("p99 of one client alone".to_owned(), quiet));
    bench.report.add(figure(
        format!("p99 of one client beside {clients} hostile ones"),
        loaded,
    ));
    let failures = Figure::new(
        "questions of that client that were not answered",
        Unit::Count,
        loaded.failures as f64,
    );
    bench.report.add(failures.target(FigureTarget::AtMost(0.0)));
    let ratio = Figure::new(
        "how many times as long",
        Unit::Count,
        loaded.percentile(0.99) / quiet.percentile(0.99),
    );
    bench
        .report
        .add(ratio.target(FigureTarget::AtMost(RATIO_MAX)));
}

/// Starts the hostile clients.
fn begin(
    field: &Arc<SharedState>,
    clients: usize,
) -> anyhow::Result<Vec<std::thread::JoinHandle<()>>> {
    (0..clients)
        .map(|number| {
            let field = Arc::clone(field);
            let kind = KINDS[number % KINDS.len()];
            std::thread::Builder::new()
                .stack_size(STACK)
                .name("hostile".into())
                .spawn(move || {
                    if become_user(HOSTILE).is_ok() {
                        hostile(&field, kind, number);
                    }
                })
                .context("starting a hostile client")
        })
        .collect()
}

/// Raises the limit of open files: each client needs a descriptor.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If refused, the limit stays.
    let _ = setrlimit(Resource::Nofile, limit);
}
