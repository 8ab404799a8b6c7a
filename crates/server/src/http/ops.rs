//! Lines of JSON as mutations.
//!
//! ```text
//!  {"op": "put_vertex", "id": "file:/a", "attributes": {"size": 7}}
//!  {"op": "ensure_vertex", "id": "file:/a"}
//!  {"op": "set", "id": "file:/a", "set": {"campaign": "spring"}, "remove": ["old"]}
//!  {"op": "delete_vertex", "id": "file:/a"}
//!  {"op": "put_edge", "src": "job:1", "type": "write", "dst": "file:/a", "properties": {"bytes": 7}}
//!  {"op": "delete_edge", "src": "job:1", "type": "write", "dst": "file:/a"}
//!  {"op": "create_object", "name": "energy", "app": "vpic", "owner": 1001, "step": 7, "attributes": {}, "tags": {"Conf": 0}}
//!  {"op": "move_object", "object": "8123", "from": {"name": "energy", "owner": 1001}, "to": {"name": "e", "owner": 1001}}
//! ```
//!
//! Each line may have `"version"`: the time of the change. The ends of a new edge are mentioned, so that their names are kept.

use super::ApiError;
use super::json_body::{Fields, advice, object_id};
use esker_model::object::object_type;
use esker_model::{Batch, Mutation, NamedEnds, Op, Schema, Version, VertexName};
use serde_json::Value as Json;
use std::cell::RefCell;

/// The operations, and the keys of each besides `op` and `version`.
pub(super) const OPS: [(&str, &[&str]); 8] = [
    ("put_vertex", &["id", "attributes"]),
    ("ensure_vertex", &["id"]),
    ("set", &["id", "set", "remove"]),
    ("delete_vertex", &["id"]),
    ("put_edge", &["src", "type", "dst", "properties"]),
    ("delete_edge", &["src", "type", "dst"]),
    (
        "create_object",
        &["name", "app", "owner", "step", "attributes", "tags"],
    ),
    ("move_object", &["object", "from", "to"]),
];

/// Reads a batch, one mutation per line; empty lines are skipped. Also returns the names that may be paths of files.
pub(super) fn batch(text: &str, schema: &Schema) -> Result<(Batch, Vec<VertexName>), ApiError> {
    let mut batch = Batch::new();
    let (paths, mut ends) = (RefCell::default(), NamedEnds::default());
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let mutation = mutation(line, schema, &paths, &mut ends).map_err(|e| e.at_line(i + 1))?;
        batch.mutations.push(mutation);
    }
    ends.append_to(&mut batch);
    Ok((batch, paths.into_inner()))
}

fn mutation(
    line: &str,
    schema: &Schema,
    paths: &RefCell<Vec<VertexName>>,
    ends: &mut NamedEnds,
) -> Result<Mutation, ApiError> {
    let json: Json = serde_json::from_str(line)
        .map_err(|e| ApiError::bad(format!("not JSON (column {}): {e}", e.column())))?;
    let Json::Object(object) = &json else {
        return Err(ApiError::bad("expected a JSON object".into()));
    };
    let line = Fields {
        object,
        schema,
        paths: Some(paths),
    };
    let name = line.text("op")?;
    let names = || OPS.iter().map(|(n, _)| *n);
    let Some((name, keys)) = OPS.iter().find(|(n, _)| *n == name) else {
        let advice = advice(name, names());
        return Err(ApiError::bad(format!("unknown op `{name}`; {advice}")));
    };
    let known = |key: &str| key == "op" || key == "version" || keys.contains(&key);
    if let Some(key) = object.keys().find(|k| !known(k)) {
        let advice = advice(key, keys.iter().copied());
        return Err(ApiError::bad(format!(
            "unknown key `{key}` of `{name}`; {advice}"
        )));
    }
    let version = match object.get("version") {
        None => None,
        Some(_) => Some(Version::parse_since(line.text("version")?)?),
    };
    Ok(Mutation {
        version,
        op: line.op(name, version, ends)?,
    })
}

impl Fields<'_> {
    fn op(
        &self,
        name: &str,
        version: Option<Version>,
        ends: &mut NamedEnds,
    ) -> Result<Op, ApiError> {
        if name.ends_with("_edge") {
            let (source, source_key) = self.vertex("src")?;
            let (destination, destination_key) = self.vertex("dst")?;
            let edge_type = self.schema.edge_type_id(self.text("type")?)?;
            return Ok(if name == "put_edge" {
                ends.add(version, source, source_key);
                ends.add(version, destination, destination_key);
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
        if name == "create_object" {
            return Ok(Op::CreateObject {
                identity: self.identity()?,
                attributes: self.properties("attributes", object_type(self.schema))?,
                tags: self.properties("tags", None)?,
            });
        }
        if name == "move_object" {
            return Ok(Op::MoveObject {
                object: object_id(self.text("object")?)?,
                from: self.identity_at("from")?,
                to: self.identity_at("to")?,
            });
        }
        let (vertex, key) = self.vertex("id")?;
        let of = Some(vertex.type_id);
        Ok(match name {
            "put_vertex" => Op::PutVertex {
                vertex,
                key,
                attributes: self.properties("attributes", of)?,
            },
            "ensure_vertex" => Op::EnsureVertex { vertex, key },
            "set" => Op::SetAttributes {
                vertex,
                set: self.properties("set", of)?,
                remove: self.names("remove")?,
            },
            _ => Op::DeleteVertex { vertex },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::Properties;
    use esker_model::object::{Identity, ObjectId};

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
{"op":"delete_vertex","id":"file:/a"}
{"op":"create_object","name":"energy","owner":1001,"attributes":{"location":"/x"},"tags":{"Conf":0,"seen":null}}
{"op":"move_object","object":"object:7","from":{"name":"a","owner":1,"step":2},"to":{"name":"b","app":"c","owner":1}}"#;
        let (batch, paths) = batch(text, &Schema::default()).unwrap();
        assert_eq!(paths.len(), 5);
        // The two ends of the edge are mentioned behind the operations.
        assert_eq!(batch.len(), 10);
        let identity = |name: &str, app: &str, owner, step| Identity {
            name: name.into(),
            app: app.into(),
            owner,
            step,
        };
        let tags = Properties::new()
            .with("Conf", 0)
            .with("seen", esker_model::Value::Null);
        assert_eq!(
            batch.mutations[6].op,
            Op::CreateObject {
                identity: identity("energy", "", 1001, 0),
                attributes: Properties::new().with("location", "/x"),
                tags,
            }
        );
        assert_eq!(
            batch.mutations[7].op,
            Op::MoveObject {
                object: ObjectId(7),
                from: identity("a", "", 1, 2),
                to: identity("b", "c", 1, 0),
            }
        );
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
            (r#"{"op":"create_object","name":"x"}"#, "`owner` is missing"),
            (
                r#"{"op":"create_object","name":"x","owner":1,"attributes":{"mtime":"soon"}}"#,
                "`attributes.mtime`: expected a value of kind timestamp",
            ),
            (
                r#"{"op":"move_object","object":"-7"}"#,
                "`-7` is not an object's number",
            ),
            (
                r#"{"op":"move_object","object":"7","from":{"name":"x","onwer":1}}"#,
                "unknown key `onwer` of `from`; did you mean `owner`?",
            ),
            (
                r#"{"op":"move_object","object":"7","from":{"name":"x"}}"#,
                "`from`: `owner` is missing",
            ),
        ] {
            let message = message(line);
            assert!(message.contains(expected), "{line}: {message}");
        }
    }
}
