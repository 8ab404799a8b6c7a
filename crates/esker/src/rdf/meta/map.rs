//! The mapping: a vertex, its earlier versions, an edge, a schema as triples. Nothing else decides what stands in the graph.

use super::terms::{
    ATTRIBUTES, DCTERMS, EDGES, LISTS, Literal, ORG, OWL, PROV, RDF, RDFS, TERMS, TYPES, iri, list,
    literals, time, version,
};
use esker_model::key::EdgeKey;
use esker_model::{
    Edge, EdgeTypeId, Properties, Schema, Value, Version, Vertex, VertexChange, VertexEvent,
    VertexTypeId,
};
use esker_rdf::dictionary::{Dictionary, Key};
use esker_rdf::id::Id;
use esker_rdf::{Result, quads::Quad};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What PROV-O has for a kind of vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Agent,
    Activity,
    Entity,
    Collection,
}

/// What PROV-O (or another vocabulary) has for an edge type.
#[derive(Debug, Clone, Copy)]
struct Meaning {
    /// The property.
    property: (&'static str, &'static str),
    /// Whether it goes from the destination to the source.
    turned: bool,
    /// The qualified form: property, class, and the property from it to the other end.
    qualified: Option<(&'static str, &'static str, &'static str)>,
}

const USED: Meaning = Meaning {
    property: (PROV, "used"),
    turned: false,
    qualified: Some(("qualifiedUsage", "Usage", "entity")),
};

/// Edge types of the default schema: name, source, destination, what they mean.
const MEANINGS: [(&str, &str, &str, Meaning); 7] = [
    ("read", "Execution", "DataObject", USED),
    ("exe", "Execution", "DataObject", USED),
    (
        "write",
        "Execution",
        "DataObject",
        Meaning {
            property: (PROV, "wasGeneratedBy"),
            turned: true,
            qualified: Some(("qualifiedGeneration", "Generation", "activity")),
        },
    ),
    (
        "run",
        "User",
        "Execution",
        Meaning {
            property: (PROV, "wasAssociatedWith"),
            turned: true,
            qualified: Some(("qualifiedAssociation", "Association", "agent")),
        },
    ),
    (
        "belongs",
        "Execution",
        "Execution",
        Meaning {
            property: (DCTERMS, "isPartOf"),
            turned: false,
            qualified: None,
        },
    ),
    (
        "has",
        "DataObject",
        "DataObject",
        Meaning {
            property: (PROV, "hadMember"),
            turned: false,
            qualified: None,
        },
    ),
    (
        "memberOf",
        "User",
        "Group",
        Meaning {
            property: (ORG, "memberOf"),
            turned: false,
            qualified: None,
        },
    ),
];

/// What the built-in types are to PROV-O.
fn part_of_builtin(name: &str) -> Option<Part> {
    Some(match name {
        "User" | "Group" => Part::Agent,
        "Execution" | "Job" | "Process" => Part::Activity,
        "Directory" => Part::Collection,
        "DataObject" | "File" | "Executable" | "Object" => Part::Entity,
        _ => return None,
    })
}

/// What a type is to PROV-O: what the nearest built-in type above it is.
pub(super) fn part(schema: &Schema, type_id: VertexTypeId) -> Option<Part> {
    let mut next = Some(type_id);
    while let Some(definition) = next.and_then(|t| schema.vertex_type(t)) {
        if definition.builtin {
            return part_of_builtin(&definition.name);
        }
        next = definition.parent;
    }
    None
}

fn meaning(schema: &Schema, edge_type: EdgeTypeId) -> Option<Meaning> {
    let definition = schema.edge_type(edge_type)?;
    let is = |t: VertexTypeId, name: &str| {
        schema
            .vertex_type(t)
            .is_some_and(|t| t.builtin && t.name == name)
    };
    MEANINGS
        .iter()
        .find(|(name, source, destination, _)| {
            definition.name == *name
                && is(definition.source, source)
                && is(definition.destination, destination)
        })
        .map(|m| m.3)
}

/// Numbers of the words that mapping needs again and again.
#[derive(Debug, Clone)]
pub(super) struct Words {
    pub(super) graph: Id,
    pub(super) specialization: Id,
    rdf_type: Id,
    label: Id,
    path: Id,
    changed: Id,
    removed: Id,
    generated: Id,
    invalidated: Id,
    revision: Id,
    started: Id,
    ended: Id,
    version_class: Id,
    statement: Id,
    subject: Id,
    predicate: Id,
    object: Id,
    types: Vec<TypeWords>,
    edges: Vec<Option<EdgeWords>>,
    attributes: HashMap<String, Id>,
    lists: HashMap<String, Id>,
    /// Predicates that edges give, and no vertex by itself.
    pub(super) of_edges: HashSet<Id>,
}

#[derive(Debug, Clone, Default)]
struct TypeWords {
    prefix: String,
    classes: Vec<Id>,
    part: Option<Part>,
    /// Whether its vertices are named by paths.
    file: bool,
}

#[derive(Debug, Clone)]
pub(super) struct EdgeWords {
    own: Id,
    symmetric: bool,
    prov: Option<(Id, bool)>,
    qualified: Option<(Id, Id, Id)>,
    name: String,
}

/// Triples on their way into a graph.
pub(super) trait Sink {
    fn put(&mut self, s: Id, p: Id, o: Id);
}

impl Sink for Vec<Quad> {
    /// Without a graph: whoever takes them knows it.
    fn put(&mut self, s: Id, p: Id, o: Id) {
        self.push(Quad { s, p, o, g: 0 });
    }
}

impl Words {
    /// Looks all up.
    pub(super) fn new(schema: &Schema, terms: &mut Dictionary) -> Result<Self> {
        let mut word = |prefix: &str, name: &str| terms.intern(&Key::Iri(&iri(prefix, name)));
        let mut of_edges = HashSet::new();
        let mut types = Vec::new();
        for (id, definition) in schema.vertex_types() {
            let part = part(schema, id);
            let mut classes = vec![word(TYPES, &definition.name)?];
            classes.extend(match part {
                None => Vec::new(),
                Some(Part::Agent) => vec![word(PROV, "Agent")?],
                Some(Part::Activity) => vec![word(PROV, "Activity")?],
                Some(Part::Entity) => vec![word(PROV, "Entity")?],
                Some(Part::Collection) => vec![word(PROV, "Entity")?, word(PROV, "Collection")?],
            });
            let place = usize::from(id.0);
            types.resize_with(types.len().max(place + 1), TypeWords::default);
            types[place] = TypeWords {
                prefix: schema.prefix(id),
                classes,
                part,
                file: is_file(schema, id),
            };
        }
        let mut edges = Vec::new();
        for (id, definition) in schema.edge_types() {
            let symmetric = definition.inverse == id;
            let words = if definition.forward || symmetric {
                let meaning = meaning(schema, id);
                let own = word(EDGES, &definition.name)?;
                of_edges.insert(own);
                let mut qualified = None;
                let mut prov = None;
                if let Some(m) = meaning {
                    let property = word(m.property.0, m.property.1)?;
                    of_edges.insert(property);
                    prov = Some((property, m.turned));
                    if let Some((property, class, end)) = m.qualified {
                        let property = word(PROV, property)?;
                        of_edges.insert(property);
                        qualified = Some((property, word(PROV, class)?, word(PROV, end)?));
                    }
                }
                Some(EdgeWords {
                    own,
                    symmetric,
                    prov,
                    qualified,
                    name: definition.name.clone(),
                })
            } else {
                None
            };
            let place = usize::from(id.0);
            edges.resize_with(edges.len().max(place + 1), || None);
            edges[place] = words;
        }
        Ok(Self {
            graph: word("", super::GRAPH)?,
            specialization: word(PROV, "specializationOf")?,
            rdf_type: word(RDF, "type")?,
            label: word(RDFS, "label")?,
            path: word(TERMS, "path")?,
            changed: word(TERMS, "changed")?,
            removed: word(TERMS, "removed")?,
            generated: word(PROV, "generatedAtTime")?,
            invalidated: word(PROV, "invalidatedAtTime")?,
            revision: word(PROV, "wasRevisionOf")?,
            started: word(PROV, "startedAtTime")?,
            ended: word(PROV, "endedAtTime")?,
            version_class: word(TERMS, "Version")?,
            statement: word(RDF, "Statement")?,
            subject: word(RDF, "subject")?,
            predicate: word(RDF, "predicate")?,
            object: word(RDF, "object")?,
            types,
            edges,
            attributes: HashMap::new(),
            lists: HashMap::new(),
            of_edges,
        })
    }

