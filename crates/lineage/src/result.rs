//! Result of lineage and impact: a graph of vertices and edges, and over it the tree-like structure of versions.

use super::Direction;
use super::event::Span;
use esker_model::traversal::{Stop, StopReason};
use esker_model::{Edge, EdgeTypeId, Schema, Value, Version, Vertex, VertexId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of vertices that one [`Stopped`] lists.
pub const STOPPED_NAMES_MAX: usize = 100;

/// The result of `lineage` and `impact`.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// Direction that was followed.
    pub direction: Direction,
    /// The vertex from which it started.
    pub target: VertexId,
    /// Version that everything was read as of.
    pub as_of: Version,
    /// Whether everything was followed to its end.
    pub complete: bool,
    /// Stops by reason, if the result is partial.
    pub stopped: Vec<Stopped>,
    /// Each vertex once, in the order found; the target first.
    pub vertices: Vec<FoundVertex>,
    /// Each version of an edge once, in the order found, directed as followed.
    pub edges: Vec<FoundEdge>,
    /// Versions of data objects, and executions, as a graph.
    pub nodes: Vec<Node>,
    /// Start nodes: the version (or versions, if written concurrently) of a data object, an
    /// execution, or the executions that a user ran.
    pub roots: Vec<Child>,
    /// Users, executables and enclosing executions of each execution: vertex (an index into `vertices`) to
    /// edges (indices into `edges`).
    pub facts: BTreeMap<u32, Vec<u32>>,
    /// The edge types that lead to users, to executables, and to enclosing executions.
    pub fact_types: FactTypes,
}

/// Meaning of the edges in [`Provenance::facts`], by type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FactTypes {
    /// Edge types to the user.
    pub run_by: Vec<EdgeTypeId>,
    /// Edge types to the executable.
    pub executable: Vec<EdgeTypeId>,
    /// Edge types to the enclosing execution.
    pub part_of: Vec<EdgeTypeId>,
}

/// A vertex of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundVertex {
    /// Id of the vertex.
    pub id: VertexId,
    /// The vertex itself; `None` if an edge leads to a vertex that was never inserted.
    pub vertex: Option<Vertex>,
    /// True if it was inserted only after the requested version: `vertex` then is its present state.
    pub later: bool,
}

impl FoundVertex {
    /// Returns `type:key`, or the bare id if it was never inserted.
    pub fn name(&self, schema: &Schema) -> String {
        match &self.vertex {
            Some(v) => v.name(schema),
            None => format!("?:{}", self.id),
        }
    }
}

/// An edge of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundEdge {
    /// The edge, at the version followed.
    pub edge: Edge,
    /// True if the execution at the edge's target (lineage) or source (impact) overlapped in time, so that its involvement is only
    /// possible.
    pub concurrent: bool,
}

/// A version of a data object, or an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Index into [`Provenance::vertices`].
    pub vertex: u32,
    /// Data: the version written; `None` if no write of it is known. Executions: `None`.
    pub version: Option<Version>,
    /// Whether the node is an execution.
    pub execution: bool,
    /// Executions between the node and the target.
    pub level: u32,
    /// Lineage: writers of a version, inputs of an execution. Impact: readers of a version, outputs of an execution.
    pub children: Vec<Child>,
    /// Reason why the node was not followed, or not to the end.
    pub stopped: Option<StopReason>,
}

/// A link from one node to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// Index into [`Provenance::nodes`].
    pub node: u32,
    /// Index into [`Provenance::edges`]; `None` for a root.
    pub edge: Option<u32>,
    /// True if it only overlapped in time, so that it is only possibly involved.
    pub concurrent: bool,
}

/// A reason for stopping, with the vertices concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Reason for the stop.
    pub reason: StopReason,
    /// The level (executions from the target) that was in progress.
    pub level: u32,
    /// Distinct vertices that were not followed, or not to the end.
    pub vertices_left: u64,
    /// The first of them ([`STOPPED_NAMES_MAX`] at most).
    pub vertices: Vec<VertexId>,
}

/// A traversal counts the vertices that it left, without naming them.
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

/// Returns the names of the vertices that were not followed, for messages and JSON.
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

/// Impact of the target on one user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserImpact {
    /// Index into [`Provenance::vertices`]; `None` for executions whose user is unknown.
    pub user: Option<u32>,
    /// Executions that the user ran, each once (indices into `vertices`).
    pub executions: Vec<u32>,
    /// Data objects that those wrote, each once (indices into `vertices`).
    pub files: Vec<u32>,
    /// Bytes written, as far as edges record them.
    pub bytes: u64,
}

/// Bytes transferred, as far as the edge records them: its property `bytes`, or `bytes_written` or `bytes_read`.
pub(super) fn bytes_of(edge: &Edge) -> Option<u64> {
    ["bytes", "bytes_written", "bytes_read"]
        .iter()
        .find_map(|name| match edge.properties.get(name) {
            Some(Value::I64(n)) => u64::try_from(*n).ok(),
            _ => None,
        })
}

impl Provenance {
    /// Returns the vertex with that index.
    pub fn vertex(&self, index: u32) -> Option<&FoundVertex> {
        self.vertices.get(index as usize)
    }

    /// Returns the edge with that index.
    pub fn edge(&self, index: u32) -> Option<&FoundEdge> {
        self.edges.get(index as usize)
    }

    /// Returns the node with that index.
    pub fn node(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize)
    }

    /// Returns edges of the given types that describe an execution (an index into `vertices`).
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

    /// Returns the children of a node that are relevant for the edge it was reached by: for an execution reached through one
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

    /// Returns executions, files and bytes of an impact by the user who ran them: most files first, then by user. An
    /// execution without a user counts for the user of the enclosing execution.
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
                    if let Some(data) = self.node(child.node).filter(|n| !n.execution) {
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

    /// Returns the users of an execution, or else of the nearest enclosing execution.
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
