//! Vertices and edges of an answer as JSON and DOT.

use crate::graph::{edge_type_name, unnamed, vertex_type_name};
use esker_model::{Edge, Schema, Vertex, VertexId};
use esker_terminal::output::{properties_json, vertex_attributes_json};
use serde_json::{Map, Value as Json, json};
use std::io::{self, Write};

/// Returns `{"id","type","version","attributes"}`; type and version are null for a vertex that was never inserted.
pub(super) fn vertex_json(id: VertexId, vertex: Option<&Vertex>, schema: &Schema) -> Json {
    match vertex {
        Some(v) => json!({
            "id": v.name(schema),
            "type": vertex_type_name(schema, v.type_id),
            "version": v.version.to_string(),
            "attributes": vertex_attributes_json(v),
        }),
        None => json!({"id": unnamed(id), "type": null, "version": null, "attributes": {}}),
    }
}

/// Returns `{"src","type","dst","version","properties"}`.
pub(super) fn edge_json(edge: &Edge, src: &str, dst: &str, schema: &Schema) -> Json {
    json!({
        "src": src,
        "type": edge_type_name(schema, edge.key.edge_type),
        "dst": dst,
        "version": edge.version.to_string(),
        "properties": properties_json(&edge.properties),
    })
}

/// Begins an object with these keys, and ends with a comma.
pub(super) fn open_object(out: &mut dyn Write, head: &Map<String, Json>) -> io::Result<()> {
    write!(out, "{{")?;
    for (name, value) in head {
        write!(out, "\n{}:{value},", Json::from(name.as_str()))?;
    }
    writeln!(out)
}

/// Writes a vertex as a line of DOT.
pub(super) fn write_dot_vertex(
    out: &mut dyn Write,
    id: VertexId,
    vertex: Option<&Vertex>,
    schema: &Schema,
) -> io::Result<()> {
    let name = vertex.map_or_else(|| unnamed(id), |v| v.name(schema));
    let is = |ancestor: &str| {
        vertex.is_some_and(|v| {
            schema
                .vertex_type_id(ancestor)
                .is_ok_and(|a| schema.is_a(v.type_id, a))
        })
    };
    let shape = if is("Execution") {
        "box"
    } else if is("User") {
        "house"
    } else {
        "ellipse"
    };
    writeln!(out, "  {} [shape={shape}];", dot_string(&name))
}

/// Writes an edge as a line of DOT.
pub(super) fn write_dot_edge(
    out: &mut dyn Write,
    src: &str,
    edge_type: &str,
    dst: &str,
) -> io::Result<()> {
    let (src, dst, label) = (dot_string(src), dot_string(dst), dot_string(edge_type));
    writeln!(out, "  {src} -> {dst} [label={label}];")
}

/// Returns a quoted DOT string: backslashes and quotes escaped, control characters replaced.
fn dot_string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push('\u{fffd}'),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_strings_hold_anything() {
        assert_eq!(dot_string("a\"b\\c\n"), "\"a\\\"b\\\\c\u{fffd}\"");
    }
}
