//! Traversals: GraphMeta's `GTravel` chains (section 4.2) as data, and the results of traversals.
//!
//! [`Traversal::parse`] reads the chain syntax; `Display` writes it back.

mod argument;
mod call;
mod display;
mod error;
mod lexer;
mod parse;
mod possible;

pub use display::value_text;
pub use error::{TraversalErrorKind, TraversalParseError};
pub(crate) use lexer::{hexadecimal, parse_nanos};
pub use parse::parse_value;

use crate::error::{Error, Result};
use crate::filter::{Comparison, Expr, Test};
use crate::id::{VertexId, VertexName};
use crate::key::EdgeKey;
use crate::limits::TRAVERSAL_CALLS_MAX;
use crate::value::Value;
use crate::version::{Version, VersionRange};

/// A traversal: its start, the segments of hops, and the returned working sets.
///
/// `v("file:/C").e("wasWrittenBy").v().e("read").repeat().return_fp()` has one start, one segment of two hops that
/// repeats, and returns whole paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Traversal {
    /// The first working set.
    pub start: Start,
    /// Filters of the start: `va(…)` before the first `e(…)`.
    pub start_filters: Vec<Filter>,
    /// Whether the start is returned: `rtn()` before the first `e(…)`.
    pub start_returned: bool,
    /// Hops, grouped into segments that repeat together.
    pub segments: Vec<Segment>,
    /// Whether whole paths are returned instead of the last working set: `return_fp()`.
    pub return_paths: bool,
    /// Version as of which every hop reads the graph: `as_of(t)`.
    pub as_of: Option<Version>,
    /// Version range: every hop sees each edge that existed at some version in the range. `versions(t1, t2)`.
    pub versions: Option<VersionRange>,
    /// Largest number of vertices of the last working set: `limit(n)`. The traversal stops after the step in which the set
    /// exceeds it; the vertices reached by the fewest steps are kept and, of those reached by equally many, the lowest ids.
    pub limit: Option<u64>,
}

impl Traversal {
    /// Checks what the text of a chain ensures, for a traversal that a program built or another process sent: every segment has a
    /// hop, the number of calls is within its limit, and versions are chosen once.
    pub fn check(&self) -> Result<()> {
        let hops = self.segments.iter().flat_map(|segment| &segment.hops);
        let calls_of = |hop: &Hop| {
            1 + hop.edge_filters.len() + hop.vertex_filters.len() + usize::from(hop.returned)
        };
        let repeats = self.segments.iter().filter(|s| s.repeat.is_some()).count();
        let calls = 1 + self.start_filters.len() + repeats + hops.map(calls_of).sum::<usize>();
        if calls > TRAVERSAL_CALLS_MAX {
            return Err(Error::Limit {
                what: "the number of calls of a traversal".into(),
                got: calls as u64,
                limit: TRAVERSAL_CALLS_MAX as u64,
            });
        }
        if self.segments.iter().any(|segment| segment.hops.is_empty()) {
            return Err(Error::Invalid(
                "a traversal has a segment without hops: give it one, or leave it out".into(),
            ));
        }
        if self.as_of.is_some() && self.versions.is_some() {
            return Err(Error::Invalid(
                "a traversal is as of one version or over a range: choose one".into(),
            ));
        }
        Ok(())
    }
}

/// The first working set of a traversal.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// Vertices by name: `v("type:key", …)`.
    Vertices(Vec<VertexName>),
    /// All vertices of a type and of the types that specialise it: `v(type="File")`.
    Type(String),
}

/// Hops that repeat together.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Hops in order of execution.
    pub hops: Vec<Hop>,
    /// Repetition of the segment: `repeat()` behind its last hop runs all its hops again from the vertices reached,
    /// until nothing new is reached.
    pub repeat: Option<Repeat>,
}

/// Bound on the repetition of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Largest number of passes through the segment in all: `repeat(max=n)`.
    pub max: Option<u32>,
}

/// One hop: `e(type…)` with its filters and, usually, `v()` with filters.
#[derive(Debug, Clone, PartialEq)]
pub struct Hop {
    /// Names of the edge types to follow; empty for all.
    pub edge_types: Vec<String>,
    /// Filters of edges, all of which must match: `ea(…)`.
    pub edge_filters: Vec<Filter>,
    /// Filters of the vertices reached, all of which must match: `va(…)`.
    pub vertex_filters: Vec<Filter>,
    /// Whether this working set is returned: `rtn()`.
    pub returned: bool,
}

/// A condition on a vertex or an edge.
///
/// Some names have a built-in meaning: on vertices `type` (specialisations included), `key` and `version`, on edges
/// `type` and `version`. Versions are compared with timestamps.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// A condition on an attribute of a vertex or a property of an edge. It never matches where the name is absent.
    Attribute {
        /// Name of the attribute or property.
        attribute: String,
        /// Condition on its value.
        predicate: Predicate,
    },
    /// A condition in the filter language: `va("energy > 3 AND note LIKE 'run%'")`.
    Where(Expr),
}

/// The filter types of GraphMeta.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// Equal to a value: `EQ, x`.
    Eq(Value),
    /// Equal to one of several values: `IN, x, y, …`.
    In(Vec<Value>),
    /// Between two values, both included; null for an open end: `RANGE, low, high`.
    Range(Value, Value),
}

impl Predicate {
    /// Converts to the equivalent test of the filter language.
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

    /// Whether a value matches.
    pub fn matches(&self, value: &Value) -> bool {
        self.test().matches(value)
    }
}

/// Memory that a budget counts for each vertex visited at a position, in bytes.
pub const VISITED_BYTES: u64 = 5;
/// Memory that a budget counts for each selected edge if whole paths are returned, in bytes.
pub const PATH_STEP_BYTES: u64 = 64;

