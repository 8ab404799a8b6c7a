//! Enumeration of paths from the graph of parent pointers.
//!
//! The answer has each edge once, however many paths use it; [`PathWalk`] follows parents back from each end to the start, and returns
//! one path at a time.

use super::graph::{edge_json, open_object, vertex_json, write_dot_edge, write_dot_vertex};
use super::{PrintState, profile, sets};
use crate::args::{GraphFormat, RowFormat, TravelArgs};
use crate::graph::{NameCache, edge_type_name};
use esker_model::traversal::{PathStep, Paths};
use esker_model::{Cancel as _, Edge, EdgeKey, GraphRead as _, Version, VertexId};
use esker_terminal::context::Context;
use esker_terminal::output::{Cell, Rows, Style};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;

/// Number of vertices, edges or paths whose rows are read at once.
const CHUNK: usize = 1024;

pub(super) fn print(
    printing: &PrintState<'_>,
    args: &TravelArgs,
    context: &mut Context,
) -> anyhow::Result<()> {
    let Some(paths) = &printing.result.paths else {
        return Ok(());
    };
    match args.format {
        GraphFormat::Json => print_json(printing, paths, context),
        GraphFormat::Dot => print_dot(printing, paths, context),
        GraphFormat::Table | GraphFormat::Ndjson | GraphFormat::Csv => {
            print_paths(printing, paths, args, context)
        }
    }
}

/// A path: the start, then the steps. Without steps the start is the end.
#[derive(Debug, Clone, PartialEq)]
struct Path {
    start: VertexId,
    steps: Vec<PathStep>,
}

impl Path {
    fn vertices(&self) -> impl Iterator<Item = VertexId> {
        std::iter::once(self.start).chain(self.steps.iter().map(|s| s.edge.destination))
    }
}

/// Lazy iterator over all paths of an answer, ordered by their ends.
struct PathWalk<'a> {
    paths: &'a Paths,
    /// Index of the next node to consider as an end.
    next_end: usize,
    /// The current path backwards from the end: a node, and the index of its next parent.
    stack: Vec<(u32, usize)>,
}

impl<'a> PathWalk<'a> {
    fn new(paths: &'a Paths) -> Self {
        Self {
            paths,
            next_end: 0,
            stack: Vec::new(),
        }
    }

    fn parents(&self, node: u32) -> &'a [PathStep] {
        self.paths
            .nodes
            .get(node as usize)
            .map_or(&[], |n| n.parents.as_slice())
    }

    fn push_next_end(&mut self) -> Option<()> {
        let ends = self.paths.nodes.iter().skip(self.next_end);
        let ahead = ends.enumerate().find(|(_, node)| node.end)?.0;
        let end = self.next_end + ahead;
        self.next_end = end + 1;
        self.stack.push((u32::try_from(end).ok()?, 0));
        Some(())
    }

    /// Returns the path on the stack, once it has reached a start.
    fn path(&self) -> Option<Path> {
        let (start, _) = self.stack.last()?;
        let start = self.paths.nodes.get(*start as usize)?.vertex;
        let steps = self
            .stack
            .iter()
            .rev()
            .skip(1)
            .filter_map(|(node, next)| self.parents(*node).get(next.checked_sub(1)?).copied())
            .collect();
        Some(Path { start, steps })
    }
}

impl Iterator for PathWalk<'_> {
    type Item = Path;

    fn next(&mut self) -> Option<Path> {
        loop {
            if self.stack.is_empty() {
                self.push_next_end()?;
            }
            let (node, next) = self.stack.last_mut()?;
            let (node, which) = (*node, *next);
            *next += 1;
            let parents = self.parents(node);
            match parents.get(which) {
                Some(step) => self.stack.push((step.parent, 0)),
                // Only nodes of level 0, the starts, have no parents.
                None if parents.is_empty() && which == 0 => {
                    let path = self.path();
                    self.stack.pop();
                    return path;
                }
                None => {
                    self.stack.pop();
                }
            }
        }
    }
}

