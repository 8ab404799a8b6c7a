//! One user's single searches beside another user's many: how many times as long they take, with fair shares and without.
//!
//! Both clients have a token of role `read`, each for another user, and search over HTTP. The searches are equal and read all objects.

use super::child::Child;
use crate::report::{Figure, FigureTarget, Unit, median};
use crate::timed::Bench;
use anyhow::Context as _;
use esker::Database;
use esker_access::Role;
use esker_access::grants;
use esker_access::token::TokenRights;
use esker_model::object::Identity;
use esker_model::{Batch, GraphWrite as _, Op, Properties};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Objects that each search reads.
const OBJECTS: usize = 200_000;
/// Objects in one batch.
const BATCH: usize = 2_000;
/// Maximum ratio of the light user's median beside the heavy one to that alone.
const RATIO_MAX: f64 = 3.0;
/// Time limit of a response.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time for the heavy user's clients to start, and for the server to see new tokens.
const BEGINNING: Duration = Duration::from_secs(2);
const TOKEN_SECONDS: u64 = 3_600;
/// The search: its condition has no index.
const PATH: &str = "/api/v1/find?count=true&filter=note%20LIKE%20%27%25x99%25%27";

/// A connection of a user.
struct UserConnection {
    stream: BufReader<TcpStream>,
    request: String,
}

impl UserConnection {
    fn open(address: &str, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // A foreign host name, so that the user of this process does not authenticate the request.
        let request = format!(
            "GET {PATH} HTTP/1.1\r\nhost: elsewhere\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        Ok(Self {
            stream: BufReader::new(stream),
            request,
        })
    }

    /// Sends one search and reads its answer; returns whether the server accepted it.
    fn search(&mut self) -> anyhow::Result<bool> {
        self.stream.get_mut().write_all(self.request.as_bytes())?;
        let (mut line, mut length) = (String::new(), 0);
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).unwrap_or_default().to_owned();
        loop {
            line.clear();
            anyhow::ensure!(self.stream.read_line(&mut line)? > 0, "the answer ended");
            if line == "\r\n" {
                break;
            }
            if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = n.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let text = String::from_utf8_lossy(&body);
        anyhow::ensure!(matches!(&*status, "200" | "429"), "{status}: {text}");
        Ok(status == "200")
    }
}

/// Creates the objects.
fn fill(database: &Database) -> anyhow::Result<()> {
    for first in (0..OBJECTS).step_by(BATCH) {
        let mut batch = Batch::new();
        for n in first..first + BATCH {
            batch.push(Op::CreateObject {
                identity: Identity {
                    name: format!("object {n}"),
                    app: String::new(),
                    owner: 1_001,
                    step: 0,
                },
                attributes: Properties::new(),
                tags: Properties::new().with("note", format!("a note x{n} of some length")),
            });
        }
        database.apply(batch)?;
    }
    Ok(())
}

/// Latencies of sequential searches, in milliseconds.
fn light(address: &str, token: &str, time: Duration) -> anyhow::Result<Vec<f64>> {
    let mut connection = UserConnection::open(address, token)?;
    let mut millis = Vec::new();
    let until = Instant::now() + time;
    while Instant::now() < until {
        let began = Instant::now();
        anyhow::ensure!(connection.search()?, "the light user was turned away");
        millis.push(began.elapsed().as_secs_f64() * 1e3);
    }
    anyhow::ensure!(!millis.is_empty(), "no search was answered in time");
    millis.sort_by(f64::total_cmp);
    Ok(millis)
}

/// Results of one server.
struct FairResult {
    alone: Vec<f64>,
    beside: Vec<f64>,
    /// The heavy user's searches in a second, and those that were refused.
    heavy: f64,
    refused: u64,
}

fn measure(
    bench: &Bench<'_>,
    fair: bool,
    clients: usize,
    time: Duration,
) -> anyhow::Result<FairResult> {
    let folder = bench.scratch.cleared_path("served")?;
    let config = folder.with_extension("toml");
    std::fs::write(&config, format!("[shares]\nfair = {fair}\n"))?;
    let server = Child::configured(bench.context, &folder, &config)?;
    let database = bench.context.open_options().open(&server.target())?;
    fill(&database)?;
    let token = |user: &str| -> anyhow::Result<String> {
        let rights = TokenRights::new(Role::Read, Some(user)).map_err(anyhow::Error::msg)?;
        Ok(grants::make_token(
            &server.folder,
            &rights,
            TOKEN_SECONDS,
            "fair",
        )?)
    };
    let (one, many) = (token("1001")?, token("1002")?);
    std::thread::sleep(BEGINNING);
    let address = server.address();
    light(address, &one, Duration::from_secs(1))?;
    let alone = light(address, &one, time)?;
    let (stop, done, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (beside, heavy) = std::thread::scope(|scope| -> anyhow::Result<_> {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    let mut connection = UserConnection::open(address, &many)?;
                    while !stop.load(Ordering::Relaxed) {
                        if connection.search()? {
                            done.fetch_add(1, Ordering::Relaxed);
                        } else {
                            refused.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(Duration::from_millis(10));
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(BEGINNING);
        let (began, before) = (Instant::now(), done.load(Ordering::Relaxed));
        let beside = light(address, &one, time);
        let count = done.load(Ordering::Relaxed) - before;
        let heavy = count as f64 / began.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let ended = thread.join();
            ended.map_err(|_| anyhow::anyhow!("a client's thread panicked"))??;
        }
        Ok((beside?, heavy))
    })?;
    drop(database);
    server.stop().context("stopping the server")?;
    Ok(FairResult {
        alone,
        beside,
        heavy,
        refused: refused.into_inner(),
    })
}

pub(super) fn run(bench: &mut Bench<'_>, clients: usize, seconds: u64) -> anyhow::Result<()> {
    let time = Duration::from_secs(seconds);
    for fair in [true, false] {
        let shares = if fair {
            "fair shares"
        } else {
            "turns by requests"
        };
        bench.say(&format!(
            "one user beside {clients} searches of another: {shares}"
        ));
        let found = measure(bench, fair, clients, time)?;
        bench.check_interrupt()?;
        let words = |millis: &[f64]| {
            let at = (millis.len() as f64 * 0.99) as usize;
            let last = millis.get(at.min(millis.len() - 1)).copied();
            format!("p99 {:.1} ms of {}", last.unwrap_or_default(), millis.len())
        };
        let (alone, beside) = (median(found.alone.clone()), median(found.beside.clone()));
        let figure =
            |name: String, value, words| Figure::new(name, Unit::Millis, value).note(words);
        bench.report.add(figure(
            format!("one search alone, {shares}"),
            alone,
            words(&found.alone),
        ));
        let others = format!(
            "{}; the other user: {:.0} searches/s, {} refused",
            words(&found.beside),
            found.heavy,
            found.refused
        );
        bench.report.add(figure(
            format!("one search beside {clients} of another user, {shares}"),
            beside,
            others,
        ));
        let ratio = Figure::new(
            format!("how many times as long, {shares}"),
            Unit::Count,
            beside / alone,
        );
        bench.report.add(if fair {
            ratio.target(FigureTarget::AtMost(RATIO_MAX))
        } else {
            ratio
        });
    }
    Ok(())
}