/// Limits on the resources of a traversal. `None` is no limit.
///
/// A traversal that would exceed a budget stops in the step that exceeds it. Its result has the working sets of all earlier
/// steps and a part of that step's; which part depends on where the data are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Largest number of steps: hops, counted through repeats.
    pub steps: Option<u32>,
    /// Largest number of edges read, including those that filters drop.
    pub edges: Option<u64>,
    /// Largest memory for working sets and paths, in bytes: [`VISITED_BYTES`] and [`PATH_STEP_BYTES`].
    pub bytes: Option<u64>,
    /// Time limit in milliseconds.
    pub millis: Option<u64>,
    /// Strategy of a cluster's servers; an embedded database ignores it.
    pub strategy: Strategy,
}

/// Execution strategy of a cluster's servers. It does not change the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Step by step: a step begins when the one before has ended on all servers (GraphMeta, section 5.1).
    Sync,
    /// Step by step; a server that waits for the next step prefetches what it will need (GraphMeta, section 5.2).
    #[default]
    Prefetch,
    /// Without steps: every server continues with vertices as soon as it receives them (GraphTrek).
    Async,
}

impl Strategy {
    /// All strategies, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Sync, Self::Prefetch, Self::Async];

    /// Returns the name on the command line and in protocols.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Prefetch => "prefetch",
            Self::Async => "async",
        }
    }
}

/// Reason why a traversal is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopReason {
    /// `limit(n)` was reached.
    Limit,
    /// `repeat(max=n)`, `--depth` or the limit on steps was reached.
    Depth,
    /// The limit on edges was reached.
    Edges,
    /// The limit on memory was reached.
    Bytes,
    /// The time limit was reached.
    TimeOut,
    /// The caller cancelled the traversal.
    Interrupted,
}

impl StopReason {
    /// Returns one word for messages and JSON.
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

/// A point where a traversal stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// Reason of the stop.
    pub reason: StopReason,
    /// The hop, from 1 and counted through repeats, that was under way or would have been next.
    pub step: u32,
    /// Number of vertices of that hop's frontier that were not followed.
    pub vertices_left: u64,
}

/// Statistics of one hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepProfile {
    /// Number of the hop, from 1, counted through repeats.
    pub step: u32,
    /// Text of the hop in the chain syntax.
    pub text: String,
    /// Number of vertices in the frontier.
    pub frontier: u64,
    /// Number of edges read.
    pub edges: u64,
    /// Number of edges that matched the filters.
    pub selected: u64,
    /// Number of distinct vertices reached.
    pub reached: u64,
    /// Number of vertices whose edges came from the adjacency cache.
    pub cached: u64,
    /// Duration of the hop in microseconds.
    pub micros: u64,
}

/// Statistics of one server in one step: the parts of GraphMeta's Figure 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerStep {
    /// Number of the server.
    pub server: u32,
    /// Number of the step, from 1, counted through repeats.
    pub step: u32,
    /// Number of vertices in the server's part of the frontier.
    pub frontier: u64,
    /// Number of edges that the server read.
    pub edges: u64,
    /// Time for reading vertices, in microseconds.
    pub vertices_micros: u64,
    /// Time for reading edges, in microseconds.
    pub edges_micros: u64,
    /// Time for prefetching for this step, in microseconds.
    pub prefetch_micros: u64,
    /// Time spent waiting for other servers, in microseconds.
    pub wait_micros: u64,
}

/// A returned working set: that of one `rtn()`, or the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkingSet {
    /// The hop that produced the set: 0 for the start, else its position in the chain (repeats not counted).
    pub hop: u32,
    /// Distinct vertices: those reached by fewer steps come first, and those reached by equally many are in order of id.
    pub vertices: Vec<VertexId>,
}

/// Whole paths, stored as parent pointers: every edge on a path once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Paths {
    /// The nodes `(level, vertex)`: level 0 contains the start, level n what n hops reach. A vertex may occur in
    /// several levels. Nodes are in order of level, position in the chain, and vertex.
    pub nodes: Vec<PathNode>,
}

/// A vertex at one level of the paths.
#[derive(Debug, Clone, PartialEq)]
pub struct PathNode {
    /// Number of hops from the start when first reached.
    pub level: u32,
    /// Id of the vertex.
    pub vertex: VertexId,
    /// Whether a path may end at this node.
    pub end: bool,
    /// Incoming steps: the previous node, the edge and its version; in order of the previous node's position in the chain, of the
    /// edge and of the version.
    pub parents: Vec<PathStep>,
}

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStep {
    /// Index of the previous node in [`Paths::nodes`].
    pub parent: u32,
    /// Key of the edge that was followed.
    pub edge: EdgeKey,
    /// The version of the edge that was read.
    pub version: Version,
}

/// The result of a traversal.
#[derive(Debug, Clone, PartialEq)]
pub struct TravelResult {
    /// Working sets in the order of the chain: one for each `rtn()`, or the last one if there is no `rtn()`.
    pub sets: Vec<WorkingSet>,
    /// Whole paths, with `return_fp()`.
    pub paths: Option<Paths>,
    /// Whether nothing cut the traversal short.
    pub complete: bool,
    /// Points where the traversal was cut short.
    pub stopped: Vec<Stop>,
    /// Statistics of each hop.
    pub profile: Vec<StepProfile>,
    /// Statistics of each server in each hop; empty for an embedded database.
    pub servers: Vec<ServerStep>,
    /// The version as of which the graph was read: that of `as_of(t)`; for `versions(t1, t2)` the last version of the range;
    /// for the present, or a range that has not ended, the newest version when the traversal began, or [`Version::MAX`] if
    /// that would tell a limited principal of changes that it may not see.
    pub as_of: Version,
}
