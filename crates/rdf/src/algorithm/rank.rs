//! `PageRank`, by iteration.

use super::{Network, Stop, check};
use crate::error::{Error, Result};

/// How ranks are found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// With which probability an edge is followed; else one begins anywhere.
    pub damping: f64,
    /// The sum of all changes below which it is done.
    pub tolerance: f64,
    /// Rounds after which it gives up.
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

/// The rank of each vertex, and in how many rounds they were found. They sum up to 1. Who has no edge out of it leads
/// everywhere.
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
