//! Communities of the undirected graph by the Louvain method: vertices move to the community with the highest gain in modularity,
//! communities become vertices, and so on.

use super::components::by_size;
use super::{Network, Stop, check};
use crate::error::Result;

/// Communities and their quality.
#[derive(Debug, Clone, PartialEq)]
pub struct Communities {
    /// Number of each vertex's community, by decreasing size: the largest community is 0.
    pub of: Vec<u32>,
    /// Number of communities found.
    pub count: usize,
    /// Modularity: the fraction of edges within communities, minus the fraction expected by chance.
    pub modularity: f64,
}

/// Limit of rounds in which vertices move: each round increases the modularity, the last ones by little.
const ROUNDS: usize = 100;
/// Minimum gain for a move.
const GAIN: f64 = 1e-10;

/// A weighted graph. An edge is stored at both ends; a self-loop is stored once, with twice its weight.
struct Level {
    offsets: Vec<usize>,
    edges: Vec<(u32, f64)>,
    /// Total weight of the edges of each vertex.
    degree: Vec<f64>,
}

impl Level {
    fn of(&self, v: usize) -> &[(u32, f64)] {
        &self.edges[self.offsets[v]..self.offsets[v + 1]]
    }

    fn len(&self) -> usize {
        self.degree.len()
    }

    /// Returns the graph whose vertices are the communities.
    fn joined(&self, community: &[u32], count: usize) -> Self {
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (v, c) in community.iter().enumerate() {
            members[*c as usize].push(v as u32);
        }
        let mut next = Self {
            offsets: vec![0],
            edges: Vec::new(),
            degree: Vec::with_capacity(count),
        };
        let mut weights = vec![0.0; count];
        for list in members {
            let mut touched = Vec::new();
            let mut degree = 0.0;
            for v in list {
                degree += self.degree[v as usize];
                for (w, weight) in self.of(v as usize) {
                    let c = community[*w as usize];
                    if weights[c as usize] == 0.0 {
                        touched.push(c);
                    }
                    weights[c as usize] += weight;
                }
            }
            touched.sort_unstable();
            for c in touched {
                next.edges
                    .push((c, std::mem::take(&mut weights[c as usize])));
            }
            next.offsets.push(next.edges.len());
            next.degree.push(degree);
        }
        next
    }
}

/// Finds communities; deterministic for a graph.
pub fn communities(network: &Network, stop: Stop<'_>) -> Result<Communities> {
    let n = network.len();
    let mut level = Level {
        offsets: vec![0],
        edges: Vec::new(),
        degree: Vec::with_capacity(n),
    };
    for v in 0..n {
        let list = network.both.of(v);
        level.edges.extend(list.iter().map(|w| (*w, 1.0)));
        level.offsets.push(level.edges.len());
        level.degree.push(list.len() as f64);
    }
    let total: f64 = level.degree.iter().sum();
    let mut of: Vec<u32> = (0..n as u32).collect();
    let mut modularity = 0.0;
    if total > 0.0 {
        loop {
            let (community, count) = moved(&level, total, stop)?;
            for c in &mut of {
                *c = community[*c as usize];
            }
            let before = level.len();
            level = level.joined(&community, count);
            if count == before {
                break;
            }
        }
        for v in 0..level.len() {
            let within: f64 = level
                .of(v)
                .iter()
                .filter(|e| e.0 == v as u32)
                .map(|e| e.1)
                .sum();
            modularity += within / total - (level.degree[v] / total).powi(2);
        }
    }
    let of = by_size(&of);
    let count = of.iter().max().map_or(0, |m| *m as usize + 1);
    Ok(Communities {
        of,
        count,
        modularity,
    })
}

/// Moves vertices until no move gains modularity. Returns their communities, numbered densely, and the number of communities.
fn moved(level: &Level, total: f64, stop: Stop<'_>) -> Result<(Vec<u32>, usize)> {
    let n = level.len();
    let mut community: Vec<u32> = (0..n as u32).collect();
    let mut sums = level.degree.clone();
    let mut weights = vec![0.0; n];
    for _ in 0..ROUNDS {
        let mut gained = false;
        for v in 0..n {
            if v % 4096 == 0 {
                check(stop)?;
            }
            let mine = community[v];
            let mut touched = vec![mine];
            for (w, weight) in level.of(v) {
                if *w as usize == v {
                    continue;
                }
                let c = community[*w as usize];
                if weights[c as usize] == 0.0 && c != mine {
                    touched.push(c);
                }
                weights[c as usize] += weight;
            }
            let degree = level.degree[v];
            sums[mine as usize] -= degree;
            let worth = |c: u32| weights[c as usize] - sums[c as usize] * degree / total;
            let mut best = (worth(mine), mine);
            touched.sort_unstable();
            for c in &touched {
                let here = worth(*c);
                if here > best.0 + GAIN {
                    best = (here, *c);
                }
            }
            for c in touched {
                weights[c as usize] = 0.0;
            }
            sums[best.1 as usize] += degree;
            if best.1 != mine {
                community[v] = best.1;
                gained = true;
            }
        }
        if !gained {
            break;
        }
    }
    let mut numbers = vec![u32::MAX; n];
    let mut count = 0;
    for c in &mut community {
        let number = &mut numbers[*c as usize];
        if *number == u32::MAX {
            *number = count;
            count += 1;
        }
        *c = *number;
    }
    Ok((community, count as usize))
}
