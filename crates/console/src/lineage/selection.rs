//! Selection of the vertices and edges of a picture.
//!
//! One engine traversal to the left and one to the right of the focus find the related vertices, version by version: of these, the
//! requested number of levels is shown, and one more for each opened vertex. Vertices opened elsewhere (other data derived from an
//! input) are starts of further traversals.

use super::{EDGES_MAX, LEVELS_MAX, OpenSides, PictureRequest, StoppedAt, VERTICES_MAX};
use crate::label::{self, Label};
use esker::lineage::{
    Child, Direction, LineageOptions, Provenance, impact, lineage, names_of_stopped,
};
use esker_model::traversal::StopReason;
use esker_model::{
    Cancel, EdgeSelect, EdgeTypeId, Error, GraphRead, Result, Schema, Version, Versions, Vertex,
    VertexId, VertexTypeId,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

/// Maximum number of neighbours counted per vertex as of a past time.
const COUNTED_MAX: u64 = 1_000;

/// Edge types by role.
#[derive(Debug, Clone, Copy)]
pub(super) struct Roles {
    /// Edge types from an execution to data: `read`, `write`, `exe`.
    pub(super) read: EdgeTypeId,
    pub(super) write: EdgeTypeId,
    pub(super) exe: EdgeTypeId,
    /// Vertex type of executions.
    pub(super) execution: VertexTypeId,
}

impl Roles {
    fn of(schema: &Schema) -> Result<Self> {
        let missing = |e| {
            Error::Invalid(format!(
                "this database's schema lacks what lineage needs: {e}"
            ))
        };
        let edge = |name: &str| schema.edge_type_id(name).map_err(missing);
        Ok(Self {
            read: edge("read")?,
            write: edge("write")?,
            exe: edge("exe")?,
            execution: schema.vertex_type_id("Execution").map_err(missing)?,
        })
    }
}

/// An edge of the picture, in the direction of data flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub(super) version: Version,
    pub(super) concurrent: bool,
}

/// A vertex of the picture.
#[derive(Debug, Clone)]
pub(super) struct SelectedVertex {
    pub(super) label: Label,
    pub(super) key: String,
    pub(super) type_id: Option<VertexTypeId>,
    pub(super) execution: bool,
    pub(super) deleted: bool,
    /// Shown write, for data.
    pub(super) version: Option<Version>,
    pub(super) up: u64,
    pub(super) down: u64,
}

/// Content of a picture, without positions.
pub(super) struct Selection {
    pub(super) focus_name: String,
    pub(super) roles: Roles,
    /// Vertices in the order found, the focus first.
    pub(super) order: Vec<VertexId>,
    pub(super) all: HashMap<VertexId, SelectedVertex>,
    /// Edges by source, destination and type as defined.
    pub(super) lines: BTreeMap<(VertexId, VertexId, EdgeTypeId), Flow>,
    pub(super) stopped: Vec<StoppedAt>,
}

/// State of the selection.
struct Finder<'a> {
    graph: &'a dyn GraphRead,
    schema: &'a Schema,
    cancel: &'a dyn Cancel,
    request: &'a PictureRequest,
    selection: Selection,
    /// Description of each execution: who ran it.
    facts: HashMap<VertexId, String>,
}

pub(super) fn select(
    graph: &dyn GraphRead,
    schema: &Schema,
    request: &PictureRequest,
    cancel: &dyn Cancel,
) -> Result<Selection> {
    let roles = Roles::of(schema)?;
    let focus = graph.read_vertices(&[request.focus], request.as_of)?;
    let focus = focus.into_iter().next().flatten();
    let Some(focus) = focus else {
        let (name, hint) = (format!("?:{}", request.focus), String::new());
        return Err(Error::NoVertex { name, hint });
    };
    let mut finder = Finder {
        graph,
        schema,
        cancel,
        request,
        selection: Selection {
            focus_name: focus.name(schema),
            roles,
            order: Vec::new(),
            all: HashMap::new(),
            lines: BTreeMap::new(),
            stopped: Vec::new(),
        },
        facts: HashMap::new(),
    };
    finder.add(request.focus, Some(&focus));
    let is_user = !finder.is_execution(&focus) && {
        let user = schema.vertex_type_id("User");
        user.is_ok_and(|user| schema.is_a(focus.type_id, user))
    };
    let mut rest = request.open.clone();
    if !is_user {
        finder.side(request.focus, Direction::Lineage, request.up, &mut rest)?;
    }
    finder.side(request.focus, Direction::Impact, request.down, &mut rest)?;
    // Vertices opened away from the focus: each is followed once it is shown, until nothing new appears.
    loop {
        let shown = rest
            .keys()
            .find(|id| finder.selection.all.contains_key(id))
            .copied();
        let Some(id) = shown else { break };
        let sides = rest.remove(&id).unwrap_or_default();
        if sides.up {
            finder.side(id, Direction::Lineage, 1, &mut rest)?;
        }
        if sides.down {
            finder.side(id, Direction::Impact, 1, &mut rest)?;
        }
    }
    finder.count()?;
    let Finder {
        mut selection,
        facts,
        ..
    } = finder;
    for (id, words) in facts {
        if let Some(one) = selection.all.get_mut(&id) {
            let detail = &mut one.label.detail;
            *detail = if detail.is_empty() {
                words
            } else {
                format!("{words} · {detail}")
            };
        }
    }
    Ok(selection)
}

