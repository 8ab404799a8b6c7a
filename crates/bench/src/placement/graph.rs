//! The measured graph: edges by source, and the start vertices.

use super::edge_list;
use crate::source::GraphSource;
use crate::{copurchase, rmat};
use esker_model::Error;
use esker_terminal::exit::usage;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

/// A directed graph whose vertices are dense positions from 0.
pub(super) struct PlacementGraph {
    /// Vertex numbers of the list, ascending.
    pub(super) numbers: Vec<u32>,
    /// Start of each vertex's edges in `destinations`, with one more at the end.
    starts: Vec<u32>,
    destinations: Vec<u32>,
}

/// A start vertex with its degree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) degree: u32,
    pub(super) vertex: u32,
}

impl PlacementGraph {
    /// Builds a graph from a list of edges; duplicates count.
    pub(super) fn new(edges: &[(u32, u32)]) -> Self {
        let mut numbers: Vec<u32> = edges.iter().flat_map(|(s, d)| [*s, *d]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let position = Positions::new(&numbers, edges.len());
        let mut starts = vec![0_u32; numbers.len() + 1];
        for (source, _) in edges {
            starts[position.of(*source) + 1] += 1;
        }
        for vertex in 1..starts.len() {
            starts[vertex] += starts[vertex - 1];
        }
        let mut next = starts.clone();
        let mut destinations = vec![0; edges.len()];
        for (source, destination) in edges {
            let at = &mut next[position.of(*source)];
            destinations[*at as usize] = position.of(*destination) as u32;
            *at += 1;
        }
        Self {
            numbers,
            starts,
            destinations,
        }
    }

    pub(super) fn vertices(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn edges(&self) -> usize {
        self.destinations.len()
    }

    /// Returns the destinations of a vertex's edges, in the order of insertion.
    pub(super) fn destinations(&self, vertex: usize) -> &[u32] {
        &self.destinations[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    pub(super) fn degree(&self, vertex: usize) -> usize {
        self.destinations(vertex).len()
    }

    /// Returns, for each out-degree from 1 up, the vertex with the smallest number.
    pub(super) fn starts(&self) -> Vec<Start> {
        let mut found = std::collections::BTreeMap::new();
        for vertex in 0..self.vertices() {
            let degree = self.degree(vertex) as u32;
            if degree > 0 {
                found.entry(degree).or_insert(vertex as u32);
            }
        }
        found
            .into_iter()
            .map(|(degree, vertex)| Start { degree, vertex })
            .collect()
    }

    /// Returns the number of vertices of each degree.
    pub(super) fn frequencies(&self) -> Vec<(u32, u32)> {
        let mut counts = std::collections::BTreeMap::new();
        for vertex in 0..self.vertices() {
            *counts.entry(self.degree(vertex) as u32).or_default() += 1;
        }
        counts.remove(&0);
        counts.into_iter().collect()
    }
}

/// A map from numbers to positions: a table if the numbers are dense, else a binary search.
enum Positions<'a> {
    Table(Vec<u32>),
    Search(&'a [u32]),
}

impl<'a> Positions<'a> {
    fn new(numbers: &'a [u32], edges: usize) -> Self {
        let highest = numbers.last().map_or(0, |n| *n as usize);
        if highest > 8 * edges + (1 << 20) {
            return Self::Search(numbers);
        }
        let mut table = vec![0; highest + 1];
        for (position, number) in (0..).zip(numbers) {
            table[*number as usize] = position;
        }
        Self::Table(table)
    }

    fn of(&self, number: u32) -> usize {
        match self {
            Self::Table(table) => table[number as usize] as usize,
            Self::Search(numbers) => numbers.partition_point(|n| *n < number),
        }
    }
}

/// Generates or reads the list of edges.
pub(super) fn edges(source: &GraphSource) -> anyhow::Result<Vec<(u32, u32)>> {
    match source {
        GraphSource::Rmat { scale, edges, seed } => {
            if !(1..=31).contains(scale) {
                return Err(usage(format!(
                    "--graph rmat:{scale}:{edges}: expected a scale from 1 to 31; the graph has 2^scale vertices"
                )));
            }
            let list = rmat::edges(*scale, *edges, *seed).filter(|list| !list.is_empty());
            list.ok_or_else(|| {
                usage(format!(
                    "--graph rmat:{scale}:{edges}: a graph of 2^{scale} vertices has 1 to {} edges here; raise the scale",
                    (1_u64 << (2 * scale)) / 4
                ))
            })
        }
        GraphSource::Copurchase { seed } => Ok(copurchase::edges(*seed)),
        GraphSource::File(path) => read(path),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<(u32, u32)>> {
    let name = path.display();
    let unreadable = |error| usage(format!("reading the graph {name}: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(usage(format!(
            "{name} is a directory; expected a list of edges"
        )));
    }
    let read = if path.extension().is_some_and(|e| e == "bin") {
        edge_list::read_binary(file)
    } else {
        edge_list::read_text(BufReader::with_capacity(1 << 18, file))
    };
    read.map_err(|error| match error {
        edge_list::EdgeListError::Io(error) => unreadable(error),
        error => usage(format!("{name}: {error}")),
    })
}

/// Writes a binary list for [`read`].
pub(super) fn write(edges: &[(u32, u32)], path: &Path) -> anyhow::Result<()> {
    let failed = |error| Error::io(format!("writing {}", path.display()), error);
    let mut out = BufWriter::with_capacity(1 << 18, File::create(path).map_err(failed)?);
    for edge in edges {
        out.write_all(&edge_list::binary(*edge)).map_err(failed)?;
    }
    Ok(out.flush().map_err(failed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_keep_their_numbers_and_edges_their_order() {
        for far in [9, u32::MAX] {
            let graph = PlacementGraph::new(&[(7, 3), (far, 7), (7, 3), (7, 7), (3, far)]);
            assert_eq!(graph.numbers, [3, 7, far]);
            assert_eq!((graph.vertices(), graph.edges()), (3, 5));
            assert_eq!(graph.destinations(1), [0, 0, 1]);
            assert_eq!(graph.destinations(2), [1]);
            let starts = [(1, 0), (3, 1)].map(|(degree, vertex)| Start { degree, vertex });
            assert_eq!(graph.starts(), starts);
            assert_eq!(graph.frequencies(), [(1, 2), (3, 1)]);
        }
    }
}
