//! Arguments of `esker serve`.

use crate::units::parse_duration;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "The folder stays usable by commands on this machine: they go through the server's process. Elsewhere, \
                  every command takes esker://HOST:PORT instead of a folder. HTTP is on the same port: /healthz, /readyz, \
                  /metrics, /api/v1/openapi.json; SPARQL at /sparql, whole graphs at /rdf-graphs; the console, for browsers, at /.\n\n\
                  SIGTERM or Ctrl-C stops it: what is under way is finished, the database is closed. A second signal ends \
                  it at once.\n\n\
                  Processes of this machine may do everything if they are the owner's or root's. Everybody else proves a key of \
                  SSH that `esker grant` or an `authorized_keys` file in the folder or in ~/.esker gives rights; traffic is \
                  encrypted then.\n\nExamples:\n  \
                  esker serve lab.esker --open\n  \
                  esker serve lab.esker --listen 0.0.0.0:7400 --config server.toml\n  \
                  esker serve lab.esker --spool /scratch/lab/spool\n  \
                  esker serve lab.esker --listen 127.0.0.1:0 --port-file port"
)]
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct ServeArgs {
    /// The directory that holds the database
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: String,
    /// Where to listen; port 0 lets the system choose [default: 127.0.0.1:7400]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Limits, TLS and the rest, in TOML; docs/book/server.md lists the keys
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Make the database if there is none
    #[arg(long)]
    pub(crate) create: bool,
    /// With --create: mode 0750, as `esker init --group` makes it
    #[arg(long, requires = "create")]
    pub(crate) group: bool,
    /// Open the console in a browser once the server takes calls; its address is printed, too
    #[arg(long)]
    pub(crate) open: bool,
    /// Write the address into that file once the server takes calls, as HOST:PORT and a newline
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// The server's certificates, in PEM form: the server answers by TLS only
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The private key of the first of them, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The key that proves the server to clients elsewhere, in OpenSSH's form [default: `host_key` in the folder, made at the
    /// first start]
    #[arg(long, value_name = "FILE")]
    pub(crate) host_key: Option<PathBuf>,
    /// How long a stop waits for what is under way
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) drain: Option<Duration>,
    /// For how long at most clients are promised that files stay as they are; 0s for no promises
    #[arg(long, value_name = "TIME", value_parser = parse_lease)]
    pub(crate) lease: Option<Duration>,
    /// Take in the runs that `esker run --spool DIR` leaves there, every other second
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Vec<PathBuf>,
    /// Let SERVICE in queries ask endpoints whose IRIs begin so
    #[arg(long, value_name = "IRI")]
    pub(crate) allow_service: Vec<String>,
    /// Keep all rights of this process, instead of giving up those that a server does not need: files outside of its folders, starting
    /// programs, TCP connections to elsewhere
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// How to log, on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "ESKER_LOG")]
    pub(crate) log: tracing_subscriber::filter::LevelFilter,
}

/// Whoever changes a file waits for the promise, so it is short.
fn parse_lease(text: &str) -> Result<Duration, String> {
    let most = esker_server::LEASE_MAX;
    match parse_duration(text)? {
        lease if lease <= most => Ok(lease),
        _ => Err(format!(
            "changes wait for as long as that: expected at most {}s",
            most.as_secs()
        )),
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people
    Text,
    /// A JSON object a line
    Json,
}