impl Finder<'_> {
    fn is_execution(&self, vertex: &Vertex) -> bool {
        self.schema
            .is_a(vertex.type_id, self.selection.roles.execution)
    }

    fn add(&mut self, id: VertexId, vertex: Option<&Vertex>) {
        if self.selection.all.contains_key(&id) {
            return;
        }
        let execution = vertex.is_some_and(|v| self.is_execution(v));
        let one = SelectedVertex {
            label: label::of(id, vertex, self.schema),
            key: vertex.map_or_else(String::new, |v| v.key.clone()),
            type_id: vertex.map(|v| v.type_id),
            execution,
            deleted: vertex.is_some_and(|v| v.deleted),
            version: vertex.filter(|_| execution).map(|v| v.version),
            up: 0,
            down: 0,
        };
        self.selection.order.push(id);
        self.selection.all.insert(id, one);
    }

    /// Adds one side of a vertex: `levels` levels, and one more for each opened vertex on the way, which is removed from `open`.
    fn side(
        &mut self,
        from: VertexId,
        direction: Direction,
        levels: u32,
        open: &mut BTreeMap<VertexId, OpenSides>,
    ) -> Result<()> {
        let levels = levels.min(LEVELS_MAX);
        let opened = |sides: &OpenSides| match direction {
            Direction::Lineage => sides.up,
            Direction::Impact => sides.down,
        };
        let more = open.values().filter(|sides| opened(sides)).count();
        let depth = levels + u32::try_from(more).unwrap_or(u32::MAX);
        if depth == 0 {
            return Ok(());
        }
        let options = LineageOptions {
            as_of: self.request.as_of,
            depth: Some(depth),
            vertices: Some(VERTICES_MAX),
            edges: Some(EDGES_MAX),
            ..LineageOptions::default()
        };
        let walk = match direction {
            Direction::Lineage => lineage,
            Direction::Impact => impact,
        };
        let found = match walk(self.graph, from, &options, self.cancel) {
            Ok(found) => found,
            // Vertices of types without lineage (a group, an object's tag) are shown alone.
            Err(Error::Invalid(_))
                if self.selection.order.len() > 1 || direction == Direction::Impact =>
            {
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        self.take(&found, levels, open);
        Ok(())
    }

    /// Adds the visible part of a traversal's result.
    fn take(&mut self, found: &Provenance, levels: u32, open: &mut BTreeMap<VertexId, OpenSides>) {
        let up = found.direction == Direction::Lineage;
        // Remaining steps at each node: a level is two steps, one from an execution.
        let mut best: HashMap<(u32, Option<u32>), u32> = HashMap::new();
        let mut used: HashSet<VertexId> = HashSet::new();
        let mut queue: Vec<(Child, u32)> = Vec::new();
        for root in &found.roots {
            let Some(node) = found.node(root.node) else {
                continue;
            };
            // The executions of a user are a level of their own.
            let of_user = root.edge.is_some();
            let steps = (2 * levels).saturating_sub(u32::from(node.execution));
            if of_user {
                self.line(found, *root);
            }
            queue.push((*root, steps));
            self.version(found, node.vertex, node.version);
        }
        while let Some((at, mut steps)) = queue.pop() {
            let Some(node) = found.node(at.node) else {
                continue;
            };
            let Some(vertex) = found.vertex(node.vertex) else {
                continue;
            };
            self.add(vertex.id, vertex.vertex.as_ref());
            self.version(found, node.vertex, node.version);
            let sides = open.get(&vertex.id).copied().unwrap_or_default();
            let opened = if up { sides.up } else { sides.down };
            if opened {
                used.insert(vertex.id);
                steps = steps.max(2 - u32::from(node.execution));
            }
            if best
                .get(&(at.node, at.edge))
                .is_some_and(|known| *known >= steps)
            {
                continue;
            }
            best.insert((at.node, at.edge), steps);
            if steps == 0 {
                continue;
            }
            let children: Vec<Child> = found
                .children_through(at.node, at.edge)
                .map(|(_, child)| *child)
                .collect();
            for child in children {
                let next = found.node(child.node).and_then(|n| found.vertex(n.vertex));
                if let Some(next) = next {
                    self.add(next.id, next.vertex.as_ref());
                    self.line(found, child);
                    queue.push((child, steps - 1));
                }
            }
        }
        for id in used {
            if let Some(sides) = open.get_mut(&id) {
                if up {
                    sides.up = false;
                } else {
                    sides.down = false;
                }
                if *sides == OpenSides::default() {
                    open.remove(&id);
                }
            }
        }
        for (vertex, edges) in &found.facts {
            self.note(found, *vertex, edges);
        }
        for stop in found
            .stopped
            .iter()
            .filter(|s| s.reason != StopReason::Depth)
        {
            self.selection.stopped.push(StoppedAt {
                vertices: names_of_stopped(stop, &found.vertices, self.schema),
                vertices_left: stop.vertices_left,
                reason: stop.reason.name().to_owned(),
            });
        }
    }

    /// Records the shown write of data: the newest that is related to the focus.
    fn version(&mut self, found: &Provenance, vertex: u32, version: Option<Version>) {
        let id = found.vertex(vertex).map(|v| v.id);
        if let (Some(version), Some(one)) =
            (version, id.and_then(|id| self.selection.all.get_mut(&id)))
            && !one.execution
        {
            one.version = one.version.max(Some(version));
        }
    }

    /// Adds the edge that leads to a child, in the direction of data flow.
    fn line(&mut self, found: &Provenance, child: Child) {
        let Some(edge) = child.edge.and_then(|e| found.edge(e)) else {
            return;
        };
        let key = edge.edge.key;
        let Roles {
            read, write, exe, ..
        } = self.selection.roles;
        let (source, destination) = (key.source, key.destination);
        let inverse = self.schema.inverse(key.edge_type);
        let (from, to, edge_type) = match key.edge_type {
            t if t == write => (source, destination, write),
            t if t == read || t == exe => (destination, source, t),
            _ if inverse == write => (destination, source, write),
            _ if inverse == read || inverse == exe => (source, destination, inverse),
            t => (source, destination, t),
        };
        let flow = Flow {
            version: edge.edge.version,
            concurrent: edge.concurrent || child.concurrent,
        };
        let line = self
            .selection
            .lines
            .entry((from, to, edge_type))
            .or_insert(flow);
        line.version = line.version.max(flow.version);
        line.concurrent &= flow.concurrent;
    }

    /// Records who ran an execution.
    fn note(&mut self, found: &Provenance, vertex: u32, edges: &[u32]) {
        let Some(id) = found.vertex(vertex).map(|v| v.id) else {
            return;
        };
        if !self.selection.all.contains_key(&id) || self.facts.contains_key(&id) {
            return;
        }
        let users = edges.iter().filter_map(|e| found.edge(*e)).filter_map(|e| {
            let is_user = found.fact_types.run_by.contains(&e.edge.key.edge_type);
            let user = found
                .vertices
                .iter()
                .find(|v| v.id == e.edge.key.destination);
            let user = user.filter(|_| is_user)?.vertex.as_ref()?;
            let name = label::text(user, "name").map(str::to_owned);
            Some(name.unwrap_or_else(|| format!("user {}", user.key)))
        });
        let users: BTreeSet<String> = users.collect();
        if !users.is_empty() {
            let users: Vec<String> = users.into_iter().collect();
            self.facts.insert(id, users.join(", "));
        }
    }

    /// Counts the neighbours of each vertex that are not shown.
    fn count(&mut self) -> Result<()> {
        let Roles {
            read, write, exe, ..
        } = self.selection.roles;
        let inverse = |t| self.schema.inverse(t);
        let mut wanted: Vec<(VertexId, EdgeTypeId, bool)> = Vec::new();
        for id in &self.selection.order {
            let Some(one) = self.selection.all.get(id) else {
                continue;
            };
            if one.execution {
                wanted.push((*id, read, true));
                wanted.push((*id, write, false));
            } else {
                wanted.push((*id, inverse(write), true));
                wanted.push((*id, inverse(read), false));
                wanted.push((*id, inverse(exe), false));
            }
        }
        let counts = if self.request.as_of == Version::MAX {
            let of: Vec<_> = wanted.iter().map(|(id, t, _)| (*id, *t)).collect();
            self.graph.degrees(&of)?
        } else {
            self.counts_as_of(&wanted)?
        };
        let (mut into, mut out) = (HashMap::new(), HashMap::new());
        for (from, to, _) in self.selection.lines.keys() {
            *out.entry(*from).or_insert(0_u64) += 1;
            *into.entry(*to).or_insert(0_u64) += 1;
        }
        for ((id, _, up), count) in wanted.iter().zip(counts) {
            if let Some(one) = self.selection.all.get_mut(id) {
                if *up {
                    one.up += count;
                } else {
                    one.down += count;
                }
            }
        }
        for (id, one) in &mut self.selection.all {
            one.up = one.up.saturating_sub(into.get(id).copied().unwrap_or(0));
            one.down = one.down.saturating_sub(out.get(id).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// Counts the edges as of the requested version.
    fn counts_as_of(&self, wanted: &[(VertexId, EdgeTypeId, bool)]) -> Result<Vec<u64>> {
        let mut counts = Vec::with_capacity(wanted.len());
        for (id, edge_type, _) in wanted {
            let select = EdgeSelect {
                types: vec![*edge_type],
                versions: Versions::AsOf(self.request.as_of),
                properties: false,
                after: None,
            };
            let mut count = 0;
            self.graph.scan_edges(&[*id], &select, &mut |_, _| {
                count += 1;
                if count >= COUNTED_MAX {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            counts.push(count);
        }
        Ok(counts)
    }
}
