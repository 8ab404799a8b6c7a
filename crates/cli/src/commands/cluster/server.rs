//! `esker cluster server`: runs one server of a cluster until it is stopped.

use super::failover::Failover;
use super::{io_failure, stop_exit_code};
use crate::args::ClusterServerArgs;
use crate::commands::serve::log_to_stderr;
use esker::Database;
use esker_cluster::ServerId;
use esker_server::{ClusterConfig, Server};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between checks for signals.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Opens the database folder of a server.
pub(super) fn open(
    config: &ClusterConfig,
    id: ServerId,
    memory: u64,
    context: &Context,
) -> esker_model::Result<Database> {
    let folder = config.folder(id);
    let folder = folder.to_string_lossy();
    let whole = format!(
        "`{folder}` is a part of cluster `{}`, and process {} has it open: use esker://{}",
        config.name,
        std::process::id(),
        config.address(id)
    );
    let options = context
        .open_options()
        .memory_bytes(memory)
        .durability(config.durability)
        .create(true)
        .part_of(&whole);
    let options = match config.window(id)? {
        Some(window) => options.window(window),
        None => options,
    };
    let database = options.open(&folder)?;
    // The number of servers may have changed before this process opened the folder.
    config.claim_storage()?;
    Ok(database)
}

/// Returns a flag that is set once the parent process has ended, if this process is to end with it.
pub(super) fn orphaned(args: &ClusterServerArgs) -> anyhow::Result<Arc<AtomicBool>> {
    let orphaned = Arc::new(AtomicBool::new(false));
    if args.until_stdin_ends {
        let orphaned = Arc::clone(&orphaned);
        std::thread::Builder::new()
            .name("esker-parent".into())
            .spawn(move || {
                // Stdin never has data; the read returns when the parent's end of the pipe is closed.
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                orphaned.store(true, Ordering::Release);
            })
            .map_err(|e| io_failure("starting a thread", e))?;
    }
    Ok(orphaned)
}

pub(super) fn run(args: &ClusterServerArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let config = ClusterConfig::from_file(&args.file)?;
    if config.etcd.is_some() {
        return super::membership::server::run(args, &config, context);
    }
    let Some(number) = args.id else {
        return Err(usage(format!(
            "the servers of cluster `{}` are named in its file: say which one this is with --id N",
            config.name
        )));
    };
    let id = ServerId(number);
    if number as usize >= config.servers.len() {
        return Err(usage(format!(
            "there is no server {number} in cluster `{}`: its {} servers are numbered from 0",
            config.name,
            config.servers.len()
        )));
    }
    log_to_stderr(args.log, args.log_format, context);
    config.claim_storage()?;
    let memory = config.memory_bytes.unwrap_or(context.globals.memory);
    let database = open(&config, id, memory, context)?;
    let server = Server::start_in(database, &config, number)?;
    tracing::info!(
        address = %server.address(),
        cluster = config.name,
        server = id.0,
        pid = std::process::id(),
        "listening"
    );
    let orphaned = orphaned(args)?;
    let mut failover = Failover::new(&config, id, memory);
    let failure = loop {
        failover.check_next(&server, context);
        if context.interrupt.stopped().is_some()
            || orphaned.load(Ordering::Acquire)
            || server.stop_request().is_some()
        {
            break None;
        }
        if let Some(why) = server.failure().or_else(|| failover.failure()) {
            break Some(why);
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    tracing::info!("stopping: calls in progress are completed; a second signal ends them at once");
    let asked = stop_exit_code(server.stop_request(), args.until_stdin_ends);
    let whole = failover.stop()? & server.stop()?;
    if let Some(why) = failure {
        return Err(anyhow::anyhow!("{id} cannot serve: {why}"));
    }
    if whole {
        tracing::info!("stopped");
    } else {
        tracing::warn!("stopped; some calls took longer than the drain time and were cut off");
    }
    Ok(asked.map_or(Outcome::partly_if(!whole), Outcome::Program))
}
