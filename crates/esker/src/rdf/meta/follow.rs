//! Updates the metadata graph: reads the items that the change feed names again, and applies the differences.

use super::build::{MetaGraph, intern};
use super::read::{CHUNK, Source};
use super::terms::vertex;
use super::vocabulary::same_meaning;
use crate::engine::{Engine, Touched};
use crate::rdf::decoded;
use esker_model::key::EdgeKey;
use esker_model::namespace::Inode;
use esker_model::{Edge, Flow, Result, Vertex, VertexId};
use esker_rdf::Term;
use esker_rdf::dictionary::Dictionary;
use esker_rdf::id::Id;
use esker_rdf::quads::Quad;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Number of changed vertices and edges above which the graph is rebuilt.
const TOUCHED_MAX: usize = 300_000;
/// Rounds beside concurrent writers; the round after them blocks writers.
const ROUNDS: usize = 3;

/// Pending insertions and removals of triples.
#[derive(Default)]
struct Changes(Vec<(Quad, bool)>);

impl Changes {
    fn set(&mut self, (s, p, o): (Id, Id, Id), there: bool) {
        self.0.push((Quad { s, p, o, g: 0 }, there));
    }
}

impl MetaGraph {
    /// Updates the graph; false if it must be rebuilt.
    pub(super) fn follow(
        &mut self,
        source: Source<'_>,
        engine: &Engine,
        terms: &mut Dictionary,
    ) -> Result<bool> {
        if !self.fits(terms) {
            return Ok(false);
        }
        for _ in 0..ROUNDS {
            if !self.round(source, engine, terms)? {
                return Ok(false);
            }
            if engine
                .changes_since(self.position)
                .is_some_and(|n| n.touched.is_empty())
            {
                return Ok(true);
            }
        }
        engine.with_writers_blocked(|| self.round(source, engine, terms))
    }

    fn round(
        &mut self,
        source: Source<'_>,
        engine: &Engine,
        terms: &mut Dictionary,
    ) -> Result<bool> {
        let Some(news) = engine.changes_since(self.position) else {
            return Ok(false);
        };
        let schema = source.schema()?;
        let other_schema = !Arc::ptr_eq(&schema, &self.schema) && *schema != *self.schema;
        // The graph of an empty database is empty, without the schema's triples.
        let first = self.ids.is_empty() && !news.touched.is_empty();
        if other_schema || first || news.touched.len() > TOUCHED_MAX {
            return Ok(false);
        }
        if (news.names || !self.has_names) && source.has_names()? != self.has_names {
            return Ok(false);
        }
        let (mut vertices, mut edges) = (BTreeSet::new(), BTreeSet::new());
        for touched in &news.touched {
            match touched {
                Touched::Vertex(id) => {
                    vertices.insert(*id);
                }
                Touched::Edge(key) => edges.extend(self.vocabulary.forward(&schema, *key)),
            }
        }
        edges.extend(self.vertices_again(source, terms, vertices)?);
        self.edges_again(source, terms, edges)?;
        self.position = news.until;
        self.anchor(terms);
        Ok(true)
    }

