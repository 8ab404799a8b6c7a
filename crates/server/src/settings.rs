//! What can be chosen about a server. Plain data; `config` reads it from a file.

use esker::rdf::Services;
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
    /// Tiers of site caches that the console shows, as `http://HOST:PORT`.
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
}

/// What is asked by SPARQL, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparql {
    /// Threads that answer queries.
    pub threads: usize,
    /// Queries and loads that one address has under way at once.
    pub each: usize,
    /// Bytes that an intermediate result of a query may have.
    pub memory_bytes: usize,
    /// Bytes of RDF in one request that brings some.
    pub upload_bytes: usize,
    /// Pages of these origins (`https://HOST:PORT`, or `*`) may read answers and change data, beside those of this machine.
    pub origins: Vec<String>,
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
    /// Connections at once.
    pub connections: usize,
    /// How long one request may take; none for as long as it takes.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: esker_rpc::limits::MESSAGE_BYTES_MAX,
            frontier: 1 << 20,
            memory_bytes: 512 << 20,
            waiting: 16_384,
            connections: 1_024,
            time: None,
        }
    }
}

impl Default for Sparql {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            threads: (2 * cores).clamp(4, 64),
            each: 64,
            memory_bytes: 2 << 30,
            upload_bytes: 16 << 30,
            origins: Vec::new(),
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
        }
    }
}
