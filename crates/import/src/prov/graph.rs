//! Conversion of a document to a batch, without facts that the graph already has.

use super::links::{self, EdgeOf, Kinds};
use super::model::{Document, Kind, PROV, Slot, Statement, Value as ProvValue, XSD, nanos};
use super::names::short;
use super::stored::{BUNDLE, MARK, decode, encode, is_statement};
use esker_model::namespace::{Namespace, check_path_key, resolve};
use esker_model::schema::check_attribute_name;
use esker_model::{
    Batch, Edge, EdgeKey, Error, GraphRead, Op, Properties, Result, Schema, Value, Version, Vertex,
    VertexId, VertexName, VertexRef,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Statements about a vertex.
#[derive(Debug, Default)]
struct Node {
    /// First IRI that names the vertex.
    iri: String,
    /// Whether the IRI is that of a vertex of this database.
    own: bool,
    statements: BTreeMap<String, String>,
    is_bundle: bool,
    since: Option<i64>,
}

/// Statements about an edge.
#[derive(Debug, Default)]
struct EdgeStatements {
    statements: BTreeMap<String, String>,
    /// Kinds of the statements of which the edge is only a part.
    parts: BTreeSet<&'static str>,
    times: BTreeSet<i64>,
    roles: BTreeSet<String>,
}

type Name = (Kind, String);
/// Both ends and the name of the edge type.
type LinkName = (Name, String, Name);

/// A document decomposed into vertices and edges.
#[derive(Default)]
struct DocumentParts {
    nodes: BTreeMap<Name, Node>,
    links: BTreeMap<LinkName, EdgeStatements>,
    /// Earliest time in the document.
    begin: Option<i64>,
    /// Start and end of activities.
    spans: HashMap<String, (Option<i64>, Option<i64>)>,
}

impl DocumentParts {
    fn new(document: &Document, schema: &Schema) -> Self {
        let mut parts = Self::default();
        let kinds = Kinds::of(document);
        for (bundle, statement) in document.all() {
            parts.statement(bundle, statement, &kinds, schema);
        }
        for bundle in document.bundles.keys() {
            parts.node((Kind::Entity, bundle.clone()), schema).is_bundle = true;
        }
        parts.date();
        parts
    }

    fn node(&mut self, name: Name, schema: &Schema) -> &mut Node {
        let (kind, iri) = name.clone();
        self.nodes.entry(name).or_insert_with(|| Node {
            own: links::is_own(kind, &iri, schema),
            iri,
            ..Node::default()
        })
    }

    fn statement(
        &mut self,
        bundle: Option<&str>,
        statement: &Statement,
        kinds: &Kinds<'_>,
        schema: &Schema,
    ) {
        let (key, text) = encode(bundle, statement);
        let arguments = statement.kind.form().arguments;
        let times: Vec<Option<i64>> = arguments
            .iter()
            .zip(&statement.arguments)
            .map(|((_, slot), argument)| {
                let argument = argument.as_deref().filter(|_| *slot == Slot::Time);
                argument.and_then(nanos)
            })
            .collect();
        for time in times.iter().flatten() {
            self.begin = Some(self.begin.map_or(*time, |begin| begin.min(*time)));
        }
        if let Some(id) = statement
            .id
            .as_ref()
            .filter(|_| statement.kind.is_element())
        {
            if let [start, end] = times.as_slice() {
                let span = self.spans.entry(id.clone()).or_default();
                *span = (span.0.or(*start), span.1.or(*end));
            }
            let node = self.node((statement.kind, id.clone()), schema);
            node.statements.insert(key, text);
            return;
        }
        let vertices = (0..arguments.len()).filter_map(|at| {
            let name = statement.argument(at)?.to_owned();
            Some((kinds.kind_at(statement, at)?, name))
        });
        let vertices: Vec<Name> = vertices.collect();
        for name in &vertices {
            self.node(name.clone(), schema);
        }
        let mut edges = links::edges(statement, kinds);
        // A thing and its version are one vertex here, so statements about both are statements about that vertex.
        let vertex = |(at, kind): (usize, Kind)| {
            statement
                .argument(at)
                .map(|iri| links::name(kind, iri, schema))
        };
        edges.retain(|(_, from, to)| vertex(*from) != vertex(*to));
        if edges.is_empty() {
            if let Some(first) = vertices.into_iter().next() {
                self.node(first, schema).statements.insert(key, text);
            }
            return;
        }
        let mut stated = Some((key, text));
        for edge in edges {
            let Some(link) = self.link(statement, edge) else {
                continue;
            };
            link.times.extend(times.iter().flatten());
            link.roles.extend(roles(statement));
            match stated.take() {
                Some((key, text)) => drop(link.statements.insert(key, text)),
                None => drop(link.parts.insert(statement.kind.form().keyword)),
            }
        }
    }

    fn link(
        &mut self,
        statement: &Statement,
        (name, from, to): EdgeOf,
    ) -> Option<&mut EdgeStatements> {
        let from = (from.1, statement.argument(from.0)?.to_owned());
        let to = (to.1, statement.argument(to.0)?.to_owned());
        Some(self.links.entry((from, name, to)).or_default())
    }

    /// Assigns a time to each edge that has none, if the document implies one, so that data are generated before they are used.
    fn date(&mut self) {
        let mut generated: HashMap<String, i64> = HashMap::new();
        let mut guessed: HashMap<String, i64> = HashMap::new();
        let earliest = |of: &mut HashMap<String, i64>, iri: &String, time: i64| {
            let at = of.entry(iri.clone()).or_insert(time);
            *at = time.min(*at);
        };
        for ((from, name, to), link) in &mut self.links {
            let (start, end) = self.spans.get(&from.1).copied().unwrap_or_default();
            let stated = link.times.first().copied();
            match name.as_str() {
                "read" => {
                    if let Some(time) = stated.or(start).or(self.begin) {
                        link.times.insert(time);
                        earliest(&mut guessed, &to.1, time);
                    }
                }
                "write" => match (stated, end.or(start).or(self.begin)) {
                    (Some(time), _) => earliest(&mut generated, &to.1, time),
                    (None, Some(time)) => earliest(&mut guessed, &to.1, time),
                    (None, None) => {}
                },
                _ => {}
            }
        }
        // All generations of a thing generated the same thing, so none of them is later than the first.
        for ((_, name, to), link) in &mut self.links {
            if name == "write" {
                link.times
                    .extend(generated.get(&to.1).or_else(|| guessed.get(&to.1)));
            }
        }
        for ((from, _, to), link) in &self.links {
            let Some(time) = link.times.first().copied().or(self.begin) else {
                continue;
            };
            for name in [from, to] {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.since = Some(node.since.map_or(time, |since| since.min(time)));
                }
            }
        }
        for ((kind, iri), node) in &mut self.nodes {
            let span = self.spans.get(iri).filter(|_| *kind == Kind::Activity);
            let start = span.and_then(|(start, end)| start.or(*end));
            let known = node.since.into_iter().chain(start).min();
            node.since = known.or(self.begin);
        }
    }
}

