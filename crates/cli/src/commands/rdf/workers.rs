//! `esker rdf worker`, and queries over workers.

use super::on_large_stack;
use super::sparql::{print, refused};
use crate::args::{RdfWorkerArgs, SparqlArgs};
use crate::commands::serve::announce;
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::units;
use esker::rdf::now_and_seed;
use esker_rdf::{Graphs, Options};
use esker_rdf_workers::{Coordinator, Error, Listener, Secret, Settings, WorkerData};
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Prefix of a target that names workers.
pub(super) const SCHEME: &str = "workers://";

/// Maximum size of a secret's file, in bytes.
const SECRET_FILE_MAX: u64 = 64 << 10;

/// Interval between checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn worker(args: &RdfWorkerArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let secret = secret(args.secret_file.as_deref())?;
    let address = listen(&args.listen)?;
    if !address.ip().is_loopback() && !secret.is_some() {
        return Err(usage(format!(
            "--listen: other machines can reach {address}, and anyone who does may query it; give a secret with --secret-file, or listen on 127.0.0.1"
        )));
    }
    let began = Instant::now();
    let database = context.open_options().create(false).open(&args.folder)?;
    let rdf = database.rdf()?;
    let Some(part) = rdf.part()? else {
        return Err(usage(format!(
            "`{}` holds no part of RDF data: load one with `esker rdf load {} FILE --part K/N`; all of the data is served by \
             `esker serve`",
            args.folder, args.folder
        )));
    };
    let mut held = WorkerData::new(Arc::new(rdf.data().clone()), part);
    held.memory = memory(context);
    held.threads = args.threads.map_or_else(esker::rdf::threads, usize::from);
    let quads = held.data.len() as u64;
    let opened = began.elapsed();
    // The query parser recurses for nested brackets, so threads need large stacks.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("worker")
        .thread_stack_size(super::STACK)
        .build()?;
    let interrupt = context.interrupt.clone();
    let end = async move {
        while interrupt.stopped().is_none() {
            tokio::time::sleep(SIGNAL_INTERVAL).await;
        }
    };
    runtime.block_on(async {
        let listener = Listener::bind(address)
            .await
            .map_err(|e| usage(format!("--listen: {address}: {e}")))?;
        let at = listener.address().to_string();
        context.note(&format!(
            "part {part}, {}, opened in {opened:.2?}: answering at {at}",
            units::counted(quads, "quad", "quads")
        ));
        if let Some(file) = &args.port_file {
            announce(file, &at)?;
        }
        listener
            .serve(held, secret, end)
            .await
            .map_err(|e| anyhow::anyhow!("{e}"))
    })?;
    // Queries of clients that have disconnected are not waited for.
    runtime.shutdown_background();
    if let Some(file) = &args.port_file {
        let _ = std::fs::remove_file(file);
    }
    Ok(Outcome::Done)
}

