//! Merge of events' facts with the existing graph, as one batch.
//!
//! Senders repeat themselves: each event of a run contains the job, its datasets and their facets again, and a spool resends everything. So
//! facts that the graph already has are not written again. Events also arrive out of order: the start of a run may arrive after its end.
//! User-defined attributes and edges have a version each; predefined attributes share one version, so a late fact is written to the later
//! version as well.

use super::event::Event;
use super::graph::{FACETS_TIME, FORMER_FACETS_TIME, Fact, MergeRule, Types, facts};
use crate::jobs::{LinkTypes, delete_foreign};
use esker_model::namespace::{FileRefResolver, Namespace};
use esker_model::{
    Batch, EdgeKey, GraphRead, Mutation, Op, Properties, Result, Schema, Value, Version, Vertex,
    VertexId,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Existing state of the graph, with the additions of this batch.
#[derive(Default)]
struct GraphState {
    vertices: HashMap<VertexId, Vertex>,
    edges: HashMap<EdgeKey, (Version, Properties)>,
    /// Edges that existed at the version of a late event.
    edges_then: HashSet<(EdgeKey, Version)>,
    /// User-defined attributes as this batch leaves them, by vertex and name; `None` if removed.
    set: HashMap<(VertexId, String), Option<Value>>,
    /// First version at which this batch names each vertex.
    named: HashMap<VertexId, Version>,
    /// Past states of vertices that have a later version.
    then: HashMap<(VertexId, Version), Vertex>,
    /// Predefined attributes as this batch leaves them.
    changed: HashMap<(VertexId, String), Value>,
}

impl GraphState {
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

    /// Returns whether a user-defined attribute has a value at a version.
    fn has_value(&self, vertex: VertexId, name: &str, value: Option<&Value>, at: Version) -> bool {
        // A run may return to an earlier state, so each state is written.
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

    /// Returns the versions of an edge to be written for an event. The final properties are those of the latest event with content, in
    /// whatever order events arrive.
    fn edge(
        &mut self,
        key: EdgeKey,
        new: Properties,
        how: MergeRule,
        at: Version,
    ) -> Vec<(Version, Properties)> {
        let was_there = self.edges_then.contains(&(key, at));
        let Some((version, existing)) = self.edges.get_mut(&key) else {
            self.edges.insert(key, (at, new.clone()));
            return vec![(at, new)];
        };
        let newer = facets_time(&new) > facets_time(existing);
        if *version > at {
            // A late event.
            let mut out = Vec::new();
            if !was_there {
                out.push((at, new.clone()));
                self.edges_then.insert((key, at));
            }
            if newer {
                out.push((*version, new.clone()));
                *existing = new;
            }
            return out;
        }
        let MergeRule::Use { done } = how else {
            return Vec::new();
        };
        let again = done && at > *version;
        let place = match newer {
            true if !again && same(&new, existing) => *version,
            true => at,
            // Output exists once the run has ended, whatever was announced before.
            false if again => at,
            false => return Vec::new(),
        };
        let kept = if newer { new } else { existing.clone() };
        *version = place;
        existing.clone_from(&kept);
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
            if !self.has_value(vertex, name, Some(value), at) {
                new.set(name, value.clone());
                self.set
                    .insert((vertex, name.to_owned()), Some(value.clone()));
            }
        }
        for name in remove {
            if !self.has_value(vertex, name, None, at) {
                gone.push(name.clone());
                self.set.insert((vertex, name.clone()), None);
            }
        }
        (new, gone)
    }
}

/// Returns whether a value replaces another: the earliest start, the latest end, and the first name win.
fn is_better(name: &str, old: &Value, new: &Value) -> bool {
    match (name, old, new) {
        ("start", Value::Timestamp(old), Value::Timestamp(new)) => new < old,
        ("end", Value::Timestamp(old), Value::Timestamp(new)) => new > old,
        _ => false,
    }
}

/// Returns the time of an edge's facets; the minimum if it has none.
fn facets_time(properties: &Properties) -> i64 {
    let names = [FACETS_TIME, FORMER_FACETS_TIME];
    match names.into_iter().find_map(|name| properties.get(name)) {
        Some(Value::Timestamp(time)) => *time,
        _ => i64::MIN,
    }
}

/// Returns whether properties are equal except for the time of their facets.
fn same(a: &Properties, b: &Properties) -> bool {
    let said = |p: &Properties| -> Vec<(String, Value)> {
        let pairs = p
            .iter()
            .filter(|(name, _)| ![FACETS_TIME, FORMER_FACETS_TIME].contains(name));
        pairs.map(|(n, v)| (n.to_owned(), v.clone())).collect()
    };
    said(a) == said(b)
}

/// Builder of the batch that skips existing facts.
struct Merger {
    known: GraphState,
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
                    // The past state differs from the current one.
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

/// Converts events to one batch, without facts that `graph` already has, so that repeated events change nothing. Files are resolved by
/// their current paths.
///
/// # Errors
/// Fails if the graph cannot be read.
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
    // A later event of the same request must see the facts of an earlier one.
    all.sort_by_key(|fact| fact.mutation.version);
    let mut mutations: Vec<Mutation> = all.iter().map(|fact| fact.mutation.clone()).collect();
    FileRefResolver::default().resolve_mutations(names, schema, &mut mutations)?;
    for (fact, mutation) in all.iter_mut().zip(mutations) {
        fact.mutation = mutation;
    }
    let mut merger = Merger {
        known: GraphState::read(graph, &all)?,
        batch: Batch::new(),
    };
    for fact in all {
        merger.fact(fact);
    }
    let mut batch = merger.batch;
    let links = LinkTypes::resolve(schema)?;
    delete_foreign(graph, &links, types.execution, &mut batch.mutations)?;
    Ok(batch)
}
