//! Traversals of the model, hop by hop over sets, from the documentation of `esker_model::traversal` and without optimization.

use super::GraphModel;
use esker_model::filter::{Comparison, Expr, Test};
use esker_model::traversal::{Filter, Hop, Repeat, Start, Stop, StopReason};
use esker_model::{
    Edge, EdgeKey, EdgeTypeId, Schema, Traversal, Value, Version, Versions, Vertex, VertexId,
};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A position in the chain (0 is the start) and a vertex there.
pub type Node = (u32, VertexId);

/// Result of a traversal that nothing but `limit(n)`, `repeat(max=n)` and a budget of steps stops early.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraversalAnswer {
    /// For each `rtn()`, or the end: the position in the chain, and the vertices in order.
    pub sets: Vec<(u32, Vec<VertexId>)>,
    /// Everything reached, including what `limit(n)` has cut off, by position.
    pub reached: BTreeMap<u32, BTreeSet<VertexId>>,
    /// Every node of a complete path, with the number of hops after which it was first reached.
    pub nodes: BTreeMap<Node, u32>,
    /// Every edge of a complete path.
    pub path_edges: BTreeSet<(EdgeKey, Version)>,
    /// Nodes at which paths certainly may end: the last working set; with a closing `repeat()`, nodes from which no
    /// edge leads on.
    pub ends: BTreeSet<Node>,
    /// Points at which the traversal was stopped.
    pub stopped: Vec<Stop>,
}

struct ModelTraversal<'a> {
    model: &'a GraphModel,
    versions: Versions,
    visited: BTreeMap<u32, BTreeMap<VertexId, u32>>,
    steps: BTreeSet<(Node, Node, EdgeKey, Version)>,
    /// Number of steps begun, and largest number of them.
    hops: u32,
    hops_max: Option<u32>,
    limit: Option<u64>,
    /// Position at which the chain ends.
    end: u32,
    /// Whether the last segment has begun.
    last_begun: bool,
    over: bool,
    stopped: Vec<Stop>,
}

impl GraphModel {
    /// Runs a traversal; `None` if it names types that the schema lacks.
    pub fn travel(&self, traversal: &Traversal) -> Option<TraversalAnswer> {
        self.travel_steps(traversal, None)
    }

    /// Runs a traversal with at most that number of steps; `None` if it names types that the schema lacks.
    pub fn travel_steps(
        &self,
        traversal: &Traversal,
        hops_max: Option<u32>,
    ) -> Option<TraversalAnswer> {
        let versions = match traversal.versions {
            Some(range) => Versions::Range(range),
            None => Versions::AsOf(traversal.as_of.unwrap_or(Version::MAX)),
        };
        let mut walk = ModelTraversal {
            model: self,
            versions,
            visited: BTreeMap::new(),
            steps: BTreeSet::new(),
            hops: 0,
            hops_max,
            limit: traversal.limit,
            end: traversal.segments.iter().map(|s| s.hops.len() as u32).sum(),
            last_begun: traversal.segments.is_empty(),
            over: false,
            stopped: Vec::new(),
        };
        let start: Vec<VertexId> = match &traversal.start {
            Start::Vertices(names) => {
                let ids: Result<Vec<_>, _> =
                    names.iter().map(|n| n.resolve(&self.schema)).collect();
                let ids = ids.ok()?.into_iter().map(|v| v.id);
                ids.filter(|id| self.vertices.contains_key(id)).collect()
            }
            Start::Type(name) => {
                let t = self.schema.vertex_type_id(name).ok()?;
                let of_type = self
                    .vertices
                    .iter()
                    .filter(|(_, v)| self.schema.is_a(v.type_id, t));
                of_type.map(|(id, _)| *id).collect()
            }
        };
        for id in start {
            if walk.admits(id, &traversal.start_filters) {
                walk.visited.entry(0).or_default().insert(id, 0);
            }
        }
        if walk.end == 0 {
            walk.check_limit();
        }
        let mut position = 0;
        for (i, segment) in traversal.segments.iter().enumerate() {
            if walk.over {
                break;
            }
            walk.last_begun = i + 1 == traversal.segments.len();
            walk.segment(&segment.hops, segment.repeat, position);
            position += segment.hops.len() as u32;
        }
        Some(walk.answer(traversal))
    }
}

