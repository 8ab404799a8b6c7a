//! Random histories of a database: writes, compactions, restarts and crashes.
//!
//! A history is a list of seeds, one per step, so that it can be shortened: [`History::minimise`] drops steps as long
//! as it still fails, and so do proptest's strategies. Explicit versions are from a few slots around the simulated
//! clock, so that they coincide: in the past, in the future, and with each other.

mod generate;
mod traversals;

pub use generate::batch;
pub use traversals::traversal;

use crate::rng::Rng;
use crate::test_graph::TestGraph;
use esker_model::{Batch, Mutation, Version};
use proptest::prelude::{Strategy, any};

/// Start time of the simulated clock, in milliseconds.
pub const START_MILLIS: u64 = 1_000_000;

/// One event in the life of a database.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A batch is applied.
    Apply(Batch),
    /// Batches arrive at once: all but the first are committed together.
    Group(Vec<Batch>),
    /// A bulk load; changes that the model refuses are left out.
    Bulk(Vec<Mutation>),
    /// Retention is applied from a version on.
    Compact(Version),
    /// `check` runs, and must find exactly what the model finds.
    Check,
    /// Everything so far is made durable.
    Persist,
    /// The database is closed and opened again.
    Close,
    /// The database is dropped without being closed, and opened again.
    Drop,
    /// Power fails; this percentage of the unsynced commits survives.
    Crash(usize),
    /// The clock moves by a number of milliseconds, possibly backwards.
    Clock(i64),
}

/// A sequence of steps, as the seeds that they are made from.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// Seeds, one per step.
    pub seeds: Vec<u64>,
}

impl History {
    /// Creates a history of `steps` steps.
    pub fn new(seed: u64, steps: usize) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            seeds: (0..steps).map(|_| rng.next()).collect(),
        }
    }

    /// Generates the steps with their seeds.
    pub fn steps<'a>(&'a self, graph: &'a TestGraph) -> impl Iterator<Item = (u64, Step)> + 'a {
        self.seeds
            .iter()
            .map(|seed| (*seed, generate::step(graph, &mut Rng::new(*seed))))
    }

    /// Returns a proptest strategy for histories.
    pub fn strategy(steps_max: usize) -> impl Strategy<Value = Self> {
        proptest::collection::vec(any::<u64>(), 1..=steps_max).prop_map(|seeds| Self { seeds })
    }

    /// Drops steps as long as `fails` still returns true.
    #[must_use]
    pub fn minimise(mut self, fails: &mut dyn FnMut(&Self) -> bool) -> Self {
        let mut chunk = self.seeds.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < self.seeds.len() {
                let mut shorter = self.clone();
                shorter.seeds.drain(at..(at + chunk).min(self.seeds.len()));
                if fails(&shorter) {
                    self = shorter;
                } else {
                    at += chunk;
                }
            }
            chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
        }
        self
    }
}
