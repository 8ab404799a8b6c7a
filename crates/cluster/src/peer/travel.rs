//! Traversals over several servers, as the servers tell each other.
//!
//! Each vertex that a traversal reaches is kept track of at its home. A place is a position in the chain where a working
//! set forms: 0 is the start, then one for each hop; a segment that repeats comes to its places again and again.

use crate::vnode::ServerId;
use esker_model::key::EdgeKey;
use esker_model::object::Asker;
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

/// From where to where a hop leads, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopAt {
    /// Which traversal.
    pub travel: TravelId,
    /// Which step: counted through repeats, from 1. In an asynchronous traversal, from where its segment begins.
    pub step: u32,
    /// Where it starts.
    pub from: Place,
    /// Where it leads.
    pub to: Place,
}

/// What may still be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// Milliseconds.
    pub millis: Option<u64>,
    /// Edges.
    pub edges: Option<u64>,
}

/// What a server is asked about a traversal.
#[derive(Debug, Clone, PartialEq)]
pub enum TravelCall {
    /// Get ready; find the part of the start that is at home here.
    Begin(TravelBegin),
    /// A step: expand the frontier that is at home here, and see to it that what it leads to is known where that is at
    /// home.
    Step {
        /// Which.
        hop: HopAt,
        /// Whether the frontier is all that was visited at its place, and not only what the step before reached.
        whole: bool,
        /// Where the step after this one will lead, as far as is known: for reading ahead.
        next: Option<Place>,
        /// What it may spend.
        left: Left,
    },
    /// Expand vertices whose edges lie here in part, and tell the homes of what they lead to.
    Expand {
        /// Which hop.
        hop: HopAt,
        /// Whose edges.
        vertices: Vec<VertexId>,
        /// What it may spend.
        left: Left,
        /// Asynchronous: the share of the traversal's credit that comes with them, and 0 otherwise.
        credit: u64,
        /// Asynchronous: which message of its sender.
        number: u64,
    },
    /// Vertices at home here that a step has reached.
    Reach {
        /// By which hop.
        hop: HopAt,
        /// How.
        reached: Vec<Reached>,
    },
    /// Asynchronous: vertices at home here to go on from at once.
    Go {
        /// By which hop. From place 0 to place 0 it is the start.
        hop: HopAt,
        /// Which message of its sender, so that one that comes twice counts once.
        number: u64,
        /// How they were reached.
        reached: Vec<Reached>,
        /// The share of the credit that comes with them.
        credit: u64,
    },
    /// Asynchronous, to the coordinator: credit that is used up.
    Credit {
        /// Which traversal.
        travel: TravelId,
        /// Which message of its sender.
        number: u64,
        /// How much.
        credit: u64,
        /// Why the sender stopped early, if it did.
        stopped: Option<StopReason>,
        /// Why it failed, in words, if it did.
        failed: Option<String>,
    },
    /// Asynchronous, to the coordinator: there is not enough credit left to share.
    MoreCredit {
        /// Which traversal.
        travel: TravelId,
        /// Which message of its sender.
        number: u64,
    },
    /// Is it known there?
    Alive {
        /// Which traversal.
        travel: TravelId,
    },
    /// What is at home here of working sets and paths, in pieces.
    Collect {
        /// Which traversal.
        travel: TravelId,
        /// Behind so many.
        from: u64,
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
    /// On whose behalf; `None` sees all.
    pub asker: Option<Asker>,
    /// The vertices that its starts are, if it names some: files by their paths now.
    pub starts: Vec<VertexId>,
    /// When "now" is, for all servers.
    pub now: Version,
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

/// A vertex that a traversal visited.
#[derive(Debug, Clone, PartialEq)]
pub struct Visited {
    /// Where.
    pub place: Place,
    /// Which.
    pub vertex: VertexId,
    /// By which step it was first reached.
    pub step: u32,
    /// How it was reached, if paths are kept: the place before, the edge, its version.
    pub parents: Vec<PathEntry>,
}

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathEntry {
    /// The place before.
    pub from: Place,
    /// The edge.
    pub edge: EdgeKey,
    /// The version of it that was seen.
    pub version: Version,
}

/// What a server did in a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepDone {
    /// Vertices that it started from.
    pub frontier: u64,
    /// Edges looked at.
    pub edges: u64,
    /// Edges that passed the filters.
    pub selected: u64,
    /// Vertices that were new where they are at home, and are visited.
    pub reached: u64,
    /// Whether there may be something to go on from. (A message that came twice leaves nothing new to the second.)
    pub leads_on: bool,
    /// Vertices whose edges came from the adjacency cache.
    pub cached: u64,
    /// Microseconds spent on reading vertices.
    pub vertices_micros: u64,
    /// Microseconds spent on reading edges.
    pub edges_micros: u64,
    /// Microseconds spent on reading ahead for this step.
    pub prefetch_micros: u64,
    /// Microseconds since it was done with the step before.
    pub wait_micros: u64,
    /// Why it stopped early, if it did.
    pub stopped: Option<StopReason>,
}

/// What comes back.
#[derive(Debug, Clone, PartialEq)]
pub enum TravelReply {
    /// To [`TravelCall::Begin`]: how many vertices of the start are at home here.
    Started(u64),
    /// To [`TravelCall::Step`].
    Stepped(StepDone),
    /// To [`TravelCall::Expand`]: how its vertices have split, as stored.
    Expanded {
        /// What was done.
        done: StepDone,
        /// Vertices that have split.
        splits: Vec<(VertexId, Vec<u8>)>,
    },
    /// To [`TravelCall::Reach`].
    Reached {
        /// How many were new there and are visited.
        new: u64,
        /// Whether any of them was first reached by this step.
        leads_on: bool,
    },
    /// To [`TravelCall::MoreCredit`].
    Credit(u64),
    /// To [`TravelCall::Collect`].
    Collected {
        /// What was visited.
        visited: Vec<Visited>,
        /// Whether there is more.
        more: bool,
        /// What the server did, by place (asynchronous traversals); with the last piece.
        steps: Vec<(u32, StepDone)>,
    },
    /// The traversal is not known here: the server was started again.
    Unknown,
    /// Done.
    Done,
}
