//! Resolution of a chain's names against the schema, and the plan as text.

use super::filter::{EdgeFilter, VertexFilter};
use esker_model::traversal::{Hop, Repeat, Start};
use esker_model::{
    EdgeTypeId, Result, Schema, Traversal, Version, Versions, VertexRef, VertexTypeId,
};
use std::fmt::Write as _;

/// A chain with resolved names, ready to run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) start: PlanStart,
    pub(crate) start_filters: Vec<VertexFilter>,
    pub(crate) segments: Vec<PlanSegment>,
    pub(crate) versions: Versions,
}

#[derive(Debug)]
pub(crate) enum PlanStart {
    Vertices(Vec<VertexRef>),
    Type(VertexTypeId),
}

#[derive(Debug)]
pub(crate) struct PlanSegment {
    pub(crate) hops: Vec<PlanHop>,
    pub(crate) repeat: Option<Repeat>,
}

#[derive(Debug)]
pub(crate) struct PlanHop {
    /// Edge types, sorted; all of the schema for `e()`.
    pub(crate) edge_types: Vec<EdgeTypeId>,
    pub(crate) edge_filters: Vec<EdgeFilter>,
    pub(crate) vertex_filters: Vec<VertexFilter>,
    pub(crate) returned: bool,
    /// Position in the chain, from 1.
    pub(crate) place: u32,
    pub(crate) text: String,
}

impl PlanHop {
    /// Whether complete adjacency lists suffice, because only the ends and the version of an edge are needed.
    pub(crate) fn lists_suffice(&self, versions: Versions) -> bool {
        self.edge_filters.is_empty() && matches!(versions, Versions::AsOf(_))
    }
}

pub(crate) fn plan(schema: &Schema, traversal: &Traversal) -> Result<Plan> {
    traversal.check()?;
    let start = match &traversal.start {
        Start::Vertices(names) => PlanStart::Vertices(
            names
                .iter()
                .map(|n| n.resolve(schema))
                .collect::<Result<_, _>>()?,
        ),
        Start::Type(name) => PlanStart::Type(schema.vertex_type_id(name)?),
    };
    let vertex_filters = |filters: &[_]| -> Result<Vec<_>> {
        filters
            .iter()
            .map(|f| VertexFilter::new(schema, f))
            .collect()
    };
    let mut place = 0;
    let mut hop = |h: &Hop| -> Result<PlanHop> {
        place += 1;
        let mut edge_types: Vec<_> = if h.edge_types.is_empty() {
            schema.edge_types().map(|(t, _)| t).collect()
        } else {
            h.edge_types
                .iter()
                .map(|n| schema.edge_type_id(n))
                .collect::<Result<_, _>>()?
        };
        edge_types.sort_unstable();
        edge_types.dedup();
        Ok(PlanHop {
            edge_types,
            edge_filters: h
                .edge_filters
                .iter()
                .map(|f| EdgeFilter::new(schema, f))
                .collect::<Result<_>>()?,
            vertex_filters: vertex_filters(&h.vertex_filters)?,
            returned: h.returned,
            place,
            text: h.text(),
        })
    };
    let mut segments = Vec::with_capacity(traversal.segments.len());
    for segment in &traversal.segments {
        let hops = segment.hops.iter().map(&mut hop).collect::<Result<_>>()?;
        segments.push(PlanSegment {
            hops,
            repeat: segment.repeat,
        });
    }
    let versions = match traversal.versions {
        Some(range) => Versions::Range(range),
        None => Versions::AsOf(traversal.as_of.unwrap_or(Version::MAX)),
    };
    Ok(Plan {
        start,
        start_filters: vertex_filters(&traversal.start_filters)?,
        segments,
        versions,
    })
}

/// Returns the plan of a traversal as text, one line per step. Fails like running it: on names that the schema lacks.
pub fn explain(schema: &Schema, traversal: &Traversal) -> Result<String> {
    let plan = plan(schema, traversal)?;
    let mut out = String::new();
    let mut line = |indent: usize, text: String| {
        let _ = writeln!(out, "{}{text}", "  ".repeat(indent));
    };
    match &plan.start {
        PlanStart::Vertices(v) => {
            let noun = if v.len() == 1 { "vertex" } else { "vertices" };
            line(0, format!("start: {} {noun} by id", v.len()));
        }
        PlanStart::Type(t) => {
            let names: Vec<_> = schema
                .specialisations(*t)
                .into_iter()
                .map(|t| schema.prefix(t))
                .collect();
            line(0, format!("start: index by type ({})", names.join(", ")));
        }
    }
    for filter in &plan.start_filters {
        line(1, format!("keep vertices where {filter}"));
    }
    if traversal.start_returned {
        line(1, "return this working set".into());
    }
    match plan.versions {
        Versions::AsOf(Version::MAX) => {}
        Versions::AsOf(v) => line(0, format!("read as of {v}")),
        Versions::Range(r) => line(
            0,
            format!("read all versions from {} until {}", r.from, r.until),
        ),
    }
    for segment in &plan.segments {
        let indent = usize::from(segment.repeat.is_some());
        match segment.repeat {
            None => {}
            Some(Repeat { max: None }) => line(0, "repeat until nothing new is reached:".into()),
            Some(Repeat { max: Some(n) }) => line(0, format!("repeat at most {n} times:")),
        }
        for hop in &segment.hops {
            line(indent, format!("hop {}: {}", hop.place, hop.text));
            let names: Vec<_> = hop
                .edge_types
                .iter()
                .filter_map(|t| schema.edge_type(*t))
                .map(|t| t.name.as_str())
                .collect();
            let source = if hop.lists_suffice(plan.versions) {
                "adjacency lists, from the cache or one range scan a vertex"
            } else {
                "one range scan a vertex, with properties"
            };
            line(indent + 1, format!("edges {}: {source}", names.join(", ")));
            for filter in &hop.edge_filters {
                line(
                    indent + 1,
                    format!("keep edges where {filter} (inside the scan)"),
                );
            }
            line(indent + 1, "each vertex reached once".into());
            for filter in &hop.vertex_filters {
                line(
                    indent + 1,
                    format!("keep vertices where {filter} (one row a vertex)"),
                );
            }
            if hop.returned {
                line(indent + 1, "return this working set".into());
            }
        }
    }
    let returns = if traversal.return_paths {
        "whole paths"
    } else {
        "the last working set"
    };
    let any_returned = traversal.start_returned
        || plan
            .segments
            .iter()
            .flat_map(|s| &s.hops)
            .any(|h| h.returned);
    if traversal.return_paths || !any_returned {
        line(0, format!("return {returns}"));
    }
    if let Some(limit) = traversal.limit {
        line(0, format!("stop at {limit} vertices"));
    }
    Ok(out)
}
