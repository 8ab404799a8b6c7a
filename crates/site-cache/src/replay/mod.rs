//! Replay: a trace played against tiers of caches, in simulated time.
//!
//! The tiers are those that a server runs ([`crate::tier`]); what is simulated is the wire between them, the cloud's
//! services, and the origin. Given the same trace and settings, every run says the same.

mod run;
mod world;

pub use run::run;
pub use world::World;

use crate::cache::Policy;
use crate::entry::{ENTRY_BYTES, LISTING_BYTES, Time};
use crate::predict::Choice;
use crate::trace::{Event, Op, Traces};

/// Edge and cloud, or edge, fog and cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiers {
    /// Clients ask the edge, the edge the cloud.
    EdgeCloud,
    /// With a fog node between them.
    EdgeFogCloud,
}

impl Tiers {
    /// As the paper abbreviates it.
    pub fn name(self) -> &'static str {
        match self {
            Self::EdgeCloud => "EC",
            Self::EdgeFogCloud => "EFC",
        }
    }
}

/// A cache's size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of what the attributes for all reads of the trace would take, each for itself: the paper's
    /// measure, in bytes.
    Percent(f64),
}

impl Size {
    /// In bytes, for a trace.
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

/// When requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At the times of the trace, however long answers take.
    Open,
    /// Each client's next request when its last one is answered.
    Closed,
}

/// How a trace is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Which predictor the edge has, and the fog node.
    pub predictor: Choice,
    /// DLS's T, if not its own.
    pub threshold: Option<u32>,
    /// Which metadata goes when there is too much.
    pub policy: Policy,
    /// The edge's cache, in bytes.
    pub edge_bytes: u64,
    /// The fog node's.
    pub fog_bytes: u64,
    /// Which tiers there are.
    pub tiers: Tiers,
    /// Edges; clients are dealt out among them.
    pub edges: u32,
    /// Round trips in microseconds.
    pub rtt: Rtt,
    /// Requests that the cloud has on their way to the origin at once.
    pub services: usize,
    /// When requests are made.
    pub pace: Pace,
}

/// Round trips in microseconds. The paper's text gives sums only: 38 ms by edge and cloud, 42 with a fog node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtt {
    /// Client to edge.
    pub client: Time,
    /// Edge to fog node, if there is one.
    pub fog: Time,
    /// Edge or fog node to cloud.
    pub cloud: Time,
    /// Cloud to origin.
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            predictor: Choice::default(),
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

/// What a replay has counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Requests that read.
    pub reads: u64,
    /// Of these, answered by the edge at once.
    pub hits: u64,
    /// Of the hits, answered by the listing of the directory above.
    pub by_listing: u64,
    /// Of the hits, that there is nothing.
    pub absent: u64,
    /// Reads that found a prefetch of the same on its way.
    pub late: u64,
    /// Reads without an answer: too much waited.
    pub failed: u64,
    /// From request to answer, in milliseconds, in the mean.
    pub mean_latency_ms: f64,
    /// Requests that edges sent because a client waited.
    pub fetched: u64,
    /// Requests that edges and fog nodes sent because a predictor wished so.
    pub prefetched: u64,
    /// Of these, of use to somebody later.
    pub prefetched_used: u64,
    /// Wishes not sent: there already, on their way, or the queue was full.
    pub refused: u64,
    /// Requests to the origin.
    pub at_origin: u64,
    /// From the first request to the last answer, in seconds.
    pub seconds: f64,
    /// The most bytes that an edge kept.
    pub edge_bytes_most: u64,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

impl Report {
    /// The share of reads that the edge answered at once.
    pub fn hit_rate(&self) -> f64 {
        if self.reads == 0 {
            return 0.0;
        }
        self.hits as f64 / self.reads as f64
    }
}
