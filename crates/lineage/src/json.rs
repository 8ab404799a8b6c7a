//! JSON output, written by hand: the engine needs only strings, numbers and nesting.

use super::result::{FoundEdge, FoundVertex, Provenance, Stopped, names_of_stopped};
use esker_model::{EdgeTypeId, Properties, Schema, Value, VertexId};
use jiff::Timestamp;
use std::collections::HashMap;
use std::fmt::Write;

/// Renders the result of `lineage` or `impact` in the format of [`graph_json`].
pub fn render_json(found: &Provenance, schema: &Schema) -> String {
    let target = found
        .vertices
        .first()
        .map_or_else(|| found.target.to_string(), |v| v.name(schema));
    graph_json(
        &target,
        found.complete,
        &found.stopped,
        &found.vertices,
        &found.edges,
        schema,
    )
}

/// Renders a graph as one line of JSON:
///
/// ```text
/// {"target":"file:/C","complete":false,
///  "stopped":[{"reason":"depth","level":2,"vertices_left":1,"vertices":["file:/A"]}],
///  "vertices":[{"id":"file:/C","type":"File","version":"2026-03-01T12:00:00.000Z","attributes":{"size":4096}}],
///  "edges":[{"src":"file:/C","type":"wasWrittenBy","dst":"job:1","version":"…","properties":{"bytes":4096}}]}
/// ```
///
/// Attributes combine the predefined and the user-defined ones (of two with one name, the predefined one).
/// A deleted vertex has `"deleted":true`, one that was inserted only after the requested version `"later":true`; an
/// edge that is only possibly involved has `"concurrent":true` among its properties. A vertex that
/// edges lead to but that was never inserted has null as `type` and `version`. Values: see [`write_json_value`].
pub fn graph_json(
    target: &str,
    complete: bool,
    stopped: &[Stopped],
    vertices: &[FoundVertex],
    edges: &[FoundEdge],
    schema: &Schema,
) -> String {
    let mut out = String::with_capacity(256 * (vertices.len() + edges.len()));
    out.push_str("{\"target\":");
    write_json_string(&mut out, target);
    let _ = write!(out, ",\"complete\":{complete},\"stopped\":[");
    for (i, stop) in stopped.iter().enumerate() {
        comma(&mut out, i);
        let _ = write!(
            out,
            "{{\"reason\":\"{}\",\"level\":{},\"vertices_left\":{},\"vertices\":[",
            stop.reason.name(),
            stop.level,
            stop.vertices_left
        );
        for (j, name) in names_of_stopped(stop, vertices, schema).iter().enumerate() {
            comma(&mut out, j);
            write_json_string(&mut out, name);
        }
        out.push_str("]}");
    }
    out.push_str("],\"vertices\":[");
    for (i, vertex) in vertices.iter().enumerate() {
        comma(&mut out, i);
        write_vertex(&mut out, vertex, schema);
    }
    out.push_str("],\"edges\":[");
    let names: HashMap<VertexId, String> =
        vertices.iter().map(|v| (v.id, v.name(schema))).collect();
    let name = |id: VertexId| names.get(&id).cloned().unwrap_or_else(|| format!("?:{id}"));
    for (i, found) in edges.iter().enumerate() {
        comma(&mut out, i);
        let key = &found.edge.key;
        out.push_str("{\"src\":");
        write_json_string(&mut out, &name(key.source));
        out.push_str(",\"type\":");
        write_json_string(&mut out, &edge_type_name(schema, key.edge_type));
        out.push_str(",\"dst\":");
        write_json_string(&mut out, &name(key.destination));
        let _ = write!(
            out,
            ",\"version\":\"{}\",\"properties\":{{",
            found.edge.version
        );
        let mut written = write_members(&mut out, &found.edge.properties, 0);
        if found.concurrent && found.edge.properties.get("concurrent").is_none() {
            comma(&mut out, written);
            out.push_str("\"concurrent\":true");
            written += 1;
        }
        debug_assert!(
            written >= found.edge.properties.len(),
            "every property is written"
        );
        out.push_str("}}");
    }
    out.push_str("]}");
    out
}

