//! The graph of a benchmark: generated, or read from an edge list.

use super::{copurchase, rmat};
use anyhow::Context as _;
use esker_model::VertexId;
use esker_terminal::exit::usage;
use std::collections::HashMap;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The value of `--graph`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GraphSource {
    Rmat { scale: u32, edges: u64, seed: u64 },
    Copurchase { seed: u64 },
    File(PathBuf),
}

/// Edges between numbered vertices.
pub(crate) struct Graph {
    /// Distinct `(source, destination)` pairs in the order of insertion.
    pub(crate) edges: Vec<(u32, u32)>,
    /// Vertex ids by number.
    pub(crate) ids: Vec<VertexId>,
}

impl GraphSource {
    /// The graph's name in reports.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Rmat { scale, edges, seed } => format!("rmat:{scale}:{edges}:{seed}"),
            Self::Copurchase { seed } => format!("copurchase:{seed}"),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// Generates or reads the graph, limited to `most` edges.
    pub(crate) fn graph(&self, most: Option<u64>) -> anyhow::Result<Graph> {
        let mut edges = match self {
            Self::Rmat { scale, edges, seed } => rmat::edges(*scale, *edges, *seed).ok_or_else(|| {
                usage(format!(
                    "--graph rmat:{scale}:{edges}: a graph of 2^{scale} vertices has room for at most {} edges here; \
                     raise the scale (1 to 31)",
                    1_u64.checked_shl(2 * scale).map_or(0, |pairs| pairs / 4)
                ))
            })?,
            Self::Copurchase { seed } => copurchase::edges(*seed),
            Self::File(path) => read(path)?,
        };
        if let Some(most) = most.and_then(|n| usize::try_from(n).ok()) {
            edges.truncate(most);
        }
        Ok(Graph::new(edges))
    }
}

impl Graph {
    /// Gives dense numbers to the vertices that have edges, in the order of their own.
    fn new(mut edges: Vec<(u32, u32)>) -> Self {
        let highest = edges
            .iter()
            .map(|(s, d)| s.max(d))
            .max()
            .copied()
            .unwrap_or(0);
        let mut number = vec![u32::MAX; highest as usize + 1];
        for (s, d) in &edges {
            number[*s as usize] = 0;
            number[*d as usize] = 0;
        }
        let mut next = 0;
        for n in &mut number {
            if *n == 0 {
                *n = next;
                next += 1;
            }
        }
        for (s, d) in &mut edges {
            *s = number[*s as usize];
            *d = number[*d as usize];
        }
        Self {
            ids: (0..next).map(vertex_id).collect(),
            edges,
        }
    }

    /// Returns the out-degree of each vertex.
    pub(crate) fn degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.ids.len()];
        for (source, _) in &self.edges {
            degrees[*source as usize] += 1;
        }
        degrees
    }

    /// Returns the vertices by descending degree.
    pub(crate) fn busiest(&self) -> Vec<u32> {
        let degrees = self.degrees();
        let mut all: Vec<u32> = (0..self.ids.len() as u32).collect();
        all.sort_by_key(|v| (std::cmp::Reverse(degrees[*v as usize]), *v));
        all
    }
}

/// The type of all vertices of a benchmark.
pub(crate) const VERTEX_TYPE: &str = "Node";

/// The external key of a numbered vertex.
pub(crate) fn vertex_key(number: u32) -> String {
    number.to_string()
}

/// The id of a numbered vertex.
pub(crate) fn vertex_id(number: u32) -> VertexId {
    VertexId::of(VERTEX_TYPE, &vertex_key(number))
}

impl FromStr for GraphSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str, what: &str| {
            text.parse::<u64>().map_err(|_| {
                format!(
                    "`{text}` is not a {what}; expected rmat:SCALE:EDGES[:SEED], as in rmat:18:1000000"
                )
            })
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["rmat", scale, edges] | ["rmat", scale, edges, ""] => Ok(Self::Rmat {
                scale: number(scale, "scale").map(|n| u32::try_from(n).unwrap_or(u32::MAX))?,
                edges: number(edges, "number of edges")?,
                seed: 1,
            }),
            ["rmat", scale, edges, seed] => Ok(Self::Rmat {
                scale: number(scale, "scale").map(|n| u32::try_from(n).unwrap_or(u32::MAX))?,
                edges: number(edges, "number of edges")?,
                seed: number(seed, "seed")?,
            }),
            ["rmat", ..] => Err(format!(
                "`{text}`: expected rmat:SCALE:EDGES[:SEED], as in rmat:18:1000000"
            )),
            ["copurchase"] => Ok(Self::Copurchase { seed: 1 }),
            ["copurchase", seed] => Ok(Self::Copurchase {
                seed: seed
                    .parse()
                    .map_err(|_| format!("`{seed}` is not a seed; expected copurchase[:SEED]"))?,
            }),
            _ => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

/// Reads a file with a source and a destination per line: any words, separated by spaces, tabs or a comma. Lines that begin with
/// `#` or `%` are comments.
fn read(path: &Path) -> anyhow::Result<Vec<(u32, u32)>> {
    let opening = || format!("reading the graph {}", path.display());
    let file = std::fs::File::open(path).with_context(opening)?;
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut edges = Vec::new();
    for (i, line) in std::io::BufReader::new(file).lines().enumerate() {
        let line = line.with_context(opening)?;
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '%']) {
            continue;
        }
        let mut words = line
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|w| !w.is_empty());
        let (Some(source), Some(destination)) = (words.next(), words.next()) else {
            return Err(usage(format!(
                "{}, line {}: expected a source and a destination, found `{line}`",
                path.display(),
                i + 1
            )));
        };
        let mut number = |word: &str| {
            let next = numbers.len() as u32;
            *numbers.entry(word.to_owned()).or_insert(next)
        };
        edges.push((number(source), number(destination)));
    }
    let mut seen = std::collections::HashSet::with_capacity(edges.len());
    edges.retain(|e| seen.insert(*e));
    if edges.is_empty() {
        return Err(usage(format!("{} holds no edges", path.display())));
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read() {
        assert_eq!(
            "rmat:18:1000".parse(),
            Ok(GraphSource::Rmat {
                scale: 18,
                edges: 1000,
                seed: 1
            })
        );
        assert_eq!(
            "rmat:18:1000:5".parse(),
            Ok(GraphSource::Rmat {
                scale: 18,
                edges: 1000,
                seed: 5
            })
        );
        assert_eq!(
            "copurchase:3".parse(),
            Ok(GraphSource::Copurchase { seed: 3 })
        );
        assert_eq!("a/b.txt".parse(), Ok(GraphSource::File("a/b.txt".into())));
        assert!("rmat:18".parse::<GraphSource>().is_err());
        assert!(
            "rmat:x:1"
                .parse::<GraphSource>()
                .unwrap_err()
                .contains("`x` is not a scale")
        );
    }

    #[test]
    fn only_vertices_with_edges_are_kept() {
        let graph = Graph::new(vec![(7, 3), (3, 900)]);
        assert_eq!(graph.edges, [(1, 0), (0, 2)]);
        assert_eq!(graph.ids.len(), 3);
        assert_eq!(graph.busiest(), [0, 1, 2]);
    }
}
