//! Settings of a server. Plain data; `config` reads them from a file.

use crate::settings_oidc::OidcSettings;
use crate::shares::WEIGHT;
use esker::rdf::Services;
use esker_access::slots::CONNECTIONS;
use esker_access::{RoleTable, UserPattern};
use esker_model::filter::Expr;
use esker_model::{Error, Result};
use std::collections::BTreeMap;
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
    /// Settings of the audit log.
    pub audit: AuditSettings,
    /// Shares of the threads among clients.
    pub shares: ShareSettings,
    /// Limits of users, groups and projects.
    pub quotas: Quotas,
    /// Settings of logins by a provider of OpenID Connect; `None` for no such logins.
    pub oidc: Option<OidcSettings>,
}

/// Shares of the threads among clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareSettings {
    /// Whether clients share the time of threads by weight; otherwise they take turns by requests.
    pub fair: bool,
    /// Weight of a client without a weight of its own.
    pub default: u32,
    /// Weights by name or id of users.
    pub users: BTreeMap<String, u32>,
    /// Weights by name or id of groups.
    pub groups: BTreeMap<String, u32>,
}

impl Default for ShareSettings {
    fn default() -> Self {
        Self {
            fair: true,
            default: WEIGHT,
            users: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }
}

/// Limits of users, groups and projects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quotas {
    /// Person or address that messages name.
    pub contact: Option<String>,
    /// Limits of each user without limits of its own.
    pub default: Quota,
    /// Limits by name or id of users.
    pub users: BTreeMap<String, Quota>,
    /// Limits by name or id of groups: on queries of each member, and on what the group owns together.
    pub groups: BTreeMap<String, Quota>,
    /// Limits by project, which is the attribute `app` of objects.
    pub projects: BTreeMap<String, Quota>,
}

/// Kinds of limits of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaKind {
    /// Queries in progress at once.
    Queries,
    /// Time of one query, in milliseconds.
    QueryTime,
    /// Memory of one query, in bytes.
    QueryMemory,
    /// Files and objects that a user owns.
    Entries,
    /// Bytes of their metadata.
    Bytes,
}

impl QuotaKind {
    /// All kinds, in declaration order.
    pub const ALL: [Self; 5] = [
        Self::Queries,
        Self::QueryTime,
        Self::QueryMemory,
        Self::Entries,
        Self::Bytes,
    ];

    /// Name of the limit's key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queries => "queries",
            Self::QueryTime => "query_time",
            Self::QueryMemory => "query_memory",
            Self::Entries => "entries",
            Self::Bytes => "bytes",
        }
    }

    /// Whether the limit is on what a user owns.
    pub(crate) fn is_storage(self) -> bool {
        matches!(self, Self::Entries | Self::Bytes)
    }

    /// Value of a limit for messages.
    pub fn text(self, value: u64) -> String {
        const SIZES: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match self {
            Self::Queries | Self::Entries => value.to_string(),
            Self::QueryTime if value.is_multiple_of(1_000) => format!("{} s", value / 1_000),
            Self::QueryTime => format!("{value} ms"),
            Self::QueryMemory | Self::Bytes => {
                let unit = SIZES
                    .iter()
                    .find(|(unit, _)| value > 0 && value.is_multiple_of(*unit));
                unit.map_or_else(
                    || format!("{value} bytes"),
                    |(unit, name)| format!("{} {name}", value / unit),
                )
            }
        }
    }
}

/// Limits of one user, group or project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota([Option<u64>; QuotaKind::ALL.len()]);

impl Quota {
    /// Limit of a kind.
    pub fn get(&self, kind: QuotaKind) -> Option<u64> {
        self.0.get(kind as usize).copied().flatten()
    }

    /// Sets the limit of a kind.
    #[must_use]
    pub fn with(mut self, kind: QuotaKind, value: u64) -> Self {
        if let Some(limit) = self.0.get_mut(kind as usize) {
            *limit = Some(value);
        }
        self
    }
}

/// Settings of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// Requests that are recorded.
    pub log: AuditLevel,
    /// Folder of the log; `None` for `audit` in the database's folder.
    pub folder: Option<PathBuf>,
    /// Time between two syncs of the log to disk.
    pub sync: AuditSync,
    /// Fate of a request while the queue of records is full.
    pub full: FullQueue,
    /// Age after which sealed segments are removed; `None` keeps all.
    pub keep: Option<Duration>,
    /// Bytes after which a segment is sealed.
    pub segment_bytes: usize,
}

/// Requests that the audit log records. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditLevel {
    /// None: there is no log.
    Off,
    /// Refused requests, changes of access, calls that need the role `admin`.
    Refused,
    /// Changes of data, proofs of keys.
    Writes,
    /// Reads.
    All,
}

/// Time between two syncs of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditSync {
    /// After each group of records, as fast as the disk allows.
    Always,
    /// After that time.
    Every(Duration),
}

/// Fate of a request while the queue of records is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullQueue {
    /// It waits for a place.
    Wait,
    /// It is refused before it is executed.
    Refuse,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            log: AuditLevel::Refused,
            folder: None,
            sync: AuditSync::Every(Duration::from_secs(1)),
            full: FullQueue::Wait,
            keep: None,
            segment_bytes: 64 << 20,
        }
    }
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessSettings {
    /// Connections on which a process has the admin role because of its user.
    pub loopback: Loopback,
    /// Whether a database is refused if other users could replace its folder; else the server warns.
    pub strict_modes: bool,
    /// Whether a picture of a lineage does not tell how many of its vertices the principal cannot see.
    pub conceal_counts: bool,
    /// Whether other users of this machine are known by their processes, without a key.
    pub local: bool,
    /// Whether Munge credentials are accepted.
    pub munge: bool,
    /// Socket of munged; `None` for the usual one.
    pub munge_socket: Option<PathBuf>,
    /// Roles of users with login names, and of groups.
    pub roles: RoleTable,
    /// Users that may ask on behalf of other users.
    pub impersonate: Vec<UserPattern>,
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
            audit: AuditSettings::default(),
            shares: ShareSettings::default(),
            quotas: Quotas::default(),
            oidc: None,
        }
    }
}