fn write_vertex(out: &mut String, found: &FoundVertex, schema: &Schema) {
    out.push_str("{\"id\":");
    write_json_string(out, &found.name(schema));
    let Some(vertex) = &found.vertex else {
        out.push_str(",\"type\":null,\"version\":null,\"attributes\":{}}");
        return;
    };
    out.push_str(",\"type\":");
    let type_name = schema
        .vertex_type(vertex.type_id)
        .map_or_else(|| schema.prefix(vertex.type_id), |t| t.name.clone());
    write_json_string(out, &type_name);
    let _ = write!(out, ",\"version\":\"{}\"", vertex.version);
    if vertex.deleted {
        out.push_str(",\"deleted\":true");
    }
    if found.later {
        out.push_str(",\"later\":true");
    }
    out.push_str(",\"attributes\":{");
    let mut written = write_members(out, &vertex.attributes, 0);
    for a in &vertex.user {
        if vertex.attributes.get(&a.name).is_none() {
            comma(out, written);
            write_json_string(out, &a.name);
            out.push(':');
            write_json_value(out, &a.value);
            written += 1;
        }
    }
    out.push_str("}}");
}

fn write_members(out: &mut String, properties: &Properties, mut written: usize) -> usize {
    for (name, value) in properties.iter() {
        comma(out, written);
        write_json_string(out, name);
        out.push(':');
        write_json_value(out, value);
        written += 1;
    }
    written
}

fn comma(out: &mut String, written: usize) {
    if written > 0 {
        out.push(',');
    }
}

/// The edge type's name; `#N` for a number the schema lacks.
pub(super) fn edge_type_name(schema: &Schema, id: EdgeTypeId) -> String {
    schema
        .edge_type(id)
        .map_or_else(|| format!("#{}", id.0), |t| t.name.clone())
}

/// Formats a timestamp as RFC 3339, to the nanosecond if it has a fraction.
pub(super) fn timestamp(nanos: i64) -> String {
    Timestamp::from_nanosecond(i128::from(nanos))
        .map_or_else(|_| format!("@{nanos}ns"), |t| t.to_string())
}

/// Writes a value: numbers, strings, arrays; timestamps as RFC 3339, bytes as base64, and, because JSON lacks them, doubles
/// that are not finite as `"NaN"`, `"inf"` and `"-inf"`.
pub fn write_json_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(v) => {
            let _ = write!(out, "{v}");
        }
        Value::I64(v) => {
            let _ = write!(out, "{v}");
        }
        Value::F64(v) if v.is_finite() => {
            // `{:?}` keeps the point (1.0) and is the shortest text that reads back the same.
            let _ = write!(out, "{v:?}");
        }
        Value::F64(v) => {
            let _ = write!(out, "\"{v}\"");
        }
        Value::String(v) => write_json_string(out, v),
        Value::Bytes(v) => {
            out.push('"');
            base64(out, v);
            out.push('"');
        }
        Value::Timestamp(v) => {
            let _ = write!(out, "\"{}\"", timestamp(*v));
        }
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                comma(out, i);
                write_json_value(out, item);
            }
            out.push(']');
        }
    }
}

/// Writes a quoted string with the escapes that JSON requires, and with control characters escaped for terminals.
pub fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes base64 as in RFC 4648, with padding.
fn base64(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0_u32, |g, i| {
            g << 8 | u32::from(*chunk.get(i).unwrap_or(&0))
        });
        for i in 0..4 {
            if i <= chunk.len() {
                let digit = (group >> (18 - 6 * i)) as usize & 63;
                out.push(char::from(BASE64[digit]));
            } else {
                out.push('=');
            }
        }
    }
}
