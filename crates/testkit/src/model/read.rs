//! Calls of `GraphRead`, answered by examining all events.

use super::{GraphModel, Timeline, VertexFacts};
use esker_model::graph::{Counts, Degree, DiffSelect, Difference, EdgeEvent};
use esker_model::record::UserAttribute;
use esker_model::{
    Edge, EdgeKey, EdgeTypeId, Properties, Value, Version, VersionRange, Versions, Vertex,
    VertexChange, VertexEvent, VertexId, VertexSelect, VertexTypeId,
};
use std::collections::{BTreeMap, BTreeSet};

impl GraphModel {
    /// Returns a vertex as of a version.
    pub fn vertex(&self, id: VertexId, as_of: Version) -> Option<Vertex> {
        let facts = self.vertices.get(&id)?;
        if as_of < facts.first {
            return None;
        }
        let (version, attributes) = facts.statics.as_of(as_of)?;
        let mut vertex = Vertex {
            id,
            type_id: facts.type_id,
            key: facts.key.clone(),
            version,
            deleted: attributes.is_none(),
            attributes: attributes.cloned().unwrap_or_default(),
            user: Vec::new(),
        };
        if vertex.deleted {
            return Some(vertex);
        }
        for (name, timeline) in &facts.attributes {
            if let Some((version, value)) = timeline.as_of(as_of) {
                vertex.version = vertex.version.max(version);
                if let Some(value) = value.cloned() {
                    vertex.user.push(UserAttribute {
                        name: name.clone(),
                        version,
                        value,
                    });
                }
            }
        }
        Some(vertex)
    }

    /// Returns both directions of every edge that ever existed (one of a symmetric self loop), in key order.
    pub fn directed(&self) -> BTreeMap<EdgeKey, &Timeline<Properties>> {
        let mut all = BTreeMap::new();
        for (key, timeline) in &self.edges {
            all.insert(*key, timeline);
            all.insert(key.reversed(self.schema.inverse(key.edge_type)), timeline);
        }
        all
    }

    /// Returns the edges that ever left a vertex, in key order.
    pub fn leaving(
        &self,
        id: VertexId,
        types: &[EdgeTypeId],
    ) -> BTreeMap<EdgeKey, &Timeline<Properties>> {
        let mut found = BTreeMap::new();
        for (key, timeline) in &self.edges {
            for key in [*key, key.reversed(self.schema.inverse(key.edge_type))] {
                if key.source == id && (types.is_empty() || types.contains(&key.edge_type)) {
                    found.insert(key, timeline);
                }
            }
        }
        found
    }

    /// Returns an edge as of a version.
    pub fn edge_as_of(&self, key: EdgeKey, as_of: Version) -> Option<Edge> {
        let (version, properties) = self.edges.get(&self.defined(key))?.as_of(as_of)?;
        Some(Edge {
            key,
            version,
            deleted: false,
            properties: properties?.clone(),
        })
    }

    /// Returns the edges that leave a vertex, by type and destination.
    pub fn edges_of(&self, id: VertexId, types: &[EdgeTypeId], versions: Versions) -> Vec<Edge> {
        let mut found = Vec::new();
        for (key, timeline) in self.leaving(id, types) {
            match versions {
                Versions::AsOf(as_of) => found.extend(self.edge_as_of(key, as_of)),
                Versions::Range(range) => {
                    let inside = timeline.0.iter().rev().filter(|(v, _)| range.contains(**v));
                    found.extend(inside.map(|(version, e)| Edge {
                        key,
                        version: *version,
                        deleted: e.value.is_none(),
                        properties: e.value.clone().unwrap_or_default(),
                    }));
                }
            }
        }
        found
    }

    /// Returns the vertices of a type and its subtypes, by (type, id).
    pub fn vertices_of(&self, select: &VertexSelect) -> Vec<Vertex> {
        let VertexSelect {
            type_id,
            after,
            as_of,
            deleted,
        } = *select;
        let mut found: Vec<_> = self
            .vertices
            .iter()
            .filter(|(id, v)| {
                self.schema.is_a(v.type_id, type_id) && after < Some((v.type_id, **id))
            })
            .filter_map(|(id, _)| self.vertex(*id, as_of))
            .filter(|v| deleted || !v.deleted)
            .collect();
        found.sort_by_key(|v| (v.type_id, v.id));
        found
    }

    /// Returns all events of a vertex, newest first; within a version the vertex itself, then attributes by name.
    pub fn vertex_history(&self, id: VertexId, range: VersionRange) -> Vec<VertexEvent> {
        let Some(facts) = self.vertices.get(&id) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        for (version, e) in &facts.statics.0 {
            let change = e
                .value
                .clone()
                .map_or(VertexChange::Deleted, VertexChange::Put);
            events.push((*version, String::new(), change, e.archived));
        }
        for (name, timeline) in &facts.attributes {
            for (version, e) in &timeline.0 {
                let set = |value: Value| VertexChange::Set(name.clone(), value);
                let change = e
                    .value
                    .clone()
                    .map_or_else(|| VertexChange::Removed(name.clone()), set);
                events.push((*version, name.clone(), change, e.archived));
            }
        }
        events.retain(|e| range.contains(e.0));
        events.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        events
            .into_iter()
            .map(|(version, _, change, archived)| VertexEvent {
                version,
                change,
                archived,
            })
            .collect()
    }

