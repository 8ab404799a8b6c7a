//! Requests between servers about distributed traversals.
//!
//! The home of each vertex keeps track of whether a traversal has reached it. A chain position is a point in the
//! chain where a working set forms: 0 is the start, then one for each hop; a segment that repeats comes to its
//! positions several times.

use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::object::Principal;
use esker_model::traversal::{Budget, StopReason};
use esker_model::{Traversal, Version, VertexId, wire_enum, wire_newtype, wire_struct};

/// Id of a running traversal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraversalId {
    /// Server that coordinates the traversal.
    pub server: ServerId,
    /// Incarnation of the coordinator: how often it had been started.
    pub incarnation: u64,
    /// Number of the traversal within the incarnation.
    pub number: u64,
}

/// A position in the chain of a traversal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainPosition(pub u32);

/// One expansion over a hop of the chain, at one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopAt {
    /// Id of the traversal.
    pub travel: TraversalId,
    /// Number of the step, from 1, counting repeats. In an asynchronous traversal, counted from the beginning of the segment.
    pub step: u32,
    /// Position of the frontier.
    pub from: ChainPosition,
    /// Position that the hop leads to.
    pub to: ChainPosition,
}

/// Remainder of a traversal's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemainingBudget {
    /// Remaining time in milliseconds.
    pub millis: Option<u64>,
    /// Remaining number of edges.
    pub edges: Option<u64>,
}

/// Requests between servers about a traversal.
#[derive(Debug, Clone, PartialEq)]
pub enum TraversalCall {
    /// Begins the traversal: finds the start vertices whose home is the receiver.
    Begin(TraversalBegin),
    /// Runs a step: expands the frontier whose home is the receiver, and reports reached vertices to their homes.
    Step {
        /// Hop and step to run.
        hop: HopAt,
        /// Whether the frontier is everything visited at its position, and not only what the previous step reached.
        whole: bool,
        /// Position that the following step will lead to, if known; used to prefetch.
        next: Option<ChainPosition>,
        /// Remaining budget.
        left: RemainingBudget,
    },
    /// Expands vertices that have a part of their edges at the receiver, and reports reached vertices to their homes.
    Expand {
        /// Hop and step to run.
        hop: HopAt,
        /// Vertices to expand.
        vertices: Vec<VertexId>,
        /// Remaining budget.
        left: RemainingBudget,
        /// Share of the credit that comes with the message in an asynchronous traversal; otherwise 0.
        credit: u64,
        /// Number of the sender's message in an asynchronous traversal.
        number: u64,
    },
    /// Reports vertices whose home is the receiver and which a step has reached.
    Reach {
        /// Hop and step that reached them.
        hop: HopAt,
        /// Edges over which they were reached.
        reached: Vec<Reached>,
    },
    /// Reports reached vertices of an asynchronous traversal, from which the receiver continues at once.
    Continue {
        /// Hop and step that reached them. A hop from position 0 to position 0 is the start.
        hop: HopAt,
        /// Number of the sender's message, so that a message that arrives twice counts once.
        number: u64,
        /// Edges over which they were reached.
        reached: Vec<Reached>,
        /// Share of the credit that comes with the message.
        credit: u64,
    },
    /// Returns credit to the coordinator of an asynchronous traversal.
    Credit {
        /// Id of the traversal.
        travel: TraversalId,
        /// Number of the sender's message.
        number: u64,
        /// Amount of credit.
        credit: u64,
        /// Reason why the sender stopped early, if it did.
        stopped: Option<StopReason>,
        /// The sender's error as text, if it failed.
        failed: Option<String>,
    },
    /// Requests more credit from the coordinator of an asynchronous traversal, because too little is left to share.
    MoreCredit {
        /// Id of the traversal.
        travel: TraversalId,
        /// Number of the sender's message.
        number: u64,
    },
    /// Asks whether the traversal is known at the receiver.
    Alive {
        /// Id of the traversal.
        travel: TraversalId,
    },
    /// Collects the receiver's part of working sets and paths, page by page.
    Collect {
        /// Id of the traversal.
        travel: TraversalId,
        /// Number of vertices that earlier pages had.
        from: u64,
    },
    /// Ends the traversal; the receiver discards its state.
    End {
        /// Id of the traversal.
        travel: TraversalId,
    },
}

/// Arguments that begin a traversal on a server.
#[derive(Debug, Clone, PartialEq)]
pub struct TraversalBegin {
    /// Id of the traversal.
    pub travel: TraversalId,
    /// The chain to traverse.
    pub traversal: Traversal,
    /// Principal of the call; `None` sees everything.
    pub principal: Option<Principal>,
    /// Start vertices, if the chain names some; files are resolved by their present paths.
    pub starts: Vec<VertexId>,
    /// Version that counts as "now" on all servers.
    pub now: Version,
    /// Budget and strategy of the traversal.
    pub budget: Budget,
}