fn roles(statement: &Statement) -> Vec<String> {
    let role = format!("{PROV}role");
    let roles = statement.values(&role).map(|value| match value {
        ProvValue::Name(iri) => short(iri),
        ProvValue::Literal { text, .. } => text.clone(),
    });
    roles.collect()
}

fn version(time: Option<i64>) -> Option<Version> {
    let millis = u64::try_from(time?).ok()? / 1_000_000;
    Some(Version::new(millis, 0))
}

/// Converts a document to one batch. `schema` must include [`super::changes`]. Files are resolved by their current paths.
///
/// # Errors
/// Fails if the graph cannot be read, or a name is too long.
pub fn batch(
    document: &Document,
    schema: &Schema,
    graph: &(impl GraphRead + ?Sized),
    namespace: &(impl Namespace + ?Sized),
) -> Result<Batch> {
    let parts = DocumentParts::new(document, schema);
    let mut names = Vec::with_capacity(parts.nodes.len());
    for (kind, iri) in parts.nodes.keys() {
        let name = links::name(*kind, iri, schema);
        let refused =
            |why: &str| Error::Invalid(format!("the name <{iri}> cannot be a vertex: {why}"));
        esker_model::id::check_key(&name.key).map_err(refused)?;
        if *kind == Kind::Entity {
            check_path_key(&name.key).map_err(|why| refused(&why))?;
        }
        names.push(name);
    }
    let vertices = resolve(namespace, None, schema, &names)?;
    let mut writer = BatchWriter {
        schema,
        batch: Batch::new(),
        refs: HashMap::new(),
    };
    writer.nodes(&parts, &names, &vertices, graph)?;
    writer.links(&parts, graph)?;
    Ok(writer.batch)
}

struct BatchWriter<'a> {
    schema: &'a Schema,
    batch: Batch,
    refs: HashMap<&'a Name, VertexRef>,
}

/// Statements of several IRIs about one vertex.
#[derive(Default)]
struct Merged<'a> {
    statements: BTreeMap<&'a str, &'a str>,
    is_bundle: bool,
    own: bool,
    iri: &'a str,
    since: Option<i64>,
}

