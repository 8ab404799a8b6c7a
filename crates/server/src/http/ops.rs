//! Lines of JSON as mutations.
//!
//! ```text
//!  {"op": "put_vertex", "id": "file:/a", "attributes": {"size": 7}}
//!  {"op": "ensure_vertex", "id": "file:/a"}
//!  {"op": "set", "id": "file:/a", "set": {"campaign": "spring"}, "remove": ["old"]}
//!  {"op": "delete_vertex", "id": "file:/a"}
//!  {"op": "put_edge", "src": "job:1", "type": "write", "dst": "file:/a", "properties": {"bytes": 7}}
//!  {"op": "delete_edge", "src": "job:1", "type": "write", "dst": "file:/a"}
//! ```
//!
//! Each may have `"version"`: when it happened.

use super::Refused;
use super::json::value_in;
use esker_model::schema::nearest;
use esker_model::{Batch, Mutation, Op, Properties, Schema, Version, VertexName, VertexRef};
use serde_json::{Map, Value as Json};

/// The operations, and the keys of each beside `op` and `version`.
pub(super) const OPS: [(&str, &[&str]); 6] = [
    ("put_vertex", &["id", "attributes"]),
    ("ensure_vertex", &["id"]),
    ("set", &["id", "set", "remove"]),
    ("delete_vertex", &["id"]),
    ("put_edge", &["src", "type", "dst", "properties"]),
    ("delete_edge", &["src", "type", "dst"]),
];

/// Reads a batch, a mutation a line. Empty lines are skipped.
pub(super) fn batch(text: &str, schema: &Schema) -> Result<Batch, Refused> {
    let mut batch = Batch::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let mutation = mutation(line, schema).map_err(|e| e.at_line(i + 1))?;
        batch.mutations.push(mutation);
    }
    Ok(batch)
}

struct Line<'a> {
    object: &'a Map<String, Json>,
    schema: &'a Schema,
}

