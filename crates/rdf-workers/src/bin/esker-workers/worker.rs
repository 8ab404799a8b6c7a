//! `esker rdf worker`: serves one part of RDF data.

use crate::args::RdfWorkerArgs;
use crate::{memory, secret};
use esker_rdf_workers::{Listener, WorkerData};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::program::announce;
use esker_terminal::units;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &RdfWorkerArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let secret = secret::read(args.secret_file.as_deref())?;
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
        .thread_stack_size(esker::rdf::STACK)
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
