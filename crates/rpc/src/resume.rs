//! Going on with a scan whose server went away in the middle: behind the last item that the caller got.

use esker_model::object::{Find, FindReport, Found};
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

/// Where a search for objects is.
#[derive(Debug)]
pub struct FindResume {
    /// What is left to be asked for.
    rest: Find,
    given: u64,
    /// Given before the search was begun anew.
    before: u64,
}

impl FindResume {
    /// A search that gave nothing yet.
    pub fn new(find: &Find) -> Self {
        Self {
            rest: find.clone(),
            given: 0,
            before: 0,
        }
    }

    /// What to ask for now.
    pub fn rest(&mut self) -> &Find {
        let since = self.given - self.before;
        self.before = self.given;
        self.rest.limit = self.rest.limit.map(|limit| limit.saturating_sub(since));
        &self.rest
    }

    /// Hands an object on.
    pub fn pass(&mut self, found: Found, sink: &mut dyn FnMut(Found) -> Flow) -> Flow {
        self.rest.after = Some(found.id);
        self.given += 1;
        sink(found)
    }

    /// What the whole search did, by what the last part of it did.
    pub fn report(&self, last: FindReport) -> FindReport {
        FindReport {
            matches: last.matches.saturating_add(self.before),
            ..last
        }
    }

    /// What a search did that its sink ended before its report came.
    pub fn broken_off(&self) -> FindReport {
        FindReport {
            matches: self.given,
            ..FindReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::Properties;
    use esker_model::filter::Expr;
    use esker_model::object::ObjectId;

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
        let mut given = Vec::new();
        let mut sink = |f: Found| {
            given.push(f.id.0);
            ControlFlow::Continue(())
        };
        for id in [7, 9] {
            assert!(resume.pass(found(id), &mut sink).is_continue());
        }
        // Twice in a row: the second owner died without giving anything.
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
        assert_eq!(given, [7, 9, 11]);
    }
}