    /// Returns all versions of an edge, newest first.
    pub fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Vec<EdgeEvent> {
        let Some(timeline) = self.edges.get(&self.defined(key)) else {
            return Vec::new();
        };
        let inside = timeline.0.iter().rev().filter(|(v, _)| range.contains(**v));
        inside
            .map(|(version, e)| EdgeEvent {
                edge: Edge {
                    key,
                    version: *version,
                    deleted: e.value.is_none(),
                    properties: e.value.clone().unwrap_or_default(),
                },
                archived: e.archived,
            })
            .collect()
    }

    /// Returns the number of edges of a type that leave a vertex now.
    pub fn degree(&self, id: VertexId, edge_type: EdgeTypeId) -> u64 {
        self.edges_of(id, &[edge_type], Versions::NOW).len() as u64
    }

    /// Returns the vertices with the highest degrees, highest first, then by id and type.
    pub fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Vec<Degree> {
        let mut degrees: BTreeMap<(VertexId, EdgeTypeId), u64> = BTreeMap::new();
        for (key, timeline) in self.directed() {
            if timeline.alive(Version::MAX) && edge_type.is_none_or(|t| t == key.edge_type) {
                *degrees.entry((key.source, key.edge_type)).or_default() += 1;
            }
        }
        let mut top: Vec<_> = degrees
            .into_iter()
            .map(|((vertex, edge_type), degree)| Degree {
                vertex,
                edge_type,
                degree,
            })
            .collect();
        top.sort_by_key(|d| std::cmp::Reverse(d.degree));
        top.truncate(limit);
        top
    }

    /// Returns counts of what exists now, of all types.
    pub fn counts(&self) -> Counts {
        let alive = |t: VertexTypeId| {
            let of_type = self
                .vertices
                .values()
                .filter(|v| v.type_id == t && !v.gone_now());
            of_type.count() as u64
        };
        let directed = self.directed();
        let edges = |t: EdgeTypeId| {
            let of_type = directed
                .iter()
                .filter(|(k, e)| k.edge_type == t && e.alive(Version::MAX));
            of_type.count() as u64
        };
        Counts {
            vertices: self
                .schema
                .vertex_types()
                .map(|(t, _)| (t, alive(t)))
                .collect(),
            edges: self
                .schema
                .edge_types()
                .map(|(t, _)| (t, edges(t)))
                .collect(),
        }
    }

    /// Returns the selected differences between two versions, in key order: a vertex, then the edges that leave it.
    pub fn diff(&self, select: &DiffSelect) -> Vec<Difference> {
        let (before, after) = (select.before, select.after);
        let mut found = Vec::new();
        let sources = self.edges.keys().map(|k| k.source);
        let ids: BTreeSet<VertexId> = self.vertices.keys().copied().chain(sources).collect();
        for id in ids {
            let at = |t| self.vertex(id, t).filter(|v| !v.deleted);
            let (old, new) = (at(before), at(after));
            if old != new {
                found.push(Difference::Vertex(old, new));
            }
            for key in self.edges.keys().filter(|k| k.source == id) {
                let (old, new) = (self.edge_as_of(*key, before), self.edge_as_of(*key, after));
                if old != new {
                    found.push(Difference::Edge(old, new));
                }
            }
        }
        found.retain(|d| d.key() > select.start_after);
        found
    }

    /// Counts edges that exist now (each direction) and lead to a vertex that was never inserted.
    pub fn dangling(&self) -> u64 {
        let directed = self.directed();
        let bad = directed
            .iter()
            .filter(|(k, e)| e.alive(Version::MAX) && !self.vertices.contains_key(&k.destination));
        bad.count() as u64
    }

    /// Counts vertices of user-defined types that exist now and have no path to any other vertex type.
    pub fn unreachable(&self) -> u64 {
        let own = |id: &VertexId| {
            let known = self.vertices.get(id);
            known.is_some_and(|v| {
                self.schema
                    .vertex_type(v.type_id)
                    .is_some_and(|t| !t.builtin)
            })
        };
        let mut bad = 0;
        for (id, _) in self
            .vertices
            .iter()
            .filter(|(id, v)| own(id) && !v.gone_now())
        {
            let (mut seen, mut open) = (BTreeSet::from([*id]), vec![*id]);
            let mut anchored = false;
            while let Some(at) = open.pop() {
                anchored |= !own(&at);
                for edge in self.edges_of(at, &[], Versions::NOW) {
                    if seen.insert(edge.key.destination) {
                        open.push(edge.key.destination);
                    }
                }
            }
            bad += u64::from(!anchored);
        }
        bad
    }

    /// Returns the events of a vertex.
    pub fn facts(&self, id: VertexId) -> Option<&VertexFacts> {
        self.vertices.get(&id)
    }
}
