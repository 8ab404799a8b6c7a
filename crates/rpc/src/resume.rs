//! Going on with a scan whose server went away in the middle: behind the last item that the caller got.

use esker_model::{Edge, EdgeKey, Flow, Version, Vertex, VertexId, VertexTypeId};
use std::ops::ControlFlow;

/// Where an edge scan is: edges come by frontier index, type, destination, newest version first.
#[derive(Debug, Default)]
pub struct EdgesResume {
    last: Option<(usize, EdgeKey, Version)>,
    /// A scan that was begun again may bring what the caller has.
    again: bool,
}

impl EdgesResume {
    /// The part of the frontier that is not done, and where it begins.
    pub fn rest<'a>(&mut self, frontier: &'a [VertexId]) -> (usize, &'a [VertexId]) {
        self.again = self.last.is_some();
        let from = self.last.as_ref().map_or(0, |(i, ..)| *i);
        (from, frontier.get(from..).unwrap_or_default())
    }

    /// Hands an edge on unless the caller has it.
    pub fn pass(
        &mut self,
        index: usize,
        edge: Edge,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Flow {
        let place = |i: usize, k: &EdgeKey, v: Version| (i, k.edge_type, k.destination, !v.0);
        if self.again
            && let Some((i, k, v)) = &self.last
            && place(index, &edge.key, edge.version) <= place(*i, k, *v)
        {
            return ControlFlow::Continue(());
        }
        self.again = false;
        self.last = Some((index, edge.key, edge.version));
        sink(index, edge)
    }
}

/// Where a vertex scan is: vertices come by type and id.
#[derive(Debug)]
pub struct VerticesResume {
    after: Option<(VertexTypeId, VertexId)>,
}

impl VerticesResume {
    /// Begins behind that vertex.
    pub fn after(after: Option<(VertexTypeId, VertexId)>) -> Self {
        Self { after }
    }

    /// Behind which vertex to go on.
    pub fn position(&self) -> Option<(VertexTypeId, VertexId)> {
        self.after
    }

    /// Hands a vertex on.
    pub fn pass(&mut self, vertex: Vertex, sink: &mut dyn FnMut(Vertex) -> Flow) -> Flow {
        self.after = Some((vertex.type_id, vertex.id));
        sink(vertex)
    }
}