impl ModelTraversal<'_> {
    fn at(&self, position: u32) -> BTreeSet<VertexId> {
        self.visited
            .get(&position)
            .map(|at| at.keys().copied().collect())
            .unwrap_or_default()
    }

    /// Runs a segment once or, if it repeats, until it reaches nothing new or its limit of rounds.
    fn segment(&mut self, hops: &[Hop], repeat: Option<Repeat>, before: u32) {
        let last = before + hops.len() as u32;
        let mut frontier = self.at(before);
        let mut round = 0;
        while !frontier.is_empty() {
            if repeat.is_some_and(|r| r.max == Some(round)) {
                self.note_stop(StopReason::Depth, self.hops + 1, frontier.len());
                return;
            }
            for (i, hop) in hops.iter().enumerate() {
                let to = before + 1 + i as u32;
                let from = if i == 0 && round > 0 { last } else { to - 1 };
                self.hops += 1;
                if self.hops_max.is_some_and(|max| self.hops > max) {
                    self.note_stop(StopReason::Depth, self.hops, frontier.len());
                    self.over = true;
                    return;
                }
                frontier = self.hop(hop, from, to, &frontier);
            }
            if last == self.end {
                self.check_limit();
            }
            if self.over {
                return;
            }
            round += 1;
            if repeat.is_none() {
                return;
            }
        }
    }

    /// Follows a hop from a frontier; returns the newly reached vertices.
    fn hop(
        &mut self,
        hop: &Hop,
        from: u32,
        to: u32,
        frontier: &BTreeSet<VertexId>,
    ) -> BTreeSet<VertexId> {
        let mut new = BTreeSet::new();
        for id in frontier {
            for edge in self.edges(*id, hop) {
                let target = edge.key.destination;
                if !self.admits(target, &hop.vertex_filters) {
                    continue;
                }
                self.steps
                    .insert(((from, *id), (to, target), edge.key, edge.version));
                let at = self.visited.entry(to).or_default();
                if let Entry::Vacant(place) = at.entry(target) {
                    place.insert(self.hops);
                    new.insert(target);
                }
            }
        }
        new
    }

    fn edges(&self, id: VertexId, hop: &Hop) -> Vec<Edge> {
        let schema = &self.model.schema;
        let types: Vec<EdgeTypeId> = hop
            .edge_types
            .iter()
            .filter_map(|n| schema.edge_type_id(n).ok())
            .collect();
        let mut edges = Vec::new();
        match self.versions {
            Versions::AsOf(_) => edges = self.model.edges_of(id, &types, self.versions),
            // Each version of an edge that existed at some time in the range.
            Versions::Range(range) => {
                for (key, timeline) in self.model.leaving(id, &types) {
                    let at_first = timeline.as_of(range.from).map(|(v, _)| v);
                    for (version, event) in &timeline.0 {
                        if let Some(properties) = &event.value
                            && (range.contains(*version) || at_first == Some(*version))
                        {
                            let (version, properties) = (*version, properties.clone());
                            edges.push(Edge {
                                key,
                                version,
                                deleted: false,
                                properties,
                            });
                        }
                    }
                }
            }
        }
        edges.retain(|e| hop.edge_filters.iter().all(|f| edge_holds(schema, f, e)));
        edges
    }

    /// Whether a vertex exists then and matches the filters. A vertex that was never inserted exists as far as edges know.
    fn admits(&self, id: VertexId, filters: &[Filter]) -> bool {
        let Some(facts) = self.model.vertices.get(&id) else {
            return filters.is_empty();
        };
        let (existed, as_of) = match self.versions {
            Versions::AsOf(as_of) => (as_of >= facts.first && facts.statics.alive(as_of), as_of),
            Versions::Range(range) => {
                let within = facts
                    .statics
                    .0
                    .iter()
                    .any(|(v, e)| e.value.is_some() && range.contains(*v));
                (
                    within || facts.statics.alive(range.from),
                    Version(range.until.0.saturating_sub(1)),
                )
            }
        };
        existed
            && (filters.is_empty()
                || self.model.vertex(id, as_of).is_some_and(|v| {
                    filters
                        .iter()
                        .all(|f| vertex_holds(&self.model.schema, f, &v))
                }))
    }

    fn note_stop(&mut self, reason: StopReason, step: u32, left: usize) {
        self.stopped.push(Stop {
            reason,
            step: step.max(1),
            vertices_left: left as u64,
        });
    }

    /// Stops if the last working set exceeds the limit.
    fn check_limit(&mut self) {
        let at_end = self.at(self.end).len();
        if let Some(limit) = self.limit
            && at_end as u64 > limit
        {
            self.note_stop(StopReason::Limit, self.hops, at_end - limit as usize);
            self.over = true;
        }
    }

    /// The vertices at a position: those reached by fewer steps first, then by id.
    fn in_order(&self, position: u32) -> Vec<VertexId> {
        let at = self.visited.get(&position).into_iter().flatten();
        let mut sorted: Vec<(u32, VertexId)> = at.map(|(id, hops)| (*hops, *id)).collect();
        sorted.sort_unstable();
        sorted.into_iter().map(|(_, id)| id).collect()
    }

    fn answer(mut self, traversal: &Traversal) -> TraversalAnswer {
        let end = self.end;
        let positions: Vec<u32> = self.visited.keys().copied().collect();
        let mut answer = TraversalAnswer {
            reached: positions.into_iter().map(|p| (p, self.at(p))).collect(),
            stopped: std::mem::take(&mut self.stopped),
            ..TraversalAnswer::default()
        };
        if let Some(limit) = self.limit {
            for id in self.in_order(end).into_iter().skip(limit as usize) {
                self.visited.entry(end).or_default().remove(&id);
                self.steps.retain(|step| step.1 != (end, id));
            }
        }
        if traversal.start_returned {
            answer.sets.push((0, self.in_order(0)));
        }
        for (i, hop) in traversal.segments.iter().flat_map(|s| &s.hops).enumerate() {
            if hop.returned {
                answer
                    .sets
                    .push((i as u32 + 1, self.in_order(i as u32 + 1)));
            }
        }
        if answer.sets.is_empty() {
            answer.sets.push((end, self.in_order(end)));
        }
        if !self.last_begun {
            return answer;
        }
        let nodes = self
            .visited
            .iter()
            .flat_map(|(position, at)| at.iter().map(|(id, hops)| ((*position, *id), *hops)));
        let nodes: BTreeMap<Node, u32> = nodes.collect();
        if traversal
            .segments
            .last()
            .is_some_and(|s| s.repeat.is_some())
        {
            // A path ends wherever there is nothing more to follow, so everything reached is on one.
            let sources: BTreeSet<Node> = self.steps.iter().map(|s| s.0).collect();
            let leaf =
                |n: &Node| !sources.contains(n) && nodes.get(n).is_some_and(|level| *level > 0);
            answer.ends = nodes.keys().filter(|n| leaf(n)).copied().collect();
            let targets = self.steps.iter().map(|s| s.1);
            let on_a_path: BTreeSet<Node> = sources.iter().copied().chain(targets).collect();
            answer.nodes = nodes
                .into_iter()
                .filter(|(n, _)| on_a_path.contains(n))
                .collect();
            answer.path_edges = self.steps.iter().map(|s| (s.2, s.3)).collect();
            return answer;
        }
        answer.ends = nodes.keys().filter(|n| n.0 == end).copied().collect();
        let mut kept = answer.ends.clone();
        loop {
            let more: Vec<Node> = self
                .steps
                .iter()
                .filter(|s| kept.contains(&s.1))
                .map(|s| s.0)
                .collect();
            let size = kept.len();
            kept.extend(more);
            if kept.len() == size {
                break;
            }
        }
        answer.path_edges = self
            .steps
            .iter()
            .filter(|s| kept.contains(&s.1))
            .map(|s| (s.2, s.3))
            .collect();
        answer.nodes = nodes
            .into_iter()
            .filter(|(n, _)| kept.contains(n))
            .collect();
        answer
    }
}

