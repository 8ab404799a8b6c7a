//! Conversion of the graph to JSON in the formats of `docs/book/json.md`, and of JSON to values.

pub(super) use esker_console::value::{
    attributes as attributes_out, properties as properties_out, value as value_out,
};
use esker_model::object::{FindReport, Found};
use esker_model::traversal::{ServerStep, StepProfile, parse_value};
use esker_model::{Edge, Schema, Value, ValueKind, Version, Vertex, VertexId};
use serde_json::{Value as Json, json};

/// Encodes a vertex as `{"id","type","version","attributes"}`; type and version are null for a vertex that was never inserted.
pub(super) fn vertex_out(id: VertexId, vertex: Option<&Vertex>, schema: &Schema) -> Json {
    let Some(v) = vertex else {
        return json!({"id": name_of(id, None, schema), "type": null, "version": null, "attributes": {}});
    };
    let type_name = schema.vertex_type(v.type_id).map(|t| t.name.as_str());
    let mut out = json!({
        "id": v.name(schema),
        "type": type_name,
        "version": v.version.to_string(),
        "attributes": attributes_out(v),
    });
    if v.deleted {
        out["deleted"] = true.into();
    }
    out
}

/// Name of a vertex, or its id if only that is known.
pub(super) fn name_of(id: VertexId, vertex: Option<&Vertex>, schema: &Schema) -> String {
    vertex.map_or_else(|| format!("?:{id}"), |v| v.name(schema))
}

/// Encodes an object as `{"id","created","modified","attributes","tags"}`. The id is text, because many JSON parsers lose precision in
/// 63-bit numbers.
pub(super) fn found_out(found: &Found) -> Json {
    json!({
        "id": found.id.to_string(),
        "created": version_out(found.created),
        "modified": version_out(found.modified),
        "attributes": properties_out(&found.attributes),
        "tags": properties_out(&found.tags),
    })
}

/// Encodes the report of a search.
pub(super) fn report_out(report: &FindReport) -> Json {
    let plan = report.plan.iter().map(|step| {
        json!({"server": step.server, "term": step.term, "access": step.access, "estimate": step.estimate,
               "left": step.left, "micros": step.micros})
    });
    let unknown = report.unknown.iter().map(|(name, near)| {
        let (nearest, objects) = near.as_ref().map(|(name, objects)| (name, objects)).unzip();
        json!({"name": name, "nearest": nearest, "objects": objects})
    });
    json!({
        "matches": report.matches,
        "complete": report.complete,
        "missing": report.missing,
        "plan": plan.collect::<Json>(),
        "unknown": unknown.collect::<Json>(),
    })
}

pub(super) fn version_out(version: Version) -> Json {
    version.to_string().into()
}

/// Encodes the profile of a traversal's steps.
pub(super) fn steps_out(steps: &[StepProfile]) -> Json {
    let each = steps.iter().map(|p| {
        json!({"step": p.step, "text": p.text, "frontier": p.frontier, "edges": p.edges, "selected": p.selected,
               "reached": p.reached, "cached": p.cached, "micros": p.micros})
    });
    each.collect()
}

/// Encodes the share of each server in each step.
pub(super) fn server_steps_out(steps: &[ServerStep]) -> Json {
    let each = steps.iter().map(|s| {
        json!({"server": s.server, "step": s.step, "frontier": s.frontier, "edges": s.edges,
               "vertices_micros": s.vertices_micros, "edges_micros": s.edges_micros,
               "prefetch_micros": s.prefetch_micros, "wait_micros": s.wait_micros})
    });
    each.collect()
}

/// Encodes an edge as `{"src","type","dst","version","properties"}`.
pub(super) fn edge_out(edge: &Edge, src: &str, dst: &str, schema: &Schema) -> Json {
    json!({
        "src": src,
        "type": schema.edge_type(edge.key.edge_type).map(|t| t.name.as_str()),
        "dst": dst,
        "version": edge.version.to_string(),
        "properties": properties_out(&edge.properties),
    })
}

/// Decodes a value of the kind that the schema declares, if it declares one; `None` if the JSON does not fit.
pub(super) fn value_in(value: &Json, kind: Option<ValueKind>) -> Option<Value> {
    Some(match (value, kind) {
        (Json::Null, _) => Value::Null,
        (Json::Bool(b), _) => Value::Bool(*b),
        (Json::Number(n), Some(ValueKind::F64)) => Value::F64(n.as_f64()?),
        (Json::Number(n), _) => match n.as_i64() {
            Some(n) => Value::I64(n),
            None => Value::F64(n.as_f64()?),
        },
        (Json::String(s), Some(ValueKind::F64)) => match s.as_str() {
            "NaN" => Value::F64(f64::NAN),
            "inf" => Value::F64(f64::INFINITY),
            "-inf" => Value::F64(f64::NEG_INFINITY),
            _ => return None,
        },
        (Json::String(s), Some(ValueKind::Timestamp)) => {
            let plain = !s.contains(['"', '\\']);
            parse_value(&format!("t\"{s}\"")).ok().filter(|_| plain)?
        }
        (Json::String(s), Some(ValueKind::Bytes)) => Value::Bytes(base64_in(s)?),
        (Json::String(s), _) => Value::String(s.clone()),
        (Json::Array(items), _) => {
            let items: Option<_> = items.iter().map(|i| value_in(i, None)).collect();
            Value::List(items?)
        }
        (Json::Object(_), _) => return None,
    })
}

fn base64_in(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut bits, mut have, mut out) = (0_u32, 0, Vec::with_capacity(text.len() / 4 * 3));
    for digit in digits.bytes() {
        let value = ALPHABET.iter().position(|d| *d == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    // The remaining bits must be zero, so that each value has one text.
    (bits & ((1 << have) - 1) == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_comes_back() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", &[0, 255, 62, 63]] {
            let text = value_out(&Value::Bytes(bytes.to_vec()));
            assert_eq!(
                value_in(&text, Some(ValueKind::Bytes)),
                Some(Value::Bytes(bytes.to_vec()))
            );
        }
        for text in ["a", "YQ", "YR==", "Y*==", "===="] {
            assert_eq!(base64_in(text), None, "{text}");
        }
    }

    #[test]
    fn kinds_come_back() {
        for (value, kind) in [
            (Value::Timestamp(1_500_000_000), ValueKind::Timestamp),
            (Value::F64(1.0), ValueKind::F64),
            (Value::F64(f64::INFINITY), ValueKind::F64),
            (Value::I64(i64::MIN), ValueKind::I64),
            (Value::from("x"), ValueKind::String),
        ] {
            assert_eq!(value_in(&value_out(&value), Some(kind)), Some(value));
        }
        let quote = Json::from("2026-01-01\" x");
        assert_eq!(value_in(&quote, Some(ValueKind::Timestamp)), None);
    }
}
