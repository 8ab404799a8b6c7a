//! `esker serve`: this process owns a database and answers on the network until it is told to stop.

use crate::args::{LogFormat, ServeArgs};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use esker::rdf::Services;
use esker::rpc::Address;
use esker_model::Error;
use esker_server::settings::Tls;
use esker_server::{Server, Settings};
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// How often the signals are looked at.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &ServeArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if Address::is_address(&args.folder) {
        return Err(usage(format!(
            "`{}` is a server already; `serve` takes the folder of a database",
            args.folder
        )));
    }
    let settings = settings(args)?;
    log_to_stderr(args.log, args.log_format, context);
    let scheme = if settings.tls.is_some() {
        "esker+tls"
    } else {
        "esker"
    };
    let database = context
        .open_options()
        .create(args.create)
        .open(&args.folder)?;
    let server = Server::start(database, settings)?;
    let address = server.address();
    let http = if scheme == "esker" { "http" } else { "https" };
    let sparql = format!("{http}://{address}/sparql");
    let host_key = server.host_key();
    tracing::info!(%address, host_key, folder = args.folder, pid = std::process::id(), scheme, sparql, "serving");
    if let Some(file) = &args.port_file {
        announce(file, &address.to_string())?;
    }
    if args.open {
        super::console::show(&server.console_link()?, context);
    }
    // An owner may ask it to from elsewhere (`esker cluster down esker://…`).
    while context.interrupt.stopped().is_none() && server.asked().is_none() {
        std::thread::sleep(LOOK);
    }
    tracing::info!("stopping: what is under way is finished; a second signal ends it at once");
    let whole = server.stop()?;
    if let Some(file) = &args.port_file {
        let _ = std::fs::remove_file(file);
    }
    if whole {
        tracing::info!("stopped");
    } else {
        tracing::warn!("stopped; some calls took longer than the drain time and were cut off");
    }
    Ok(Outcome::partly_if(!whole))
}

fn settings(args: &ServeArgs) -> anyhow::Result<Settings> {
    let mut settings = match &args.config {
        Some(file) => Settings::from_file(file)?,
        None => Settings::default(),
    };
    if let Some(listen) = &args.listen {
        settings.listen.clone_from(listen);
    }
    if let Some(drain) = args.drain {
        settings.drain = drain;
    }
    if let Some(lease) = args.lease {
        settings.lease = lease;
    }
    for folder in &args.spool {
        let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        settings.spools.push(whole);
    }
    if let (Some(certificate), Some(key)) = (&args.tls_certificate, &args.tls_key) {
        settings.tls = Some(Tls {
            certificate: certificate.clone(),
            key: key.clone(),
        });
    }
    if let Some(file) = &args.host_key {
        settings.host_key = Some(file.clone());
    }
    if !args.allow_service.is_empty() {
        settings.sparql.services = Services::new(args.allow_service.clone())?;
    }
    Ok(settings)
}

/// Whoever waits for the file finds it whole.
pub(super) fn announce(file: &Path, address: &str) -> esker_model::Result<()> {
    let failed = |e| Error::io(format!("writing `{}`", file.display()), e);
    let mut draft = file.as_os_str().to_owned();
    draft.push(".new");
    std::fs::write(&draft, format!("{address}\n")).map_err(failed)?;
    std::fs::rename(&draft, file).map_err(failed)
}

/// Lets the program log, on stderr.
pub(super) fn log_to_stderr(level: LevelFilter, format: LogFormat, context: &Context) {
    let level = if context.globals.quiet {
        level.min(LevelFilter::WARN)
    } else {
        level
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr);
    // Set once a process; a shell that serves is not to be.
    let _ = match format {
        LogFormat::Text => lines
            .with_target(false)
            .with_ansi(io::stderr().is_terminal())
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
