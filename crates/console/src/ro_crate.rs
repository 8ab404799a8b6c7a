//! A lineage as an RO-Crate: what ran, what it used and made, who ran it with which program, for whoever reads research objects
//! (RO-Crate Metadata Specification 1.1; Process Run Crate 0.5).
//!
//! Only what is known is said: an execution without an end has no `endTime`, one whose end says nothing of success no `actionStatus`.

use crate::{label, runs, value};
use esker::lineage::Provenance;
use esker_model::{Schema, Vertex, VertexId};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const CONTEXT: &str = "https://w3id.org/ro/crate/1.1/context";
const TERMS: &str = "https://w3id.org/ro/terms/workflow-run/context";
const PROFILE: &str = "https://w3id.org/ro/wfrun/process/0.5";
const SPECIFICATION: &str = "https://w3id.org/ro/crate/1.1";

/// A path or a key as a part of a URI.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(byte as char);
            }
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

/// What a vertex is called in the crate: a file by its place, everything else within the document.
fn id_of(vertex: &Vertex, schema: &Schema) -> String {
    let name = vertex.name(schema);
    let (prefix, key) = name.split_once(':').unwrap_or(("", &name));
    match prefix {
        "file" | "directory" | "dataobject" if key.starts_with('/') => {
            format!("file://{}", encoded(key))
        }
        _ => format!("#{}/{}", encoded(prefix), encoded(key)),
    }
}

fn reference(id: &str) -> Json {
    json!({ "@id": id })
}

fn references<'a>(ids: impl IntoIterator<Item = &'a String>) -> Json {
    ids.into_iter().map(|id| reference(id)).collect()
}

/// Edges of an execution by what they say.
#[derive(Default)]
struct Uses {
    objects: BTreeSet<String>,
    results: BTreeSet<String>,
    instruments: BTreeSet<String>,
    agents: BTreeSet<String>,
}

/// The metadata document of a crate that says how something came to be. `made`: when, in nanoseconds since 1970.
pub fn describe(found: &Provenance, schema: &Schema, made: i64) -> Json {
    let known: BTreeMap<VertexId, &Vertex> = found
        .vertices
        .iter()
        .filter_map(|v| Some((v.id, v.vertex.as_ref()?)))
        .collect();
    let ids: BTreeMap<VertexId, String> = known
        .iter()
        .map(|(id, vertex)| (*id, id_of(vertex, schema)))
        .collect();
    let is_run = |id: &VertexId| {
        let execution = schema.vertex_type_id("Execution");
        let vertex = known.get(id);
        vertex.is_some_and(|v| {
            execution.is_ok_and(|execution| crate::names::is_of(schema, v.type_id, execution))
        })
    };
    let mut uses: BTreeMap<VertexId, Uses> = BTreeMap::new();
    for edge in &found.edges {
        let key = edge.edge.key;
        let Some(declared) = schema.edge_type(key.edge_type) else {
            continue;
        };
        let forward = if declared.forward {
            Some(declared.name.as_str())
        } else {
            schema.edge_type(declared.inverse).map(|t| t.name.as_str())
        };
        let (from, to) = if declared.forward {
            (key.source, key.destination)
        } else {
            (key.destination, key.source)
        };
        let (Some(from_id), Some(to_id)) = (ids.get(&from), ids.get(&to)) else {
            continue;
        };
        match forward {
            Some("read") if is_run(&from) => {
                uses.entry(from).or_default().objects.insert(to_id.clone());
            }
            Some("write") if is_run(&from) => {
                uses.entry(from).or_default().results.insert(to_id.clone());
            }
            Some("exe") if is_run(&from) => {
                let uses = uses.entry(from).or_default();
                uses.instruments.insert(to_id.clone());
            }
            Some("run") if is_run(&to) => {
                uses.entry(to).or_default().agents.insert(from_id.clone());
            }
            _ => {}
        }
    }
    let nothing = Uses::default();
    let mut graph = Vec::new();
    let (mut parts, mut mentions) = (BTreeSet::new(), BTreeSet::new());
    for (id, vertex) in &known {
        let name = &ids[id];
        let mut entity = Map::new();
        entity.insert("@id".into(), name.as_str().into());
        let told = label::of(*id, Some(vertex), schema);
        entity.insert("name".into(), told.label.into());
        if is_run(id) {
            mentions.insert(name.clone());
            action(&mut entity, vertex, uses.get(id).unwrap_or(&nothing));
        } else if told.type_name == "User" {
            entity.insert("@type".into(), "Person".into());
            entity.insert("identifier".into(), vertex.key.as_str().into());
        } else if told.type_name == "Executable" {
            entity.insert("@type".into(), "SoftwareApplication".into());
            entity.insert("identifier".into(), vertex.key.as_str().into());
        } else if name.starts_with("file://") {
            let kind = if told.type_name == "Directory" {
                "Dataset"
            } else {
                "File"
            };
            entity.insert("@type".into(), kind.into());
            if let Some(size) = label::number(vertex, "size") {
                // The term is text in schema.org.
                entity.insert("contentSize".into(), size.to_string().into());
            }
            if let Some(changed) = label::time(vertex, "mtime") {
                entity.insert("dateModified".into(), value::time(changed).into());
            }
            parts.insert(name.clone());
        } else {
            entity.insert("@type".into(), "CreativeWork".into());
            entity.insert("identifier".into(), vertex.key.as_str().into());
        }
        graph.push(Json::Object(entity));
    }
    let target = known.get(&found.target).map(|v| v.name(schema));
    let target = target.unwrap_or_default();
    let complete = if found.complete && found.left_out == 0 {
        ""
    } else {
        " It is not whole: not everything was followed, or may be seen."
    };
    let root = json!({
        "@id": "./",
        "@type": "Dataset",
        "name": format!("Lineage of {target}"),
        "description": format!("What {target} was made from, and by which executions, as Esker knows it.{complete}"),
        "datePublished": value::time(made),
        "license": {"@id": "#license"},
        "conformsTo": {"@id": PROFILE},
        "hasPart": references(&parts),
        "mentions": references(&mentions),
    });
    let mut all = vec![
        json!({
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": SPECIFICATION},
        }),
        root,
        json!({
            "@id": PROFILE,
            "@type": "CreativeWork",
            "name": "Process Run Crate",
            "version": "0.5",
        }),
        json!({
            "@id": "#license",
            "@type": "CreativeWork",
            "name": "Not stated",
            "description": "Esker knows of no licence: whoever publishes this crate states one.",
        }),
    ];
    all.extend(graph);
    json!({"@context": [CONTEXT, TERMS], "@graph": all})
}

