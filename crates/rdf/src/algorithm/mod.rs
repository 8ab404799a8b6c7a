//! Graph algorithms on the result of a CONSTRUCT: its triples are edges from subject to object.
//!
//! Vertices are numbered densely; edges are in compressed sparse rows in both directions. Two triples with the same ends are one edge;
//! literals are not vertices. Every result depends only on the data, whatever the number of threads.

mod betweenness;
mod communities;
mod components;
mod paths;
mod rank;
#[cfg(test)]
mod tests;
mod triangles;

pub use betweenness::betweenness;
pub use communities::{Communities, communities};
pub use components::{strong, weak};
pub use paths::{Paths, shortest};
pub use rank::{Rank, pagerank};
pub use triangles::triangles;

use crate::dictionary::{Head, Parts};
use crate::error::{Error, Result};
use crate::id::Id;
use crate::query::{Answer, Found};

/// Cancellation check: returns the reason to stop, or `None`.
pub type Stop<'a> = &'a (dyn Fn() -> Option<&'static str> + Sync);

pub(crate) fn check(stop: Stop<'_>) -> Result<()> {
    stop().map_or(Ok(()), |why| Err(Error::Stopped(why)))
}

/// Adjacency lists in compressed sparse rows, each ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AdjacencyLists {
    offsets: Vec<usize>,
    targets: Vec<u32>,
}

impl AdjacencyLists {
    /// Builds adjacency lists from sorted, distinct edges.
    fn new(vertices: usize, edges: &[(u32, u32)]) -> Self {
        let mut offsets = vec![0; vertices + 1];
        for (from, _) in edges {
            offsets[*from as usize + 1] += 1;
        }
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        Self {
            offsets,
            targets: edges.iter().map(|e| e.1).collect(),
        }
    }

    pub(crate) fn of(&self, v: usize) -> &[u32] {
        &self.targets[self.offsets[v]..self.offsets[v + 1]]
    }
}

/// Returns all ends, sorted and distinct.
fn ids(ends: &[(Id, Id)]) -> Vec<Id> {
    let mut ids: Vec<Id> = ends.iter().flat_map(|(a, b)| [*a, *b]).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A graph with densely numbered vertices.
#[derive(Debug, Clone, Default)]
pub struct Network {
    vertices: Vec<Id>,
    /// Vertex number by term id, sorted.
    numbers: Vec<(Id, u32)>,
    out: AdjacencyLists,
    into: AdjacencyLists,
    /// Undirected edges, without self-loops.
    both: AdjacencyLists,
    edges: usize,
}

impl Network {
    /// Builds the graph of a CONSTRUCT's answer. If `undirected`, each edge is added in both directions.
    pub fn of(answer: &Answer<'_>, undirected: bool) -> Result<Self> {
        let Found::Triples(triples) = &answer.found else {
            return Err(Error::Refused(
                "the pattern gives no graph; expected a CONSTRUCT, as in CONSTRUCT { ?a <urn:edge> ?b } WHERE { ?a ?p ?b }".into(),
            ));
        };
        let is_vertex = |id: Id| {
            answer.ctx().with_parts(id, |p| {
                matches!(p, Parts::Stored(Head::Iri(_) | Head::Blank, _))
            }) == Some(true)
        };
        let mut ends: Vec<(Id, Id)> = triples.iter().map(|(s, _, o)| (*s, *o)).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(|(_, o)| is_vertex(*o));
        // Vertices are ordered by their texts, so that a graph gives the same result whatever was loaded first.
        let mut texts: Vec<(String, Id)> = ids(&ends)
            .into_iter()
            .filter_map(|id| Some((answer.term(id)?.to_string(), id)))
            .collect();
        texts.sort_unstable();
        let vertices = texts.into_iter().map(|(_, id)| id).collect();
        Ok(Self::build(vertices, &ends, undirected))
    }

    /// Builds a graph from pairs of ends.
    pub fn new(ends: &[(Id, Id)], undirected: bool) -> Self {
        Self::build(ids(ends), ends, undirected)
    }

    fn build(vertices: Vec<Id>, ends: &[(Id, Id)], undirected: bool) -> Self {
        let mut numbers: Vec<(Id, u32)> = (0..).zip(&vertices).map(|(n, id)| (*id, n)).collect();
        numbers.sort_unstable();
        let number = |id: Id| {
            let at = numbers.binary_search_by_key(&id, |p| p.0);
            at.ok().and_then(|at| numbers.get(at)).map_or(0, |p| p.1)
        };
        let mut edges: Vec<(u32, u32)> =
            ends.iter().map(|(a, b)| (number(*a), number(*b))).collect();
        let turned = |edges: &[(u32, u32)]| -> Vec<(u32, u32)> {
            let mut turned: Vec<(u32, u32)> = edges.iter().map(|(a, b)| (*b, *a)).collect();
            turned.sort_unstable();
            turned
        };
        let sorted = |edges: &mut Vec<(u32, u32)>| {
            edges.sort_unstable();
            edges.dedup();
        };
        sorted(&mut edges);
        let mut both = edges.clone();
        both.extend(turned(&edges));
        sorted(&mut both);
        if undirected {
            edges.clone_from(&both);
        }
        let n = vertices.len();
        let into = AdjacencyLists::new(n, &turned(&edges));
        both.retain(|(a, b)| a != b);
        Self {
            out: AdjacencyLists::new(n, &edges),
            into,
            both: AdjacencyLists::new(n, &both),
            edges: if undirected {
                both.len() / 2 + edges.iter().filter(|e| e.0 == e.1).count()
            } else {
                edges.len()
            },
            vertices,
            numbers,
        }
    }

    /// Returns the term ids of the vertices, in the order of their numbers.
    pub fn vertices(&self) -> &[Id] {
        &self.vertices
    }

    /// Returns the number of vertices.
    pub fn len(&self) -> usize {
        self.vertices.len()
    }

    /// Returns whether the graph has no vertices.
    pub fn is_empty(&self) -> bool {
        self.vertices.is_empty()
    }

    /// Returns the number of edges.
    pub const fn edges(&self) -> usize {
        self.edges
    }

    /// Returns the number of the vertex with a term id.
    pub fn number_of(&self, id: Id) -> Option<usize> {
        let at = self.numbers.binary_search_by_key(&id, |p| p.0).ok()?;
        self.numbers.get(at).map(|p| p.1 as usize)
    }
}
