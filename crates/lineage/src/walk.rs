//! The algorithm, the same in both directions.
//!
//! A round has two halves, each one batch call. First the data objects that executions touched are loaded, and each
//! touch becomes versions: for lineage those that a read can have seen, for impact the one written. A new
//! version leads to executions: its writers, or its readers. Then those executions are loaded, and the data that they
//! touched is the next round's work.
//!
//! An execution is *admitted* up to a point in time: through a write that ended at noon only reads that began before
//! noon count. Reaching the execution again through a later write admits more, and only the rest is followed then, so each
//! event is followed once.

mod arena;
mod begin;
mod data;
mod facts;
mod finish;

use super::event::{Event, Span, TimePoint, Writes};
use super::result::{Child, Node, Provenance};
use super::roles::{Roles, Start};
use super::{Direction, LineageOptions};
use data::{DataEvents, groups};
use esker_model::traversal::StopReason;
use esker_model::{
    Cancel, Edge, EdgeKey, EdgeSelect, EdgeTypeId, Error, Flow, GraphRead, Result, Schema, Value,
    Version, VersionRange, Versions, VertexId,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Edges between two checks for cancellation.
const CANCEL_EVERY: u64 = 256;
/// Vertices read in one call at the end.
const VERTICES_A_CALL: usize = 8_192;

pub(super) fn run(
    graph: &dyn GraphRead,
    target: VertexId,
    direction: Direction,
    options: &LineageOptions,
    cancel: &dyn Cancel,
) -> Result<Provenance> {
    let schema = graph.schema()?;
    let roles = Roles::resolve(&schema, direction, options)?;
    let start = start(graph, &schema, &roles, target, direction, options)?;
    let mut walk = Walk {
        graph,
        cancel,
        options,
        direction,
        schema,
        roles,
        stop: None,
        edges_seen: 0,
        bytes: 0,
        vertices: Vec::new(),
        vertex_index: HashMap::new(),
        loaded: Vec::new(),
        edges: Vec::new(),
        edge_index: HashMap::new(),
        nodes: Vec::new(),
        round: 0,
        versions: HashMap::new(),
        data: HashMap::new(),
        executions: HashMap::new(),
        roots: Vec::new(),
        facts: BTreeMap::new(),
    };
    let begun = walk.begin(target, start)?;
    walk.round = u32::from(start != Start::Execution);
    walk.follow(begun)?;
    walk.load_facts()?;
    walk.finish(target)
}

fn start(
    graph: &dyn GraphRead,
    schema: &Schema,
    roles: &Roles,
    target: VertexId,
    direction: Direction,
    options: &LineageOptions,
) -> Result<Start> {
    let read = |as_of| -> Result<_> { Ok(graph.read_vertices(&[target], as_of)?.pop().flatten()) };
    if let Some(vertex) = read(options.as_of)? {
        return roles.start(schema, direction, vertex.type_id, &vertex.name(schema));
    }
    let now = if options.as_of == Version::MAX {
        None
    } else {
        read(Version::MAX)?
    };
    Err(match now {
        Some(vertex) => Error::NoVertex {
            name: vertex.name(schema),
            hint: format!(" as of {}; it was inserted later", options.as_of),
        },
        None => Error::NoVertex {
            name: target.to_string(),
            hint: String::new(),
        },
    })
}

/// An operation of an execution on a data object: a read (lineage) or a write (impact).
#[derive(Debug, Clone, Copy)]
struct Touch {
    data: VertexId,
    span: Span,
    /// Index into [`Walk::loaded`].
    edge: u32,
}

/// Point in time up to which an execution is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admitted {
    UpTo(TimePoint),
    All,
}

#[derive(Debug)]
struct Execution {
    node: u32,
    /// `None` until loaded. Touches without times first, then the others in the order of admission.
    touches: Option<Vec<Touch>>,
    /// Number of touches without times.
    untimed: usize,
    /// Number of touches that have been followed.
    followed: usize,
    admitted: Admitted,
}

/// A touch to be turned into versions.
#[derive(Debug, Clone, Copy)]
struct Pending {
    execution: VertexId,
    node: u32,
    touch: Touch,
}

