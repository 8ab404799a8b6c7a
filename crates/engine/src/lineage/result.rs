//! What a walk found: a graph of vertices and edges, and over it the tree-like structure of versions.

use super::Direction;
use super::event::Span;
use esker_model::traversal::{Stop, StopReason};
use esker_model::{Edge, EdgeTypeId, Schema, Value, Version, Vertex, VertexId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most names of vertices not followed that one [`Stopped`] lists.
pub const STOPPED_NAMES_MAX: usize = 100;

/// The answer of `lineage` and `impact`.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// Which way the walk went.
    pub direction: Direction,
    /// Where it began.
    pub target: VertexId,
    /// What everything was read as of.
    pub as_of: Version,
    /// Whether everything was followed to its end.
    pub complete: bool,
    /// Where not.
    pub stopped: Vec<Stopped>,
    /// Each vertex once, in the order found; the target first.
    pub vertices: Vec<FoundVertex>,
    /// Each version of an edge once, in the order found, directed as followed.
    pub edges: Vec<FoundEdge>,
    /// Versions of data objects, and executions, as they hang together.
    pub nodes: Vec<Node>,
    /// Where the nodes begin: the version (or versions, if written concurrently) of a data object, an
    /// execution, or the executions that a user ran.
    pub roots: Vec<Child>,
    /// Users, executables and surrounding executions of each execution: vertex (an index into `vertices`) to
    /// edges (indices into `edges`).
    pub facts: BTreeMap<u32, Vec<u32>>,
    /// The edge types that lead to users, to executables, and to surrounding executions.
    pub fact_types: FactTypes,
}

/// Which edges among [`Provenance::facts`] say what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FactTypes {
    /// Who ran it.
    pub run_by: Vec<EdgeTypeId>,
    /// What was run.
    pub executable: Vec<EdgeTypeId>,
    /// What it was part of.
    pub part_of: Vec<EdgeTypeId>,
}

/// A vertex of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundVertex {
    /// Its id.
    pub id: VertexId,
    /// What is known of it; `None` if an edge leads to a vertex that was never inserted.
    pub vertex: Option<Vertex>,
    /// True if it was inserted only after the time asked for: `vertex` then is as it is now.
    pub later: bool,
}

impl FoundVertex {
    /// `type:key`; the bare id if it was never inserted.
    pub fn name(&self, schema: &Schema) -> String {
        match &self.vertex {
            Some(v) => v.name(schema),
            None => format!("?:{}", self.id),
        }
    }
}

/// An edge of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundEdge {
    /// The edge, at the version followed.
    pub edge: Edge,
    /// True if what it leads to (lineage) or comes from (impact) only overlapped in time: it may be involved.
    pub concurrent: bool,
}

/// A version of a data object, or an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Index into [`Provenance::vertices`].
    pub vertex: u32,
    /// Data: the version written; `None` if no write of it is known. Executions: `None`.
    pub version: Option<Version>,
    /// Whether it is an execution.
    pub execution: bool,
    /// Executions between it and the target.
    pub level: u32,
    /// Lineage: writers of a version, inputs of an execution. Impact: readers of a version, outputs of an execution.
    pub children: Vec<Child>,
    /// Why it was not followed, or not to the end.
    pub stopped: Option<StopReason>,
}

/// How one node leads to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// Index into [`Provenance::nodes`].
    pub node: u32,
    /// Index into [`Provenance::edges`]; `None` where the walk begins.
    pub edge: Option<u32>,
    /// True if it only overlapped in time: it may be involved.
    pub concurrent: bool,
}

/// Why the walk stopped somewhere, and at which vertices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Why.
    pub reason: StopReason,
    /// The level (executions from the target) that was under way.
    pub level: u32,
    /// Distinct vertices that were not followed, or not to the end.
    pub vertices_left: u64,
    /// The first of them ([`STOPPED_NAMES_MAX`] at most).
    pub vertices: Vec<VertexId>,
}

/// A traversal counts the vertices that it left and names none.
impl From<&Stop> for Stopped {
    fn from(stop: &Stop) -> Self {
        Self {
            reason: stop.reason,
            level: stop.step,
            vertices_left: stop.vertices_left,
            vertices: Vec::new(),
        }
    }
}

/// Names of the vertices that a walk did not follow, for messages and JSON.
pub fn names_of_stopped(
    stopped: &Stopped,
    vertices: &[FoundVertex],
    schema: &Schema,
) -> Vec<String> {
    let wanted: BTreeSet<VertexId> = stopped.vertices.iter().copied().collect();
    let names: HashMap<VertexId, String> = vertices
        .iter()
        .filter(|v| wanted.contains(&v.id))
        .map(|v| (v.id, v.name(schema)))
        .collect();
    stopped
        .vertices
        .iter()
        .filter_map(|id| names.get(id).cloned())
        .collect()
}

