//! The mapping of vertices, their earlier versions, edges and the schema to triples. No other module decides which
//! triples the
//! metadata graph has.

use super::terms::{EDGES, Literal, OWL, RDF, RDFS, TYPES, iri, list, literals, time, version};
use super::vocabulary::{EdgeTerms, ProvClass, Vocabulary};
use esker_model::key::EdgeKey;
use esker_model::namespace::{Content, Inode, Kind, display};
use esker_model::{
    Edge, EdgeEvent, Properties, Schema, Value, Version, Vertex, VertexChange, VertexEvent,
};
use esker_rdf::dictionary::{Dictionary, Key};
use esker_rdf::id::Id;
use esker_rdf::{Result, quads::Quad};
use std::collections::{BTreeMap, HashSet};

/// Destination of mapped triples.
pub(super) trait Sink {
    fn put(&mut self, s: Id, p: Id, o: Id);
}

impl Sink for Vec<Quad> {
    /// Without a graph number, which the receiver sets.
    fn put(&mut self, s: Id, p: Id, o: Id) {
        self.push(Quad { s, p, o, g: 0 });
    }
}

/// Maps items to triples with the numbers of a dictionary.
pub(super) struct Mapper<'a> {
    pub(super) vocabulary: &'a mut Vocabulary,
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
        let p = self.vocabulary.attribute(self.terms, name)?;
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
                self.vocabulary.list(self.terms, name)?,
                self.literal(&list(items))?,
            );
            to.put(s, p, o);
        }
        Ok(())
    }

    /// Maps the current version of a vertex.
    pub(super) fn vertex(&mut self, s: Id, vertex: &Vertex, to: &mut impl Sink) -> Result<()> {
        let index = usize::from(vertex.type_id.0);
        let Some(of) = self.vocabulary.types.get(index) else {
            return Ok(());
        };
        let (part, file) = (of.part, of.file);
        let name = format!("{}:{}", of.prefix, vertex.key);
        for class in &of.classes {
            to.put(s, self.vocabulary.rdf_type, *class);
        }
        let name = self.terms.intern(&Key::Plain(&name))?;
        to.put(s, self.vocabulary.label, name);
        if file {
            let path = self.terms.intern(&Key::Plain(&vertex.key))?;
            to.put(s, self.vocabulary.path, path);
        }
        let changed = self.time(vertex.version)?;
        if vertex.deleted {
            to.put(s, self.vocabulary.removed, changed);
            if matches!(part, Some(ProvClass::Entity | ProvClass::Collection)) {
                to.put(s, self.vocabulary.invalidated, changed);
            }
            return Ok(());
        }
        to.put(s, self.vocabulary.changed, changed);
        for (name, value) in vertex.attributes.iter() {
            self.value(s, name, value, to)?;
            if part == Some(ProvClass::Activity)
                && let Value::Timestamp(_) = value
                && let Some(p) = match name {
                    "start" => Some(self.vocabulary.started),
                    "end" => Some(self.vocabulary.ended),
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

    /// Maps the attributes of a file. A directory's size, times and links depend on its entries and are not mapped.
    pub(super) fn inode(&mut self, s: Id, inode: &Inode, to: &mut impl Sink) -> Result<()> {
        let w = self.vocabulary.inode;
        let kind = inode.kind();
        let text = |all: &mut Self, text: &str| all.terms.intern(&Key::Plain(text));
        let number = |all: &mut Self, n: i64| {
            let mut one = Vec::with_capacity(1);
            literals(&Value::I64(n), &mut one);
            one.first().map_or(Ok(0), |literal| all.literal(literal))
        };
        let date_time = |all: &mut Self, nanos: i64| {
            let mut one = Vec::with_capacity(1);
            literals(&Value::Timestamp(nanos), &mut one);
            one.first().map_or(Ok(0), |literal| all.literal(literal))
        };
        let mode = format!("{:04o}", inode.mode & 0o7777);
        to.put(s, w.kind, text(self, kind.name())?);
        to.put(s, w.mode, text(self, &mode)?);
        to.put(s, w.owner, number(self, i64::from(inode.uid))?);
        to.put(s, w.group, number(self, i64::from(inode.gid))?);
        if kind == Kind::Directory {
            return Ok(());
        }
        let size = i64::try_from(inode.size).unwrap_or(i64::MAX);
        to.put(s, w.size, number(self, size)?);
        to.put(s, w.links, number(self, i64::from(inode.links))?);
        to.put(s, w.modified, date_time(self, inode.mtime)?);
        to.put(s, w.status_changed, date_time(self, inode.ctime)?);
        if let Content::Symlink(target) = &inode.content {
            let target = display(target).to_string();
            to.put(s, w.target, text(self, &target)?);
        }
        Ok(())
    }

    /// Maps the earlier versions of a vertex; `events` are newest first.
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
            // The last version is the vertex itself.
            let Some(next) = rest.first() else { break };
            if !there {
                before = None;
                continue;
            }
            let node = self.terms.intern(&Key::Iri(&version(iri, at)))?;
            let (from, until) = (self.time(at)?, self.time(next.version)?);
            to.put(node, self.vocabulary.specialization, s);
            to.put(
                node,
                self.vocabulary.rdf_type,
                self.vocabulary.version_class,
            );
            to.put(node, self.vocabulary.generated, from);
            to.put(node, self.vocabulary.invalidated, until);
            if let Some(before) = before {
                to.put(node, self.vocabulary.revision, before);
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

    /// Maps an edge whose endpoints have numbers.
    pub(super) fn edge(&mut self, s: Id, o: Id, edge: &Edge, to: &mut impl Sink) -> Result<()> {
        let Some(vocabulary) = self.vocabulary.edge(edge.key.edge_type).cloned() else {
            return Ok(());
        };
        to.put(s, vocabulary.own, o);
        if vocabulary.symmetric {
            to.put(o, vocabulary.own, s);
        }
        let turn = |turned: bool| if turned { (o, s) } else { (s, o) };
        if let Some((property, turned)) = vocabulary.prov {
            let (from, end) = turn(turned);
            to.put(from, property, end);
        }
        if edge.properties.is_empty() {
            return Ok(());
        }
        let node = self.edge_node(&vocabulary, &edge.key)?;
        to.put(node, self.vocabulary.rdf_type, self.vocabulary.statement);
        to.put(node, self.vocabulary.subject, s);
        to.put(node, self.vocabulary.predicate, vocabulary.own);
        to.put(node, self.vocabulary.object, o);
        if let (Some((property, class, other)), Some((_, turned))) =
            (vocabulary.qualified, vocabulary.prov)
        {
            let (from, end) = turn(turned);
            to.put(from, property, node);
            to.put(node, self.vocabulary.rdf_type, class);
            to.put(node, other, end);
        }
        let changed = self.time(edge.version)?;
        to.put(node, self.vocabulary.changed, changed);
        for (name, value) in edge.properties.iter() {
            self.value(node, name, value, to)?;
        }
        Ok(())
    }

    /// Maps the earlier versions of an edge; `events` are oldest first. The edge gets a node even if it has no
    /// properties, and
    /// after its deletion.
    pub(super) fn edge_versions(
        &mut self,
        s: Id,
        o: Id,
        vocabulary: &EdgeTerms,
        key: &EdgeKey,
        events: &[&EdgeEvent],
        to: &mut impl Sink,
    ) -> Result<()> {
        let node = self.edge_node(vocabulary, key)?;
        let Some(esker_rdf::Term::NamedNode(name)) = self.terms.term(node) else {
            return Ok(());
        };
        to.put(node, self.vocabulary.rdf_type, self.vocabulary.statement);
        to.put(node, self.vocabulary.subject, s);
        to.put(node, self.vocabulary.predicate, vocabulary.own);
        to.put(node, self.vocabulary.object, o);
        let mut before: Option<Id> = None;
        for pair in events.windows(2) {
            let [event, next] = pair else { continue };
            if event.edge.deleted {
                before = None;
                continue;
            }
            let at = event.edge.version;
            let old = self.terms.intern(&Key::Iri(&version(name.as_str(), at)))?;
            let (from, until) = (self.time(at)?, self.time(next.edge.version)?);
            to.put(old, self.vocabulary.specialization, node);
            to.put(old, self.vocabulary.rdf_type, self.vocabulary.version_class);
            to.put(old, self.vocabulary.generated, from);
            to.put(old, self.vocabulary.invalidated, until);
            if let Some(before) = before {
                to.put(old, self.vocabulary.revision, before);
            }
            before = Some(old);
            for (name, value) in event.edge.properties.iter() {
                self.value(old, name, value, to)?;
            }
        }
        if let Some(last) = events.last() {
            let changed = self.time(last.edge.version)?;
            let p = if last.edge.deleted {
                self.vocabulary.removed
            } else {
                self.vocabulary.changed
            };
            to.put(node, p, changed);
        }
        Ok(())
    }

    /// The node of an edge with further triples. Its IRI is computed from the ids of the endpoints, so it does not
    /// change when they
    /// are renamed.
    pub(super) fn edge_node(&mut self, vocabulary: &EdgeTerms, key: &EdgeKey) -> Result<Id> {
        use std::fmt::Write as _;
        let mut name = iri(EDGES, &vocabulary.name);
        name.push('/');
        for b in blake3::hash(&key.encode()).as_bytes().iter().take(12) {
            let _ = write!(name, "{b:02x}");
        }
        self.terms.intern(&Key::Iri(&name))
    }

    /// Maps the schema's types.
    pub(super) fn schema(&mut self, schema: &Schema, to: &mut impl Sink) -> Result<()> {
        let word = |terms: &mut Dictionary, prefix: &str, name: &str| {
            terms.intern(&Key::Iri(&iri(prefix, name)))
        };
        let a = self.vocabulary.rdf_type;
        let class = word(self.terms, RDFS, "Class")?;
        let below = word(self.terms, RDFS, "subClassOf")?;
        for (id, definition) in schema.vertex_types() {
            let s = word(self.terms, TYPES, &definition.name)?;
            to.put(s, a, class);
            let name = self.terms.intern(&Key::Plain(&definition.name))?;
            to.put(s, self.vocabulary.label, name);
            let classes = &self.vocabulary.types.get(usize::from(id.0));
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
            let Some(vocabulary) = self.vocabulary.edge(id).cloned() else {
                continue;
            };
            to.put(vocabulary.own, a, property);
            let name = self.terms.intern(&Key::Plain(&definition.name))?;
            to.put(vocabulary.own, self.vocabulary.label, name);
            for (p, end) in [(domain, definition.source), (range, definition.destination)] {
                if let Some(end) = schema.vertex_type(end) {
                    let end = word(self.terms, TYPES, &end.name)?;
                    to.put(vocabulary.own, p, end);
                }
            }
            if let Some((prov, false)) = vocabulary.prov {
                to.put(vocabulary.own, sub, prov);
            }
            if vocabulary.symmetric {
                let symmetric = word(self.terms, OWL, "SymmetricProperty")?;
                to.put(vocabulary.own, a, symmetric);
            } else if let Some(other) = schema.edge_type(definition.inverse) {
                let other = word(self.terms, EDGES, &other.name)?;
                to.put(other, inverse, vocabulary.own);
                if let Some((prov, true)) = vocabulary.prov {
                    to.put(other, sub, prov);
                }
            }
        }
        Ok(())
    }
}

/// Whether one of these events superseded another.
fn supersedes(events: &[&VertexEvent]) -> bool {
    let mut seen = HashSet::new();
    events.iter().any(|e| {
        !seen.insert(match &e.change {
            VertexChange::Put(_) | VertexChange::Deleted => None,
            VertexChange::Set(name, _) | VertexChange::Removed(name) => Some(name.as_str()),
        })
    })
}
