//! Rendering in Graphviz: versions of data as boxes with a folded corner, executions as ellipses, users as houses.

use super::json::edge_type_name;
use super::result::{Node, Provenance};
use super::tree::printable;
use esker_model::Schema;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Renders the result in the DOT language. Arrows point in the direction followed; dashed ones are only possibly involved.
pub fn render_dot(found: &Provenance, schema: &Schema) -> String {
    let mut out =
        String::from("digraph provenance {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n");
    let mut reached = vec![false; found.nodes.len()];
    for child in found
        .roots
        .iter()
        .chain(found.nodes.iter().flat_map(|n| &n.children))
    {
        if let Some(r) = reached.get_mut(child.node as usize) {
            *r = true;
        }
    }
    let mut drawn: HashMap<u32, usize> = HashMap::new();
    for (i, node) in found
        .nodes
        .iter()
        .enumerate()
        .filter(|(i, _)| reached.get(*i) == Some(&true))
    {
        if node.execution {
            drawn.insert(node.vertex, i);
        }
        write_node(&mut out, found, schema, i, node);
    }
    for (i, node) in found.nodes.iter().enumerate() {
        for child in &node.children {
            let Some(edge) = child.edge.and_then(|e| found.edge(e)) else {
                continue;
            };
            let style = if child.concurrent {
                ", style=dashed"
            } else {
                ""
            };
            let label = escape(&edge_type_name(schema, edge.edge.key.edge_type));
            let _ = writeln!(out, "  n{i} -> n{} [label=\"{label}\"{style}];", child.node);
        }
    }
    write_facts(&mut out, found, schema, &drawn);
    out.push_str("}\n");
    out
}

fn write_node(out: &mut String, found: &Provenance, schema: &Schema, i: usize, node: &Node) {
    let Some(vertex) = found.vertex(node.vertex) else {
        return;
    };
    let mut label = escape(&vertex.name(schema));
    if let Some(version) = node.version {
        let _ = write!(label, "\\n{version}");
    }
    if vertex.vertex.as_ref().is_some_and(|v| v.deleted) {
        label.push_str("\\n(deleted)");
    }
    if let Some(reason) = node.stopped {
        let _ = write!(label, "\\n(not followed: {})", reason.name());
    }
    let shape = if node.execution { "ellipse" } else { "note" };
    let bold = if node.vertex == 0 { ", style=bold" } else { "" };
    let _ = writeln!(out, "  n{i} [label=\"{label}\", shape={shape}{bold}];");
}

/// Writes users, executables and enclosing executions: one shape for each vertex, regardless of its number of edges.
fn write_facts(out: &mut String, found: &Provenance, schema: &Schema, drawn: &HashMap<u32, usize>) {
    let index: HashMap<_, u32> = (0..).zip(&found.vertices).map(|(i, v)| (v.id, i)).collect();
    let id = |vertex: u32| {
        drawn
            .get(&vertex)
            .map_or_else(|| format!("v{vertex}"), |node| format!("n{node}"))
    };
    let mut shown = BTreeSet::new();
    for (from, edges) in &found.facts {
        for found_edge in edges.iter().filter_map(|e| found.edge(*e)) {
            let key = &found_edge.edge.key;
            let Some(to) = index.get(&key.destination).copied() else {
                continue;
            };
            for vertex in [*from, to] {
                if !drawn.contains_key(&vertex) && shown.insert(vertex) {
                    let name = found
                        .vertex(vertex)
                        .map(|v| v.name(schema))
                        .unwrap_or_default();
                    let shape = if found.fact_types.run_by.contains(&key.edge_type) && vertex == to
                    {
                        "house"
                    } else {
                        "component"
                    };
                    let _ = writeln!(
                        out,
                        "  v{vertex} [label=\"{}\", shape={shape}];",
                        escape(&name)
                    );
                }
            }
            let label = escape(&edge_type_name(schema, key.edge_type));
            let _ = writeln!(
                out,
                "  {} -> {} [label=\"{label}\", color=gray];",
                id(*from),
                id(to)
            );
        }
    }
}

/// Escapes text for a quoted string: DOT interprets `\n` and others in labels, so backslashes are doubled.
fn escape(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('"', "\\\"")
}
