//! Encodings of traversals: the chain in the request, the result as a sequence of pieces.

use super::Wire;
use crate::codec::{DecodeError, Reader};
use crate::filter::Expr;
use crate::traversal::{
    Budget, Filter, Hop, PathNode, PathStep, Paths, Predicate, Repeat, Segment, ServerStep, Start,
    StepProfile, Stop, StopReason, Strategy, TravelResult, Traversal, WorkingSet,
};
use crate::{VertexId, wire_enum, wire_struct};

wire_struct!(Traversal {
    start,
    start_filters,
    start_returned,
    segments,
    return_paths,
    as_of,
    versions,
    limit,
});
wire_enum!(Start {
    0 Vertices(names),
    1 Type(name),
});
wire_struct!(Segment { hops, repeat });
wire_struct!(Repeat { max });
wire_struct!(Hop {
    edge_types,
    edge_filters,
    vertex_filters,
    returned
});
wire_enum!(Filter {
    0 Attribute { attribute, predicate },
    1 Where(expr),
});
/// Encoded as its text.
impl Wire for Expr {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_string().put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::parse_canonical(r.str("a filter")?).map_err(|_| r.error("a filter that parses"))
    }
}
wire_enum!(Predicate {
    0 Eq(value),
    1 In(values),
    2 Range(low, high),
});
wire_struct!(Budget {
    steps,
    edges,
    bytes,
    millis,
    strategy
});
wire_enum!(Strategy {
    0 Sync,
    1 Prefetch,
    2 Async,
});
wire_struct!(ServerStep {
    server,
    step,
    frontier,
    edges,
    vertices_micros,
    edges_micros,
    prefetch_micros,
    wait_micros
});
wire_enum!(StopReason {
    0 Limit,
    1 Depth,
    2 Edges,
    3 Bytes,
    4 TimeOut,
    5 Interrupted,
});
wire_struct!(Stop {
    reason,
    step,
    vertices_left
});
wire_struct!(StepProfile {
    step,
    text,
    frontier,
    edges,
    selected,
    reached,
    cached,
    micros
});
wire_struct!(PathStep {
    parent,
    edge,
    version
});
wire_struct!(PathNode {
    level,
    vertex,
    end,
    parents
});

/// A piece of a [`TravelResult`].
#[derive(Debug, Clone, PartialEq)]
pub enum TravelPiece {
    /// Start of the working set after this hop.
    Set(u32),
    /// More vertices of the working set that was started last.
    Vertices(Vec<VertexId>),
    /// Start of the paths, if they were requested.
    Paths,
    /// One node of the paths.
    Node(PathNode),
}

wire_enum!(TravelPiece {
    0 Set(hop),
    1 Vertices(ids),
    2 Paths,
    3 Node(node),
});

/// The small parts of a [`TravelResult`], sent after its pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct TravelSummary {
    complete: bool,
    stopped: Vec<Stop>,
    profile: Vec<StepProfile>,
    servers: Vec<ServerStep>,
    as_of: crate::Version,
}

wire_struct!(TravelSummary {
    complete,
    stopped,
    profile,
    servers,
    as_of
});

/// Maximum of vertices in one piece.
const VERTICES_PER_PIECE: usize = 2_048;

/// Splits a result into pieces and sends them; returns the rest.
pub fn pieces<E>(
    result: TravelResult,
    mut send: impl FnMut(&TravelPiece) -> Result<(), E>,
) -> Result<TravelSummary, E> {
    let TravelResult {
        sets,
        paths,
        complete,
        stopped,
        profile,
        servers,
        as_of,
    } = result;
    for set in sets {
        send(&TravelPiece::Set(set.hop))?;
        for ids in set.vertices.chunks(VERTICES_PER_PIECE) {
            send(&TravelPiece::Vertices(ids.to_vec()))?;
        }
    }
    if let Some(paths) = paths {
        send(&TravelPiece::Paths)?;
        for node in paths.nodes {
            send(&TravelPiece::Node(node))?;
        }
    }
    Ok(TravelSummary {
        complete,
        stopped,
        profile,
        servers,
        as_of,
    })
}

/// Assembles a result from its pieces.
#[derive(Debug, Default)]
pub struct TravelAssembly {
    sets: Vec<WorkingSet>,
    paths: Option<Paths>,
}

impl TravelAssembly {
    /// Reads and adds the next piece.
    pub fn take(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        match TravelPiece::take(r)? {
            TravelPiece::Set(hop) => self.sets.push(WorkingSet {
                hop,
                vertices: Vec::new(),
            }),
            TravelPiece::Vertices(ids) => match self.sets.last_mut() {
                Some(set) => set.vertices.extend(ids),
                None => return Err(r.error("a working set before its vertices")),
            },
            TravelPiece::Paths => self.paths = Some(Paths::default()),
            TravelPiece::Node(node) => match &mut self.paths {
                Some(paths) => paths.nodes.push(node),
                None => return Err(r.error("paths before their nodes")),
            },
        }
        Ok(())
    }

    /// Returns the result assembled from all pieces.
    pub fn finish(self, rest: TravelSummary) -> TravelResult {
        let TravelSummary {
            complete,
            stopped,
            profile,
            servers,
            as_of,
        } = rest;
        TravelResult {
            sets: self.sets,
            paths: self.paths,
            complete,
            stopped,
            profile,
            servers,
            as_of,
        }
    }
}