    /// What stands before the colon in names of vertices of a type.
    pub(super) fn prefix(&self, type_id: VertexTypeId) -> &str {
        self.types
            .get(usize::from(type_id.0))
            .map_or("", |t| t.prefix.as_str())
    }

    /// Whether vertices of that type are named by paths.
    pub(super) fn is_file(&self, type_id: VertexTypeId) -> bool {
        self.types
            .get(usize::from(type_id.0))
            .is_some_and(|t| t.file)
    }

    /// The edge types whose edges are mapped, in the direction in which they are.
    pub(super) fn edge_types(&self) -> Vec<EdgeTypeId> {
        (0..)
            .zip(&self.edges)
            .filter(|(_, e)| e.is_some())
            .map(|(n, _)| EdgeTypeId(n))
            .collect()
    }

    /// The same edge in the direction in which it is mapped.
    pub(super) fn forward(&self, schema: &Schema, key: EdgeKey) -> Option<EdgeKey> {
        let of = |t: EdgeTypeId| self.edges.get(usize::from(t.0))?.as_ref();
        match of(key.edge_type) {
            Some(e) if e.symmetric && key.source > key.destination => {
                Some(key.reversed(key.edge_type))
            }
            Some(_) => Some(key),
            None => {
                let key = key.reversed(schema.inverse(key.edge_type));
                of(key.edge_type).map(|_| key)
            }
        }
    }

