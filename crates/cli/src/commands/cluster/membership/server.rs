//! `esker cluster server` of a cluster whose servers move.

use super::super::server::{POLL_INTERVAL, orphaned};
use super::super::stop_exit_code;
use crate::args::ClusterServerArgs;
use crate::commands::serve::log_to_stderr;
use esker_server::{ClusterConfig, Member};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use std::sync::atomic::Ordering;

pub(in super::super) fn run(
    args: &ClusterServerArgs,
    config: &ClusterConfig,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let listen = match (&args.listen, args.id) {
        (Some(listen), _) => listen.clone(),
        (None, id) => {
            let id = id.unwrap_or(u32::MAX) as usize;
            let named = config.servers.get(id).cloned();
            named.ok_or_else(|| {
                usage(format!(
                    "the file names {} servers, from 0: give one of them with --id, or any address with --listen HOST:PORT",
                    config.servers.len()
                ))
            })?
        }
    };
    log_to_stderr(args.log, args.log_format, context);
    let memory = config.memory_bytes.unwrap_or(context.globals.memory);
    let member = Member::start(config, &listen, &context.open_options(), memory)?;
    tracing::info!(
        address = %member.address(),
        cluster = config.name,
        pid = std::process::id(),
        "listening"
    );
    let orphaned = orphaned(args)?;
    while context.interrupt.stopped().is_none()
        && !orphaned.load(Ordering::Acquire)
        && member.stop_request().is_none()
    {
        std::thread::sleep(POLL_INTERVAL);
    }
    tracing::info!("stopping: stores go to the others; a second signal ends it at once");
    let asked = stop_exit_code(member.stop_request(), args.until_stdin_ends);
    let whole = member.stop();
    if whole {
        tracing::info!("stopped");
    } else {
        tracing::warn!(
            "stopped; not all stores were given back: others take them when the lease ends"
        );
    }
    Ok(asked.map_or(Outcome::partly_if(!whole), Outcome::Program))
}
