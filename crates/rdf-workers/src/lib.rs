//! SPARQL over several processes. The data is partitioned by the hash of the subject, one part per worker; Apache `DataFusion`
//! (`datafusion-distributed`) exchanges rows between workers and joins them.
//!
//! A basic graph pattern is split into *stars*: triple patterns with one subject. All solutions of a star are in the part that holds its
//! subject, so each worker solves a star on its own part with the operators of `esker-rdf`; this is the leaf of the plan. The distributed
//! engine joins stars on 16-byte keys of terms; texts are transferred only where the result needs them. The coordinator evaluates the rest
//! of the query on the solutions with `esker-rdf`, so an answer equals that of a single process. Queries with other parts (property paths,
//! DESCRIBE, some patterns within `GRAPH ?g`) are evaluated by the coordinator on all triples that the query can match.

mod column;
mod coordinator;
mod error;
mod expression;
mod gather;
#[doc(hidden)]
pub mod hostile;
mod leaf;
mod part;
mod plan;
mod rewrite;
mod secret;
mod star;
mod table;
mod visit;
mod wire;
mod worker;

pub use coordinator::{Coordinator, Prepared, Settings};
pub use error::{Error, Result};
pub use part::WorkerData;
pub use secret::Secret;
pub use worker::{Listener, WorkerInfo};
