//! Results of lineage, impact and traversals.

use crate::cancel::work;
use crate::columns::{Columns, PropertyColumns, Table, json_of};
use crate::database::{edge_type_name, names_of, vertex_type_name};
use crate::value::{dict_of, user_of};
use esker::Database;
use esker::lineage::{
    Direction, LineageOptions, Provenance, TreeStyle, names_of_stopped, render_dot, render_json,
    render_tree,
};
use esker_model::traversal::{Paths, TravelResult};
use esker_model::{GraphRead as _, Schema, Version, VertexId};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of path steps per requested path; the caller limits the number of paths.
const PATH_STEPS_MAX: usize = 100_000;

/// Result of a lineage or impact query.
#[pyclass(frozen, module = "esker._esker")]
pub(crate) struct Walk {
    found: Provenance,
    schema: Arc<Schema>,
}

impl Walk {
    pub(crate) fn run(
        py: Python<'_>,
        database: &Database,
        target: VertexId,
        direction: Direction,
        options: &LineageOptions,
    ) -> PyResult<Self> {
        work(py, |signals| {
            let schema = database.schema()?;
            let found = match direction {
                Direction::Lineage => esker::lineage::lineage(database, target, options, signals),
                Direction::Impact => esker::lineage::impact(database, target, options, signals),
            };
            Ok(Self {
                found: found?,
                schema,
            })
        })
    }

    fn name(&self, vertex: u32) -> String {
        self.found
            .vertex(vertex)
            .map_or_else(String::new, |v| v.name(&self.schema))
    }
}

#[pymethods]
impl Walk {
    /// Whether the result is complete.
    #[getter]
    fn complete(&self) -> bool {
        self.found.complete
    }

    /// Returns where the traversal stopped: `(reason, level, names)`.
    #[getter]
    fn stopped(&self) -> Vec<(String, u32, Vec<String>)> {
        let each = self.found.stopped.iter();
        each.map(|s| {
            let names = names_of_stopped(s, &self.found.vertices, &self.schema);
            (s.reason.name().to_owned(), s.level, names)
        })
        .collect()
    }

    /// Returns the names of the vertices found, the target first.
    fn names(&self) -> Vec<String> {
        self.found
            .vertices
            .iter()
            .map(|v| v.name(&self.schema))
            .collect()
    }

    /// Returns the vertices found, as columns.
    fn vertices(&self, py: Python<'_>) -> PyResult<Columns> {
        let mut table = Table::default();
        let (mut ids, mut types, mut versions, mut deleted) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut properties = PropertyColumns::default();
        for v in &self.found.vertices {
            ids.push(Some(v.name(&self.schema)));
            let vertex = v.vertex.as_ref();
            types.push(vertex.map(|v| vertex_type_name(&self.schema, v.type_id)));
            versions.push(vertex.map(|v| v.version));
            deleted.push(vertex.is_some_and(|v| v.deleted));
            let all = vertex.into_iter().flat_map(|v| {
                v.attributes
                    .iter()
                    .chain(v.user.iter().map(|a| (a.name.as_str(), &a.value)))
            });
            properties.push(all);
        }
        table
            .texts("id", &ids)
            .texts("type", &types)
            .versions("version", &versions);
        table.add(
            "deleted",
            Arc::new(arrow_array::BooleanArray::from(deleted)),
        );
        properties.add_to(&mut table, "attribute:");
        table.finish(py)
    }

    /// Returns the edges found, as columns.
    fn edges(&self, py: Python<'_>) -> PyResult<Columns> {
        let names: HashMap<VertexId, String> = self
            .found
            .vertices
            .iter()
            .map(|v| (v.id, v.name(&self.schema)))
            .collect();
        let mut table = Table::default();
        let (mut from, mut types, mut to) = (Vec::new(), Vec::new(), Vec::new());
        let (mut versions, mut concurrent, mut properties) = (Vec::new(), Vec::new(), Vec::new());
        for e in &self.found.edges {
            let key = &e.edge.key;
            let name = |id| names.get(&id).cloned().or_else(|| Some(format!("?:{id}")));
            from.push(name(key.source));
            types.push(Some(edge_type_name(&self.schema, key.edge_type)));
            to.push(name(key.destination));
            versions.push(Some(e.edge.version));
            concurrent.push(e.concurrent);
            properties.push(Some(json_of(&e.edge.properties)));
        }
        table
            .texts("source", &from)
            .texts("type", &types)
            .texts("destination", &to)
            .versions("version", &versions);
        table.add(
            "concurrent",
            Arc::new(arrow_array::BooleanArray::from(concurrent)),
        );
        table.texts("properties", &properties).finish(py)
    }

