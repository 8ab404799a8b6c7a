//! `esker serve`: owns a database and serves it on the network until it is stopped.

use crate::args::{LogFormat, ServeArgs};
use crate::commands::console::Opener;
use anyhow::Context as _;
use esker::rdf::Services;
use esker::rpc::Address;
use esker_access::munge;
use esker_sandbox::Level;
use esker_server::settings::Tls;
use esker_server::{Server, Settings};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::program::announce;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// Interval between checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

/// Raises the limit of open files to its maximum: each connection needs one, beside those of the store.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If that is refused, the limit stays unchanged.
    let _ = setrlimit(Resource::Nofile, limit);
}

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
    raise_open_files();
    let opener = args.open.then(Opener::start).transpose()?;
    if settings.access.munge {
        start_munge_helpers(&settings)?;
    }
    let sandbox = restrict(args, &settings, context)?;
    let database = context
        .open_options()
        .create(args.create)
        .group(args.group)
        .open(&args.folder)?;
    let server = Server::start(database, settings)?;
    let address = server.address();
    let http = if scheme == "esker" { "http" } else { "https" };
    let sparql = format!("{http}://{address}/sparql");
    let host_key = server.host_key();
    tracing::info!(%address, host_key, folder = args.folder, pid = std::process::id(), scheme, sparql, sandbox, "serving");
    if let Some(file) = &args.port_file {
        announce(file, &address.to_string())?;
    }
    context.hint(&format!(
        "next, from any machine: esker stats {scheme}://{address}; in a browser of this one: esker console {scheme}://{address}"
    ));
    let way = args
        .open
        .then(|| super::console::BrowserAccess::to(&server, Path::new(&args.folder)))
        .transpose()?;
    if let (Some(way), Some(opener)) = (&way, opener) {
        super::console::show(&way.url(), opener, context);
    }
    // A client with the role `admin` may stop the server remotely (`esker cluster down esker://…`).
    while context.interrupt.stopped().is_none() && server.stop_request().is_none() {
        std::thread::sleep(SIGNAL_INTERVAL);
    }
    tracing::info!("stopping: calls in progress are completed; a second signal ends them at once");
    let whole = server.stop()?;
    if let Some(file) = &args.port_file {
        let _ = fs::remove_file(file);
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
    if !args.allow_load.is_empty() {
        settings.sparql.load = Services::new(args.allow_load.clone())?;
    }
    Ok(settings)
}

/// Gives up rights that a server does not need, before the database is opened and any thread starts; returns the level for the log. A
/// shell is not restricted, because its later commands would be, too.
fn restrict(
    args: &ServeArgs,
    settings: &Settings,
    context: &Context,
) -> anyhow::Result<&'static str> {
    if args.no_sandbox || context.is_in_shell() {
        return Ok("off");
    }
    let folder = Path::new(&args.folder);
    if args.create {
        // Landlock rules need an existing folder. Errors of the folder are reported when it is opened.
        let options = context.open_options().group(args.group);
        let _ = options.make_folder(folder);
    }
    for spool in &settings.spools {
        let _ = esker::modes::create_private_all(spool);
    }
    if let Some(own) = esker_access::home() {
        // Rights may be added to this folder later (`esker grant --all`).
        let _ = fs::DirBuilder::new().mode(0o700).create(own);
    }
    if args.open {
        // This check needs a connection, which the sandbox forbids later.
        esker_access::peer::kernel_knows_users();
    }
    let mut sandbox = esker_server::sandbox::sandbox(folder, settings);
    if let Some(file) = &args.port_file {
        sandbox = sandbox.publish(esker_server::sandbox::parent_of(file));
    }
    let enforced = sandbox
        .enter()
        .context("restricting this process; `--no-sandbox` serves without")?;
    Ok(match enforced.files {
        Level::Full => "on",
        Level::Partial => {
            tracing::warn!(
                "this kernel's Landlock is older than the sandbox's rules: some of them have no effect"
            );
            "partial"
        }
        Level::None => {
            tracing::warn!(
                "this kernel has no Landlock: system calls are restricted, files and connections are not"
            );
            "calls"
        }
    })
}

/// Starts the processes that decode Munge credentials: in the sandbox, this process cannot start programs.
fn start_munge_helpers(settings: &Settings) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let socket = settings.access.munge_socket.as_deref();
    let socket = socket.map(|path| path.display().to_string());
    let mut arguments = vec!["decode-munge"];
    if let Some(socket) = &socket {
        arguments.extend(["--socket", socket]);
    }
    Ok(munge::prepare(&program, &arguments)?)
}

/// `esker decode-munge`: decodes the credentials on standard input for a server in a sandbox.
pub(crate) fn decode_munge(socket: Option<&Path>) -> anyhow::Result<Outcome> {
    munge::serve_helper(socket, io::stdin().lock(), io::stdout().lock())?;
    Ok(Outcome::Done)
}

/// Starts logging on stderr.
pub(super) fn log_to_stderr(level: LevelFilter, format: LogFormat, context: &Context) {
    let level = if context.globals.quiet {
        level.min(LevelFilter::WARN)
    } else {
        level
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr);
    // The subscriber can be set only once per process; a server in a shell may find it set.
    let _ = match format {
        LogFormat::Text => lines
            .with_target(false)
            .with_ansi(io::stderr().is_terminal())
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
