//! What can be chosen about a server. Plain data; `config` reads it from a file.

use esker::rdf::Services;
use esker_access::slots::CONNECTIONS;
use std::path::PathBuf;
use std::time::Duration;

/// How a server is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen, `host:port`; port 0 lets the system choose.
    pub listen: String,
    /// How much at most.
    pub limits: Limits,
    /// With TLS: what proves who the server is.
    pub tls: Option<Tls>,
    /// The file of the key that proves the server, in OpenSSH's form; `host_key` beside the data if it is not set.
    pub host_key: Option<PathBuf>,
    /// Below which folder clients may have backups made; without one they may not.
    pub backups: Option<PathBuf>,
    /// Folders of runs that come into the database by themselves.
    pub spools: Vec<PathBuf>,
    /// Tiers of site caches that the console shows, as `http://127.0.0.1:PORT` or `esker://HOST:PORT`.
    pub sites: Vec<String>,
    /// How long a stop waits for what is under way.
    pub drain: Duration,
    /// For how long at most clients are promised that files stay as they are; zero for no promises.
    pub lease: Duration,
    /// Asynchronous threads, which move bytes.
    pub threads: usize,
    /// Threads that read for short calls.
    pub readers: usize,
    /// Threads for calls that take long: scans, traversals, checks.
    pub scanners: usize,
    /// SPARQL.
    pub sparql: Sparql,
    /// Whom this machine's kernel lets in, and where the database may lie.
    pub access: AccessSettings,
}

/// What a server makes of this machine's users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessSettings {
    /// Where a process may do everything because of the user whose it is.
    pub loopback: Loopback,
    /// Whether a database is refused that lies where others can put another folder in its place; else that is a warning.
    pub strict_modes: bool,
}

/// Where a process may do everything because its user owns the database, runs the server, or is root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loopback {
    /// At the port over loopback, and at the socket in the folder.
    #[default]
    Uid,
    /// At the socket in the folder only: a proxy on this machine connects over loopback for others.
    Socket,
    /// Nowhere: everybody proves a key or shows a token.
    Off,
}

/// What is asked by SPARQL, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparql {
    /// Threads that answer queries.
    pub threads: usize,
    /// Queries and loads that one client has under way at once: one key, one user of this machine, one address.
    pub each: usize,
    /// Bytes that one query may have in memory.
    pub memory_bytes: usize,
    /// Bytes that all queries together may have in memory.
    pub memory_all_bytes: usize,
    /// Bytes of RDF in one request that brings some.
    pub upload_bytes: usize,
    /// Pages of these origins (`https://HOST:PORT`, or `*` for all) may read answers, beside this server's own.
    pub read_origins: Vec<String>,
    /// Pages of these origins may read answers and change data.
    pub write_origins: Vec<String>,
    /// Endpoints that `SERVICE` may ask.
    pub services: Services,
}

/// The server's certificate and its key, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The chain of certificates, the server's first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What a server takes on at most. What is beyond is refused with a clear answer.
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
    /// Connections at once, beside some of the owner's.
    pub connections: usize,
    /// Connections at once of one address, of one user of this machine, or of one key; 0 stands for half of all.
    pub connections_each: usize,
    /// How long one request may take; none for as long as it takes. What moves or mends all data is not limited: checks, compactions,
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

/// Bytes of memory of this machine, or of the control group that this process is confined to, if that has less.
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
    /// Pages of other origins that may at least read answers.
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
            // One client leaves threads for others.
            each: threads / 2,
            memory_bytes: (all / 2).min(2 << 30),
            memory_all_bytes: all,
            upload_bytes: 16 << 30,
            read_origins: Vec::new(),
            write_origins: Vec::new(),
            services: Services::default(),
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
        }
    }
}
