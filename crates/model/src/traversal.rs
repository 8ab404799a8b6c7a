//! Traversals: GraphMeta's `GTravel` chains (section 4.2) as data, and what a traversal returns.
//!
//! [`Traversal::parse`] reads the chain syntax; `Display` writes it back.

mod argument;
mod call;
mod display;
mod error;
mod lexer;
mod parse;

pub use display::value_text;
pub use error::{ParseError, ParseErrorKind};
pub(crate) use lexer::{hexadecimal, parse_nanos};
pub use parse::parse_value;

use crate::filter::{Comparison, Expr, Test};
use crate::id::{VertexId, VertexName};
use crate::key::EdgeKey;
use crate::value::Value;
use crate::version::{Version, VersionRange};

/// A whole chain: where it starts, the segments it goes through, what it returns.
///
/// `v("file:/C").e("wasWrittenBy").v().e("read").repeat().return_fp()` is one start, one segment of two hops that
/// repeats, and the return of whole paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Traversal {
    /// The first working set.
    pub start: Start,
    /// `va(…)` before the first `e(…)`.
    pub start_filters: Vec<Filter>,
    /// `rtn()` before the first `e(…)`.
    pub start_returned: bool,
    /// Hops, grouped by what repeats together.
    pub segments: Vec<Segment>,
    /// `return_fp()`: whole paths rather than the last working set.
    pub return_paths: bool,
    /// `as_of(t)`: every hop sees the graph as it was then.
    pub as_of: Option<Version>,
    /// `versions(t1, t2)`: every hop sees each edge that existed at some version in the range.
    pub versions: Option<VersionRange>,
    /// `limit(n)`: stop once the last working set has n vertices.
    pub limit: Option<u64>,
}

/// The first working set.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// `v("type:key", …)`.
    Vertices(Vec<VertexName>),
    /// `v(type="File")`: all vertices of a type and of those that specialise it.
    Type(String),
}

/// Hops that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// In order.
    pub hops: Vec<Hop>,
    /// `repeat()` behind the last of them: go through all again from where they lead, until nothing new is reached.
    pub repeat: Option<Repeat>,
}

/// How often a segment repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// `repeat(max=n)`: go through the segment at most n times in all.
    pub max: Option<u32>,
}

/// `e(type…)` with the filters behind it and, usually, `v()` with its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Hop {
    /// Edge types to follow; empty for all.
    pub edge_types: Vec<String>,
    /// `ea(…)`: all must hold.
    pub edge_filters: Vec<Filter>,
    /// `va(…)`: all must hold of the vertices reached.
    pub vertex_filters: Vec<Filter>,
    /// `rtn()`: this working set is returned.
    pub returned: bool,
}

/// A condition on a vertex or an edge.
///
/// Names with a meaning of their own: on vertices `type` (specialisations included), `key`, `version`;
/// on edges `type`, `version`. Versions are compared with timestamps.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// On an attribute of a vertex or a property of an edge. One that is absent never fulfils it.
    Attribute {
        /// Its name.
        attribute: String,
        /// What must hold.
        predicate: Predicate,
    },
    /// In the filter language: `va("energy > 3 AND note LIKE 'run%'")`.
    Where(Expr),
}

/// GraphMeta's filter types.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// `EQ, x`.
    Eq(Value),
    /// `IN, x, y, …`.
    In(Vec<Value>),
    /// `RANGE, low, high`: both ends inside; null for an open end.
    Range(Value, Value),
}

impl Predicate {
    /// The same in the filter language's words.
    pub fn test(&self) -> Test {
        match self {
            Self::Eq(x) => Test::Compare(Comparison::Eq, x.clone()),
            Self::In(xs) => Test::In(xs.clone()),
            Self::Range(Value::Null, Value::Null) => Test::Compare(Comparison::Ne, Value::Null),
            Self::Range(low, Value::Null) => Test::Compare(Comparison::Ge, low.clone()),
            Self::Range(Value::Null, high) => Test::Compare(Comparison::Le, high.clone()),
            Self::Range(low, high) => Test::Between(low.clone(), high.clone()),
        }
    }

    /// Whether a value fulfils it.
    pub fn holds(&self, value: &Value) -> bool {
        self.test().holds(value)
    }
}