/// A reached vertex and the edge over which it was reached. Without paths, one edge per vertex is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// Edge that leads to the vertex.
    pub edge: EdgeKey,
    /// Version of the edge that was read.
    pub version: Version,
}

/// A vertex that a traversal visited.
#[derive(Debug, Clone, PartialEq)]
pub struct Visited {
    /// Position in the chain.
    pub position: ChainPosition,
    /// Id of the vertex.
    pub vertex: VertexId,
    /// Step that first reached the vertex.
    pub step: u32,
    /// Edges over which it was reached, if paths are kept: previous position, edge, version.
    pub parents: Vec<PathEntry>,
}

/// One edge of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathEntry {
    /// Previous position in the chain.
    pub from: ChainPosition,
    /// Edge of the path.
    pub edge: EdgeKey,
    /// Version of the edge that was read.
    pub version: Version,
}

/// Statistics of one server for one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepDone {
    /// Number of vertices in the frontier.
    pub frontier: u64,
    /// Number of edges read.
    pub edges: u64,
    /// Number of edges that passed the filters.
    pub selected: u64,
    /// Number of vertices that were new at their homes and are visited.
    pub reached: u64,
    /// Whether there may be vertices to continue from. (The second delivery of a message finds nothing new.)
    pub leads_on: bool,
    /// Number of vertices whose edges came from the adjacency cache.
    pub cached: u64,
    /// Microseconds spent reading vertices.
    pub vertices_micros: u64,
    /// Microseconds spent reading edges.
    pub edges_micros: u64,
    /// Microseconds spent prefetching for this step.
    pub prefetch_micros: u64,
    /// Microseconds since the server finished the previous step.
    pub wait_micros: u64,
    /// Reason why the server stopped early, if it did.
    pub stopped: Option<StopReason>,
}

/// Responses between servers about a traversal.
#[derive(Debug, Clone, PartialEq)]
pub enum TraversalReply {
    /// Response to `Begin`: number of start vertices whose home is the responder.
    Started(u64),
    /// Response to `Step`.
    Stepped(StepDone),
    /// Response to `Expand`.
    Expanded {
        /// Statistics of the expansion.
        done: StepDone,
        /// Encoded split states of the vertices that have split.
        splits: Vec<(VertexId, Vec<u8>)>,
    },
    /// Response to `Reach`.
    Reached {
        /// Number of vertices that were new and are visited.
        new: u64,
        /// Whether this step was the first to reach any of them.
        leads_on: bool,
    },
    /// Response to `MoreCredit`: the amount.
    Credit(u64),
    /// Response to `Collect`.
    Collected {
        /// Visited vertices of the page.
        visited: Vec<Visited>,
        /// Whether more vertices follow.
        more: bool,
        /// The server's statistics by position (asynchronous traversals); with the last page.
        steps: Vec<(u32, StepDone)>,
    },
    /// The traversal is not known at the responder, which was restarted.
    Unknown,
    /// The request was done; there is no result.
    Done,
}

wire_newtype!(ChainPosition);
wire_struct!(TraversalId {
    server,
    incarnation,
    number
});
wire_struct!(HopAt {
    travel,
    step,
    from,
    to
});
wire_struct!(RemainingBudget { millis, edges });
wire_enum!(TraversalCall {
    0 Begin(begin),
    1 Step { hop, whole, next, left },
    2 Expand { hop, vertices, left, credit, number },
    3 Reach { hop, reached },
    4 Continue { hop, number, reached, credit },
    5 Credit { travel, number, credit, stopped, failed },
    6 MoreCredit { travel, number },
    7 Alive { travel },
    8 Collect { travel, from },
    9 End { travel },
});
wire_struct!(TraversalBegin {
    travel,
    traversal,
    principal,
    starts,
    now,
    budget
});
wire_struct!(Reached { edge, version });
wire_struct!(Visited {
    position,
    vertex,
    step,
    parents
});
wire_struct!(PathEntry {
    from,
    edge,
    version
});
wire_struct!(StepDone {
    frontier,
    edges,
    selected,
    reached,
    leads_on,
    cached,
    vertices_micros,
    edges_micros,
    prefetch_micros,
    wait_micros,
    stopped
});
wire_enum!(TraversalReply {
    0 Started(vertices),
    1 Stepped(done),
    2 Expanded { done, splits },
    3 Reached { new, leads_on },
    4 Credit(credit),
    5 Collected { visited, more, steps },
    6 Unknown,
    7 Done,
});
