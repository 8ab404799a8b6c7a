//! Triangles of the undirected graph.

use super::{AdjacencyLists, Network, Stop, check};
use crate::error::Result;

/// Returns the number of triangles that contain each vertex.
pub fn triangles(network: &Network, stop: Stop<'_>) -> Result<Vec<u64>> {
    let n = network.len();
    // Each edge is directed away from its end of lower degree, which bounds the length of the lists.
    let weight = |v: u32| (network.both.of(v as usize).len(), v);
    let mut edges: Vec<(u32, u32)> = Vec::new();
    for v in 0..n as u32 {
        let up = network.both.of(v as usize).iter();
        edges.extend(up.filter(|w| weight(v) < weight(**w)).map(|w| (v, *w)));
    }
    let rows = AdjacencyLists::new(n, &edges);
    let mut counts = vec![0; n];
    for v in 0..n {
        if v % 4096 == 0 {
            check(stop)?;
        }
        let mine = rows.of(v);
        for w in mine {
            let theirs = rows.of(*w as usize);
            let (mut i, mut j) = (0, 0);
            while let (Some(a), Some(b)) = (mine.get(i), theirs.get(j)) {
                if a == b {
                    counts[v] += 1;
                    counts[*w as usize] += 1;
                    counts[*a as usize] += 1;
                }
                i += usize::from(a <= b);
                j += usize::from(b <= a);
            }
        }
    }
    Ok(counts)
}