impl<'a> BatchWriter<'a> {
    fn push(&mut self, at: Option<Version>, op: Op) {
        match at {
            Some(at) => self.batch.push_at(at, op),
            None => self.batch.push(op),
        }
    }

    fn nodes(
        &mut self,
        parts: &'a DocumentParts,
        names: &[VertexName],
        vertices: &[VertexRef],
        graph: &(impl GraphRead + ?Sized),
    ) -> Result<()> {
        let mut merged: BTreeMap<VertexId, (VertexRef, &str, Merged<'_>)> = BTreeMap::new();
        for (((name, node), stated), vertex) in parts.nodes.iter().zip(names).zip(vertices) {
            self.refs.insert(name, *vertex);
            let (_, _, one) = merged
                .entry(vertex.id)
                .or_insert_with(|| (*vertex, stated.key.as_str(), Merged::default()));
            if one.iri.is_empty() {
                one.iri = &node.iri;
            }
            one.own |= node.own;
            one.is_bundle |= node.is_bundle;
            one.since = one.since.into_iter().chain(node.since).min();
            let all = node.statements.iter();
            one.statements
                .extend(all.map(|(k, v)| (k.as_str(), v.as_str())));
        }
        let ids: Vec<VertexId> = merged.keys().copied().collect();
        let found = graph.read_vertices(&ids, Version::MAX)?;
        for ((vertex, key, one), found) in merged.into_values().zip(found) {
            self.node(vertex, key, &one, found.filter(|v| !v.deleted).as_ref());
        }
        Ok(())
    }

    fn node(&mut self, vertex: VertexRef, key: &str, one: &Merged<'_>, known: Option<&Vertex>) {
        let since = version(one.since);
        let at = match (since, known.map(|v| v.version)) {
            (Some(since), Some(known)) => Some(since.max(known)),
            (since, None) => since,
            // An existing vertex is older than the current time.
            (None, Some(_)) => None,
        };
        let mut set = Properties::new();
        if known.is_none() {
            let op = Op::EnsureVertex {
                vertex,
                key: key.to_owned(),
            };
            self.push(since, op);
            if !one.own {
                set.set(MARK, one.iri);
            }
        }
        let has = |name: &str| known.is_some_and(|v| v.user.iter().any(|a| a.name == name));
        for (name, text) in one.statements.iter().filter(|(name, _)| !has(name)) {
            set.set(*name, *text);
        }
        if one.is_bundle && !has(BUNDLE) {
            set.set(BUNDLE, true);
        }
        let before = known.into_iter().flat_map(|v| &v.user);
        let before = before
            .filter(|a| is_statement(&a.name))
            .filter_map(|a| match &a.value {
                Value::String(text) => Some(text.as_str()),
                _ => None,
            });
        let all: BTreeSet<&str> = before.chain(one.statements.values().copied()).collect();
        let mut predefined = Properties::new();
        let (tags, first) = summary(all.into_iter().filter_map(decode).map(|(_, s)| s));
        for (name, value) in tags {
            if let Some(declared) = self.schema.attribute(vertex.type_id, &name) {
                let lacking = known.is_none_or(|v| v.attributes.get(&name).is_none());
                if lacking && declared.kind.accepts(&value) {
                    predefined.set(name, value);
                }
                continue;
            }
            if known
                .and_then(|v| v.user.iter().find(|a| a.name == name))
                .map(|a| &a.value)
                != Some(&value)
            {
                set.set(name, value);
            }
        }
        for (name, value) in first {
            let declared = self.schema.attribute(vertex.type_id, name).is_some();
            if declared && known.is_none_or(|v| v.attributes.get(name).is_none()) {
                predefined.set(name, value);
            }
        }
        if !predefined.is_empty() {
            let op = Op::ChangeVertex {
                vertex,
                set: predefined,
                remove: Vec::new(),
            };
            self.push(at, op);
        }
        if !set.is_empty() {
            let op = Op::SetAttributes {
                vertex,
                set,
                remove: Vec::new(),
            };
            self.push(at, op);
        }
    }

    fn links(&mut self, parts: &'a DocumentParts, graph: &(impl GraphRead + ?Sized)) -> Result<()> {
        let mut merged: BTreeMap<EdgeKey, (VertexRef, VertexRef, Vec<&EdgeStatements>)> =
            BTreeMap::new();
        for ((from, name, to), link) in &parts.links {
            let (Some(source), Some(destination)) = (self.refs.get(from), self.refs.get(to)) else {
                continue;
            };
            let key = EdgeKey {
                source: source.id,
                edge_type: self.schema.edge_type_id(name)?,
                destination: destination.id,
            };
            let of = merged
                .entry(key)
                .or_insert((*source, *destination, Vec::new()));
            of.2.push(link);
        }
        let keys: Vec<EdgeKey> = merged.keys().copied().collect();
        let found = graph.read_edges(&keys, Version::MAX)?;
        for ((key, (source, destination, stated)), found) in merged.into_iter().zip(found) {
            let Some((at, properties)) = Self::edge(&stated, found.as_ref(), parts.begin) else {
                continue;
            };
            let op = Op::PutEdge {
                source,
                edge_type: key.edge_type,
                destination,
                properties,
            };
            self.push(at, op);
        }
        Ok(())
    }

    /// Returns the version and the properties of an edge; `None` if the graph already has the edge with these.
    fn edge(
        stated: &[&EdgeStatements],
        known: Option<&Edge>,
        begin: Option<i64>,
    ) -> Option<(Option<Version>, Properties)> {
        let held = known.map(|e| &e.properties);
        let has = |name: &str| held.is_some_and(|p| p.get(name).is_some());
        let mut properties = held.cloned().unwrap_or_default();
        let mut news = known.is_none();
        for link in stated {
            for (name, text) in link.statements.iter().filter(|(name, _)| !has(name)) {
                properties.set(name.as_str(), text.as_str());
                news = true;
            }
            for part in &link.parts {
                let name = format!("{MARK}.{part}");
                if !has(&name) {
                    properties.set(name, true);
                    news = true;
                }
            }
        }
        if !news {
            return None;
        }
        if !has("evidence") {
            properties.set("evidence", "asserted");
        }
        let roles: BTreeSet<&str> = stated
            .iter()
            .flat_map(|l| l.roles.iter().map(String::as_str))
            .collect();
        if let Some(role) = roles.first().filter(|_| !has("role")) {
            properties.set("role", *role);
        }
        let times = stated.iter().flat_map(|link| link.times.iter().copied());
        let first = times.min().or(begin);
        let at = match (version(first), known.map(|e| e.version)) {
            (Some(first), Some(known)) => Some(first.max(known)),
            (first, None) => first,
            (None, Some(_)) => None,
        };
        Some((at, properties))
    }
}

/// Summarizes all statements about a vertex: tags for searching, and predefined attributes.
pub(super) fn summary(
    statements: impl Iterator<Item = Statement>,
) -> (Vec<(String, Value)>, Vec<(&'static str, Value)>) {
    let mut tags: BTreeMap<String, BTreeSet<ProvValue>> = BTreeMap::new();
    let (mut start, mut end) = (None, None);
    for statement in statements.filter(|s| s.kind.is_element()) {
        if statement.kind == Kind::Activity {
            let at = |argument| statement.argument(argument).and_then(nanos);
            start = start.into_iter().chain(at(0)).min();
            end = end.into_iter().chain(at(1)).max();
        }
        for (name, value) in statement.attributes {
            tags.entry(name).or_default().insert(value);
        }
    }
    let label = format!("{PROV}label");
    let label = tags.get(&label).and_then(|values| match values.first() {
        Some(ProvValue::Literal { text, .. }) => Some(Value::String(text.clone())),
        _ => None,
    });
    let first = [
        ("name", label),
        ("start", start.map(Value::Timestamp)),
        ("end", end.map(Value::Timestamp)),
    ];
    let first = first
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let tags = tags.into_iter().filter_map(|(name, values)| {
        let name = short(&name);
        check_attribute_name(&name).ok()?;
        let mut values: Vec<Value> = values.iter().map(value).collect();
        let value = if values.len() > 1 {
            Value::List(values)
        } else {
            values.pop()?
        };
        Some((name, value))
    });
    (tags.collect(), first.collect())
}

fn value(stated: &ProvValue) -> Value {
    let ProvValue::Literal { text, datatype, .. } = stated else {
        let ProvValue::Name(iri) = stated else {
            return Value::Null;
        };
        return Value::String(short(iri));
    };
    let plain = || Value::String(text.clone());
    match datatype.strip_prefix(XSD) {
        Some("boolean") => text.parse().map_or_else(|_| plain(), Value::Bool),
        Some(
            "int" | "integer" | "long" | "short" | "byte" | "nonNegativeInteger"
            | "positiveInteger" | "unsignedLong" | "unsignedInt" | "unsignedShort" | "unsignedByte",
        ) => text.parse().map_or_else(|_| plain(), Value::I64),
        Some("double" | "float" | "decimal") => text.parse().map_or_else(|_| plain(), Value::F64),
        Some("dateTime") => nanos(text).map_or_else(plain, Value::Timestamp),
        _ => plain(),
    }
}
