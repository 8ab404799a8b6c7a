//! Metadata document of a crate.

use super::Profile;
use super::facts::{Facts, Uses, Workflow};
use crate::{label, runs, value};
use esker_model::{Value, Vertex, VertexId};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const CONTEXT: &str = "https://w3id.org/ro/crate/1.1/context";
const SPECIFICATION: &str = "https://w3id.org/ro/crate/1.1";
/// Namespace of the terms that Workflow Run RO-Crate adds.
const RUN_TERMS: &str = "https://w3id.org/ro/terms/workflow-run#";
const WORKFLOW_CRATE: &str = "https://w3id.org/workflowhub/workflow-ro-crate/1.0";

/// Settings of a crate that are not facts of the lineage.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Creation time, in nanoseconds since 1970.
    pub made: i64,
    /// Maximum level of detail; `None` for the most that the facts support.
    pub profile: Option<Profile>,
    /// Name of the crate.
    pub name: Option<String>,
    /// URL of the licence.
    pub license: Option<String>,
    /// Paths of files contained in the crate, by vertex.
    pub inside: BTreeMap<VertexId, String>,
    /// Whether it includes the environment variables of executions.
    pub environment: bool,
}

/// Percent-encodes a path or a key for a URI.
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

fn reference(id: &str) -> Json {
    json!({ "@id": id })
}

/// Returns one reference as an object, several as a list, as in RO-Crate's JSON-LD.
fn references<'a>(ids: impl IntoIterator<Item = &'a String>) -> Json {
    let mut all: Vec<Json> = ids.into_iter().map(|id| reference(id)).collect();
    match all.len() {
        1 => all.remove(0),
        _ => all.into(),
    }
}

/// Formats a time as the profiles require: in milliseconds, with a numeric offset.
fn time(nanos: i64) -> Json {
    let whole = value::time(nanos);
    let whole = whole.trim_end_matches('Z');
    let (seconds, fraction) = whole.split_once('.').unwrap_or((whole, ""));
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    format!("{seconds}.{millis}+00:00").into()
}

/// A crate being written.
struct Writer<'a> {
    facts: &'a Facts<'a>,
    settings: &'a Settings,
    workflow: Option<&'a Workflow>,
    profile: Profile,
    ids: BTreeMap<VertexId, String>,
    parts: BTreeSet<String>,
    mentions: BTreeSet<String>,
    graph: Vec<Json>,
}

