//! The part of the data that a worker holds.

use esker_rdf::{Dataset, Part};
use std::sync::Arc;

/// Data and limits of a worker.
#[derive(Debug, Clone)]
pub struct WorkerData {
    /// Immutable data of the part.
    pub data: Arc<Dataset>,
    /// Number of the part.
    pub part: Part,
    /// Limit of a star's intermediate results, in bytes.
    pub memory: usize,
    /// Threads that solve one star.
    pub threads: usize,
    /// Rows of a result batch.
    pub batch: usize,
}

impl WorkerData {
    /// Creates the data of a worker, with 4 GiB of memory, one thread and 8,192 rows per batch.
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
