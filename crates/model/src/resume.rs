//! Continues an interrupted scan after the last item that the caller received.

use crate::object::{Find, FindReport, Found};
use crate::{Edge, EdgeKey, EdgeSelect, Flow, Version, Versions, Vertex, VertexId, VertexTypeId};
use std::ops::ControlFlow;

/// Position of an edge scan: edges are ordered by frontier index, type and destination, newest version first.
#[derive(Debug, Default)]
pub struct EdgesResume {
    last: Option<(usize, EdgeKey, Version)>,
    /// Whether the scan was restarted and may repeat items.
    restarted: bool,
}

impl EdgesResume {
    /// Returns the remaining part of the frontier with its start index, and the selection of the remaining edges.
    pub fn rest<'a>(
        &mut self,
        frontier: &'a [VertexId],
        select: &EdgeSelect,
    ) -> (usize, &'a [VertexId], EdgeSelect) {
        self.restarted = self.last.is_some();
        let from = self.last.as_ref().map_or(0, |(i, ..)| *i);
        let rest = frontier.get(from..).unwrap_or_default();
        let mut select = select.clone();
        match (&self.last, select.versions) {
            (Some((_, key, _)), Versions::AsOf(_)) => {
                select.after = Some((key.edge_type, key.destination));
            }
            // The last edge may have more versions: the scan repeats the vertex, and `pass` omits what it repeats.
            (Some(_), Versions::Range(_)) if from > 0 => select.after = None,
            _ => {}
        }
        (from, rest, select)
    }

    /// Passes an edge on unless the caller has received it already.
    pub fn pass(
        &mut self,
        index: usize,
        edge: Edge,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Flow {
        let place = |i: usize, k: &EdgeKey, v: Version| (i, k.edge_type, k.destination, !v.0);
        if self.restarted
            && let Some((i, k, v)) = &self.last
            && place(index, &edge.key, edge.version) <= place(*i, k, *v)
        {
            return ControlFlow::Continue(());
        }
        self.restarted = false;
        self.last = Some((index, edge.key, edge.version));
        sink(index, edge)
    }
}

/// Position of a vertex scan: vertices are ordered by type and id.
#[derive(Debug)]
pub struct VerticesResume {
    after: Option<(VertexTypeId, VertexId)>,
}

impl VerticesResume {
    /// A scan that starts after a vertex.
    pub fn after(after: Option<(VertexTypeId, VertexId)>) -> Self {
        Self { after }
    }

    /// The last vertex delivered.
    pub fn position(&self) -> Option<(VertexTypeId, VertexId)> {
        self.after
    }

    /// Passes a vertex on and records it.
    pub fn pass(&mut self, vertex: Vertex, sink: &mut dyn FnMut(Vertex) -> Flow) -> Flow {
        self.after = Some((vertex.type_id, vertex.id));
        sink(vertex)
    }
}

/// Position of a search for objects.
#[derive(Debug)]
pub struct FindResume {
    /// The search for the remaining objects.
    rest: Find,
    delivered: u64,
    /// Number of objects delivered before the last restart.
    before: u64,
}

impl FindResume {
    /// A search that has delivered no objects.
    pub fn new(find: &Find) -> Self {
        Self {
            rest: find.clone(),
            delivered: 0,
            before: 0,
        }
    }

    /// The search to send now.
    pub fn rest(&mut self) -> &Find {
        let since = self.delivered - self.before;
        self.before = self.delivered;
        self.rest.limit = self.rest.limit.map(|limit| limit.saturating_sub(since));
        &self.rest
    }

    /// Passes an object on and counts it.
    pub fn pass(&mut self, found: Found, sink: &mut dyn FnMut(Found) -> Flow) -> Flow {
        self.rest.after = Some(found.id);
        self.delivered += 1;
        sink(found)
    }

    /// The report of the complete search, from the report of its last part.
    pub fn report(&self, last: FindReport) -> FindReport {
        if self.rest.count {
            return last;
        }
        FindReport {
            // The server may have found objects that it did not send before it stopped.
            matches: self.delivered,
            ..last
        }
    }

    /// The report of a search that its sink ended before the report arrived.
    pub fn broken_off(&self) -> FindReport {
        FindReport {
            matches: self.delivered,
            ..FindReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Properties;
    use crate::filter::Expr;
    use crate::object::ObjectId;

    fn found(id: u64) -> Found {
        Found {
            id: ObjectId(id),
            created: Version(id),
            modified: Version(id),
            attributes: Properties::new(),
            tags: Properties::new(),
        }
    }

    #[test]
    fn a_search_goes_on_behind_what_it_gave_and_counts_it() {
        let find = Find {
            limit: Some(5),
            ..Find::all(Expr::All)
        };
        let mut resume = FindResume::new(&find);
        assert_eq!(resume.rest(), &find);
        let mut delivered = Vec::new();
        let mut sink = |f: Found| {
            delivered.push(f.id.0);
            ControlFlow::Continue(())
        };
        for id in [7, 9] {
            assert!(resume.pass(found(id), &mut sink).is_continue());
        }
        // Twice in a row: the second owner ended without delivering anything.
        for _ in 0..2 {
            let rest = resume.rest();
            assert_eq!((rest.limit, rest.after), (Some(3), Some(ObjectId(9))));
        }
        assert!(resume.pass(found(11), &mut sink).is_continue());
        let last = FindReport {
            matches: 1,
            complete: true,
            ..FindReport::default()
        };
        let report = resume.report(last);
        assert_eq!((report.matches, report.complete), (3, true));
        let report = resume.broken_off();
        assert_eq!((report.matches, report.complete), (3, false));
        assert_eq!(delivered, [7, 9, 11]);
    }
}
