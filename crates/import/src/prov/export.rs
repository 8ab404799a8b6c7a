//! Export of the graph as a PROV document: statements from imported documents, and facts that the graph recorded itself.
//!
//! A file's recorded accesses are expressed by its versions: each write made one, a specialization of the file (PROV-DM, section 5.5.1),
//! and a read used the newest version that another run had written by then. Unknown parts are omitted.

use super::graph::summary;
use super::links::{self, native};
use super::model::{Document, Kind, PROV, Slot, Statement, Value as ProvValue, XSD};
use super::names::ATTRIBUTES;
use super::stored::{BUNDLE, MARK, decode, is_statement};
use esker_model::iri::{self, escape};
use esker_model::{Edge, Properties, Schema, Value, Version, Vertex, VertexId, VertexTypeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

const TYPES: &str = "urn:esker:types/";
const EDGES: &str = "urn:esker:edges/";
const VERSION: &str = "urn:esker:terms/Version";
const PART: &str = "http://purl.org/dc/terms/isPartOf";

/// A vertex at which edges may end.
#[derive(Debug, Clone)]
struct KnownVertex {
    iri: String,
    kind: Kind,
}

/// Builder of a document from vertices and edges: first all vertices, then all edges, in the forward direction of the schema.
#[derive(Debug)]
pub struct Export<'a> {
    schema: &'a Schema,
    document: Document,
    known: HashMap<VertexId, KnownVertex>,
    /// Writes by data object, with their properties.
    writes: BTreeMap<VertexId, Vec<Edge>>,
    reads: Vec<Edge>,
}

impl<'a> Export<'a> {
    /// Creates an export without statements.
    pub fn new(schema: &'a Schema) -> Self {
        Self {
            schema,
            document: Document::default(),
            known: HashMap::new(),
            writes: BTreeMap::new(),
            reads: Vec::new(),
        }
    }

    /// Returns the number of statements so far.
    pub fn len(&self) -> usize {
        self.document.statements.len()
    }

