//! What can go wrong.

use datafusion::error::DataFusionError;

/// An error of a query over workers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The query itself.
    #[error(transparent)]
    Query(#[from] esker_rdf::Error),
    /// The workers do not hold all parts, or not each once.
    #[error("{0}")]
    Parts(String),
    /// A worker does not answer, or not as one.
    #[error("worker {address}: {why}")]
    Worker {
        /// Its address.
        address: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// While the workers solved it.
    #[error("the workers gave no answer: {0}")]
    Solving(String),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<DataFusionError> for Error {
    fn from(e: DataFusionError) -> Self {
        // The innermost cause says what happened; what stands around it are steps of the plan.
        Self::Solving(e.find_root().to_string())
    }
}