struct Walk<'a> {
    graph: &'a dyn GraphRead,
    cancel: &'a dyn Cancel,
    options: &'a LineageOptions,
    direction: Direction,
    schema: Arc<Schema>,
    roles: Roles,
    /// Set once the run must end.
    stop: Option<StopReason>,
    edges_seen: u64,
    bytes: u64,
    vertices: Vec<VertexId>,
    vertex_index: HashMap<VertexId, u32>,
    /// Edges that may become part of the result.
    loaded: Vec<Edge>,
    /// Edges in the result: indices into `loaded`.
    edges: Vec<u32>,
    edge_index: HashMap<(EdgeKey, Version), u32>,
    nodes: Vec<Node>,
    /// Executions between the target and those of the present round.
    round: u32,
    /// Nodes of data objects by the writes (indices into [`DataEvents::writes`]) that made their versions.
    versions: HashMap<(VertexId, Vec<u32>), u32>,
    data: HashMap<VertexId, DataEvents>,
    executions: HashMap<VertexId, Execution>,
    roots: Vec<Child>,
    facts: BTreeMap<u32, Vec<u32>>,
}

/// Result of a scan: events by frontier vertex; the first `complete` vertices have all of theirs.
struct Scanned {
    events: Vec<Vec<Edge>>,
    complete: usize,
}