    /// Returns whether there are no statements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kind(&self, type_id: VertexTypeId) -> Kind {
        let is = |kind: Kind| {
            let root = self.schema.vertex_type_id(links::root(kind));
            root.is_ok_and(|root| self.schema.is_a(type_id, root))
        };
        [Kind::Activity, Kind::Agent]
            .into_iter()
            .find(|kind| is(*kind))
            .unwrap_or(Kind::Entity)
    }

    /// Adds the statements stored in attributes or properties and returns them.
    fn said<'p>(&mut self, pairs: impl Iterator<Item = (&'p str, &'p Value)>) -> Vec<Statement> {
        let mut all = Vec::new();
        for (name, value) in pairs {
            let Value::String(text) = value else { continue };
            let Some((bundle, statement)) = is_statement(name).then(|| decode(text)).flatten()
            else {
                continue;
            };
            all.push(statement.clone());
            match bundle {
                Some(bundle) => self
                    .document
                    .bundles
                    .entry(bundle)
                    .or_default()
                    .push(statement),
                None => self.document.statements.push(statement),
            }
        }
        all
    }

    /// Adds a vertex and its statements.
    pub fn vertex(&mut self, vertex: &Vertex) {
        let kind = self.kind(vertex.type_id);
        let user = || vertex.user.iter().map(|a| (a.name.as_str(), &a.value));
        let mark = user().find(|(name, _)| *name == MARK);
        let mark = mark.and_then(|(_, value)| match value {
            Value::String(iri) => Some(iri.clone()),
            _ => None,
        });
        let own = mark.is_none();
        let iri =
            mark.unwrap_or_else(|| iri::vertex(&self.schema.prefix(vertex.type_id), &vertex.key));
        let known = KnownVertex {
            iri: iri.clone(),
            kind,
        };
        self.known.insert(vertex.id, known);
        let said = self.said(user());
        if user().any(|(name, _)| name == BUNDLE) {
            self.document.bundles.entry(iri.clone()).or_default();
        }
        if own && !vertex.deleted {
            self.own(vertex, kind, iri, said);
        }
    }

    /// Adds the statement about a vertex that the graph recorded itself.
    fn own(&mut self, vertex: &Vertex, kind: Kind, iri: String, said: Vec<Statement>) {
        let mut statement = Statement::new(kind, Some(iri));
        if let Some(definition) = self.schema.vertex_type(vertex.type_id) {
            let class = ProvValue::Name(with(TYPES, &definition.name));
            statement.attributes.push((format!("{PROV}type"), class));
        }
        for (name, value) in vertex.attributes.iter() {
            let at = match name {
                "start" if kind == Kind::Activity => 0,
                "end" if kind == Kind::Activity => 1,
                "name" => {
                    push(&mut statement, &format!("{PROV}label"), value);
                    continue;
                }
                _ => {
                    push(&mut statement, &with(ATTRIBUTES, name), value);
                    continue;
                }
            };
            if let (Value::Timestamp(nanos), Some(argument)) =
                (value, statement.arguments.get_mut(at))
            {
                *argument = time_text(*nanos);
            }
        }
        let (derived, _) = summary(said.into_iter());
        let derived: BTreeSet<String> = derived.into_iter().map(|(name, _)| name).collect();
        for attribute in &vertex.user {
            let name = &attribute.name;
            let kept = is_statement(name) || name == BUNDLE || derived.contains(name);
            if !kept {
                push(&mut statement, &with(ATTRIBUTES, name), &attribute.value);
            }
        }
        self.document.statements.push(statement);
    }

    /// Adds an edge whose ends have been added.
    pub fn edge(&mut self, edge: Edge) {
        if edge.deleted {
            return;
        }
        self.said(edge.properties.iter());
        let asserted =
            matches!(edge.properties.get("evidence"), Some(Value::String(e)) if e == "asserted");
        let ends = self
            .known
            .get(&edge.key.source)
            .zip(self.known.get(&edge.key.destination));
        let (Some((source, destination)), false) = (ends, asserted) else {
            return;
        };
        let (source, destination) = (source.clone(), destination.clone());
        let Some(definition) = self.schema.edge_type(edge.key.edge_type) else {
            return;
        };
        let types = (definition.source, definition.destination);
        match native(self.schema, &definition.name, types) {
            Some((Kind::Generation, _)) => {
                self.writes
                    .entry(edge.key.destination)
                    .or_default()
                    .push(edge);
            }
            Some((Kind::Usage, _)) => self.reads.push(edge),
            Some((kind, (from, to))) => {
                let mut statement = Statement::new(kind, None);
                for (at, iri) in [(from, &source.iri), (to, &destination.iri)] {
                    if let Some(argument) = statement.arguments.get_mut(at) {
                        *argument = Some(iri.clone());
                    }
                }
                // In PROV-O, runs and members have no attributes of their own.
                if kind == Kind::Association {
                    properties(&mut statement, &edge.properties);
                }
                self.document.statements.push(statement);
            }
            None => {
                let name = match definition.name.as_str() {
                    "belongs" => PART.to_owned(),
                    name => with(EDGES, name),
                };
                let mut statement = Statement::new(source.kind, Some(source.iri));
                statement
                    .attributes
                    .push((name, ProvValue::Name(destination.iri)));
                self.document.statements.push(statement);
            }
        }
    }

    /// Returns the finished document.
    pub fn finish(mut self) -> Document {
        let reads = std::mem::take(&mut self.reads);
        let mut writes = std::mem::take(&mut self.writes);
        for edges in writes.values_mut() {
            edges.sort_unstable_by_key(|e| (e.version, e.key.source));
        }
        for edge in writes.values().flatten() {
            self.write(edge);
        }
        for read in &reads {
            let seen_at = ended(read).unwrap_or(read.version);
            let before = writes.get(&read.key.destination).into_iter().flatten();
            let seen = before
                .filter(|w| w.version <= seen_at && w.key.source != read.key.source)
                .map(|w| w.version)
                .next_back();
            self.read(read, seen);
        }
        self.document.normal()
    }

    fn ends(&self, edge: &Edge) -> Option<(String, String)> {
        let iri = |id| self.known.get(id).map(|k| k.iri.clone());
        Some((iri(&edge.key.source)?, iri(&edge.key.destination)?))
    }

    fn write(&mut self, edge: &Edge) {
        let Some((run, general)) = self.ends(edge) else {
            return;
        };
        let version = of_version(&general, edge.version);
        let mut entity = Statement::new(Kind::Entity, Some(version.clone()));
        let class = ProvValue::Name(VERSION.to_owned());
        entity.attributes.push((format!("{PROV}type"), class));
        let mut special = Statement::new(Kind::Specialization, None);
        special.arguments = vec![Some(version.clone()), Some(general)];
        let mut generation = Statement::new(Kind::Generation, None);
        let time = timestamp(&edge.properties, "end").unwrap_or_else(|| edge.version.nanos());
        generation.arguments = vec![Some(version), Some(run), time_text(time)];
        properties(&mut generation, &edge.properties);
        for statement in [entity, special, generation] {
            self.document.statements.push(statement);
        }
    }

    fn read(&mut self, edge: &Edge, seen: Option<Version>) {
        let Some((run, general)) = self.ends(edge) else {
            return;
        };
        let used = seen.map_or(general.clone(), |version| of_version(&general, version));
        let mut usage = Statement::new(Kind::Usage, None);
        let time = timestamp(&edge.properties, "start").unwrap_or_else(|| edge.version.nanos());
        usage.arguments = vec![Some(run), Some(used), time_text(time)];
        properties(&mut usage, &edge.properties);
        self.document.statements.push(usage);
    }
}