impl Writer<'_> {
    /// Returns a vertex's id in the crate: a contained file's path, otherwise an identifier within the document.
    fn id_of(&self, id: VertexId, vertex: &Vertex) -> String {
        if let Some(place) = self.settings.inside.get(&id) {
            return encoded(place);
        }
        let name = vertex.name(self.facts.schema);
        let (prefix, key) = name.split_once(':').unwrap_or(("", &name));
        let is_program = self.workflow.is_some_and(|w| w.program == id);
        match prefix {
            _ if is_program && key.starts_with('/') => format!("file://{}", encoded(key)),
            "file" | "directory" | "dataobject" if key.starts_with('/') => {
                format!("file://{}", encoded(key))
            }
            _ => format!("#{}/{}", encoded(prefix), encoded(key)),
        }
    }

    fn named(&self, ids: &BTreeSet<VertexId>) -> Vec<&String> {
        ids.iter().filter_map(|id| self.ids.get(id)).collect()
    }

    fn entity(&mut self, id: VertexId, vertex: &Vertex) {
        let Some(name) = self.ids.get(&id).cloned() else {
            return;
        };
        let mut entity = Map::new();
        entity.insert("@id".into(), name.as_str().into());
        let label = label::of(id, Some(vertex), self.facts.schema);
        entity.insert("name".into(), label.label.into());
        let key = vertex.key.as_str();
        if let Some(workflow) = self.workflow.filter(|w| w.program == id) {
            self.program(&mut entity, workflow);
            self.parts.insert(name);
        } else if self.facts.is_run(id) {
            self.mentions.insert(name);
            self.action(&mut entity, id, vertex);
        } else if label.type_name == "User" {
            entity.insert("@type".into(), "Person".into());
            entity.insert("identifier".into(), key.into());
        } else if matches!(label.type_name.as_str(), "Executable" | "Plan") {
            entity.insert("@type".into(), "SoftwareApplication".into());
            entity.insert("identifier".into(), key.into());
        } else if name.starts_with("file://") || self.settings.inside.contains_key(&id) {
            let kind = match label.type_name.as_str() {
                "Directory" => "Dataset",
                _ => "File",
            };
            entity.insert("@type".into(), kind.into());
            if let Some(size) = label::number(vertex, "size") {
                // The term is text in schema.org.
                entity.insert("contentSize".into(), size.to_string().into());
            }
            if let Some(changed) = label::time(vertex, "mtime") {
                entity.insert("dateModified".into(), time(changed));
            }
            if self.settings.inside.contains_key(&id) {
                entity.insert("alternateName".into(), key.into());
            }
            self.parts.insert(name);
        } else {
            entity.insert("@type".into(), "CreativeWork".into());
            entity.insert("identifier".into(), key.into());
        }
        self.graph.push(Json::Object(entity));
    }

    /// Describes the program of the workflow.
    fn program(&mut self, entity: &mut Map<String, Json>, workflow: &Workflow) {
        let kinds = ["File", "SoftwareSourceCode", "ComputationalWorkflow"];
        entity.insert("@type".into(), json!(kinds));
        let language = format!("#language/{}", encoded(workflow.language));
        entity.insert("programmingLanguage".into(), reference(&language));
        if self.profile == Profile::Provenance {
            let tools = self.named(&workflow.tools);
            entity.insert("hasPart".into(), references(tools));
        }
        self.graph
            .push(json!({"@id": language, "@type": "ComputerLanguage", "name": workflow.language}));
    }

    /// Describes an execution as an action with its inputs and outputs.
    fn action(&mut self, entity: &mut Map<String, Json>, id: VertexId, vertex: &Vertex) {
        let nothing = Uses::default();
        let mut uses = self.facts.uses.get(&id).unwrap_or(&nothing).clone();
        if let Some(workflow) = self.workflow.filter(|w| w.run == id) {
            uses.objects.clone_from(&workflow.inputs);
            uses.results.clone_from(&workflow.outputs);
        }
        // A `CreateAction` names its program and its results.
        let kind = if uses.results.is_empty() || uses.instruments.is_empty() {
            "Action"
        } else {
            "CreateAction"
        };
        entity.insert("@type".into(), kind.into());
        for (term, attribute) in [("startTime", "start"), ("endTime", "end")] {
            if let Some(then) = label::time(vertex, attribute) {
                entity.insert(term.into(), time(then));
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
            entity.insert("actionStatus".into(), status.into());
        }
        if let (Some(why), "failed") = (why, state) {
            entity.insert("error".into(), why.into());
        }
        let settings = self.values(id, vertex, "settings", "setting");
        if self.settings.environment {
            let variables = self.values(id, vertex, "environment", "environment");
            if !variables.is_empty() {
                entity.insert("environment".into(), references(&variables));
            }
        }
        for (term, ids) in [
            ("object", &uses.objects),
            ("result", &uses.results),
            ("instrument", &uses.instruments),
            ("agent", &uses.agents),
        ] {
            let mut ids = self.named(ids);
            if term == "object" {
                ids.extend(&settings);
            }
            if !ids.is_empty() {
                entity.insert(term.into(), references(ids));
            }
        }
    }

    /// Adds the elements `NAME=VALUE` of an execution's attribute as property values; returns their ids.
    fn values(
        &mut self,
        id: VertexId,
        vertex: &Vertex,
        attribute: &str,
        kind: &str,
    ) -> Vec<String> {
        let (Some(run), Some(Value::List(items))) =
            (self.ids.get(&id), vertex.attribute(attribute))
        else {
            return Vec::new();
        };
        let mut label: BTreeMap<String, Json> = BTreeMap::new();
        for item in items {
            let Value::String(text) = item else { continue };
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            let at = format!("{run}/{kind}/{}", encoded(name));
            let one = json!({"@id": at, "@type": "PropertyValue", "name": name, "value": value});
            label.insert(at, one);
        }
        let ids = label.keys().cloned().collect();
        self.graph.extend(label.into_values());
        ids
    }

    fn root(&self) -> Json {
        let found = self.facts.found;
        let target = self.facts.known.get(&found.target);
        let target = target
            .map(|v| v.name(self.facts.schema))
            .unwrap_or_default();
        let complete = if found.complete {
            ""
        } else {
            " It is incomplete: not everything was followed."
        };
        let name = self.settings.name.clone();
        let license = self.settings.license.as_deref().unwrap_or("#license");
        let mut conforms: Vec<String> = self.profiles().map(Profile::address).collect();
        if self.workflow.is_some() {
            conforms.push(WORKFLOW_CRATE.to_owned());
        }
        let mut root = json!({
            "@id": "./",
            "@type": "Dataset",
            "name": name.unwrap_or_else(|| format!("Lineage of {target}")),
            "description": format!("What {target} was made from, and by which executions, as Esker knows it.{complete}"),
            "datePublished": time(self.settings.made),
            "license": reference(license),
            "conformsTo": references(&conforms),
            "hasPart": references(&self.parts),
            "mentions": references(&self.mentions),
        });
        if let Some(program) = self.workflow.and_then(|w| self.ids.get(&w.program)) {
            root["mainEntity"] = reference(program);
        }
        root
    }

    fn profiles(&self) -> impl Iterator<Item = Profile> {
        let most = self.profile;
        Profile::ALL.into_iter().filter(move |p| *p <= most)
    }

    fn document(mut self) -> Json {
        let known: Vec<(VertexId, &Vertex)> =
            self.facts.known.iter().map(|(id, v)| (*id, *v)).collect();
        for (id, vertex) in &known {
            let name = self.id_of(*id, vertex);
            self.ids.insert(*id, name);
        }
        for (id, vertex) in known {
            self.entity(id, vertex);
        }
        let mut specifications = vec![SPECIFICATION.to_owned()];
        if self.workflow.is_some() {
            specifications.push(WORKFLOW_CRATE.to_owned());
        }
        let conforms = references(&specifications);
        let mut all = vec![
            json!({
                "@id": "ro-crate-metadata.json",
                "@type": "CreativeWork",
                "about": {"@id": "./"},
                "conformsTo": conforms,
            }),
            self.root(),
        ];
        for profile in self.profiles() {
            all.push(json!({
                "@id": profile.address(),
                "@type": "CreativeWork",
                "name": profile.title(),
                "version": "0.5",
            }));
        }
        if self.workflow.is_some() {
            all.push(json!({
                "@id": WORKFLOW_CRATE,
                "@type": "CreativeWork",
                "name": "Workflow RO-Crate",
                "version": "1.0",
            }));
        }
        all.push(match &self.settings.license {
            Some(license) => json!({"@id": license, "@type": "CreativeWork", "name": license}),
            None => json!({
                "@id": "#license",
                "@type": "CreativeWork",
                "name": "Not stated",
                "description": "Esker knows no licence for this crate: its publisher must state one.",
            }),
        });
        all.append(&mut self.graph);
        let context = if self.settings.environment {
            json!([CONTEXT, {"environment": format!("{RUN_TERMS}environment")}])
        } else {
            json!(CONTEXT)
        };
        json!({"@context": context, "@graph": all})
    }
}

/// Returns the metadata document of a crate that describes a lineage.
pub fn describe(facts: &Facts<'_>, settings: &Settings) -> Json {
    let profile = settings.profile.unwrap_or(Profile::Provenance);
    let profile = profile.min(facts.profile());
    let workflow = facts.workflow.as_ref();
    let writer = Writer {
        facts,
        settings,
        workflow: workflow.filter(|_| profile >= Profile::Workflow),
        profile,
        ids: BTreeMap::new(),
        parts: BTreeSet::new(),
        mentions: BTreeSet::new(),
        graph: Vec::new(),
    };
    writer.document()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_uris() {
        assert_eq!(encoded("/a b/ü%"), "/a%20b/%C3%BC%25");
    }

    #[test]
    fn times_have_milliseconds_and_an_offset() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(time(1_234_567_890), "1970-01-01T00:00:01.234+00:00");
        assert_eq!(time(1_200_000_000), "1970-01-01T00:00:01.200+00:00");
    }
}