impl Walk<'_> {
    /// Continues from executions until nothing new is reached or the run must end.
    fn follow(&mut self, mut executions: Vec<VertexId>) -> Result<()> {
        while !executions.is_empty() {
            self.load_executions(&executions)?;
            let pending = self.pending(&executions);
            let mut touched: Vec<VertexId> = pending.iter().map(|p| p.touch.data).collect();
            touched.sort_unstable();
            touched.dedup();
            touched.retain(|d| !self.data.contains_key(d));
            self.load_data(&touched)?;
            executions = Vec::new();
            for p in &pending {
                self.resolve(p, &mut executions);
            }
            executions.sort_unstable();
            executions.dedup();
            self.round += 1;
        }
        Ok(())
    }

    /// Returns the touches of these executions that are admitted and not followed yet.
    fn pending(&mut self, executions: &[VertexId]) -> Vec<Pending> {
        let mut pending = Vec::new();
        for id in executions {
            let Some(e) = self.executions.get_mut(id) else {
                continue;
            };
            let Some(touches) = &e.touches else {
                let node = e.node;
                self.mark(node);
                continue;
            };
            let admitted = match e.admitted {
                Admitted::All => touches.len(),
                Admitted::UpTo(moment) => {
                    let timed = touches.get(e.untimed..).unwrap_or_default();
                    e.untimed
                        + match self.direction {
                            Direction::Lineage => timed.partition_point(|t| t.span.start <= moment),
                            Direction::Impact => timed.partition_point(|t| t.span.end >= moment),
                        }
                }
            };
            if let Some(new) = touches.get(e.followed..admitted) {
                pending.extend(new.iter().map(|touch| Pending {
                    execution: *id,
                    node: e.node,
                    touch: *touch,
                }));
                e.followed = admitted;
            }
        }
        pending
    }

    /// Turns a touch of an execution into versions, and new versions into executions to continue from.
    fn resolve(&mut self, p: &Pending, next: &mut Vec<VertexId>) {
        let id = p.touch.data;
        let Some(vertex) = self.vertex(id) else {
            self.mark(p.node);
            return;
        };
        let level = self.round;
        let edge = self.edge(p.touch.edge);
        let Some(data) = self.data.get(&id) else {
            let version = match self.direction {
                Direction::Lineage => None,
                Direction::Impact => self.loaded.get(p.touch.edge as usize).map(|e| e.version),
            };
            let node = self.leaf(vertex, version, level);
            self.mark(node);
            self.link(p.node, node, edge, false);
            return;
        };
        let found = match self.direction {
            Direction::Lineage => {
                let seen = data.writes.visible_to(p.touch.span, Some(p.execution));
                groups(&data.writes, &seen)
            }
            Direction::Impact => {
                let written = self.loaded.get(p.touch.edge as usize).map(|e| {
                    let towards = self.schema.inverse(e.key.edge_type);
                    let write = data.written.get(&(p.execution, towards, e.version));
                    (write.copied().into_iter().collect(), Some(e.version), false)
                });
                written.into_iter().collect()
            }
        };
        for (writes, version, concurrent) in found {
            let (node, new) = self.version_node(vertex, id, writes.clone(), version, level);
            self.link(p.node, node, edge, concurrent);
            if new {
                let executions_of = self.executions_of(id, &writes);
                self.expand(node, executions_of, next);
            }
        }
    }

    /// Returns the writers (lineage) or readers (impact) of a version, made by those writes.
    fn executions_of(&self, id: VertexId, writes: &[u32]) -> Vec<(Event, bool)> {
        let Some(data) = self.data.get(&id) else {
            return Vec::new();
        };
        let writes = writes.iter();
        match self.direction {
            Direction::Lineage => writes
                .filter_map(|w| data.writes.events().get(*w as usize))
                .map(|e| (*e, false))
                .collect(),
            Direction::Impact => writes
                .filter_map(|w| data.seen_by.get(*w as usize))
                .flatten()
                .filter_map(|(r, concurrent)| Some((*data.reads.get(*r as usize)?, *concurrent)))
                .collect(),
        }
    }

    /// Adds the executions that a version leads to.
    fn expand(&mut self, node: u32, executions_of: Vec<(Event, bool)>, next: &mut Vec<VertexId>) {
        let level = self.level(node);
        let stopped = self
            .stop
            .or((Some(level) == self.options.depth).then_some(StopReason::Depth));
        if let (Some(reason), false) = (stopped, executions_of.is_empty()) {
            if let Some(n) = self.nodes.get_mut(node as usize) {
                n.stopped = Some(reason);
            }
            return;
        }
        for (event, concurrent) in executions_of {
            let Some(vertex) = self.vertex(event.execution) else {
                self.mark(node);
                return;
            };
            let edge = self.edge(event.edge);
            let child = self.execution_node(event.execution, vertex, level + 1);
            self.link(node, child, edge, concurrent);
            let admitted = match (event.span.explicit, self.direction) {
                (false, _) => Admitted::All,
                (true, Direction::Lineage) => Admitted::UpTo(event.span.end),
                (true, Direction::Impact) => Admitted::UpTo(event.span.start),
            };
            self.admit(event.execution, child, admitted);
            next.push(event.execution);
        }
    }

    fn admit(&mut self, id: VertexId, node: u32, admitted: Admitted) {
        let e = self.executions.entry(id).or_insert(Execution {
            node,
            touches: None,
            untimed: 0,
            followed: 0,
            admitted,
        });
        e.admitted = match (e.admitted, admitted, self.direction) {
            (Admitted::UpTo(a), Admitted::UpTo(b), Direction::Lineage) => Admitted::UpTo(a.max(b)),
            (Admitted::UpTo(a), Admitted::UpTo(b), Direction::Impact) => Admitted::UpTo(a.min(b)),
            _ => Admitted::All,
        };
    }

    /// Loads the touches of these executions, except those already loaded.
    fn load_executions(&mut self, ids: &[VertexId]) -> Result<()> {
        let ids: Vec<VertexId> = ids
            .iter()
            .filter(|id| self.executions.get(id).is_some_and(|e| e.touches.is_none()))
            .copied()
            .collect();
        let types = match self.direction {
            Direction::Lineage => self.roles.used.clone(),
            Direction::Impact => self.roles.made.clone(),
        };
        let scanned = self.scan(&ids, &types, self.range(), false)?;
        for (i, (id, events)) in ids.iter().zip(scanned.events).enumerate() {
            let mut touches: Vec<Touch> = events
                .into_iter()
                .map(|edge| Touch {
                    data: edge.key.destination,
                    span: Span::of(&edge),
                    edge: self.load(edge),
                })
                .collect();
            let latest = self.direction == Direction::Impact;
            touches.sort_by(|a, b| {
                let by_time = if latest {
                    b.span.end.cmp(&a.span.end)
                } else {
                    a.span.start.cmp(&b.span.start)
                };
                (a.span.explicit.cmp(&b.span.explicit))
                    .then_with(|| {
                        if a.span.explicit {
                            by_time
                        } else {
                            std::cmp::Ordering::Equal
                        }
                    })
                    .then(a.edge.cmp(&b.edge))
            });
            let Some(e) = self.executions.get_mut(id) else {
                continue;
            };
            let node = e.node;
            e.untimed = touches.partition_point(|t| !t.span.explicit);
            // Touches read before the run had to end are valid nevertheless.
            if i < scanned.complete || !touches.is_empty() {
                e.touches = Some(touches);
            }
            if i >= scanned.complete {
                self.mark(node);
            }
        }
        Ok(())
    }

    /// Loads the writes (and for impact the reads) of data objects. An object that could not be loaded completely is left out:
    /// without all writes it is unknown which one a read saw.
    fn load_data(&mut self, ids: &[VertexId]) -> Result<()> {
        let mut types = self.roles.made_by.clone();
        if self.direction == Direction::Impact {
            types.extend(&self.roles.used_by);
        }
        let scanned = self.scan(ids, &types, self.range(), false)?;
        let complete = scanned.complete;
        for (id, events) in ids.iter().zip(scanned.events).take(complete) {
            let mut data = DataEvents::default();
            let mut writes = Vec::new();
            let mut kinds = Vec::new();
            for edge in events {
                let (edge_type, lineage) =
                    (edge.key.edge_type, self.direction == Direction::Lineage);
                let wrote = self.roles.made_by.contains(&edge_type);
                let event = Event {
                    execution: edge.key.destination,
                    span: Span::of(&edge),
                    version: edge.version,
                    edge: if wrote && !lineage {
                        kinds.push(edge_type);
                        index(kinds.len() - 1)
                    } else {
                        self.load(edge)
                    },
                };
                if wrote {
                    writes.push(event);
                } else {
                    data.reads.push(event);
                }
            }
            data.writes = Writes::new(writes);
            if self.direction == Direction::Impact {
                data.index_impact(&kinds);
            }
            self.data.insert(*id, data);
        }
        Ok(())
    }

    fn range(&self) -> Versions {
        Versions::Range(VersionRange {
            from: Version::ZERO,
            until: self.options.as_of.next(),
        })
    }

    /// Scans edges in one batch call. Ends early, and sets `stop`, if a budget is exhausted or the caller cancels.
    fn scan(
        &mut self,
        frontier: &[VertexId],
        types: &[EdgeTypeId],
        versions: Versions,
        free: bool,
    ) -> Result<Scanned> {
        let mut events: Vec<Vec<Edge>> = Vec::new();
        events.resize_with(frontier.len(), Vec::new);
        let mut scanned = Scanned {
            events,
            complete: 0,
        };
        if frontier.is_empty() || (self.stop.is_some() && !free) {
            return Ok(scanned);
        }
        if self.cancel.cancelled() {
            self.stop = Some(self.cancel.reason());
            return Ok(scanned);
        }
        let select = EdgeSelect {
            types: types.to_vec(),
            versions,
            properties: true,
            after: None,
        };
        let (mut at, mut seen, mut bytes) = (0, self.edges_seen, self.bytes);
        let mut stop = None;
        let mut retracted: Option<EdgeKey> = None;
        let over = |n: u64, limit: Option<u64>| !free && limit.is_some_and(|l| n > l);
        self.graph.scan_edges(frontier, &select, &mut |i, edge| {
            at = i;
            seen += 1;
            if seen.is_multiple_of(CANCEL_EVERY) && self.cancel.cancelled() {
                stop = Some(self.cancel.reason());
            } else if over(seen, self.options.edges) {
                stop = Some(StopReason::Edges);
            }
            if stop.is_some() {
                return Flow::Break(());
            }
            // Newest first: versions after a deletion are retracted by it.
            if edge.deleted {
                retracted = Some(edge.key);
            } else if retracted != Some(edge.key)
                && let Some(list) = scanned.events.get_mut(i)
            {
                bytes += weight(&edge);
                if over(bytes, self.options.bytes) {
                    stop = Some(StopReason::Bytes);
                    return Flow::Break(());
                }
                list.push(edge);
            }
            Flow::Continue(())
        })?;
        (self.edges_seen, self.bytes) = (seen, bytes);
        scanned.complete = if stop.is_some() { at } else { frontier.len() };
        self.stop = self.stop.or(stop);
        Ok(scanned)
    }
}

/// Approximate memory of an edge, in bytes.
fn weight(edge: &Edge) -> u64 {
    fn value(v: &Value) -> u64 {
        match v {
            Value::String(s) => s.len() as u64,
            Value::Bytes(b) => b.len() as u64,
            Value::List(items) => items.iter().map(|i| 32 + value(i)).sum(),
            _ => 0,
        }
    }
    let properties: u64 = edge
        .properties
        .iter()
        .map(|(n, v)| 64 + n.len() as u64 + value(v))
        .sum();
    256 + properties
}

/// Converts an index to 32 bits; memory is exhausted long before the limit.
fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
