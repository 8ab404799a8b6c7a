//! Neighbourhood of a vertex over all edge types, drawn as dots.
//!
//! The traversal's tree is drawn as discs within discs: leaves are packed around their parent like the seeds of a sunflower
//! (Vogel 1979); each inner vertex has a disc of its own on a ring around that (a balloon tree, Carrière and Kazman
//! 1995). The layout takes time linear in the number of dots and is deterministic.

use crate::label;
use esker_model::{
    Cancel, EdgeSelect, EdgeTypeId, Error, GraphRead, Result, Version, Versions, VertexId,
};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::f64::consts::{PI, TAU};
use std::ops::ControlFlow;
use std::time::Instant;

/// Maximum number of dots of one picture.
pub const DOTS_MAX: usize = 20_000;
/// Maximum number of lines per dot, on average.
const LINES_PER_DOT: usize = 4;
/// Maximum number of omitted vertices that are counted; beyond it, the count is a lower bound.
const COUNTED_MAX: usize = 1 << 18;
/// Maximum depth of the traversal.
pub const DEPTH_MAX: u32 = 6;

/// Neighbourhood of a vertex as a picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbourhood {
    /// Shown vertices; the first is the focus.
    pub vertices: Vec<Dot>,
    /// Edges as indexes of source and destination in `vertices`, and of the edge type in `types`.
    pub edges: Vec<(u32, u32, u32)>,
    /// Names of edge types.
    pub types: Vec<String>,
    /// Number of reached vertices that are not shown.
    pub held_back: u64,
    /// Whether `held_back` is only a lower bound.
    pub held_back_more: bool,
    /// Number of edges between shown vertices that are not shown.
    pub edges_held_back: u64,
    /// Total time in microseconds.
    pub micros: u64,
}

/// A vertex of the picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dot {
    /// Name of the vertex.
    pub id: String,
    /// Name of its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Short label for display.
    pub label: String,
    /// Horizontal position; the focus is at 0, the minimum distance of two dots is about 1.
    pub x: f64,
    /// Vertical position, increasing upwards.
    pub y: f64,
    /// Number of its shown edges.
    pub degree: u32,
    /// Number of steps from the focus.
    pub depth: u32,
}

struct Reached {
    id: VertexId,
    parent: usize,
    depth: u32,
}

/// Traverses the neighbourhood of `focus` and lays it out.
///
/// # Errors
/// Returns `NoVertex` if the vertex does not exist; passes on read errors.
pub fn picture(
    graph: &dyn GraphRead,
    focus: VertexId,
    (depth, limit): (u32, usize),
    as_of: Version,
    cancel: &dyn Cancel,
) -> Result<Neighbourhood> {
    let begun = Instant::now();
    let schema = graph.schema()?;
    let limit = limit.clamp(1, DOTS_MAX);
    if graph
        .read_vertices(&[focus], as_of)?
        .iter()
        .all(Option::is_none)
    {
        return Err(Error::NoVertex {
            name: focus.to_string(),
            hint: String::new(),
        });
    }
    let select = EdgeSelect {
        types: Vec::new(),
        versions: Versions::AsOf(as_of),
        properties: false,
        after: None,
    };
    let mut reached = vec![Reached {
        id: focus,
        parent: 0,
        depth: 0,
    }];
    let mut places = HashMap::from([(focus, 0_usize)]);
    let mut omitted: HashSet<VertexId> = HashSet::new();
    // Each edge is stored at both ends; one line is enough.
    let mut seen: HashSet<(usize, usize, EdgeTypeId)> = HashSet::new();
    let mut lines: Vec<(usize, usize, EdgeTypeId)> = Vec::new();
    let mut edges_held_back = 0_u64;
    let mut level = 0..1_usize;
    for at in 0..depth.min(DEPTH_MAX) {
        let frontier: Vec<VertexId> = reached[level.clone()].iter().map(|m| m.id).collect();
        if frontier.is_empty() || cancel.cancelled() {
            break;
        }
        let first = level.start;
        graph.scan_edges(&frontier, &select, &mut |n, edge| {
            if edge.deleted {
                return ControlFlow::Continue(());
            }
            let from = first + n;
            let next = edge.key.destination;
            let to = match places.get(&next) {
                Some(to) => *to,
                None if reached.len() < limit => {
                    let to = reached.len();
                    places.insert(next, to);
                    omitted.remove(&next);
                    reached.push(Reached {
                        id: next,
                        parent: from,
                        depth: at + 1,
                    });
                    to
                }
                None => {
                    omitted.insert(next);
                    let enough = omitted.len() >= COUNTED_MAX || cancel.cancelled();
                    return if enough {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    };
                }
            };
            let forward = schema
                .edge_type(edge.key.edge_type)
                .is_none_or(|t| t.forward);
            let line = if forward {
                (from, to, edge.key.edge_type)
            } else {
                (to, from, schema.inverse(edge.key.edge_type))
            };
            if !seen.contains(&line) {
                if lines.len() < limit * LINES_PER_DOT {
                    seen.insert(line);
                    lines.push(line);
                } else {
                    edges_held_back += 1;
                }
            }
            ControlFlow::Continue(())
        })?;
        level = level.end..reached.len();
    }
    let ids: Vec<VertexId> = reached.iter().map(|m| m.id).collect();
    let found = graph.read_vertices(&ids, as_of)?;
    let parents: Vec<usize> = reached.iter().map(|m| m.parent).collect();
    let drawn = draw(&parents);
    let mut degrees = vec![0_u32; reached.len()];
    for (from, to, _) in &lines {
        degrees[*from] += 1;
        degrees[*to] += 1;
    }
    let dots = reached
        .iter()
        .zip(&found)
        .enumerate()
        .map(|(n, (one, vertex))| {
            let label = label::of(one.id, vertex.as_ref(), &schema);
            Dot {
                id: label.name,
                type_name: label.type_name,
                label: label.label,
                x: drawn[n].0,
                y: drawn[n].1,
                degree: degrees[n],
                depth: one.depth,
            }
        });
    let vertices: Vec<Dot> = dots.collect();
    let mut types: Vec<EdgeTypeId> = lines.iter().map(|(_, _, t)| *t).collect();
    types.sort_unstable();
    types.dedup();
    let place = |t: &EdgeTypeId| types.binary_search(t).unwrap_or_default() as u32;
    let edges = lines
        .iter()
        .map(|(from, to, t)| (*from as u32, *to as u32, place(t)));
    Ok(Neighbourhood {
        vertices,
        edges: edges.collect(),
        types: types
            .iter()
            .map(|t| {
                schema
                    .edge_type(*t)
                    .map_or_else(String::new, |t| t.name.clone())
            })
            .collect(),
        held_back_more: omitted.len() >= COUNTED_MAX,
        held_back: omitted.len() as u64,
        edges_held_back,
        micros: u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
    })
}

