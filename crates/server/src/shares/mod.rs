//! Fair shares of threads among clients: whose job runs next, and who may use the network threads.

mod inline;
mod queue;
#[cfg(test)]
mod simulation;

pub(crate) use inline::InlineUse;
pub(crate) use queue::{FairQueue, Started, Taker};

use std::sync::Arc;

/// Weight of a client without a weight of its own.
pub(crate) const WEIGHT: u32 = 1;
/// Largest weight of a client.
pub(crate) const WEIGHT_MAX: u32 = 1_000;

/// A client whose jobs take turns with those of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    /// Identity of the client.
    pub(crate) client: Arc<str>,
    /// Its part of the threads, relative to the weights of others.
    pub(crate) weight: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            client: Arc::default(),
            weight: WEIGHT,
        }
    }
}
