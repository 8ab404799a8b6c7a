//! Replay: a trace run against tiers of caches, in simulated time.
//!
//! The tiers are those that a server runs ([`crate::tier`]); the network between them, the cloud's services and the origin are
//! simulated. Every run of the same trace and settings has the same result.

mod origin;
mod run;

pub use origin::SimulatedOrigin;
pub use run::run;

use crate::cache::Policy;
use crate::entry::{ENTRY_BYTES, LISTING_BYTES, Time};
use crate::predict::PredictorKind;
use crate::trace::{Event, Op, Traces};

/// Topology: edge and cloud, or edge, fog and cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiers {
    /// Clients send requests to the edge, the edge to the cloud.
    EdgeCloud,
    /// A fog node is between edge and cloud.
    EdgeFogCloud,
}

impl Tiers {
    /// Returns the paper's abbreviation.
    pub fn name(self) -> &'static str {
        match self {
            Self::EdgeCloud => "EC",
            Self::EdgeFogCloud => "EFC",
        }
    }
}

/// Size of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// Number of bytes.
    Bytes(u64),
    /// Percentage of the attributes of all reads of the trace, counted once per read: the paper's measure, in bytes.
    Percent(f64),
}

impl Size {
    /// Returns the size in bytes, for a trace.
    pub fn bytes(self, events: &[Event], traces: &Traces) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                let reads = events.iter().filter(|e| e.op.reads());
                let cost = |e: &Event| {
                    let listing = u64::from(e.op == Op::List) * LISTING_BYTES;
                    ENTRY_BYTES + listing + traces.paths.name(e.path).len() as u64
                };
                (reads.map(cost).sum::<u64>() as f64 * percent / 100.0) as u64
            }
        }
    }
}

/// Timing of the clients' requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At the times of the trace, however long answers take.
    Open,
    /// Each client sends its next request when its last one is answered.
    Closed,
}

/// Settings of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySettings {
    /// Predictor of the edges and of the fog node.
    pub predictor: PredictorKind,
    /// Threshold T of DLS; `None` for the default.
    pub threshold: Option<u32>,
    /// Replacement policy of the caches.
    pub policy: Policy,
    /// Cache size of an edge, in bytes.
    pub edge_bytes: u64,
    /// Cache size of the fog node, in bytes.
    pub fog_bytes: u64,
    /// Topology of the tiers.
    pub tiers: Tiers,
    /// Number of edges; clients are distributed over them.
    pub edges: u32,
    /// Round trips in microseconds.
    pub rtt: Rtt,
    /// Maximum number of the cloud's requests in flight to the origin.
    pub services: usize,
    /// Timing of the clients' requests.
    pub pace: Pace,
}

/// Round trips in microseconds. The paper gives sums only: 38 ms by edge and cloud, 42 with a fog node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtt {
    /// Between client and edge.
    pub client: Time,
    /// Between edge and fog node, if there is one.
    pub fog: Time,
    /// Between edge or fog node and cloud.
    pub cloud: Time,
    /// Between cloud and origin.
    pub origin: Time,
}

impl Default for Rtt {
    fn default() -> Self {
        Self {
            client: 1_000,
            fog: 4_000,
            cloud: 17_000,
            origin: 20_000,
        }
    }
}

impl Default for ReplaySettings {
    fn default() -> Self {
        Self {
            predictor: PredictorKind::default(),
            threshold: None,
            policy: Policy::Lru,
            edge_bytes: 16 << 20,
            fog_bytes: 48 << 20,
            tiers: Tiers::EdgeCloud,
            edges: 1,
            rtt: Rtt::default(),
            services: 85,
            pace: Pace::Open,
        }
    }
}

/// Results of a replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Number of read requests.
    pub reads: u64,
    /// Reads answered by the edge from its cache.
    pub hits: u64,
    /// Hits answered by the listing of the parent directory.
    pub by_listing: u64,
    /// Hits whose answer is that the path does not exist.
    pub absent: u64,
    /// Reads that found a prefetch of the same request in flight.
    pub late: u64,
    /// Reads without an answer: too many requests were waiting.
    pub failed: u64,
    /// Mean time from request to answer, in milliseconds.
    pub mean_latency_ms: f64,
    /// Requests that edges sent because a client waited.
    pub fetched: u64,
    /// Requests that edges and fog nodes sent as prefetches.
    pub prefetched: u64,
    /// Prefetches that were used later.
    pub prefetched_used: u64,
    /// Prefetches not sent: cached already, in flight, or the queue was full.
    pub refused: u64,
    /// Requests sent to the origin.
    pub at_origin: u64,
    /// Time from the first request to the last answer, in seconds.
    pub seconds: f64,
    /// Maximum size of an edge's cache, in bytes.
    pub edge_bytes_most: u64,
    /// Whether the replay was stopped before the end.
    pub stopped: bool,
}

impl Report {
    /// Returns the share of reads that the edge answered from its cache.
    pub fn hit_rate(&self) -> f64 {
        if self.reads == 0 {
            return 0.0;
        }
        self.hits as f64 / self.reads as f64
    }
}