fn print_paths(
    printing: &PrintState<'_>,
    paths: &Paths,
    args: &TravelArgs,
    context: &mut Context,
) -> anyhow::Result<()> {
    let most = if args.paths == 0 {
        u64::MAX
    } else {
        args.paths
    };
    let interrupt = context.interrupt.clone();
    let (mut walk, mut names, mut count) = (PathWalk::new(paths), NameCache::default(), 0_u64);
    let mut sink = if args.format == GraphFormat::Csv {
        let columns = &["path", "step", "src", "type", "dst", "version"];
        PathSink::Rows(Rows::new(
            &mut context.out,
            RowFormat::Csv,
            context.style,
            columns,
        ))
    } else {
        PathSink::Lines(&mut context.out, context.style)
    };
    while count < most && !interrupt.cancelled() {
        let room = usize::try_from(most - count).unwrap_or(CHUNK).min(CHUNK);
        let chunk: Vec<Path> = walk.by_ref().take(room).collect();
        if chunk.is_empty() {
            break;
        }
        let ids = chunk.iter().flat_map(Path::vertices);
        names.load(printing.database, printing.schema, ids)?;
        for path in &chunk {
            match &mut sink {
                PathSink::Rows(rows) => csv_rows(count, path, printing, &names, rows)?,
                PathSink::Lines(out, style) => {
                    let line = match args.format {
                        GraphFormat::Ndjson => json_line(path, printing, &names),
                        GraphFormat::Table
                        | GraphFormat::Json
                        | GraphFormat::Csv
                        | GraphFormat::Dot => text_line(path, printing, &names, *style),
                    };
                    writeln!(out, "{line}")?;
                }
            }
            count += 1;
        }
    }
    if let PathSink::Rows(rows) = sink {
        rows.finish()?;
    }
    if walk.next().is_some() {
        context.out.flush()?;
        context.note(&format!(
            "there are more paths than the {} shown: --paths N shows N, --paths 0 all",
            esker_terminal::units::count(count)
        ));
    }
    Ok(())
}