    /// Returns at most `limit` paths from the target to vertices without further lineage, as lists of names.
    fn paths(&self, limit: usize) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        // A node, the edge through which it was reached, and its depth in the path.
        let start = self.found.roots.iter().rev().map(|c| (c.node, c.edge, 1));
        let mut stack: Vec<(u32, Option<u32>, usize)> = start.collect();
        let target = self
            .found
            .vertices
            .first()
            .map(|v| v.name(&self.schema))
            .unwrap_or_default();
        let mut path: Vec<u32> = Vec::new();
        let mut steps = 0_usize;
        while let Some((node, edge, depth)) = stack.pop() {
            steps += 1;
            if out.len() >= limit || steps > PATH_STEPS_MAX.saturating_mul(limit.max(1)) {
                break;
            }
            path.truncate(depth - 1);
            let Some(here) = self.found.node(node) else {
                continue;
            };
            // A cycle ends the path at the repeated node.
            let again = path.contains(&node);
            path.push(node);
            let children: Vec<_> = self
                .found
                .children_through(node, edge)
                .map(|(_, c)| (c.node, c.edge, depth + 1))
                .collect();
            if again || children.is_empty() || here.stopped.is_some() {
                let nodes = path.iter().filter_map(|n| self.found.node(*n));
                let mut names: Vec<String> = nodes.map(|n| self.name(n.vertex)).collect();
                if names.first() != Some(&target) {
                    names.insert(0, target.clone());
                }
                out.push(names);
            } else {
                stack.extend(children.into_iter().rev());
            }
        }
        out
    }

    /// Returns `(user or None, executions, files, bytes)`, most files first.
    fn by_user(&self) -> Vec<(Option<String>, Vec<String>, Vec<String>, u64)> {
        let names = |of: &[u32]| of.iter().map(|v| self.name(*v)).collect();
        let each = self.found.by_user().into_iter();
        each.map(|u| {
            (
                u.user.map(|v| self.name(v)),
                names(&u.executions),
                names(&u.files),
                u.bytes,
            )
        })
        .collect()
    }

    /// Returns the tree that `esker lineage` prints.
    fn tree(&self) -> String {
        render_tree(&self.found, &self.schema, &TreeStyle::default())
            .trim_end()
            .to_owned()
    }

    /// Returns one line of JSON, as printed by `esker lineage --format json`.
    fn json(&self) -> String {
        render_json(&self.found, &self.schema)
    }

    /// Returns the graph in Graphviz's DOT language.
    fn dot(&self) -> String {
        render_dot(&self.found, &self.schema)
    }

    fn __len__(&self) -> usize {
        self.found.vertices.len()
    }
}

/// Result of a traversal.
#[pyclass(frozen, module = "esker._esker")]
pub(crate) struct Travelled {
    result: TravelResult,
    names: HashMap<VertexId, String>,
    schema: Arc<Schema>,
}

impl Travelled {
    pub(crate) fn new(
        database: &Database,
        schema: Arc<Schema>,
        result: TravelResult,
    ) -> esker_model::Result<Self> {
        let sets = result.sets.iter().flat_map(|s| s.vertices.iter().copied());
        let paths = result
            .paths
            .iter()
            .flat_map(|p| p.nodes.iter().map(|n| n.vertex));
        let names = names_of(database, &schema, sets.chain(paths))?;
        Ok(Self {
            result,
            names,
            schema,
        })
    }

    fn name(&self, id: VertexId) -> String {
        self.names
            .get(&id)
            .cloned()
            .unwrap_or_else(|| format!("?:{id}"))
    }
}

#[pymethods]
impl Travelled {
    /// Whether the result is complete.
    #[getter]
    fn complete(&self) -> bool {
        self.result.complete
    }