fn mutation(line: &str, schema: &Schema) -> Result<Mutation, Refused> {
    let json: Json = serde_json::from_str(line)
        .map_err(|e| Refused::bad(format!("not JSON (column {}): {e}", e.column())))?;
    let Json::Object(object) = &json else {
        return Err(Refused::bad("expected a JSON object".into()));
    };
    let line = Line { object, schema };
    let name = line.text("op")?;
    let names = || OPS.iter().map(|(n, _)| *n);
    let Some((name, keys)) = OPS.iter().find(|(n, _)| *n == name) else {
        let advice = nearest(name, names()).map_or_else(
            || format!("expected {}", names().collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(Refused::bad(format!("unknown op `{name}`; {advice}")));
    };
    let known = |key: &str| key == "op" || key == "version" || keys.contains(&key);
    if let Some(key) = object.keys().find(|k| !known(k)) {
        let advice = nearest(key, keys.iter().copied()).map_or_else(
            || format!("expected {}", keys.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(Refused::bad(format!(
            "unknown key `{key}` of `{name}`; {advice}"
        )));
    }
    let version = match object.get("version") {
        None => None,
        Some(_) => Some(Version::parse_since(line.text("version")?)?),
    };
    Ok(Mutation {
        version,
        op: line.op(name)?,
    })
}

impl Line<'_> {
    fn text(&self, key: &str) -> Result<&str, Refused> {
        match self.object.get(key) {
            Some(Json::String(text)) => Ok(text),
            Some(_) => Err(Refused::bad(format!("`{key}`: expected a string"))),
            None => Err(Refused::bad(format!("`{key}` is missing"))),
        }
    }

    fn vertex(&self, key: &str) -> Result<(VertexRef, String), Refused> {
        let name = VertexName::parse(self.text(key)?)?;
        let vertex = name.resolve(self.schema)?;
        Ok((vertex, name.key))
    }

    fn object(&self, key: &str) -> Result<Option<&Map<String, Json>>, Refused> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Json::Object(object)) => Ok(Some(object)),
            Some(_) => Err(Refused::bad(format!("`{key}`: expected an object"))),
        }
    }

    fn properties(&self, key: &str, of: Option<VertexRef>) -> Result<Properties, Refused> {
        let Some(object) = self.object(key)? else {
            return Ok(Properties::new());
        };
        let pair = |(name, value): (&String, &Json)| {
            let kind = of.and_then(|v| self.schema.attribute(v.type_id, name));
            let kind = kind.map(|a| a.kind);
            let value = value_in(value, kind).ok_or_else(|| {
                let expected = match kind {
                    Some(kind) => format!("a value of kind {}", kind.name()),
                    None => "null, true, false, a number, a string or a list".to_owned(),
                };
                Refused::bad(format!("`{key}.{name}`: expected {expected}; got {value}"))
            })?;
            Ok((name.clone(), value))
        };
        object.iter().map(pair).collect()
    }

    fn names(&self, key: &str) -> Result<Vec<String>, Refused> {
        let bad = || Refused::bad(format!("`{key}`: expected a list of strings"));
        match self.object.get(key) {
            None => Ok(Vec::new()),
            Some(Json::Array(items)) => items
                .iter()
                .map(|i| i.as_str().map(str::to_owned).ok_or_else(bad))
                .collect(),
            Some(_) => Err(bad()),
        }
    }

    fn op(&self, name: &str) -> Result<Op, Refused> {
        if name.ends_with("_edge") {
            let (source, _) = self.vertex("src")?;
            let (destination, _) = self.vertex("dst")?;
            let edge_type = self.schema.edge_type_id(self.text("type")?)?;
            return Ok(if name == "put_edge" {
                Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    properties: self.properties("properties", None)?,
                }
            } else {
                Op::DeleteEdge {
                    source,
                    edge_type,
                    destination,
                }
            });
        }
        let (vertex, key) = self.vertex("id")?;
        Ok(match name {
            "put_vertex" => Op::PutVertex {
                vertex,
                key,
                attributes: self.properties("attributes", Some(vertex))?,
            },
            "ensure_vertex" => Op::EnsureVertex { vertex, key },
            "set" => Op::SetAttributes {
                vertex,
                set: self.properties("set", Some(vertex))?,
                remove: self.names("remove")?,
            },
            _ => Op::DeleteVertex { vertex },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> String {
        let text = format!("\n{line}\n");
        batch(&text, &Schema::default())
            .unwrap_err()
            .message()
            .to_owned()
    }

    #[test]
    fn every_operation_is_read() {
        let text = r#"{"op":"put_vertex","id":"file:/a","attributes":{"size":7}}
{"op":"ensure_vertex","id":"job:1"}
{"op":"set","id":"file:/a","set":{"campaign":"spring"},"remove":["old"]}
{"op":"put_edge","src":"job:1","type":"write","dst":"file:/a","properties":{"bytes":7},"version":"2026-01-01T00:00:00Z"}
{"op":"delete_edge","src":"job:1","type":"write","dst":"file:/a"}
{"op":"delete_vertex","id":"file:/a"}"#;
        let batch = batch(text, &Schema::default()).unwrap();
        assert_eq!(batch.len(), 6);
        assert_eq!(
            batch.mutations[3].version,
            Some(Version::parse_since("2026-01-01T00:00:00Z").unwrap())
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (line, expected) in [
            ("{", "line 2: not JSON"),
            ("[]", "line 2: expected a JSON object"),
            (
                r#"{"op":"put_vertx","id":"file:/a"}"#,
                "did you mean `put_vertex`?",
            ),
            (
                r#"{"op":"put_vertex","id":"file"}"#,
                "line 2: `file` names no vertex",
            ),
            (
                r#"{"op":"put_vertex","id":"fille:/a"}"#,
                "unknown vertex type `fille`",
            ),
            (
                r#"{"op":"put_vertex","ids":"file:/a"}"#,
                "unknown key `ids` of `put_vertex`; did you mean `id`?",
            ),
            (
                r#"{"op":"put_vertex","id":"file:/a","attributes":[]}"#,
                "`attributes`: expected an object",
            ),
            (
                r#"{"op":"put_edge","src":"job:1","dst":"file:/a"}"#,
                "`type` is missing",
            ),
            (
                r#"{"op":"set","id":"file:/a","set":{"x":{}}}"#,
                "`set.x`: expected null",
            ),
            (
                r#"{"op":"set","id":"file:/a","remove":[1]}"#,
                "`remove`: expected a list of strings",
            ),
        ] {
            let message = message(line);
            assert!(message.contains(expected), "{line}: {message}");
        }
    }
}