/// Output of paths, one after another.
enum PathSink<'w> {
    Rows(Rows<'w>),
    Lines(&'w mut Box<dyn Write>, Style),
}

/// Formats a path as `{"vertices":[…],"edges":[…]}`.
fn json_line(path: &Path, printing: &PrintState<'_>, names: &NameCache) -> String {
    let vertices: Vec<String> = path.vertices().map(|id| names.get(id)).collect();
    let edges: Vec<_> = path
        .steps
        .iter()
        .map(|s| {
            json!({
                "src": names.get(s.edge.source),
                "type": edge_type_name(printing.schema, s.edge.edge_type),
                "dst": names.get(s.edge.destination),
                "version": s.version.to_string(),
            })
        })
        .collect();
    json!({"vertices": vertices, "edges": edges}).to_string()
}

/// Formats a path as `file:/C -wasWrittenBy-> job:1 -read-> file:/A`.
fn text_line(path: &Path, printing: &PrintState<'_>, names: &NameCache, style: Style) -> String {
    let safe = |id| style.cyan(&Cell::from(names.get(id)).table_text());
    let mut line = safe(path.start);
    for step in &path.steps {
        let edge_type = edge_type_name(printing.schema, step.edge.edge_type);
        line.push_str(&style.dim(&format!(" -{edge_type}-> ")));
        line.push_str(&safe(step.edge.destination));
    }
    line
}

fn csv_rows(
    number: u64,
    path: &Path,
    printing: &PrintState<'_>,
    names: &NameCache,
    rows: &mut Rows<'_>,
) -> anyhow::Result<()> {
    if path.steps.is_empty() {
        let start = names.get(path.start).into();
        rows.row(vec![
            Cell::Count(number),
            Cell::Count(0),
            start,
            Cell::Empty,
            Cell::Empty,
            Cell::Empty,
        ])?;
    }
    for (step, at) in path.steps.iter().zip(1..) {
        rows.row(vec![
            Cell::Count(number),
            Cell::Count(at),
            names.get(step.edge.source).into(),
            edge_type_name(printing.schema, step.edge.edge_type).into(),
            names.get(step.edge.destination).into(),
            Cell::Version(step.version),
        ])?;
    }
    Ok(())
}

/// Returns the vertices of all paths without duplicates, in the order found.
fn vertices_of(paths: &Paths) -> Vec<VertexId> {
    let mut seen = BTreeSet::new();
    paths
        .nodes
        .iter()
        .map(|node| node.vertex)
        .filter(|id| seen.insert(*id))
        .collect()
}

/// Returns the edge versions of all paths without duplicates, in order.
fn edges_of(paths: &Paths) -> Vec<(EdgeKey, Version)> {
    let steps = paths.nodes.iter().flat_map(|node| &node.parents);
    let edges: BTreeSet<_> = steps.map(|step| (step.edge, step.version)).collect();
    edges.into_iter().collect()
}

/// Reads edges at the versions that the traversal saw, with their properties.
fn read_edges(
    printing: &PrintState<'_>,
    wanted: &[(EdgeKey, Version)],
) -> anyhow::Result<Vec<Edge>> {
    let keys: Vec<EdgeKey> = wanted.iter().map(|(key, _)| *key).collect();
    let found = printing.database.read_edges(&keys, printing.result.as_of)?;
    let mut edges = Vec::with_capacity(wanted.len());
    for ((key, version), edge) in wanted.iter().zip(found) {
        match edge.filter(|e| e.version == *version) {
            Some(edge) => edges.push(edge),
            // `versions(…)` sees edges that have other properties at the end of the range, or are deleted by then.
            None => edges.extend(
                printing
                    .database
                    .read_edges(&[*key], *version)?
                    .into_iter()
                    .flatten(),
            ),
        }
    }
    Ok(edges)
}

fn print_json(
    printing: &PrintState<'_>,
    paths: &Paths,
    context: &mut Context,
) -> anyhow::Result<()> {
    let out = &mut context.out;
    open_object(out, &printing.head())?;
    let mut names = NameCache::default();
    let mut comma = "";
    write!(out, "\"vertices\":[")?;
    for ids in vertices_of(paths).chunks(CHUNK) {
        let vertices = printing
            .database
            .read_vertices(ids, printing.result.as_of)?;
        for (id, vertex) in ids.iter().zip(&vertices) {
            let json = vertex_json(*id, vertex.as_ref(), printing.schema);
            write!(out, "{comma}\n{json}")?;
            comma = ",";
        }
    }
    write!(out, "\n],\n\"edges\":[")?;
    comma = "";
    for wanted in edges_of(paths).chunks(CHUNK) {
        let edges = read_edges(printing, wanted)?;
        let ends = edges.iter().flat_map(|e| [e.key.source, e.key.destination]);
        names.load(printing.database, printing.schema, ends)?;
        for edge in &edges {
            let (src, dst) = (names.get(edge.key.source), names.get(edge.key.destination));
            write!(
                out,
                "{comma}\n{}",
                edge_json(edge, &src, &dst, printing.schema)
            )?;
            comma = ",";
        }
    }
    write!(out, "\n]")?;
    if has_rtn(printing) {
        writeln!(out, ",")?;
        sets::write_sets(printing, out)?;
    }
    if printing.profile {
        write!(
            out,
            ",\n\"profile\":{}",
            profile::steps_json(printing.result)
        )?;
        if !printing.result.servers.is_empty() {
            write!(
                out,
                ",\n\"servers\":{}",
                profile::servers_json(printing.result)
            )?;
        }
    }
    writeln!(out, "\n}}")?;
    Ok(())
}

/// Whether the chain asks for working sets in addition to the paths.
fn has_rtn(printing: &PrintState<'_>) -> bool {
    let t = printing.traversal;
    t.start_returned || t.segments.iter().flat_map(|s| &s.hops).any(|h| h.returned)
}

fn print_dot(
    printing: &PrintState<'_>,
    paths: &Paths,
    context: &mut Context,
) -> anyhow::Result<()> {
    let out = &mut context.out;
    writeln!(out, "digraph travel {{")?;
    for ids in vertices_of(paths).chunks(CHUNK) {
        let vertices = printing
            .database
            .read_vertices(ids, printing.result.as_of)?;
        for (id, vertex) in ids.iter().zip(&vertices) {
            write_dot_vertex(out, *id, vertex.as_ref(), printing.schema)?;
        }
    }
    let mut names = NameCache::default();
    for edges in edges_of(paths).chunks(CHUNK) {
        let ends = edges.iter().flat_map(|(k, _)| [k.source, k.destination]);
        names.load(printing.database, printing.schema, ends)?;
        for (key, _) in edges {
            let edge_type = edge_type_name(printing.schema, key.edge_type);
            write_dot_edge(
                out,
                &names.get(key.source),
                &edge_type,
                &names.get(key.destination),
            )?;
        }
    }
    writeln!(out, "}}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::EdgeTypeId;
    use esker_model::traversal::PathNode;

    fn id(n: u8) -> VertexId {
        VertexId([n; 16])
    }

    fn node(n: u8, level: u32, end: bool, parents: &[(u32, u8)]) -> PathNode {
        let parents = parents.iter().map(|(parent, source)| PathStep {
            parent: *parent,
            edge: EdgeKey {
                source: id(*source),
                edge_type: EdgeTypeId(0),
                destination: id(n),
            },
            version: Version(1),
        });
        PathNode {
            level,
            vertex: id(n),
            end,
            parents: parents.collect(),
        }
    }

    fn spelled(paths: &Paths) -> Vec<Vec<u8>> {
        let spell = |p: Path| {
            let ends = p.steps.iter().map(|s| s.edge.destination.0[0]);
            std::iter::once(p.start.0[0]).chain(ends).collect()
        };
        PathWalk::new(paths).map(spell).collect()
    }

    #[test]
    fn every_path_of_a_diamond_is_given_once() {
        let nodes = vec![
            node(1, 0, false, &[]),
            node(2, 1, false, &[(0, 1)]),
            node(3, 1, true, &[(0, 1)]),
            node(4, 2, true, &[(1, 2), (2, 3)]),
        ];
        let paths = Paths { nodes };
        assert_eq!(spelled(&paths), [vec![1, 3], vec![1, 2, 4], vec![1, 3, 4]]);
    }

    #[test]
    fn a_start_may_be_an_end() {
        let paths = Paths {
            nodes: vec![node(1, 0, true, &[])],
        };
        assert_eq!(spelled(&paths), [vec![1]]);
        assert_eq!(spelled(&Paths::default()), Vec::<Vec<u8>>::new());
    }

    /// Forty levels of two vertices have 2^40 paths; the first ones must be available at once.
    #[test]
    fn paths_are_not_all_made_at_once() {
        let mut nodes = vec![node(0, 0, false, &[])];
        let mut before: Vec<(u32, u8)> = vec![(0, 0)];
        for level in 1..=40_u8 {
            let at = u32::try_from(nodes.len()).unwrap();
            let (a, b) = (level * 2 - 1, level * 2);
            nodes.push(node(a, level.into(), level == 40, &before));
            nodes.push(node(b, level.into(), level == 40, &before));
            before = vec![(at, a), (at + 1, b)];
        }
        let paths = Paths { nodes };
        let some: BTreeSet<Vec<u8>> = spelled_first(&paths, 1000);
        assert_eq!(some.len(), 1000);
    }

    fn spelled_first(paths: &Paths, n: usize) -> BTreeSet<Vec<u8>> {
        PathWalk::new(paths)
            .take(n)
            .map(|p| p.steps.iter().map(|s| s.edge.destination.0[0]).collect())
            .collect()
    }
}