fn with(prefix: &str, text: &str) -> String {
    let mut out = prefix.to_owned();
    escape(text, &mut out);
    out
}

/// Returns the IRI of a version.
fn of_version(iri: &str, version: Version) -> String {
    let joint = if iri.contains('?') { '&' } else { '?' };
    format!("{iri}{joint}version={version}")
}

fn timestamp(properties: &Properties, name: &str) -> Option<i64> {
    match properties.get(name) {
        Some(Value::Timestamp(nanos)) => Some(*nanos),
        _ => None,
    }
}

/// Returns the end of a use.
fn ended(edge: &Edge) -> Option<Version> {
    let nanos = timestamp(&edge.properties, "end")?;
    Some(Version::end_of_millis(
        u64::try_from(nanos / 1_000_000).ok()?,
    ))
}

fn time_text(nanos: i64) -> Option<String> {
    let at = jiff::Timestamp::from_nanosecond(i128::from(nanos)).ok()?;
    Some(at.to_string())
}

/// Adds the properties of an edge as attributes of the relation.
fn properties(statement: &mut Statement, properties: &Properties) {
    let timed = statement
        .kind
        .form()
        .arguments
        .iter()
        .any(|(_, slot)| *slot == Slot::Time);
    for (name, value) in properties.iter() {
        if is_statement(name)
            || name.starts_with("prov.")
            || (timed && matches!(name, "start" | "end"))
        {
            continue;
        }
        push(statement, &with(ATTRIBUTES, name), value);
    }
}

fn push(statement: &mut Statement, name: &str, value: &Value) {
    let one = match value {
        Value::Null => return,
        Value::List(items) => {
            items.iter().for_each(|item| push(statement, name, item));
            return;
        }
        Value::Bool(stated) => ProvValue::xsd(stated.to_string(), "boolean"),
        Value::I64(n) => ProvValue::integer(*n),
        Value::F64(n) => {
            let text = match *n {
                n if n.is_nan() => "NaN".to_owned(),
                f64::INFINITY => "INF".to_owned(),
                f64::NEG_INFINITY => "-INF".to_owned(),
                n => format!("{n:?}"),
            };
            ProvValue::xsd(text, "double")
        }
        Value::String(text) => ProvValue::string(text.as_str()),
        Value::Bytes(bytes) => {
            let text = bytes.iter().fold(String::new(), |mut text, b| {
                let _ = write!(text, "{b:02X}");
                text
            });
            ProvValue::typed(text, format!("{XSD}hexBinary"))
        }
        Value::Timestamp(nanos) => match time_text(*nanos) {
            Some(text) => ProvValue::xsd(text, "dateTime"),
            None => return,
        },
    };
    statement.attributes.push((name.to_owned(), one));
}
