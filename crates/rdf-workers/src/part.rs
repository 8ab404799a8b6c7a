//! A part of the data, as a worker holds it.

use esker_rdf::{Dataset, Part};
use std::sync::Arc;

/// What a worker answers from.
#[derive(Debug, Clone)]
pub struct Held {
    /// The data of the part, which does not change.
    pub data: Arc<Dataset>,
    /// Which part it is.
    pub part: Part,
    /// Bytes that a star's intermediate results may have.
    pub memory: usize,
    /// Threads that a star may have.
    pub threads: usize,
    /// Rows of a batch.
    pub batch: usize,
}

impl Held {
    /// With 4 GiB, one thread and 8,192 rows a batch.
    pub const fn new(data: Arc<Dataset>, part: Part) -> Self {
        Self {
            data,
            part,
            memory: 4 << 30,
            threads: 1,
            batch: 8192,
        }
    }
}
