//! Weakly and strongly connected components.

use super::{Network, Stop, check};
use crate::error::Result;

/// Steps between two cancellation checks.
const STEPS: usize = 1 << 16;

/// Renumbers components by decreasing size; of equal ones the one with the first vertex comes first.
fn numbered(found: &[u32], count: usize) -> Vec<u32> {
    let mut sizes = vec![0usize; count];
    let mut first = vec![usize::MAX; count];
    for (v, c) in found.iter().enumerate() {
        sizes[*c as usize] += 1;
        first[*c as usize] = first[*c as usize].min(v);
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|c| (std::cmp::Reverse(sizes[*c]), first[*c]));
    let mut numbers = vec![0; count];
    for (n, c) in order.into_iter().enumerate() {
        numbers[c] = n as u32;
    }
    found.iter().map(|c| numbers[*c as usize]).collect()
}

/// Renumbers the clusters of any clustering by decreasing size.
pub(super) fn by_size(found: &[u32]) -> Vec<u32> {
    let count = found.iter().max().map_or(0, |m| *m as usize + 1);
    numbered(found, count)
}

/// Returns the number of each vertex's weakly connected component, by decreasing size.
pub fn weak(network: &Network, stop: Stop<'_>) -> Result<Vec<u32>> {
    const NONE: u32 = u32::MAX;
    let n = network.len();
    let mut found = vec![NONE; n];
    let mut count = 0;
    let mut steps = 0;
    let mut left = Vec::new();
    for v in 0..n {
        if found[v] != NONE {
            continue;
        }
        found[v] = count;
        left.push(v as u32);
        while let Some(x) = left.pop() {
            steps += 1;
            if steps % STEPS == 0 {
                check(stop)?;
            }
            for y in network.both.of(x as usize) {
                if found[*y as usize] == NONE {
                    found[*y as usize] = count;
                    left.push(*y);
                }
            }
        }
        count += 1;
    }
    Ok(numbered(&found, count as usize))
}

/// Returns the number of each vertex's strongly connected component, by decreasing size.
pub fn strong(network: &Network, stop: Stop<'_>) -> Result<Vec<u32>> {
    // Tarjan's algorithm, without recursion.
    const NONE: u32 = u32::MAX;
    let n = network.len();
    let mut index = vec![NONE; n];
    let mut low = vec![0u32; n];
    let mut found = vec![NONE; n];
    let mut stack = Vec::new();
    let (mut next, mut count, mut steps) = (0, 0, 0);
    let mut calls: Vec<(u32, u32)> = Vec::new();
    for root in 0..n {
        if index[root] != NONE {
            continue;
        }
        calls.push((root as u32, 0));
        while let Some((v, edge)) = calls.pop() {
            let v = v as usize;
            steps += 1;
            if steps % STEPS == 0 {
                check(stop)?;
            }
            let targets = network.out.of(v);
            if edge == 0 {
                index[v] = next;
                low[v] = next;
                next += 1;
                stack.push(v as u32);
            } else {
                low[v] = low[v].min(low[targets[edge as usize - 1] as usize]);
            }
            let mut edge = edge as usize;
            let mut deeper = false;
            while let Some(w) = targets.get(edge) {
                let w = *w as usize;
                edge += 1;
                if index[w] == NONE {
                    calls.push((v as u32, edge as u32));
                    calls.push((w as u32, 0));
                    deeper = true;
                    break;
                }
                if found[w] == NONE {
                    low[v] = low[v].min(index[w]);
                }
            }
            if !deeper && low[v] == index[v] {
                while let Some(w) = stack.pop() {
                    found[w as usize] = count;
                    if w as usize == v {
                        break;
                    }
                }
                count += 1;
            }
        }
    }
    Ok(numbered(&found, count as usize))
}