    /// Reads changed vertices again. Returns the edges of vertices that were not in the graph before.
    fn vertices_again(
        &mut self,
        source: Source<'_>,
        terms: &mut Dictionary,
        touched: BTreeSet<VertexId>,
    ) -> Result<Vec<EdgeKey>> {
        // Names may move between vertices, so all names are read before any triple changes.
        let mut all: BTreeMap<VertexId, (Vertex, Id, Option<Inode>)> = BTreeMap::new();
        let mut left = touched;
        while !left.is_empty() {
            let ids: Vec<VertexId> = std::mem::take(&mut left).into_iter().collect();
            for some in ids.chunks(CHUNK) {
                source.check_stop()?;
                let found: Vec<Vertex> = source.vertices_of(some)?.into_iter().flatten().collect();
                let names = source.names(&self.schema, &self.vocabulary, self.has_names, &found)?;
                let inodes = source.inodes(self.has_names, &found)?;
                for ((vertex, name), inode) in found.into_iter().zip(names).zip(inodes) {
                    let s = intern(terms, &name)?;
                    left.extend(self.affected_by_rename(terms, &vertex, s));
                    all.insert(vertex.id, (vertex, s, inode));
                }
            }
            left.retain(|id| !all.contains_key(id));
        }
        let (mut changes, mut renamed) = (Changes::default(), HashMap::new());
        let mut appeared = Vec::new();
        for (vertex, s, _) in all.values() {
            let unnamed = self.unnamed.remove(&vertex.id);
            let old = self.ids.get(&vertex.id).copied();
            if unnamed || old.is_none() {
                appeared.push(vertex.id);
            }
            if let Some(old) = old {
                self.forget_own(old, &mut changes);
                if old != *s {
                    renamed.insert(old, *s);
                    self.holders.remove(&old);
                }
            }
        }
        let mut new: Vec<Quad> = Vec::new();
        for (vertex, s, inode) in all.values() {
            self.ids.insert(vertex.id, *s);
            if self.is_named_by_path(vertex) {
                self.holders.insert(*s, vertex.id);
            }
            let mut mapper = self.mapper(terms);
            mapper
                .vertex(*s, vertex, &mut new)
                .and_then(|()| match inode {
                    Some(inode) => mapper.inode(*s, inode, &mut new),
                    None => Ok(()),
                })
                .map_err(super::super::error)?;
            let events = source.events(vertex.id)?;
            self.versions_of(terms, *s, &events, &mut new)?;
        }
        changes.0.extend(new.into_iter().map(|q| (q, true)));
        self.rename(&renamed, changes);
        let mut edges = Vec::new();
        let types = self.vocabulary.edge_types();
        source.edges(&appeared, &types, &mut |some| {
            edges.extend(
                some.iter()
                    .filter_map(|e| self.vocabulary.forward(&self.schema, e.key)),
            );
            Flow::Continue(())
        })?;
        Ok(edges)
    }

    fn is_named_by_path(&self, vertex: &Vertex) -> bool {
        self.has_names && self.vocabulary.is_file(vertex.type_id)
    }

    /// Other vertices whose IRI may change if this vertex takes the IRI `s`: the one that had it so far, and the one
    /// that may take
    /// the IRI given up.
    fn affected_by_rename(&self, terms: &Dictionary, vertex: &Vertex, s: Id) -> Vec<VertexId> {
        let old = self.ids.get(&vertex.id).copied();
        if old == Some(s) || !self.is_named_by_path(vertex) {
            return Vec::new();
        }
        let robbed = self.holders.get(&s).copied();
        let heir = old.and_then(|old| self.first_of_name(terms, old, vertex));
        robbed.into_iter().chain(heir).collect()
    }

    /// The vertex that an IRI denotes if no other vertex has taken it.
    fn first_of_name(&self, terms: &Dictionary, name: Id, of: &Vertex) -> Option<VertexId> {
        let Some(Term::NamedNode(name)) = terms.term(name) else {
            return None;
        };
        let begin = vertex(self.vocabulary.prefix(of.type_id), "");
        let key = decoded(name.as_str().strip_prefix(&begin)?);
        let type_name = &self.schema.vertex_type(of.type_id)?.name;
        Some(VertexId::of(type_name, &key)).filter(|id| self.ids.contains_key(id))
    }

    /// Removes the triples of a vertex that come from its own row, and its earlier versions.
    fn forget_own(&self, s: Id, changes: &mut Changes) {
        self.forget_versions(s, changes);
        let graph = self.graph();
        for p in graph.predicates() {
            let Some(index) = graph.index(*p) else {
                continue;
            };
            if self.vocabulary.of_edges.contains(p) {
                continue;
            }
            for o in index.so.get(s) {
                changes.set((s, *p, *o), false);
            }
        }
    }

    /// Removes the earlier versions of an item.
    fn forget_versions(&self, s: Id, changes: &mut Changes) {
        let graph = self.graph();
        let versions = graph.index(self.vocabulary.specialization);
        for node in versions.map_or(&[][..], |x| x.os.get(s)) {
            self.forget_all(*node, changes);
        }
    }

    /// Removes all triples with a subject.
    fn forget_all(&self, s: Id, changes: &mut Changes) {
        let graph = self.graph();
        for p in graph.predicates() {
            for o in graph.index(*p).map_or(&[][..], |x| x.so.get(s)) {
                changes.set((s, *p, *o), false);
            }
        }
    }