pub(super) fn sparql(
    args: &SparqlArgs,
    text: &str,
    graphs: Option<&Graphs>,
    addresses: &str,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    if args.update {
        return Err(usage(
            "workers answer queries only: load what is new into the folders of the parts (`esker rdf load --part`), and start \
             the workers again",
        ));
    }
    if args.principal.principal.is_some() {
        return Err(usage(
            "--as: RDF data in parts has no owner and no metadata graph; ask without it",
        ));
    }
    let addresses: Vec<String> = addresses
        .trim_end_matches('/')
        .split(',')
        .map(|a| a.trim().to_owned())
        .collect();
    let interrupt = context.interrupt.clone();
    let stop = move || interrupt.stopped().map(crate::interrupt::Stopped::name);
    let memory = memory(context);
    let settings = Settings {
        secret: secret(args.secret_file.as_deref())?,
        memory,
        ..Settings::default()
    };
    let query =
        on_large_stack(|| esker_rdf::syntax::query(text, None).map_err(|e| refused(text, e)))?;
    let began = Instant::now();
    let coordinator =
        Coordinator::connect(&addresses, settings).map_err(|e| worker_error(text, e))?;
    let connected = began.elapsed();
    let mut out = Vec::new();
    let style = context.style;
    let times = on_large_stack(|| {
        let started = Instant::now();
        let prepared = coordinator
            .prepare(&query, graphs, args.explain, &stop)
            .map_err(|e| worker_error(text, e))?;
        if args.explain {
            for line in &prepared.notes {
                writeln!(out, "{line}")?;
            }
            return Ok((started.elapsed(), started.elapsed(), 0, 0));
        }
        let solved = started.elapsed();
        let rows: usize = prepared.input_bindings.iter().map(|g| g.rows.len()).sum();
        let (now, seed) = now_and_seed();
        let mut options = Options::new(now, seed);
        options.threads = esker::rdf::threads();
        options.memory = memory;
        options.stop = &stop;
        options.input_bindings = &prepared.input_bindings;
        let answer = esker_rdf::query_parsed(
            &prepared.data,
            text,
            &prepared.query,
            graphs,
            false,
            &options,
        )
        .map_err(|e| refused(text, e))?;
        print(&answer, args.format, style, &mut out)?;
        Ok((solved, started.elapsed(), rows, answer.len()))
    })?;
    context.out.write_all(&out)?;
    if args.profile && !args.explain {
        let (solved, all, given, rows) = times;
        let quads: u64 = coordinator.workers().iter().map(|w| w.1.quads).sum();
        context.note(&format!(
            "{} with {}, asked in {connected:.2?}; they gave {} in {solved:.2?}; answered and written in {:.2?}; {}",
            units::counted(addresses.len() as u64, "worker", "workers"),
            units::counted(quads, "quad", "quads"),
            units::counted(given as u64, "row", "rows"),
            all.saturating_sub(solved),
            units::counted(rows as u64, "row", "rows"),
        ));
    }
    Ok(Outcome::Done)
}

/// Returns the error of a command for a worker's error.
fn worker_error(text: &str, e: Error) -> anyhow::Error {
    match e {
        Error::Query(e) => refused(text, e),
        Error::Parts(_) => usage(e.to_string()),
        e => anyhow::anyhow!("{e}"),
    }
}

fn memory(context: &Context) -> usize {
    usize::try_from(context.globals.memory)
        .unwrap_or(usize::MAX)
        .max(4 << 30)
}

/// Reads the secret from the first line of a file.
fn secret(file: Option<&Path>) -> anyhow::Result<Secret> {
    let Some(file) = file else {
        return Ok(Secret::default());
    };
    let name = file.display();
    let unread = |e| usage(format!("--secret-file: reading `{name}`: {e}"));
    let mut open = std::fs::File::open(file).map_err(unread)?;
    let mode = open.metadata().map_err(unread)?.mode();
    if mode & 0o077 != 0 {
        return Err(usage(format!(
            "--secret-file: others can read `{name}` (mode {:o}), so it is not secret: run `chmod \
             600 {name}`, and put another secret into it",
            mode & 0o7777
        )));
    }
    let mut text = String::new();
    let mut limited = std::io::Read::take(&mut open, SECRET_FILE_MAX);
    std::io::Read::read_to_string(&mut limited, &mut text).map_err(unread)?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        return Err(usage(format!(
            "--secret-file: the first line of `{name}` is empty"
        )));
    }
    Secret::new(line).map_err(|e| usage(format!("--secret-file: `{name}`: {e}")))
}

/// Parses HOST:PORT.
fn listen(text: &str) -> anyhow::Result<SocketAddr> {
    let wrong = |e: &str| {
        usage(format!(
            "--listen: `{text}`: {e}; expected HOST:PORT, as in 127.0.0.1:7611"
        ))
    };
    text.to_socket_addrs()
        .map_err(|e| wrong(&e.to_string()))?
        .next()
        .ok_or_else(|| wrong("no such host"))
}