/// What a traversal may spend. `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Hops, counted through repeats.
    pub steps: Option<u32>,
    /// Edges looked at.
    pub edges: Option<u64>,
    /// Bytes of working sets and paths held in memory.
    pub bytes: Option<u64>,
    /// Milliseconds.
    pub millis: Option<u64>,
    /// How the servers of a cluster go about it; an embedded database does not look at it.
    pub strategy: Strategy,
}

/// How the servers of a cluster run a traversal. What comes out is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Step by step: none begins before the last one is done everywhere (GraphMeta, section 5.1).
    Sync,
    /// The same; a server that waits for the next step loads what it will need (GraphMeta, section 5.2).
    #[default]
    Prefetch,
    /// Without steps: every server goes on from what it is told at once (GraphTrek).
    Async,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sync, Self::Prefetch, Self::Async];

    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Prefetch => "prefetch",
            Self::Async => "async",
        }
    }
}

/// Why something was not followed to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopReason {
    /// `limit(n)` was reached.
    Limit,
    /// `repeat(max=n)`, `--depth` or the budget of steps.
    Depth,
    /// The budget of edges.
    Edges,
    /// The budget of bytes.
    Bytes,
    /// The budget of time.
    TimeOut,
    /// The caller stopped it.
    Interrupted,
}

impl StopReason {
    /// One word for people and for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Depth => "depth",
            Self::Edges => "edges",
            Self::Bytes => "bytes",
            Self::TimeOut => "time-out",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Where a traversal stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// The hop (from 1, counted through repeats) that was under way or would have been next.
    pub step: u32,
    /// How many vertices of that hop's frontier were not followed.
    pub vertices_left: u64,
}

/// What one hop did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepProfile {
    /// From 1, counted through repeats.
    pub step: u32,
    /// The hop in the chain's own words.
    pub text: String,
    /// Vertices it started from.
    pub frontier: u64,
    /// Edges it looked at.
    pub edges: u64,
    /// Edges that passed the filters.
    pub selected: u64,
    /// Distinct vertices it reached.
    pub reached: u64,
    /// Vertices whose edges came from the adjacency cache.
    pub cached: u64,
    /// Microseconds.
    pub micros: u64,
}

/// What one server of a cluster did in one step: the parts of GraphMeta's Figure 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerStep {
    /// Which server.
    pub server: u32,
    /// From 1, counted through repeats.
    pub step: u32,
    /// Vertices that it started from.
    pub frontier: u64,
    /// Edges that it looked at.
    pub edges: u64,
    /// Microseconds of reading vertices.
    pub vertices_micros: u64,
    /// Microseconds of reading edges.
    pub edges_micros: u64,
    /// Microseconds of reading ahead for this step.
    pub prefetch_micros: u64,
    /// Microseconds of waiting for other servers.
    pub wait_micros: u64,
}

/// One `rtn()`, or the last working set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkingSet {
    /// The hop after which it was taken: 0 for the start, else its place in the chain (repeats not counted).
    pub hop: u32,
    /// In the order reached, each once.
    pub vertices: Vec<VertexId>,
}

/// Whole paths, kept as parent pointers: every edge that a path goes through, once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Paths {
    /// `(level, vertex)`: level 0 holds the start, level n what n hops reach. A vertex may stand in several levels.
    pub nodes: Vec<PathNode>,
}

/// A vertex at a place in the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct PathNode {
    /// Hops from the start when first reached.
    pub level: u32,
    /// The vertex.
    pub vertex: VertexId,
    /// Whether a path may end here.
    pub end: bool,
    /// How it was reached: the node before (an index into [`Paths::nodes`]), the edge, its version.
    pub parents: Vec<PathStep>,
}

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStep {
    /// Index into [`Paths::nodes`].
    pub parent: u32,
    /// The edge that was followed.
    pub edge: EdgeKey,
    /// The version of it that was seen.
    pub version: Version,
}

/// What a traversal found.
#[derive(Debug, Clone, PartialEq)]
pub struct TravelResult {
    /// Working sets in the order of the chain: one for each `rtn()`, or the last one if there is none.
    pub sets: Vec<WorkingSet>,
    /// With `return_fp()`.
    pub paths: Option<Paths>,
    /// Whether everything was followed to its end.
    pub complete: bool,
    /// Where not.
    pub stopped: Vec<Stop>,
    /// What each hop did.
    pub profile: Vec<StepProfile>,
    /// What each server did in each hop; nothing for an embedded database.
    pub servers: Vec<ServerStep>,
    /// The version that the answer was read as of.
    pub as_of: Version,
}
