//! `esker site serve`: runs a tier of the site cache until it is stopped.

use crate::args::SiteServeArgs;
use crate::commands::serve::log_to_stderr;
use esker_model::Error;
use esker_site::serve::RunningTier;
use esker_site::{Config, TierAddress};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::program::announce;
use std::time::Duration;

/// Interval between checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn run(args: &SiteServeArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let mut config = match &args.file {
        Some(file) => Config::from_file(file)?,
        None => Config::default(),
    };
    if let Some(listen) = &args.listen {
        config.listen.clone_from(listen);
    }
    if let Some(parents) = &args.parents {
        for parent in parents {
            TierAddress::parse(parent).map_err(usage)?;
        }
        config.parents.clone_from(parents);
    }
    if let Some(allow) = &args.allow {
        config.rules.allow.clone_from(allow);
    }
    log_to_stderr(args.log, args.log_format, context);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("esker-site")
        .enable_all()
        .build()
        .map_err(|e| Error::io("starting the tier's threads", e))?;
    let standing = runtime
        .block_on(RunningTier::start(config))
        .map_err(|e| Error::io("starting the tier", e))?;
    let config = &standing.config;
    let above = match config.parents.as_slice() {
        [] if config.rules.allow.is_empty() && config.pool.is_none() => {
            tracing::warn!(
                "this tier asks no origins yet: say which ones with --allow, or [origins] allow in its file"
            );
            String::new()
        }
        [] => config.rules.allow.join(" "),
        parents => parents.join(" "),
    };
    tracing::info!(
        url = standing.url,
        name = config.name,
        above,
        pid = std::process::id(),
        "serving"
    );
    if let Some(file) = &args.port_file {
        announce(file, standing.url.trim_start_matches("http://"))?;
    }
    while context.interrupt.stopped().is_none() {
        std::thread::sleep(SIGNAL_INTERVAL);
    }
    tracing::info!("stopping");
    runtime.block_on(standing.stop());
    if let Some(file) = &args.port_file {
        let _ = std::fs::remove_file(file);
    }
    runtime.shutdown_timeout(Duration::from_secs(3));
    tracing::info!("stopped");
    Ok(Outcome::Done)
}
