//! Errors of this crate.

use datafusion::error::DataFusionError;

/// An error of a query over workers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid or failed query.
    #[error(transparent)]
    Query(#[from] esker_rdf::Error),
    /// The workers do not hold every part exactly once.
    #[error("{0}")]
    Parts(String),
    /// A worker does not answer, or answers with something other than this protocol.
    #[error("worker {address}: {why}")]
    Worker {
        /// Address of the worker.
        address: String,
        /// Cause and remedy.
        why: String,
    },
    /// Failure while the workers solved the query.
    #[error("the workers gave no answer: {0}")]
    Solving(String),
}

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<DataFusionError> for Error {
    fn from(e: DataFusionError) -> Self {
        // The innermost cause says what happened; the outer ones are steps of the plan.
        Self::Solving(e.find_root().to_string())
    }
}
