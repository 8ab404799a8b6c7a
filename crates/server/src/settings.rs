//! Settings of a server. Plain data; `config` reads them from a file.

use crate::settings_oidc::OidcSettings;
use esker::rdf::Services;
use esker_access::slots::CONNECTIONS;
use esker_model::filter::Expr;
use esker_model::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Address to listen at, `host:port`; port 0 lets the system choose.
    pub listen: String,
    /// Limits on requests and connections.
    pub limits: Limits,
    /// TLS certificate of the server, if it has one.
    pub tls: Option<Tls>,
    /// File of the host key that proves the server, in OpenSSH's form; by default `host_key` next to the data.
    pub host_key: Option<PathBuf>,
    /// Folder below which clients may have backups made; without one they may not.
    pub backups: Option<PathBuf>,
    /// Spools whose runs are merged into the database automatically.
    pub spools: Vec<PathBuf>,
    /// Tiers of site caches that the console shows, as `http://127.0.0.1:PORT` or `esker://HOST:PORT`.
    pub sites: Vec<String>,
    /// Time that a stop waits for calls in progress.
    pub drain: Duration,
    /// Longest lease on files that clients get; zero for no leases.
    pub lease: Duration,
    /// Number of asynchronous threads for network I/O.
    pub threads: usize,
    /// Number of threads for short reads.
    pub readers: usize,
    /// Number of threads for long calls: scans, traversals, checks.
    pub scanners: usize,
    /// Settings of SPARQL queries and updates.
    pub sparql: Sparql,
    /// Rules for users of this machine and for the database's folder.
    pub access: AccessSettings,
    /// Settings of landing pages and of the provider of OAI-PMH.
    pub catalogue: Catalogue,
    /// Settings of the process's traces.
    pub tracing: Tracing,
    /// Settings of logins by a provider of OpenID Connect; `None` for no such logins.
    pub oidc: Option<OidcSettings>,
}

/// Settings of the traces that a server sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracing {
    /// Address of the collector; `None` for that of the environment.
    pub otlp: Option<String>,
    /// Share of the traces without a parent that are recorded, from 0 to 1.
    pub sample: f64,
}

impl Default for Tracing {
    fn default() -> Self {
        Self {
            otlp: None,
            sample: 1.0,
        }
    }
}

impl Tracing {
    /// Address of the collector, from the settings or the environment; `None` if traces are off.
    ///
    /// # Errors
    /// Returns an error if a variable of the environment holds no address.
    pub fn endpoint(&self) -> Result<Option<String>> {
        esker_telemetry::endpoint(self.otlp.as_deref()).map_err(|e| Error::Invalid(e.to_string()))
    }

    /// Whether traces are sent.
    pub fn is_on(&self) -> bool {
        self.endpoint().is_ok_and(|endpoint| endpoint.is_some())
    }
}

/// Settings of landing pages and of the provider of OAI-PMH.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    /// Address by which others reach this server, such as `https://data.example.org`; `None` for the one in each request.
    pub address: Option<String>,
    /// Name of the repository for harvesters.
    pub name: String,
    /// Mail address of the administrator for harvesters; `None` for root's at the server's host.
    pub admin: Option<String>,
    /// Condition on the objects that are harvested.
    pub filter: Expr,
    /// Records in a page of a harvest.
    pub page: usize,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self {
            address: None,
            name: "Esker".into(),
            admin: None,
            filter: Expr::All,
            page: 100,
        }
    }
}

/// Rules for users of this machine and for the database's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessSettings {
    /// Connections on which a process has the admin role because of its user.
    pub loopback: Loopback,
    /// Whether a database is refused if other users could replace its folder; else the server warns.
    pub strict_modes: bool,
}

/// Connections on which a process has the admin role because its user owns the database, runs the server, or is root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loopback {
    /// The port over loopback, and the socket in the folder.
    #[default]
    Uid,
    /// Only the socket in the folder: a proxy on this machine connects over loopback on behalf of others.
    Socket,
    /// None: every client proves a key or sends a token.
    Off,
}

/// Limits on SPARQL requests, and the web pages that may send them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparql {
    /// Number of threads that answer queries.
    pub threads: usize,
    /// Queries and loads in progress at once per client: one key, one user of this machine, one address.
    pub each: usize,
    /// Bytes of memory for one query.
    pub memory_bytes: usize,
    /// Bytes of memory for all queries together.
    pub memory_all_bytes: usize,
    /// Bytes of RDF in one request.
    pub upload_bytes: usize,
    /// Origins (`https://HOST:PORT`, or `*` for all) whose pages may read answers, besides this server's own.
    pub read_origins: Vec<String>,
    /// Origins whose pages may read answers and change data.
    pub write_origins: Vec<String>,
    /// Endpoints that `SERVICE` may query.
    pub services: Services,
    /// Documents that `LOAD` may read.
    pub load: Services,
}

/// The server's certificate and its key, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain, the server's first.
    pub certificate: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
}

/// Limits of a server. A request beyond them is refused with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request.
    pub request_bytes: usize,
    /// Vertices or edges named in one request.
    pub frontier: usize,
    /// Bytes of requests and answers in memory at once.
    pub memory_bytes: usize,
    /// Requests that wait for a thread.
    pub waiting: usize,
    /// Connections at once, besides some reserved for the owner.
    pub connections: usize,
    /// Connections at once per address, user of this machine or key; 0 means half of all.
    pub connections_each: usize,
    /// Time that one request may take; `None` for no limit. Calls that move or repair all data are not limited: checks, compactions,
    /// backups, dumps and loads.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: esker_rpc::limits::MESSAGE_BYTES_MAX,
            frontier: 1 << 20,
            memory_bytes: 512 << 20,
            waiting: 16_384,
            connections: CONNECTIONS,
            connections_each: 0,
            time: Some(Duration::from_mins(5)),
        }
    }
}

/// Bytes of memory of this machine, or of the process's control group if that has less.
fn machine_memory() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let total = read("/proc/meminfo").lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
        kib.trim().parse::<usize>().ok()?.checked_mul(1 << 10)
    });
    let group = read("/sys/fs/cgroup/memory.max").trim().parse().ok();
    let total = total.unwrap_or(4 << 30);
    group.map_or(total, |group: usize| group.min(total))
}

impl Sparql {
    /// Origins whose pages may at least read answers.
    pub(crate) fn origins(&self) -> impl Iterator<Item = &str> {
        let all = self.read_origins.iter().chain(&self.write_origins);
        all.map(String::as_str)
    }
}

impl Default for Sparql {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = (2 * cores).clamp(4, 64);
        let all = (machine_memory() / 4).clamp(256 << 20, 1 << 40);
        Self {
            threads,
            // A single client cannot use all threads.
            each: threads / 2,
            memory_bytes: (all / 2).min(2 << 30),
            memory_all_bytes: all,
            upload_bytes: 16 << 30,
            read_origins: Vec::new(),
            write_origins: Vec::new(),
            services: Services::default(),
            load: Services::default(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            listen: format!("127.0.0.1:{}", esker_rpc::address::DEFAULT_PORT),
            limits: Limits::default(),
            tls: None,
            host_key: None,
            spools: Vec::new(),
            sites: Vec::new(),
            backups: None,
            drain: Duration::from_secs(10),
            lease: Duration::from_secs(1),
            threads: (cores / 2).clamp(1, 8),
            readers: cores.clamp(2, 64),
            scanners: (2 * cores).clamp(8, 128),
            sparql: Sparql::default(),
            access: AccessSettings::default(),
            catalogue: Catalogue::default(),
            tracing: Tracing::default(),
            oidc: None,
        }
    }
}
