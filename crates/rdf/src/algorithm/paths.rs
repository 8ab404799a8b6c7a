//! All shortest paths from one vertex to another.

use super::{Network, Stop, check};
use crate::error::Result;

/// Shortest paths between two vertices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// Paths up to the limit, each from the first vertex to the last, as vertex numbers.
    pub list: Vec<Vec<u32>>,
    /// Number of shortest paths, including those above the limit; saturates at the maximum.
    pub count: u64,
}

/// Finds all shortest paths and returns at most `limit` of them.
pub fn shortest(
    network: &Network,
    from: usize,
    to: usize,
    limit: usize,
    stop: Stop<'_>,
) -> Result<Paths> {
    const FAR: u32 = u32::MAX;
    let n = network.len();
    if from >= n || to >= n {
        return Ok(Paths::default());
    }
    // Breadth-first search backward from the end: a neighbour with a smaller distance is on a shortest path.
    let mut distance = vec![FAR; n];
    let mut counts = vec![0u64; n];
    let mut order = vec![to as u32];
    distance[to] = 0;
    counts[to] = 1;
    let mut at = 0;
    while let Some(v) = order.get(at).copied() {
        at += 1;
        if at % 65_536 == 0 {
            check(stop)?;
        }
        let v = v as usize;
        if distance[v] >= distance[from] {
            break;
        }
        for w in network.into.of(v) {
            let w = *w as usize;
            if distance[w] == FAR {
                distance[w] = distance[v] + 1;
                order.push(w as u32);
            }
            if distance[w] == distance[v] + 1 {
                counts[w] = counts[w].saturating_add(counts[v]);
            }
        }
    }
    let mut found = Paths {
        list: Vec::new(),
        count: counts[from],
    };
    if distance[from] == FAR {
        return Ok(found);
    }
    let mut path = vec![from as u32];
    let mut tried = vec![0usize];
    while let (Some(v), Some(next)) = (path.last().copied(), tried.last_mut()) {
        if found.list.len() >= limit {
            break;
        }
        let v = v as usize;
        if v == to {
            found.list.push(path.clone());
            path.pop();
            tried.pop();
            if found.list.len().is_multiple_of(1024) {
                check(stop)?;
            }
            continue;
        }
        let nearer =
            |w: &u32| distance[*w as usize] != FAR && distance[*w as usize] + 1 == distance[v];
        let targets = network.out.of(v);
        match targets[*next..].iter().position(nearer) {
            Some(i) => {
                *next += i + 1;
                path.push(targets[*next - 1]);
                tried.push(0);
            }
            None => {
                path.pop();
                tried.pop();
            }
        }
    }
    Ok(found)
}