/// Returns positions for a tree in which parents precede their children; the first vertex is its own parent.
fn draw(parents: &[usize]) -> Vec<(f64, f64)> {
    let count = parents.len();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (n, parent) in parents.iter().enumerate().skip(1) {
        children[*parent].push(n);
    }
    // Radius of each vertex's disc, and of the ring on which its children's discs lie: leaves first.
    let mut sizes = vec![0.5_f64; count];
    let mut rings = vec![0.0_f64; count];
    for n in (0..count).rev() {
        let leaves = children[n].iter().filter(|c| children[**c].is_empty());
        let seeds = seeds_radius(leaves.count());
        let discs: Vec<f64> = children[n]
            .iter()
            .filter(|c| !children[**c].is_empty())
            .map(|c| sizes[*c])
            .collect();
        let Some(largest) = discs.iter().copied().reduce(f64::max) else {
            sizes[n] = seeds;
            continue;
        };
        // The ring must be wide enough for all discs without touching the seeds.
        let mut ring = seeds + largest + 0.5;
        while discs.iter().map(|d| angle(*d, ring)).sum::<f64>() > TAU {
            ring *= 1.1;
        }
        rings[n] = ring;
        sizes[n] = ring + largest;
    }
    let mut places = vec![(0.0, 0.0); count];
    let mut facing = vec![0.0_f64; count];
    for n in 0..count {
        let (x, y) = places[n];
        let total: f64 = children[n]
            .iter()
            .filter(|c| !children[**c].is_empty())
            .map(|c| angle(sizes[*c], rings[n]))
            .sum();
        let free_angle = (TAU - total).max(0.0);
        let discs = children[n].iter().filter(|c| !children[**c].is_empty());
        let gap = free_angle / discs.count().max(1) as f64;
        let (mut at, mut seed) = (facing[n], 0);
        for child in &children[n] {
            if children[*child].is_empty() {
                seed += 1;
                // The golden angle spreads the seeds evenly.
                let turn = f64::from(seed) * PI * (3.0 - 5.0_f64.sqrt());
                let out = seeds_at(seed as usize);
                places[*child] = (x + out * turn.cos(), y + out * turn.sin());
            } else {
                let width = angle(sizes[*child], rings[n]) + gap;
                let towards = at + width / 2.0;
                at += width;
                places[*child] = (x + rings[n] * towards.cos(), y + rings[n] * towards.sin());
                facing[*child] = towards;
            }
        }
    }
    places
}

/// Returns the distance of a seed from the centre.
fn seeds_at(number: usize) -> f64 {
    0.6 + 0.62 * (number as f64).sqrt()
}

fn seeds_radius(count: usize) -> f64 {
    if count == 0 {
        0.5
    } else {
        seeds_at(count) + 0.5
    }
}

/// Returns the angle that a disc takes on a ring.
fn angle(disc: f64, ring: f64) -> f64 {
    2.0 * (disc / ring).min(1.0).asin()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_two_dots_lie_on_each_other(shape in prop::collection::vec(0_usize..1_000, 0..120)) {
            let mut parents = vec![0];
            for (n, parent) in shape.iter().enumerate() {
                parents.push(parent % (n + 1));
            }
            let places = draw(&parents);
            for (i, a) in places.iter().enumerate() {
                prop_assert!(a.0.is_finite() && a.1.is_finite());
                for b in &places[..i] {
                    let apart = (a.0 - b.0).hypot(a.1 - b.1);
                    prop_assert!(apart > 0.3, "{} apart", apart);
                }
            }
        }
    }

    #[test]
    fn a_hub_is_a_disc() {
        let parents = vec![0; 5_000];
        let places = draw(&parents);
        let far = places.iter().map(|p| p.0.hypot(p.1)).fold(0.0, f64::max);
        assert!(far < 50.0, "{far}");
    }
}