/// What came of the target, for one user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserImpact {
    /// Index into [`Provenance::vertices`]; `None` for executions of which nobody knows who ran them.
    pub user: Option<u32>,
    /// Executions that the user ran, each once (indices into `vertices`).
    pub executions: Vec<u32>,
    /// Data objects that those wrote, each once (indices into `vertices`).
    pub files: Vec<u32>,
    /// Bytes that they wrote, as far as edges say.
    pub bytes: u64,
}

/// Bytes moved, as far as the edge says: its property `bytes`, or `bytes_written` or `bytes_read`.
pub(super) fn bytes_of(edge: &Edge) -> Option<u64> {
    ["bytes", "bytes_written", "bytes_read"]
        .iter()
        .find_map(|name| match edge.properties.get(name) {
            Some(Value::I64(n)) => u64::try_from(*n).ok(),
            _ => None,
        })
}

impl Provenance {
    /// The vertex with that index.
    pub fn vertex(&self, index: u32) -> Option<&FoundVertex> {
        self.vertices.get(index as usize)
    }

    /// The edge with that index.
    pub fn edge(&self, index: u32) -> Option<&FoundEdge> {
        self.edges.get(index as usize)
    }

    /// The node with that index.
    pub fn node(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize)
    }

    /// Edges of a kind that tell something about an execution (an index into `vertices`).
    pub fn facts_of<'a>(
        &'a self,
        vertex: u32,
        types: &'a [EdgeTypeId],
    ) -> impl Iterator<Item = &'a FoundEdge> {
        self.facts
            .get(&vertex)
            .into_iter()
            .flatten()
            .filter_map(|e| self.edge(*e))
            .filter(|e| types.contains(&e.edge.key.edge_type))
    }

    /// The children of a node that belong to the way it was reached by: of an execution reached through one
    /// write (lineage), only reads that this write can depend on; through one read (impact), only writes that
    /// can depend on it.
    pub fn children_through(
        &self,
        node: u32,
        edge: Option<u32>,
    ) -> impl Iterator<Item = (usize, &Child)> {
        let through = edge.and_then(|e| self.edge(e)).map(|e| Span::of(&e.edge));
        let (children, execution) = self
            .node(node)
            .map_or((&[][..], false), |n| (&n.children, n.execution));
        children.iter().enumerate().filter(move |(_, child)| {
            let own = child.edge.and_then(|e| self.edge(e));
            match (execution, &through, own) {
                (true, Some(through), Some(own)) => {
                    let own = Span::of(&own.edge);
                    match self.direction {
                        Direction::Lineage => through.may_depend_on(&own),
                        Direction::Impact => own.may_depend_on(through),
                    }
                }
                _ => true,
            }
        })
    }

    /// Executions, files and bytes of an impact by the user who ran them: most files first, then by user. An
    /// execution that names no user counts for the user of what it is part of.
    pub fn by_user(&self) -> Vec<UserImpact> {
        /// Executions, files, and edges of writes.
        type Group = [BTreeSet<u32>; 3];
        let index: HashMap<VertexId, u32> =
            (0..).zip(&self.vertices).map(|(i, v)| (v.id, i)).collect();
        let mut groups: BTreeMap<Option<u32>, Group> = BTreeMap::new();
        for node in self.nodes.iter().filter(|n| n.execution) {
            let mut users = self.users_of(node.vertex, &index);
            if users.is_empty() {
                users.push(None);
            }
            for user in users {
                let [executions, files, writes] = groups.entry(user).or_default();
                executions.insert(node.vertex);
                for child in &node.children {
                    if let Some(data) = self.node(child.node) {
                        files.insert(data.vertex);
                        writes.extend(child.edge);
                    }
                }
            }
        }
        let mut out: Vec<_> = groups
            .into_iter()
            .map(|(user, [executions, files, writes])| UserImpact {
                user,
                executions: executions.into_iter().collect(),
                files: files.into_iter().collect(),
                bytes: writes
                    .into_iter()
                    .filter_map(|e| bytes_of(&self.edge(e)?.edge))
                    .fold(0, u64::saturating_add),
            })
            .collect();
        out.sort_by_key(|g| (std::cmp::Reverse(g.files.len()), g.user.is_none(), g.user));
        out
    }

    /// Users of an execution, or else of the nearest execution that it is part of.
    fn users_of(&self, vertex: u32, index: &HashMap<VertexId, u32>) -> Vec<Option<u32>> {
        let mut level = vec![vertex];
        let mut seen: BTreeSet<u32> = level.iter().copied().collect();
        while !level.is_empty() {
            let leads_to = |types: &[EdgeTypeId]| -> BTreeSet<u32> {
                level
                    .iter()
                    .flat_map(|v| self.facts_of(*v, types))
                    .filter_map(|e| index.get(&e.edge.key.destination).copied())
                    .collect()
            };
            let users = leads_to(&self.fact_types.run_by);
            if !users.is_empty() {
                return users.into_iter().map(Some).collect();
            }
            let above = leads_to(&self.fact_types.part_of);
            level = above.into_iter().filter(|v| seen.insert(*v)).collect();
        }
        Vec::new()
    }
}
