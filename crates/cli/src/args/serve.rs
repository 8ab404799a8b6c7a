//! Arguments of `esker serve`.

use clap::{Args, ValueEnum};
use esker_terminal::units::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "Commands on this machine can still use the folder: they go through the server's process. On other machines, \
                  every command takes esker://HOST:PORT instead of a folder. HTTP is on the same port: /healthz, /readyz, \
                  /metrics, /api/v1/openapi.json; SPARQL at /sparql, whole graphs at /rdf-graphs; the console, for browsers, at /.\n\n\
                  SIGTERM or Ctrl-C stops it: requests in progress are finished, and the database is closed. A second signal ends \
                  it at once.\n\n\
                  Processes of the owner and of root on this machine may do everything. All others authenticate by an SSH key that \
                  `esker grant` or an `authorized_keys` file in the folder or in ~/.esker gives rights; their traffic is \
                  encrypted.\n\nExamples:\n  \
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
    /// Address to listen on; port 0 lets the system choose [default: 127.0.0.1:7400]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// File of limits, TLS and other settings, in TOML; docs/book/server.md lists the keys
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Create the database if it does not exist
    #[arg(long)]
    pub(crate) create: bool,
    /// With --create: use mode 0750, like `esker init --group`
    #[arg(long, requires = "create")]
    pub(crate) group: bool,
    /// Open the console in a browser once the server accepts requests, and print its address
    #[arg(long)]
    pub(crate) open: bool,
    /// Write the address to this file once the server accepts requests, as HOST:PORT and a newline
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// The server's certificates, in PEM form; the server then accepts only TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the first certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Key that proves the server to clients of other machines, in OpenSSH's form [default: `host_key` in the folder, created at the
    /// first start]
    #[arg(long, value_name = "FILE")]
    pub(crate) host_key: Option<PathBuf>,
    /// Longest time that a shutdown waits for requests in progress
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) drain: Option<Duration>,
    /// Longest lease on the attributes of files that clients may cache; 0s for no leases
    #[arg(long, value_name = "TIME", value_parser = parse_lease)]
    pub(crate) lease: Option<Duration>,
    /// Deliver the runs that `esker run --spool DIR` leaves in this folder, every two seconds
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Vec<PathBuf>,
    /// Allow SERVICE in queries to use endpoints whose IRIs begin with this prefix
    #[arg(long, value_name = "IRI")]
    pub(crate) allow_service: Vec<String>,
    /// Allow LOAD in updates to read documents whose IRIs begin with this prefix
    #[arg(long, value_name = "IRI")]
    pub(crate) allow_load: Vec<String>,
    /// Keep all rights of this process, instead of giving up those that a server does not need: files outside of its folders, starting
    /// programs, TCP connections to other machines
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// Format of log lines, on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Lowest level to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "ESKER_LOG")]
    pub(crate) log: tracing_subscriber::filter::LevelFilter,
}

/// Reads the length of a lease, which is limited because changes of a file wait until its leases end.
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

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Plain text
    Text,
    /// One JSON object per line
    Json,
}
