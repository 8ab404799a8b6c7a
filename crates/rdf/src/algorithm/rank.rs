//! `PageRank` by power iteration.

use super::{Network, Stop, check};
use crate::error::{Error, Result};

/// Parameters of the `PageRank` iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// Probability of following an edge instead of jumping to a random vertex.
    pub damping: f64,
    /// Sum of absolute changes below which the iteration has converged.
    pub tolerance: f64,
    /// Limit of the number of iterations.
    pub rounds: usize,
}

impl Default for Rank {
    fn default() -> Self {
        Self {
            damping: 0.85,
            tolerance: 1e-9,
            rounds: 1000,
        }
    }
}

/// Returns the rank of each vertex and the number of iterations. Ranks sum to 1. A vertex without outgoing edges links to all vertices.
pub fn pagerank(network: &Network, how: Rank, stop: Stop<'_>) -> Result<(Vec<f64>, usize)> {
    let n = network.len();
    if n == 0 {
        return Ok((Vec::new(), 0));
    }
    let each = 1.0 / n as f64;
    let mut rank = vec![each; n];
    let mut share = vec![0.0; n];
    for round in 1..=how.rounds {
        check(stop)?;
        let mut nowhere = 0.0;
        for (v, share) in share.iter_mut().enumerate() {
            let degree = network.out.of(v).len();
            if degree == 0 {
                nowhere += rank[v];
                *share = 0.0;
            } else {
                *share = rank[v] / degree as f64;
            }
        }
        let base = (1.0 - how.damping) * each + how.damping * nowhere * each;
        let mut change = 0.0;
        for (v, rank) in rank.iter_mut().enumerate() {
            let sum: f64 = network.into.of(v).iter().map(|w| share[*w as usize]).sum();
            let new = base + how.damping * sum;
            change += (new - *rank).abs();
            *rank = new;
        }
        if change < how.tolerance {
            return Ok((rank, round));
        }
    }
    Err(Error::Refused(format!(
        "the ranks still change after {} rounds; allow more rounds, or a larger tolerance than {}",
        how.rounds, how.tolerance
    )))
}
