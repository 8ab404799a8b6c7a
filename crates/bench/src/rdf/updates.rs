//! Single updates through a server's HTTP interface from several connections, and the latency of concurrent reads.
//!
//! Reads are measured three times: alone, with concurrent connections that send an empty query (`ASK {}`), and with concurrent
//! updates. The second shows the cost of sharing the machine; the cost of updates is the third relative to it. One
//! query reads the
//! predicate that the updates change, the other does not.

use super::RdfBenchArgs;
use super::provenance;
use crate::report::{Figure, FigureTarget, Report, Unit, median};
use crate::scratch::Scratch;
use crate::serve::child::Child;
use anyhow::Context as _;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use serde_json::json;
use std::io::{BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time over which reads are measured without updates.
const ALONE: Duration = Duration::from_secs(3);
/// The reads: their names and queries.
const READS: [(&str, &str); 2] = [
    (
        "read of what changes",
        "PREFIX prov: <http://www.w3.org/ns/prov#> SELECT (COUNT(*) AS ?n) \
         { ?run prov:used ?file . ?file prov:wasGeneratedBy <http://example.org/lab/run/90> }",
    ),
    (
        "read of the rest",
        "PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX lab: <http://example.org/lab/> SELECT (COUNT(*) AS ?n) \
         { ?run lab:comment ?c ; prov:wasAssociatedWith ?who . ?who lab:name ?name }",
    ),
];

/// A persistent HTTP connection.
struct HttpConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl HttpConnection {
    fn open(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Sends a body and waits for the response.
    fn post(&mut self, content_type: &str, body: &str) -> anyhow::Result<()> {
        let mut request = format!(
            "POST /sparql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/{content_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        request.push_str(body);
        self.stream.write_all(request.as_bytes())?;
        self.buffer.clear();
        let mut piece = [0; 4096];
        loop {
            let n = self.stream.read(&mut piece)?;
            anyhow::ensure!(n > 0, "the server closed the connection");
            self.buffer
                .extend_from_slice(piece.get(..n).unwrap_or_default());
            let text = String::from_utf8_lossy(&self.buffer);
            let Some((head, rest)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head
                .lines()
                .find_map(|l| l.strip_prefix("content-length: "))
                .and_then(|l| l.parse::<usize>().ok())
                .context("an answer without its length")?;
            if rest.len() >= length {
                anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "{text}");
                return Ok(());
            }
        }
    }
}

/// Returns the latencies of reads until `done` is set, by query.
fn read(address: &str, done: &AtomicBool) -> anyhow::Result<[Vec<f64>; 2]> {
    let mut line = HttpConnection::open(address)?;
    let mut took = [Vec::new(), Vec::new()];
    while !done.load(Ordering::Acquire) {
        for ((_, query), took) in READS.iter().zip(&mut took) {
            let began = Instant::now();
            line.post("sparql-query", query)?;
            took.push(began.elapsed().as_secs_f64() * 1e3);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(took)
}

/// Runs connections that send requests from `next`, and one that reads, until `next` returns `None`.
fn run_concurrently(
    address: &str,
    clients: u16,
    next: &(dyn Fn() -> Option<(&'static str, String)> + Sync),
) -> anyhow::Result<([Vec<f64>; 2], Duration)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(address, &done));
        let began = Instant::now();
        let writers: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    let mut line = HttpConnection::open(address)?;
                    while let Some((kind, body)) = next() {
                        line.post(kind, &body)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let mut outcome = Ok(());
        for writer in writers {
            let ended = writer
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("a client ended")));
            outcome = outcome.and(ended);
        }
        let took = began.elapsed();
        done.store(true, Ordering::Release);
        let reads = reader
            .join()
            .unwrap_or_else(|_| Err(anyhow::anyhow!("the reader ended")));
        outcome.and(reads).map(|reads| (reads, took))
    })
}

pub(super) fn run(
    args: &RdfBenchArgs,
    updates: u32,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let folder = scratch.cleared_path("updates")?;
    let data = folder.with_extension("nt");
    let mut out = BufWriter::new(std::fs::File::create(&data)?);
    provenance::write(args.runs_of, &mut out)?;
    out.flush()?;
    let loaded = std::process::Command::new(esker_terminal::program::installed("esker")?)
        .args(["rdf", "load", "--quiet"])
        .args([&folder, &data])
        .output()
        .context("loading")?;
    anyhow::ensure!(
        loaded.status.success(),
        "loading: {}",
        String::from_utf8_lossy(&loaded.stderr)
    );
    let server = Child::start(context, &folder)?;
    let target = server.target();
    let address = target.trim_start_matches("esker://").to_owned();
    // The first query opens the data.
    HttpConnection::open(&address)?.post("sparql-query", "ASK {}")?;

    context.note("reads alone");
    let until = Instant::now() + ALONE;
    let (alone, _) = run_concurrently(&address, 1, &|| {
        std::thread::sleep(Duration::from_millis(20));
        (Instant::now() < until).then(|| ("sparql-query", "ASK {}".to_owned()))
    })?;
    context.note("reads beside questions for nothing");
    let until = Instant::now() + ALONE;
    let (shared, _) = run_concurrently(&address, args.clients, &|| {
        (Instant::now() < until).then(|| ("sparql-query", "ASK {}".to_owned()))
    })?;
    context.note("reads beside updates");
    let interrupt = context.interrupt.clone();
    let number = AtomicU32::new(0);
    let cpu = server.cpu_seconds();
    let (busy, took) = run_concurrently(&address, args.clients, &|| {
        let n = number.fetch_add(1, Ordering::Relaxed);
        (n < updates && interrupt.stopped().is_none()).then(|| {
            let body = format!(
                "INSERT DATA {{ <http://example.org/lab/run/{n}> <http://www.w3.org/ns/prov#used> <http://example.org/new/{n}> }}"
            );
            ("sparql-update", body)
        })
    })?;
    let cpu = server.cpu_seconds() - cpu;
    let stopped = interrupt.stopped().is_some();
    let memory = server.memory();
    server.stop()?;

    let mut report = Report::new("rdf updates");
    let done = f64::from(number.load(Ordering::Relaxed).min(updates));
    let rate = done / took.as_secs_f64();
    report.add(
        Figure::new("single updates by HTTP", Unit::CallsPerSecond, rate)
            .target(FigureTarget::AtLeast(10_000.0))
            .note(format!("{} connections", args.clients)),
    );
    report.add(Figure::new(
        "the server's processor time for one, with the reads beside",
        Unit::Micros,
        cpu / done.max(1.0) * 1e6,
    ));
    for (i, (name, _)) in READS.iter().enumerate() {
        let middle = |took: &[Vec<f64>; 2]| median(took[i].clone());
        let (idle, even, slow) = (middle(&alone), middle(&shared), middle(&busy));
        report.add(
            Figure::new(format!("{name}, beside updates"), Unit::Millis, slow)
                .raw(even)
                .target(FigureTarget::Ratio(0.5))
                .note(format!(
                    "raw: beside as many that ask for nothing; alone {idle:.2}; {} reads",
                    busy[i].len()
                )),
        );
    }
    report.add(Figure::new(
        "the server's memory",
        Unit::Bytes,
        memory.now as f64,
    ));
    let settings = json!({
        "runs_of": args.runs_of,
        "updates": updates,
        "clients": args.clients,
    });
    report.print(
        &settings,
        (args.format.format, args.json.as_deref()),
        context,
    )?;
    if stopped {
        context.warn("stopped before the end");
    }
    Ok(Outcome::partly_if(stopped))
}