/// Whether a filter matches, given the result of each condition.
fn matches(filter: &Filter, one: &dyn Fn(&str, &Test) -> bool) -> bool {
    fn decide(expr: &Expr, one: &dyn Fn(&str, &Test) -> bool) -> bool {
        match expr {
            Expr::All => true,
            Expr::And(parts) => !parts.iter().any(|part| !decide(part, one)),
            Expr::Or(parts) => parts.iter().any(|part| decide(part, one)),
            Expr::Not(inner) => !decide(inner, one),
            Expr::Term(term) => one(&term.name, &term.test),
        }
    }
    match filter {
        Filter::Attribute {
            attribute,
            predicate,
        } => one(attribute, &predicate.test()),
        Filter::Where(expr) => decide(expr, one),
    }
}

fn vertex_holds(schema: &Schema, filter: &Filter, vertex: &Vertex) -> bool {
    matches(filter, &|name, test| match name {
        "type" => names(test)
            .iter()
            .filter_map(|n| schema.vertex_type_id(n).ok())
            .any(|t| schema.is_a(vertex.type_id, t)),
        "key" => test.matches(&Value::String(vertex.key.clone())),
        "version" => test.matches(&Value::Timestamp(vertex.version.nanos())),
        name => {
            let user = vertex
                .user
                .iter()
                .find(|a| a.name == name)
                .map(|a| &a.value);
            vertex
                .attributes
                .get(name)
                .or(user)
                .is_some_and(|v| test.matches(v))
        }
    })
}

fn edge_holds(schema: &Schema, filter: &Filter, edge: &Edge) -> bool {
    matches(filter, &|name, test| match name {
        "type" => names(test).iter().any(|n| {
            schema
                .edge_type_id(n)
                .is_ok_and(|t| t == edge.key.edge_type)
        }),
        "version" => test.matches(&Value::Timestamp(edge.version.nanos())),
        name => edge.properties.get(name).is_some_and(|v| test.matches(v)),
    })
}

/// The types that a condition names.
fn names(test: &Test) -> Vec<&str> {
    let values = match test {
        Test::Compare(Comparison::Eq, value) => std::slice::from_ref(value),
        Test::In(values) => values,
        _ => &[],
    };
    let mut names = Vec::new();
    for value in values {
        if let Value::String(name) = value {
            names.push(name.as_str());
        }
    }
    names
}