    pub(super) fn edge(&self, edge_type: EdgeTypeId) -> Option<&EdgeWords> {
        self.edges.get(usize::from(edge_type.0))?.as_ref()
    }

    /// What names of attributes are called.
    fn attribute(&mut self, terms: &mut Dictionary, name: &str) -> Result<Id> {
        if let Some(id) = self.attributes.get(name) {
            return Ok(*id);
        }
        let id = terms.intern(&Key::Iri(&iri(ATTRIBUTES, name)))?;
        self.attributes.insert(name.to_owned(), id);
        Ok(id)
    }

    fn list(&mut self, terms: &mut Dictionary, name: &str) -> Result<Id> {
        if let Some(id) = self.lists.get(name) {
            return Ok(*id);
        }
        let id = terms.intern(&Key::Iri(&iri(LISTS, name)))?;
        self.lists.insert(name.to_owned(), id);
        Ok(id)
    }
}

/// Whether vertices of a type are named by paths of the namespace.
fn is_file(schema: &Schema, type_id: VertexTypeId) -> bool {
    schema
        .vertex_type(type_id)
        .is_some_and(|t| t.builtin && ["File", "Directory"].contains(&t.name.as_str()))
}

/// Maps into a dictionary's numbers.
pub(super) struct Mapper<'a> {
    pub(super) words: &'a mut Words,
    pub(super) terms: &'a mut Dictionary,
    pub(super) scratch: Vec<Literal>,
}

