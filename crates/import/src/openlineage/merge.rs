//! Facts of events beside what the graph has already, as one batch.
//!
//! Senders repeat themselves: each event of a run brings the job, its datasets and their facets again, and a spool sends all of it once more. So what the
//! graph has already by then is not written again. And they overtake each other: what began a run may come after what ended it. Attributes that users
//! define have a version each, and edges, too; the predefined ones have one together, so what comes late is told to the later version as well.

use super::event::Event;
use super::graph::{Fact, How, TOLD, Types, facts};
use esker_model::namespace::{Namespace, Settled};
use esker_model::{
    Batch, EdgeKey, GraphRead, Mutation, Op, Properties, Result, Schema, Value, Version, Vertex,
    VertexId,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What the graph has, and what this batch has added to it.
#[derive(Default)]
struct Known {
    vertices: HashMap<VertexId, Vertex>,
    edges: HashMap<EdgeKey, (Version, Properties)>,
    /// Edges that were there when events come late.
    edges_then: HashSet<(EdgeKey, Version)>,
    /// Attributes as this batch leaves them, by vertex and name; nothing where it has removed them.
    set: HashMap<(VertexId, String), Option<Value>>,
    /// When this batch has first named a vertex.
    named: HashMap<VertexId, Version>,
    /// What vertices were then of which something later is known.
    then: HashMap<(VertexId, Version), Vertex>,
    /// Predefined attributes as this batch leaves them.
    changed: HashMap<(VertexId, String), Value>,
}

impl Known {
    fn read(graph: &(impl GraphRead + ?Sized), facts: &[Fact]) -> Result<Self> {
        let (mut vertices, mut edges) = (Vec::new(), Vec::new());
        for fact in facts {
            match &fact.mutation.op {
                Op::EnsureVertex { vertex, .. } => vertices.push(vertex.id),
                Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    ..
                } => edges.push(EdgeKey {
                    source: source.id,
                    edge_type: *edge_type,
                    destination: destination.id,
                }),
                _ => {}
            }
        }
        vertices.sort_unstable();
        vertices.dedup();
        edges.sort_unstable();
        edges.dedup();
        let mut known = Self::default();
        let found = graph.read_vertices(&vertices, Version::MAX)?;
        for vertex in found.into_iter().flatten().filter(|v| !v.deleted) {
            known.vertices.insert(vertex.id, vertex);
        }
        for edge in graph
            .read_edges(&edges, Version::MAX)?
            .into_iter()
            .flatten()
        {
            known
                .edges
                .insert(edge.key, (edge.version, edge.properties));
        }
        known.read_past(graph, facts)?;
        Ok(known)
    }

    fn read_past(&mut self, graph: &(impl GraphRead + ?Sized), facts: &[Fact]) -> Result<()> {
        let mut late: BTreeMap<Version, (Vec<VertexId>, Vec<EdgeKey>)> = BTreeMap::new();
        for fact in facts {
            let Some(at) = fact.mutation.version else {
                continue;
            };
            match &fact.mutation.op {
                Op::ChangeVertex { vertex, .. } | Op::SetAttributes { vertex, .. } => {
                    let stored = self.vertices.get(&vertex.id);
                    if stored.is_some_and(|v| v.version > at) {
                        late.entry(at).or_default().0.push(vertex.id);
                    }
                }
                Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    ..
                } => {
                    let key = EdgeKey {
                        source: source.id,
                        edge_type: *edge_type,
                        destination: destination.id,
                    };
                    if self.edges.get(&key).is_some_and(|(v, _)| *v > at) {
                        late.entry(at).or_default().1.push(key);
                    }
                }
                _ => {}
            }
        }
        for (at, (ids, keys)) in late {
            for vertex in graph.read_vertices(&ids, at)?.into_iter().flatten() {
                self.then.insert((vertex.id, at), vertex);
            }
            for edge in graph.read_edges(&keys, at)?.into_iter().flatten() {
                self.edges_then.insert((edge.key, at));
            }
        }
        Ok(())
    }

    /// Whether a user-defined attribute has that value then.
    fn holds(&self, vertex: VertexId, name: &str, value: Option<&Value>, at: Version) -> bool {
        // A run goes back to a state that it was in: each is written.
        let each = name == "state";
        if let Some(now) = self.set.get(&(vertex, name.to_owned())) {
            return !each && now.as_ref() == value;
        }
        let stored = self.vertices.get(&vertex);
        let then = match stored.filter(|v| v.version > at) {
            Some(_) => self.then.get(&(vertex, at)),
            None => stored,
        };
        let found = then.and_then(|v| v.user.iter().find(|a| a.name == name));
        let found = found.filter(|a| !each || a.version == at);
        found.map(|a| &a.value) == value
    }

    /// Which versions of an edge are to be written for one that an event names. What it has in the end is what the latest event said that said more
    /// of it than that it is, in whatever order they came.
    fn edge(
        &mut self,
        key: EdgeKey,
        new: Properties,
        how: How,
        at: Version,
    ) -> Vec<(Version, Properties)> {
        let was_there = self.edges_then.contains(&(key, at));
        let Some((version, held)) = self.edges.get_mut(&key) else {
            self.edges.insert(key, (at, new.clone()));
            return vec![(at, new)];
        };
        let told = told(&new) > told(held);
        if *version > at {
            // It comes late.
            let mut out = Vec::new();
            if !was_there {
                out.push((at, new.clone()));
                self.edges_then.insert((key, at));
            }
            if told {
                out.push((*version, new.clone()));
                *held = new;
            }
            return out;
        }
        let How::Use { done } = how else {
            return Vec::new();
        };
        let again = done && at > *version;
        let place = match told {
            true if !again && same(&new, held) => *version,
            true => at,
            // What was written is there when the run is over, whatever it announced.
            false if again => at,
            false => return Vec::new(),
        };
        let kept = if told { new } else { held.clone() };
        *version = place;
        held.clone_from(&kept);
        vec![(place, kept)]
    }

    fn attributes(
        &mut self,
        vertex: VertexId,
        set: &Properties,
        remove: &[String],
        at: Version,
    ) -> (Properties, Vec<String>) {
        let (mut new, mut gone) = (Properties::new(), Vec::new());
        for (name, value) in set.iter() {
            if !self.holds(vertex, name, Some(value), at) {
                new.set(name, value.clone());
                self.set
                    .insert((vertex, name.to_owned()), Some(value.clone()));
            }
        }
        for name in remove {
            if !self.holds(vertex, name, None, at) {
                gone.push(name.clone());
                self.set.insert((vertex, name.clone()), None);
            }
        }
        (new, gone)
    }
}

