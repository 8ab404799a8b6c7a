//! Random histories of a database: what was written, when it was compacted, closed, cut off.
//!
//! A history is a list of seeds, one a step, so that it can be shortened: [`History::minimise`] drops steps as long as it
//! still fails, and the strategies of proptest do the same. Versions given explicitly come from a few slots around the
//! simulated clock, so that they meet: in the past, the future, and at the same version.

mod generate;
mod traversals;

pub use generate::batch;
pub use traversals::traversal;

use crate::rng::Rng;
use crate::world::World;
use esker_model::{Batch, Mutation, Version};
use proptest::prelude::{Strategy, any};

/// The simulated clock starts here, in milliseconds.
pub const START_MILLIS: u64 = 1_000_000;

/// One thing that happens to a database.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A batch is applied.
    Apply(Batch),
    /// Batches arrive at once: all but the first are committed together.
    Group(Vec<Batch>),
    /// A bulk load; of its changes, those that the model refuses are left out.
    Bulk(Vec<Mutation>),
    /// Retention from a version on.
    Compact(Version),
    /// Check, which must find nothing but what the model finds.
    Check,
    /// Everything so far is made durable.
    Persist,
    /// Closed and opened again.
    Close,
    /// Dropped without being closed, and opened again.
    Drop,
    /// Power fails: of the commits that were not synced, so many of a hundred survive.
    Crash(usize),
    /// The clock moves by so many milliseconds, perhaps backwards.
    Clock(i64),
}

/// Steps in order, with the seeds that they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// One a step.
    pub seeds: Vec<u64>,
}

impl History {
    /// Of so many steps.
    pub fn new(seed: u64, steps: usize) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            seeds: (0..steps).map(|_| rng.next()).collect(),
        }
    }

    /// What happens.
    pub fn steps<'a>(&'a self, world: &'a World) -> impl Iterator<Item = (u64, Step)> + 'a {
        self.seeds
            .iter()
            .map(|seed| (*seed, generate::step(world, &mut Rng::new(*seed))))
    }

    /// A strategy for proptest.
    pub fn strategy(steps_max: usize) -> impl Strategy<Value = Self> {
        proptest::collection::vec(any::<u64>(), 1..=steps_max).prop_map(|seeds| Self { seeds })
    }

    /// Drops steps as long as `fails` still does.
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