    /// Replaces renamed vertices in the triples of edges, then applies the changes of vertices.
    fn rename(&mut self, renamed: &HashMap<Id, Id>, changes: Changes) {
        let mut edges = Changes::default();
        let name = |id: Id| renamed.get(&id).copied().unwrap_or(id);
        let graph = self.graph();
        for old in renamed.keys() {
            for p in graph.predicates() {
                let Some(index) = graph.index(*p) else {
                    continue;
                };
                if self.vocabulary.of_edges.contains(p) {
                    for o in index.so.get(*old) {
                        edges.set((*old, *p, *o), false);
                    }
                }
                if *p != self.vocabulary.specialization {
                    for s in index.os.get(*old) {
                        edges.set((*s, *p, *old), false);
                    }
                }
            }
        }
        let moved: Vec<(Quad, bool)> = edges
            .0
            .iter()
            .map(|(q, _)| {
                (
                    Quad {
                        s: name(q.s),
                        o: name(q.o),
                        ..*q
                    },
                    true,
                )
            })
            .collect();
        let all = [
            changes.0.iter().filter(|c| !c.1).copied().collect(),
            edges.0,
            moved,
        ];
        let mut all: Vec<(Quad, bool)> = all.concat();
        all.extend(changes.0.into_iter().filter(|c| c.1));
        self.change(all);
    }

    fn change(&mut self, mut changes: Vec<(Quad, bool)>) {
        for (quad, _) in &mut changes {
            quad.g = self.vocabulary.graph;
        }
        self.data.change(&changes);
    }

    fn edges_again(
        &mut self,
        source: Source<'_>,
        terms: &mut Dictionary,
        mut touched: BTreeSet<EdgeKey>,
    ) -> Result<()> {
        while !touched.is_empty() {
            let keys: Vec<EdgeKey> = std::mem::take(&mut touched).into_iter().collect();
            for some in keys.chunks(CHUNK) {
                source.check_stop()?;
                // Endpoints that are not known yet.
                let unknown: BTreeSet<VertexId> = some
                    .iter()
                    .flat_map(|k| [k.source, k.destination])
                    .filter(|id| !self.ids.contains_key(id) || self.unnamed.contains(id))
                    .collect();
                touched.extend(self.vertices_again(source, terms, unknown)?);
                let found = source.edges_of(some)?;
                self.edges_changed(source, terms, some, &found)?;
            }
        }
        Ok(())
    }

    fn edges_changed(
        &mut self,
        source: Source<'_>,
        terms: &mut Dictionary,
        keys: &[EdgeKey],
        found: &[Option<Edge>],
    ) -> Result<()> {
        let (mut gone, mut new) = (Changes::default(), Vec::<Quad>::new());
        // Triples that several edges can imply.
        let mut shared: BTreeMap<(Id, Id, Id), bool> = BTreeMap::new();
        for (key, edge) in keys.iter().zip(found) {
            let Some(vocabulary) = self.vocabulary.edge(key.edge_type).cloned() else {
                continue;
            };
            let there = edge.as_ref().filter(|e| !e.deleted);
            // Edges that leave a vertex without a row are not in the graph, because no scan reaches them.
            let known = |id: &VertexId| self.ids.contains_key(id);
            let from = known(&key.source) && !self.unnamed.contains(&key.source);
            if !from || there.is_none() && !known(&key.destination) {
                continue;
            }
            let (s, o) = (
                self.end(terms, key.source)?,
                self.end(terms, key.destination)?,
            );
            let node = self
                .mapper(terms)
                .edge_node(&vocabulary, key)
                .map_err(super::super::error)?;
            self.forget_all(node, &mut gone);
            self.forget_versions(node, &mut gone);
            for triple in vocabulary.triples(s, o) {
                if triple.1 == vocabulary.own {
                    gone.set(triple, false);
                } else {
                    shared.insert(triple, false);
                }
            }
            if let (Some(qualified), Some((_, turned))) =
                (vocabulary.qualified_by(), vocabulary.prov)
            {
                gone.set((if turned { o } else { s }, qualified, node), false);
            }
            if let Some(edge) = there {
                self.mapper(terms)
                    .edge(s, o, edge, &mut new)
                    .map_err(super::super::error)?;
            }
            let events = source.edge_events(*key)?;
            self.edge_versions_of(terms, key, &events, &mut new)?;
        }
        let mut changes = gone.0;
        changes.extend(new.into_iter().map(|q| (q, true)));
        self.change(changes);
        let graph = self.graph();
        let mut changes = Changes::default();
        for (s, p, o) in shared.into_keys() {
            let given = same_meaning(&self.vocabulary, p).any(|(vocabulary, turned)| {
                let (s, o) = if turned { (o, s) } else { (s, o) };
                graph.contains(s, vocabulary.own, o)
            });
            changes.set((s, p, o), given);
        }
        drop(graph);
        self.change(changes.0);
        Ok(())
    }
}