/// Whether a value takes the place of another: a run began when it first began, ended when it last did, and is called what it was called first.
fn is_better(name: &str, old: &Value, new: &Value) -> bool {
    match (name, old, new) {
        ("start", Value::Timestamp(old), Value::Timestamp(new)) => new < old,
        ("end", Value::Timestamp(old), Value::Timestamp(new)) => new > old,
        _ => false,
    }
}

/// When the facets of an edge were told; the least of all where it has none.
fn told(properties: &Properties) -> i64 {
    match properties.get(TOLD) {
        Some(Value::Timestamp(told)) => *told,
        _ => i64::MIN,
    }
}

/// Whether they say the same, whenever they said it.
fn same(a: &Properties, b: &Properties) -> bool {
    let said = |p: &Properties| -> Vec<(String, Value)> {
        let pairs = p.iter().filter(|(name, _)| *name != TOLD);
        pairs.map(|(n, v)| (n.to_owned(), v.clone())).collect()
    };
    said(a) == said(b)
}

/// One mutation at a time, what is known already left out.
struct Merger {
    known: Known,
    batch: Batch,
}

impl Merger {
    fn fact(&mut self, fact: Fact) {
        let Mutation { version, op } = fact.mutation;
        let at = version.unwrap_or(Version::ZERO);
        match op {
            Op::EnsureVertex { vertex, key } => {
                let stored = self.known.vertices.get(&vertex.id);
                if stored.is_some_and(|stored| stored.version <= at) {
                    return;
                }
                let since = self.known.named.get(&vertex.id);
                if since.is_none_or(|since| at < *since) {
                    self.known.named.insert(vertex.id, at);
                    self.batch.push_at(at, Op::EnsureVertex { vertex, key });
                }
            }
            Op::SetAttributes {
                vertex,
                set,
                remove,
            } => {
                let (set, remove) = self.known.attributes(vertex.id, &set, &remove, at);
                if !set.is_empty() || !remove.is_empty() {
                    let op = Op::SetAttributes {
                        vertex,
                        set,
                        remove,
                    };
                    self.batch.push_at(at, op);
                }
            }
            Op::ChangeVertex { vertex, set, .. } => {
                let stored = self.known.vertices.get(&vertex.id);
                let later = stored.map(|v| v.version).filter(|later| *later > at);
                let (mut now, mut then) = (Properties::new(), Properties::new());
                for (name, value) in set.iter() {
                    let slot = (vertex.id, name.to_owned());
                    let latest = self.known.changed.get(&slot);
                    let latest = latest.or_else(|| stored?.attributes.get(name));
                    let news = latest.is_none_or(|latest| is_better(name, latest, value));
                    // What it was then is another matter than what it is now.
                    let was = self.known.then.get(&(vertex.id, at));
                    let was = was.and_then(|was| was.attributes.get(name));
                    let late = later.is_some() && was.is_none_or(|was| is_better(name, was, value));
                    if late || (news && later.is_none()) {
                        now.set(name, value.clone());
                    }
                    if news {
                        then.set(name, value.clone());
                        self.known.changed.insert(slot, value.clone());
                    }
                }
                let remove = Vec::new;
                for (at, set) in [(Some(at), now), (later, then)] {
                    if let Some(at) = at.filter(|_| !set.is_empty()) {
                        let remove = remove();
                        let op = Op::ChangeVertex {
                            vertex,
                            set,
                            remove,
                        };
                        self.batch.push_at(at, op);
                    }
                }
            }
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties,
            } => {
                let key = EdgeKey {
                    source: source.id,
                    edge_type,
                    destination: destination.id,
                };
                for (at, properties) in self.known.edge(key, properties, fact.how, at) {
                    let op = Op::PutEdge {
                        source,
                        edge_type,
                        destination,
                        properties,
                    };
                    self.batch.push_at(at, op);
                }
            }
            other => self.batch.push_at(at, other),
        }
    }
}

/// Events as one batch: what of it `graph` has already is left out, so that events that come again change nothing; files are those that are at
/// their paths now.
///
/// # Errors
/// If the graph cannot be read.
pub fn batch(
    events: &[Event],
    types: &Types,
    schema: &Schema,
    graph: &(impl GraphRead + ?Sized),
    names: &(impl Namespace + ?Sized),
) -> Result<Batch> {
    let mut all: Vec<Fact> = events
        .iter()
        .flat_map(|event| facts(event, types))
        .collect();
    // A later event of the same request must find what an earlier one said.
    all.sort_by_key(|fact| fact.mutation.version);
    let mut mutations: Vec<Mutation> = all.iter().map(|fact| fact.mutation.clone()).collect();
    Settled::default().settle(names, schema, &mut mutations)?;
    for (fact, mutation) in all.iter_mut().zip(mutations) {
        fact.mutation = mutation;
    }
    let mut merger = Merger {
        known: Known::read(graph, &all)?,
        batch: Batch::new(),
    };
    for fact in all {
        merger.fact(fact);
    }
    Ok(merger.batch)
}