/// An execution is an action with its inputs and outputs.
fn action(entity: &mut Map<String, Json>, vertex: &Vertex, uses: &Uses) {
    let kind = if uses.results.is_empty() {
        "Action"
    } else {
        "CreateAction"
    };
    entity.insert("@type".into(), kind.into());
    for (term, attribute) in [("startTime", "start"), ("endTime", "end")] {
        if let Some(time) = label::time(vertex, attribute) {
            entity.insert(term.into(), value::time(time).into());
        }
    }
    if let Some(command) = label::text(vertex, "command") {
        entity.insert("description".into(), command.into());
    }
    let (state, why) = runs::state(vertex);
    let status = match state {
        "ok" => Some("http://schema.org/CompletedActionStatus"),
        "failed" => Some("http://schema.org/FailedActionStatus"),
        "running" => Some("http://schema.org/ActiveActionStatus"),
        _ => None,
    };
    if let Some(status) = status {
        entity.insert("actionStatus".into(), reference(status));
    }
    if let (Some(why), "failed") = (why, state) {
        entity.insert("error".into(), why.into());
    }
    for (term, ids) in [
        ("object", &uses.objects),
        ("result", &uses.results),
        ("instrument", &uses.instruments),
        ("agent", &uses.agents),
    ] {
        if !ids.is_empty() {
            entity.insert(term.into(), references(ids));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Database;
    use esker::lineage::{LineageOptions, lineage};
    use esker_model::{
        Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, VertexRef,
    };

    #[test]
    fn paths_are_uris() {
        assert_eq!(encoded("/a b/ü%"), "/a%20b/%C3%BC%25");
    }

    #[test]
    fn an_execution_is_an_action_with_inputs_and_outputs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("db");
        let database = Database::open(folder.to_str().unwrap()).unwrap();
        let schema = database.schema().unwrap();
        let vertex = |type_name: &str, key: &str| VertexRef {
            id: VertexId::of(type_name, key),
            type_id: schema.vertex_type_id(type_name).unwrap(),
        };
        let mut batch = Batch::new();
        for (type_name, key) in [
            ("File", "/in x"),
            ("File", "/out"),
            ("Job", "1"),
            ("User", "7"),
        ] {
            batch.push(Op::PutVertex {
                vertex: vertex(type_name, key),
                key: key.into(),
                attributes: Properties::new(),
            });
        }
        for (from, edge, to) in [
            (("Job", "1"), "read", ("File", "/in x")),
            (("Job", "1"), "write", ("File", "/out")),
            (("User", "7"), "run", ("Job", "1")),
        ] {
            batch.push(Op::PutEdge {
                source: vertex(from.0, from.1),
                edge_type: schema.edge_type_id(edge).unwrap(),
                destination: vertex(to.0, to.1),
                properties: Properties::new(),
            });
        }
        database.apply(batch).unwrap();
        let target = VertexId::of("File", "/out");
        let found = lineage(&database, target, &LineageOptions::default(), &NeverCancel).unwrap();
        let told = describe(&found, &schema, 0);
        let all = told["@graph"].as_array().unwrap();
        let of = |id: &str| all.iter().find(|e| e["@id"] == id).unwrap();
        let job = of("#job/1");
        assert_eq!(job["@type"], "CreateAction");
        assert_eq!(job["object"], json!([{"@id": "file:///in%20x"}]));
        assert_eq!(job["result"], json!([{"@id": "file:///out"}]));
        assert_eq!(job["agent"], json!([{"@id": "#user/7"}]));
        assert_eq!(job.get("endTime"), None, "what is not known is not said");
        assert_eq!(of("./")["mentions"], json!([{"@id": "#job/1"}]));
        assert_eq!(of("./")["hasPart"].as_array().unwrap().len(), 2);
        let ids: BTreeSet<&str> = all.iter().map(|e| e["@id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), all.len(), "each entity once");
    }
}
