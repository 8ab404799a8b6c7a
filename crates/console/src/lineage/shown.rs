//! Which vertices and edges a picture shows.
//!
//! To the left and right of the focus one walk of the engine each finds what hangs together, version by version: of it as many
//! levels are shown as were asked for, and, of what was opened, one more. What is opened elsewhere (what else was made from an
//! input) is walked from there.

use super::{Ask, EDGES_MAX, LEVELS_MAX, Sides, StoppedAt, VERTICES_MAX};
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

/// Neighbours that are counted of a vertex as of a time that is past.
const COUNTED_MAX: u64 = 1_000;

/// Edge types by what they mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Roles {
    /// From an execution to data: `read`, `write`, `exe`.
    pub(super) read: EdgeTypeId,
    pub(super) write: EdgeTypeId,
    pub(super) exe: EdgeTypeId,
    /// What is something that ran.
    pub(super) execution: VertexTypeId,
}

impl Roles {
    fn of(schema: &Schema) -> Result<Self> {
        let missing = |e| {
            Error::Invalid(format!(
                "this database's schema has not what pictures of lineage are made of: {e}"
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

/// An edge of the picture, in the direction in which data goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub(super) version: Version,
    pub(super) concurrent: bool,
}

/// A vertex of the picture.
#[derive(Debug, Clone)]
pub(super) struct One {
    pub(super) label: Label,
    pub(super) key: String,
    pub(super) type_id: Option<VertexTypeId>,
    pub(super) execution: bool,
    pub(super) deleted: bool,
    /// The write that is shown, of data.
    pub(super) version: Option<Version>,
    pub(super) up: u64,
    pub(super) down: u64,
}

/// All that a picture shows, without places.
pub(super) struct Seen {
    pub(super) focus_name: String,
    pub(super) roles: Roles,
    /// In the order found, the focus first.
    pub(super) order: Vec<VertexId>,
    pub(super) all: HashMap<VertexId, One>,
    /// From, to, and the type as defined.
    pub(super) lines: BTreeMap<(VertexId, VertexId, EdgeTypeId), Flow>,
    pub(super) stopped: Vec<StoppedAt>,
}

/// What is found so far.
struct Finder<'a> {
    graph: &'a dyn GraphRead,
    schema: &'a Schema,
    cancel: &'a dyn Cancel,
    ask: &'a Ask,
    seen: Seen,
    /// What each execution is said to be by who ran it and what.
    facts: HashMap<VertexId, String>,
}

pub(super) fn look(
    graph: &dyn GraphRead,
    schema: &Schema,
    ask: &Ask,
    cancel: &dyn Cancel,
) -> Result<Seen> {
    let roles = Roles::of(schema)?;
    let focus = graph.read_vertices(&[ask.focus], ask.as_of)?;
    let focus = focus.into_iter().next().flatten();
    let Some(focus) = focus else {
        let (name, hint) = (format!("?:{}", ask.focus), String::new());
        return Err(Error::NoVertex { name, hint });
    };
    let mut finder = Finder {
        graph,
        schema,
        cancel,
        ask,
        seen: Seen {
            focus_name: focus.name(schema),
            roles,
            order: Vec::new(),
            all: HashMap::new(),
            lines: BTreeMap::new(),
            stopped: Vec::new(),
        },
        facts: HashMap::new(),
    };
    finder.add(ask.focus, Some(&focus));
    let is_user = !finder.is_execution(&focus) && {
        let user = schema.vertex_type_id("User");
        user.is_ok_and(|user| schema.is_a(focus.type_id, user))
    };
    let mut rest = ask.open.clone();
    if !is_user {
        finder.side(ask.focus, Direction::Lineage, ask.up, &mut rest)?;
    }
    finder.side(ask.focus, Direction::Impact, ask.down, &mut rest)?;
    // What was opened away from the ways from the focus: once it is shown, and as long as something new is.
    loop {
        let shown = rest
            .keys()
            .find(|id| finder.seen.all.contains_key(id))
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
        mut seen, facts, ..
    } = finder;
    for (id, words) in facts {
        if let Some(one) = seen.all.get_mut(&id) {
            let detail = &mut one.label.detail;
            *detail = if detail.is_empty() {
                words
            } else {
                format!("{words} · {detail}")
            };
        }
    }
    Ok(seen)
}

impl Finder<'_> {
    fn is_execution(&self, vertex: &Vertex) -> bool {
        self.schema.is_a(vertex.type_id, self.seen.roles.execution)
    }

    fn add(&mut self, id: VertexId, vertex: Option<&Vertex>) {
        if self.seen.all.contains_key(&id) {
            return;
        }
        let execution = vertex.is_some_and(|v| self.is_execution(v));
        let one = One {
            label: label::of(id, vertex, self.schema),
            key: vertex.map_or_else(String::new, |v| v.key.clone()),
            type_id: vertex.map(|v| v.type_id),
            execution,
            deleted: vertex.is_some_and(|v| v.deleted),
            version: vertex.filter(|_| execution).map(|v| v.version),
            up: 0,
            down: 0,
        };
        self.seen.order.push(id);
        self.seen.all.insert(id, one);
    }

    /// What lies on one side of a vertex: so many levels, and one more of what is opened on the way; that is taken from `open`.
    fn side(
        &mut self,
        from: VertexId,
        direction: Direction,
        levels: u32,
        open: &mut BTreeMap<VertexId, Sides>,
    ) -> Result<()> {
        let levels = levels.min(LEVELS_MAX);
        let opened = |sides: &Sides| match direction {
            Direction::Lineage => sides.up,
            Direction::Impact => sides.down,
        };
        let more = open.values().filter(|sides| opened(sides)).count();
        let depth = levels + u32::try_from(more).unwrap_or(u32::MAX);
        if depth == 0 {
            return Ok(());
        }
        let options = LineageOptions {
            as_of: self.ask.as_of,
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
            // What nothing comes of by its type (a group, an object's tag) stands alone.
            Err(Error::Invalid(_))
                if self.seen.order.len() > 1 || direction == Direction::Impact =>
            {
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        self.take(&found, levels, open);
        Ok(())
    }

    /// Takes of what a walk found what is to be shown.
    fn take(&mut self, found: &Provenance, levels: u32, open: &mut BTreeMap<VertexId, Sides>) {
        let up = found.direction == Direction::Lineage;
        // Steps between vertices that are left from a node: a level is two, and one from an execution.
        let mut best: HashMap<(u32, Option<u32>), u32> = HashMap::new();
        let mut used: HashSet<VertexId> = HashSet::new();
        let mut queue: Vec<(Child, u32)> = Vec::new();
        for root in &found.roots {
            let Some(node) = found.node(root.node) else {
                continue;
            };
            // The executions of a user are a level by themselves.
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
                if *sides == Sides::default() {
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
            self.seen.stopped.push(StoppedAt {
                vertices: names_of_stopped(stop, &found.vertices, self.schema),
                vertices_left: stop.vertices_left,
                reason: stop.reason.name().to_owned(),
            });
        }
    }

    /// Which write of data is shown: the newest of those that hang together with the focus.
    fn version(&mut self, found: &Provenance, vertex: u32, version: Option<Version>) {
        let id = found.vertex(vertex).map(|v| v.id);
        if let (Some(version), Some(one)) = (version, id.and_then(|id| self.seen.all.get_mut(&id)))
            && !one.execution
        {
            one.version = one.version.max(Some(version));
        }
    }

    /// The edge that leads to a child, turned as data goes.
    fn line(&mut self, found: &Provenance, child: Child) {
        let Some(edge) = child.edge.and_then(|e| found.edge(e)) else {
            return;
        };
        let key = edge.edge.key;
        let Roles {
            read, write, exe, ..
        } = self.seen.roles;
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
        let line = self.seen.lines.entry((from, to, edge_type)).or_insert(flow);
        line.version = line.version.max(flow.version);
        line.concurrent &= flow.concurrent;
    }

    /// Who ran an execution.
    fn note(&mut self, found: &Provenance, vertex: u32, edges: &[u32]) {
        let Some(id) = found.vertex(vertex).map(|v| v.id) else {
            return;
        };
        if !self.seen.all.contains_key(&id) || self.facts.contains_key(&id) {
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

    /// How many neighbours of each are not shown.
    fn count(&mut self) -> Result<()> {
        let Roles {
            read, write, exe, ..
        } = self.seen.roles;
        let inverse = |t| self.schema.inverse(t);
        let mut wanted: Vec<(VertexId, EdgeTypeId, bool)> = Vec::new();
        for id in &self.seen.order {
            let Some(one) = self.seen.all.get(id) else {
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
        let counts = if self.ask.as_of == Version::MAX {
            let of: Vec<_> = wanted.iter().map(|(id, t, _)| (*id, *t)).collect();
            self.graph.degrees(&of)?
        } else {
            self.then(&wanted)?
        };
        let (mut into, mut out) = (HashMap::new(), HashMap::new());
        for (from, to, _) in self.seen.lines.keys() {
            *out.entry(*from).or_insert(0_u64) += 1;
            *into.entry(*to).or_insert(0_u64) += 1;
        }
        for ((id, _, up), count) in wanted.iter().zip(counts) {
            if let Some(one) = self.seen.all.get_mut(id) {
                if *up {
                    one.up += count;
                } else {
                    one.down += count;
                }
            }
        }
        for (id, one) in &mut self.seen.all {
            one.up = one.up.saturating_sub(into.get(id).copied().unwrap_or(0));
            one.down = one.down.saturating_sub(out.get(id).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// How many edges there were as of the time asked for.
    fn then(&self, wanted: &[(VertexId, EdgeTypeId, bool)]) -> Result<Vec<u64>> {
        let mut counts = Vec::with_capacity(wanted.len());
        for (id, edge_type, _) in wanted {
            let select = EdgeSelect {
                types: vec![*edge_type],
                versions: Versions::AsOf(self.ask.as_of),
                properties: false,
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
