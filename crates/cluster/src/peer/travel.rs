//! Traversals over several servers, as the servers tell each other.
//!
//! Each vertex that a traversal reaches is kept track of at its home. A position is a place in the chain where a working
//! set forms: 0 is the start, then one for each hop; a segment that repeats comes to its positions again and again.

use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::traversal::{Budget, StopReason};
use esker_model::{Traversal, Version, VertexId};

/// A traversal under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TravelId {
    /// The server that coordinates it.
    pub server: ServerId,
    /// How often it had been started.
    pub incarnation: u64,
    /// Counted since then.
    pub number: u64,
}

/// A position in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

/// What a server is asked about a traversal.
#[derive(Debug, Clone, PartialEq)]
pub enum TravelCall {
    /// Get ready; find the part of the start that is at home here.
    Begin(TravelBegin),
    /// A step: expand the frontier that is at home here, and see to it that what it leads to is known where that is at
    /// home.
    Step {
        /// Which traversal.
        travel: TravelId,
        /// Counted through repeats, from 1.
        step: u32,
        /// Where it starts.
        from: Place,
        /// Where it leads.
        to: Place,
        /// Milliseconds left.
        millis: Option<u64>,
        /// Edges that may still be looked at.
        edges: Option<u64>,
    },
    /// Expand vertices whose edges lie here in part, and tell the homes of what they lead to.
    Expand {
        /// Which traversal.
        travel: TravelId,
        /// Which step.
        step: u32,
        /// Where it starts.
        from: Place,
        /// Where it leads.
        to: Place,
        /// Whose edges.
        vertices: Vec<VertexId>,
    },
    /// Vertices at home here that a step has reached.
    Reach {
        /// Which traversal.
        travel: TravelId,
        /// Which step.
        step: u32,
        /// Where they were reached from.
        from: Place,
        /// Where.
        to: Place,
        /// How.
        reached: Vec<Reached>,
    },
    /// What is at home here of the working sets and paths so far, for a server that has lost it.
    Restore(Restore),
    /// Asynchronous: vertices at home here to go on from, with a share of the traversal's credit.
    Go(AsyncEntries),
    /// Asynchronous, to the coordinator: credit that is used up.
    Credit(Credit),
    /// What is at home here of working sets and paths.
    Collect {
        /// Which traversal.
        travel: TravelId,
    },
    /// It is over: forget it.
    End {
        /// Which traversal.
        travel: TravelId,
    },
}

/// A traversal begins.
#[derive(Debug, Clone, PartialEq)]
pub struct TravelBegin {
    /// Its name.
    pub travel: TravelId,
    /// The chain.
    pub traversal: Traversal,
    /// What is now, for all servers.
    pub as_of: Version,
    /// What it may spend, and how it runs.
    pub budget: Budget,
}

/// A vertex that was reached, and over which edge. Without paths, one edge a vertex is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The edge.
    pub edge: EdgeKey,
    /// The version of it that was seen.
    pub version: Version,
}

/// The state of a server that has lost it.
#[derive(Debug, Clone, PartialEq)]
pub struct Restore {
    /// The traversal, as it began.
    pub begin: TravelBegin,
    /// What was visited there.
    pub visited: Vec<Visited>,
    /// The frontier: those that step reached.
    pub step: u32,
}

/// A vertex that a traversal visited.
#[derive(Debug, Clone, PartialEq)]
pub struct Visited {
    /// Where.
    pub place: Place,
    /// Which.
    pub vertex: VertexId,
    /// By which step it was first reached.
    pub step: u32,
    /// How it was reached, if paths are kept: the position before, the edge, its version.
    pub parents: Vec<PathEntry>,
}

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathEntry {
    /// The position before.
    pub from: Place,
    /// The edge.
    pub edge: EdgeKey,
    /// The version of it that was seen.
    pub version: Version,
}

/// Vertices at home at the receiver, to go on from at once.
#[derive(Debug, Clone, PartialEq)]
pub struct AsyncEntries {
    /// Which traversal.
    pub travel: TravelId,
    /// Which message of its sender, so that one that comes twice counts once.
    pub number: u64,
    /// Hops behind the start.
    pub step: u32,
    /// Where they were reached from.
    pub from: Place,
    /// Where they were reached.
    pub to: Place,
    /// How.
    pub reached: Vec<Reached>,
    /// The share of the credit that comes with them.
    pub credit: u64,
}

/// Credit that comes back to the coordinator.
#[derive(Debug, Clone, PartialEq)]
pub struct Credit {
    /// Which traversal.
    pub travel: TravelId,
    /// Which message of its sender.
    pub number: u64,
    /// Who sends it.
    pub server: ServerId,
    /// How much.
    pub credit: u64,
    /// Why the sender stopped early, if it did.
    pub stopped: Option<StopReason>,
    /// Why it failed, in words, if it did.
    pub failed: Option<String>,
}

/// What a server did in a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepDone {
    /// Vertices that it started from.
    pub frontier: u64,
    /// Edges looked at, for it or by it.
    pub edges: u64,
    /// Edges that passed the filters.
    pub selected: u64,
    /// Vertices whose edges came from the adjacency cache.
    pub cached: u64,
    /// Microseconds spent on reading vertices.
    pub vertices_micros: u64,
    /// Microseconds spent on reading edges.
    pub edges_micros: u64,
    /// Microseconds spent on prefetching before the step.
    pub prefetch_micros: u64,
    /// Microseconds since its last step's end in which it did nothing for this traversal.
    pub wait_micros: u64,
    /// Why it stopped early, if it did.
    pub stopped: Option<StopReason>,
}

/// What comes back.
#[derive(Debug, Clone, PartialEq)]
pub enum TravelReply {
    /// To [`TravelCall::Begin`] and [`TravelCall::Restore`]: what of the start is at home here.
    Started(Vec<VertexId>),
    /// To [`TravelCall::Step`] and [`TravelCall::Expand`].
    Stepped(StepDone),
    /// To [`TravelCall::Reach`]: those that were new there.
    Reached(Vec<VertexId>),
    /// To [`TravelCall::Collect`].
    Collected {
        /// What was visited.
        visited: Vec<Visited>,
        /// By step: what the server did (asynchronous traversals).
        steps: Vec<(u32, StepDone)>,
    },
    /// The traversal is not known here: the server was started again.
    Unknown,
    /// Done.
    Done,
}