impl Mapper<'_> {
    fn literal(&mut self, (text, datatype): &Literal) -> Result<Id> {
        self.terms.intern(&if datatype.is_empty() {
            Key::Plain(text)
        } else {
            Key::Typed(text, datatype)
        })
    }

    fn time(&mut self, version: Version) -> Result<Id> {
        self.literal(&time(version))
    }

    fn value(&mut self, s: Id, name: &str, value: &Value, to: &mut impl Sink) -> Result<()> {
        let p = self.words.attribute(self.terms, name)?;
        let mut all = std::mem::take(&mut self.scratch);
        all.clear();
        literals(value, &mut all);
        for literal in &all {
            let o = self.literal(literal)?;
            to.put(s, p, o);
        }
        self.scratch = all;
        if let Value::List(items) = value {
            let (p, o) = (
                self.words.list(self.terms, name)?,
                self.literal(&list(items))?,
            );
            to.put(s, p, o);
        }
        Ok(())
    }

    /// A vertex as it is.
    pub(super) fn vertex(&mut self, s: Id, vertex: &Vertex, to: &mut impl Sink) -> Result<()> {
        let place = usize::from(vertex.type_id.0);
        let Some(of) = self.words.types.get(place) else {
            return Ok(());
        };
        let (part, file) = (of.part, of.file);
        let name = format!("{}:{}", of.prefix, vertex.key);
        for class in &of.classes {
            to.put(s, self.words.rdf_type, *class);
        }
        let name = self.terms.intern(&Key::Plain(&name))?;
        to.put(s, self.words.label, name);
        if file {
            let path = self.terms.intern(&Key::Plain(&vertex.key))?;
            to.put(s, self.words.path, path);
        }
        let changed = self.time(vertex.version)?;
        if vertex.deleted {
            to.put(s, self.words.removed, changed);
            if matches!(part, Some(Part::Entity | Part::Collection)) {
                to.put(s, self.words.invalidated, changed);
            }
            return Ok(());
        }
        to.put(s, self.words.changed, changed);
        for (name, value) in vertex.attributes.iter() {
            self.value(s, name, value, to)?;
            if part == Some(Part::Activity)
                && let Value::Timestamp(_) = value
                && let Some(p) = match name {
                    "start" => Some(self.words.started),
                    "end" => Some(self.words.ended),
                    _ => None,
                }
            {
                let mut one = Vec::new();
                literals(value, &mut one);
                for literal in &one {
                    let o = self.literal(literal)?;
                    to.put(s, p, o);
                }
            }
        }
        for tag in &vertex.user {
            self.value(s, &tag.name, &tag.value, to)?;
        }
        Ok(())
    }

    /// Earlier versions of a vertex, of which these events are known, newest first.
    pub(super) fn versions(
        &mut self,
        s: Id,
        iri: &str,
        events: &[VertexEvent],
        to: &mut impl Sink,
    ) -> Result<()> {
        let events: Vec<&VertexEvent> = events.iter().filter(|e| !e.archived).rev().collect();
        if !supersedes(&events) {
            return Ok(());
        }
        let mut own = Properties::new();
        let mut user: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut there = false;
        let mut before: Option<Id> = None;
        let mut rest = events.as_slice();
        while let Some(first) = rest.first() {
            let at = first.version;
            let (now, later) = rest.split_at(rest.partition_point(|e| e.version == at));
            rest = later;
            for event in now {
                match &event.change {
                    VertexChange::Put(properties) => {
                        own = properties.clone();
                        there = true;
                    }
                    VertexChange::Deleted => {
                        own = Properties::new();
                        user.clear();
                        there = false;
                    }
                    VertexChange::Set(name, value) => {
                        user.insert(name, value);
                    }
                    VertexChange::Removed(name) => {
                        user.remove(name.as_str());
                    }
                }
            }
            // The last one is the vertex itself.
            let Some(next) = rest.first() else { break };
            if !there {
                before = None;
                continue;
            }
            let node = self.terms.intern(&Key::Iri(&version(iri, at)))?;
            let (from, until) = (self.time(at)?, self.time(next.version)?);
            to.put(node, self.words.specialization, s);
            to.put(node, self.words.rdf_type, self.words.version_class);
            to.put(node, self.words.generated, from);
            to.put(node, self.words.invalidated, until);
            if let Some(before) = before {
                to.put(node, self.words.revision, before);
            }
            before = Some(node);
            for (name, value) in own.iter() {
                self.value(node, name, value, to)?;
            }
            for (name, value) in &user {
                self.value(node, name, value, to)?;
            }
        }
        Ok(())
    }

    /// An edge between two that have numbers.
    pub(super) fn edge(&mut self, s: Id, o: Id, edge: &Edge, to: &mut impl Sink) -> Result<()> {
        let Some(words) = self.words.edge(edge.key.edge_type).cloned() else {
            return Ok(());
        };
        to.put(s, words.own, o);
        if words.symmetric {
            to.put(o, words.own, s);
        }
        let turn = |turned: bool| if turned { (o, s) } else { (s, o) };
        if let Some((property, turned)) = words.prov {
            let (from, end) = turn(turned);
            to.put(from, property, end);
        }
        if edge.properties.is_empty() {
            return Ok(());
        }
        let node = self.edge_node(&words, &edge.key)?;
        to.put(node, self.words.rdf_type, self.words.statement);
        to.put(node, self.words.subject, s);
        to.put(node, self.words.predicate, words.own);
        to.put(node, self.words.object, o);
        if let (Some((property, class, other)), Some((_, turned))) = (words.qualified, words.prov) {
            let (from, end) = turn(turned);
            to.put(from, property, node);
            to.put(node, self.words.rdf_type, class);
            to.put(node, other, end);
        }
        let changed = self.time(edge.version)?;
        to.put(node, self.words.changed, changed);
        for (name, value) in edge.properties.iter() {
            self.value(node, name, value, to)?;
        }
        Ok(())
    }

    /// The node that stands for an edge, where there is more to say of it: named by its ends' ids, so that it stays when
    /// they are renamed.
    pub(super) fn edge_node(&mut self, words: &EdgeWords, key: &EdgeKey) -> Result<Id> {
        use std::fmt::Write as _;
        let mut name = iri(EDGES, &words.name);
        name.push('/');
        for b in blake3::hash(&key.encode()).as_bytes().iter().take(12) {
            let _ = write!(name, "{b:02x}");
        }
        self.terms.intern(&Key::Iri(&name))
    }

    /// What an edge's key alone says may be in the graph: its triples without the node's.
    pub(super) fn edge_triples(&self, words: &EdgeWords, s: Id, o: Id) -> Vec<(Id, Id, Id)> {
        let mut all = vec![(s, words.own, o)];
        if words.symmetric {
            all.push((o, words.own, s));
        }
        if let Some((property, turned)) = words.prov {
            all.push(if turned {
                (o, property, s)
            } else {
                (s, property, o)
            });
        }
        all
    }

    /// The schema's own triples.
    pub(super) fn schema(&mut self, schema: &Schema, to: &mut impl Sink) -> Result<()> {
        let word = |terms: &mut Dictionary, prefix: &str, name: &str| {
            terms.intern(&Key::Iri(&iri(prefix, name)))
        };
        let a = self.words.rdf_type;
        let class = word(self.terms, RDFS, "Class")?;
        let below = word(self.terms, RDFS, "subClassOf")?;
        for (id, definition) in schema.vertex_types() {
            let s = word(self.terms, TYPES, &definition.name)?;
            to.put(s, a, class);
            let name = self.terms.intern(&Key::Plain(&definition.name))?;
            to.put(s, self.words.label, name);
            let classes = &self.words.types.get(usize::from(id.0));
            let classes = classes.map_or(&[][..], |t| &t.classes);
            for c in classes.iter().filter(|c| **c != s) {
                to.put(s, below, *c);
            }
            if let Some(parent) = definition.parent.and_then(|p| schema.vertex_type(p)) {
                let parent = word(self.terms, TYPES, &parent.name)?;
                to.put(s, below, parent);
            }
        }
        let property = word(self.terms, RDF, "Property")?;
        let (domain, range) = (
            word(self.terms, RDFS, "domain")?,
            word(self.terms, RDFS, "range")?,
        );
        let (sub, inverse) = (
            word(self.terms, RDFS, "subPropertyOf")?,
            word(self.terms, OWL, "inverseOf")?,
        );
        for (id, definition) in schema.edge_types() {
            let Some(words) = self.words.edge(id).cloned() else {
                continue;
            };
            to.put(words.own, a, property);
            let name = self.terms.intern(&Key::Plain(&definition.name))?;
            to.put(words.own, self.words.label, name);
            for (p, end) in [(domain, definition.source), (range, definition.destination)] {
                if let Some(end) = schema.vertex_type(end) {
                    let end = word(self.terms, TYPES, &end.name)?;
                    to.put(words.own, p, end);
                }
            }
            if let Some((prov, false)) = words.prov {
                to.put(words.own, sub, prov);
            }
            if words.symmetric {
                let symmetric = word(self.terms, OWL, "SymmetricProperty")?;
                to.put(words.own, a, symmetric);
            } else if let Some(other) = schema.edge_type(definition.inverse) {
                let other = word(self.terms, EDGES, &other.name)?;
                to.put(other, inverse, words.own);
                if let Some((prov, true)) = words.prov {
                    to.put(other, sub, prov);
                }
            }
        }
        Ok(())
    }
}

/// Whether one of these events took the place of another.
fn supersedes(events: &[&VertexEvent]) -> bool {
    let mut seen = HashSet::new();
    events.iter().any(|e| {
        !seen.insert(match &e.change {
            VertexChange::Put(_) | VertexChange::Deleted => None,
            VertexChange::Set(name, _) | VertexChange::Removed(name) => Some(name.as_str()),
        })
    })
}

/// The other edge words that give the same PROV triple for two ends.
pub(super) fn same_meaning<'w>(
    words: &'w Words,
    property: Id,
) -> impl Iterator<Item = (&'w EdgeWords, bool)> + 'w {
    words.edges.iter().flatten().filter_map(move |e| {
        let (p, turned) = e.prov?;
        (p == property).then_some((e, turned))
    })
}

impl EdgeWords {
    pub(super) const fn own(&self) -> Id {
        self.own
    }

    pub(super) const fn qualified(&self) -> Option<Id> {
        match self.qualified {
            Some((property, _, _)) => Some(property),
            None => None,
        }
    }

    pub(super) const fn prov(&self) -> Option<(Id, bool)> {
        self.prov
    }
}