    /// Returns where it stopped: `(reason, step, vertices left)`.
    #[getter]
    fn stopped(&self) -> Vec<(String, u32, u64)> {
        let each = self.result.stopped.iter();
        each.map(|s| (s.reason.name().to_owned(), s.step, s.vertices_left))
            .collect()
    }

    /// Version of the result, as text.
    #[getter]
    fn as_of(&self) -> String {
        self.result.as_of.to_string()
    }

    /// Returns the working sets as `(hop, names)`.
    fn sets(&self) -> Vec<(u32, Vec<String>)> {
        let names = |ids: &[VertexId]| ids.iter().map(|id| self.name(*id)).collect();
        self.result
            .sets
            .iter()
            .map(|s| (s.hop, names(&s.vertices)))
            .collect()
    }

    /// Whether the traversal returns paths.
    #[getter]
    fn has_paths(&self) -> bool {
        self.result.paths.is_some()
    }

    /// Returns at most `limit` complete paths: names and edge types alternately, `[v, e, v, …]`.
    fn paths(&self, limit: usize) -> Vec<Vec<String>> {
        let Some(paths) = &self.result.paths else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for (end, node) in paths.nodes.iter().enumerate() {
            if node.end && !self.back(paths, end, limit, &mut out) {
                break;
            }
        }
        out
    }

    /// Returns the profile of each hop, as dicts.
    fn profile<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for step in &self.result.profile {
            let dict = PyDict::new(py);
            dict.set_item("step", step.step)?;
            dict.set_item("text", &step.text)?;
            dict.set_item("frontier", step.frontier)?;
            dict.set_item("edges", step.edges)?;
            dict.set_item("selected", step.selected)?;
            dict.set_item("reached", step.reached)?;
            dict.set_item("cached", step.cached)?;
            dict.set_item("micros", step.micros)?;
            list.append(dict)?;
        }
        Ok(list)
    }
}

impl Travelled {
    /// Appends all paths that end in a node, built backwards; returns false once there are enough.
    fn back(&self, paths: &Paths, end: usize, limit: usize, out: &mut Vec<Vec<String>>) -> bool {
        // Nodes from the end backwards, with the index of the next parent of each.
        let mut stack: Vec<(usize, usize)> = vec![(end, 0)];
        while let Some((node, next)) = stack.last_mut() {
            if out.len() >= limit {
                return false;
            }
            let parents = paths
                .nodes
                .get(*node)
                .map_or(&[][..], |n| n.parents.as_slice());
            if parents.is_empty() && *next == 0 {
                out.push(self.spell(paths, &stack));
                stack.pop();
                continue;
            }
            let Some(step) = parents.get(*next) else {
                stack.pop();
                continue;
            };
            *next += 1;
            let parent = step.parent as usize;
            stack.push((parent, 0));
        }
        true
    }

    fn spell(&self, paths: &Paths, stack: &[(usize, usize)]) -> Vec<String> {
        let mut path = Vec::with_capacity(2 * stack.len());
        for (i, (node, next)) in stack.iter().rev().enumerate() {
            let Some(node) = paths.nodes.get(*node) else {
                continue;
            };
            if i > 0
                && let Some(step) = next.checked_sub(1).and_then(|n| node.parents.get(n))
            {
                path.push(edge_type_name(&self.schema, step.edge.edge_type));
            }
            path.push(self.name(node.vertex));
        }
        path
    }
}

/// Returns a vertex as a Python tuple: `(name, type, version, deleted, attributes, tags)`.
pub(crate) fn vertex_tuple<'py>(
    py: Python<'py>,
    vertex: &esker_model::Vertex,
    schema: &Schema,
) -> PyResult<Bound<'py, PyTuple>> {
    (
        vertex.name(schema),
        vertex_type_name(schema, vertex.type_id),
        vertex.version.0,
        vertex.deleted,
        dict_of(py, &vertex.attributes)?,
        user_of(py, vertex)?,
    )
        .into_pyobject(py)
}

/// Returns the options of a lineage query.
pub(crate) fn options(
    as_of: Version,
    since: Option<Version>,
    depth: Option<u32>,
    vertices: Option<u64>,
) -> LineageOptions {
    LineageOptions {
        as_of,
        since,
        depth,
        vertices,
        ..LineageOptions::default()
    }
}
