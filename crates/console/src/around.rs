//! What lies around a vertex, whatever the edges: many dots, each in its place.
//!
//! The walk's tree is drawn as discs within discs: what leads no further lies packed around what it was reached from, as the seeds of a
//! sunflower do (Vogel 1979); what leads further has a disc of its own on a ring around that (a balloon tree, Carrière and Kazman
//! 1995). It takes time in proportion to the dots, and the same neighbourhood looks the same each time.

use crate::label;
use esker_model::{
    Cancel, EdgeSelect, EdgeTypeId, Error, GraphRead, Result, Version, Versions, VertexId,
};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::f64::consts::{PI, TAU};
use std::ops::ControlFlow;
use std::time::Instant;

/// Dots of one picture, at most.
pub const DOTS_MAX: usize = 20_000;
/// Lines for each dot, on average, at most.
const LINES_PER_DOT: usize = 4;
/// Vertices that are counted as held back; more are "at least so many".
const COUNTED_MAX: usize = 1 << 18;
/// How far, at most.
pub const DEPTH_MAX: u32 = 6;

/// Vertices and edges around one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Around {
    /// The first is the one that was asked for.
    pub vertices: Vec<Dot>,
    /// From, to, and the number of the edge's type in `types`.
    pub edges: Vec<(u32, u32, u32)>,
    /// Names of edge types.
    pub types: Vec<String>,
    /// Vertices that were met and are not shown.
    pub held_back: u64,
    /// Whether there are more than that.
    pub held_back_more: bool,
    /// Edges between shown vertices that are not.
    pub edges_held_back: u64,
    /// What all took.
    pub micros: u64,
}

/// A vertex.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dot {
    /// Its name.
    pub id: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Short.
    pub label: String,
    /// From left to right; the middle of the first is 0, the least distance of two about 1.
    pub x: f64,
    /// From bottom to top.
    pub y: f64,
    /// Edges of the picture that it has.
    pub degree: u32,
    /// Steps from the first.
    pub depth: u32,
}

struct Met {
    id: VertexId,
    parent: usize,
    depth: u32,
}

/// Walks and draws.
///
/// # Errors
/// If the vertex is not there; or as reading fails.
pub fn around(
    graph: &dyn GraphRead,
    focus: VertexId,
    (depth, limit): (u32, usize),
    as_of: Version,
    cancel: &dyn Cancel,
) -> Result<Around> {
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
    };
    let mut met = vec![Met {
        id: focus,
        parent: 0,
        depth: 0,
    }];
    let mut places = HashMap::from([(focus, 0_usize)]);
    let mut held: HashSet<VertexId> = HashSet::new();
    // Each edge stands with both its ends; once is enough.
    let mut seen: HashSet<(usize, usize, EdgeTypeId)> = HashSet::new();
    let mut lines: Vec<(usize, usize, EdgeTypeId)> = Vec::new();
    let mut edges_held_back = 0_u64;
    let mut level = 0..1_usize;
    for at in 0..depth.min(DEPTH_MAX) {
        let frontier: Vec<VertexId> = met[level.clone()].iter().map(|m| m.id).collect();
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
                None if met.len() < limit => {
                    let to = met.len();
                    places.insert(next, to);
                    held.remove(&next);
                    met.push(Met {
                        id: next,
                        parent: from,
                        depth: at + 1,
                    });
                    to
                }
                None => {
                    held.insert(next);
                    let enough = held.len() >= COUNTED_MAX || cancel.cancelled();
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
        level = level.end..met.len();
    }
    let ids: Vec<VertexId> = met.iter().map(|m| m.id).collect();
    let found = graph.read_vertices(&ids, as_of)?;
    let parents: Vec<usize> = met.iter().map(|m| m.parent).collect();
    let drawn = draw(&parents);
    let mut degrees = vec![0_u32; met.len()];
    for (from, to, _) in &lines {
        degrees[*from] += 1;
        degrees[*to] += 1;
    }
    let dots = met
        .iter()
        .zip(&found)
        .enumerate()
        .map(|(n, (one, vertex))| {
            let told = label::of(one.id, vertex.as_ref(), &schema);
            Dot {
                id: told.name,
                type_name: told.type_name,
                label: told.label,
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
    Ok(Around {
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
        held_back_more: held.len() >= COUNTED_MAX,
        held_back: held.len() as u64,
        edges_held_back,
        micros: u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
    })
}

/// Places of a tree whose vertices stand behind their parents; the first is its own.
fn draw(parents: &[usize]) -> Vec<(f64, f64)> {
    let count = parents.len();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (n, parent) in parents.iter().enumerate().skip(1) {
        children[*parent].push(n);
    }
    // How large the disc of each is, and the ring on which its children's discs lie: leaves first.
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
        // Wide enough that none touches the seeds, and that all have room beside each other.
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
        let spare = (TAU - total).max(0.0);
        let discs = children[n].iter().filter(|c| !children[**c].is_empty());
        let gap = spare / discs.count().max(1) as f64;
        let (mut at, mut seed) = (facing[n], 0);
        for child in &children[n] {
            if children[*child].is_empty() {
                seed += 1;
                // The golden angle: neighbours are about as far from each other everywhere.
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

/// How far from the middle that seed lies.
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

/// The angle that a disc takes on a ring.
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
