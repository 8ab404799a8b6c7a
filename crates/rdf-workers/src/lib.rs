//! SPARQL over several processes: the data in parts by the hash of the subject, one worker a part; Apache `DataFusion`
//! (`datafusion-distributed`) exchanges rows between them and joins.
//!
//! A basic graph pattern is taken apart into *stars*, triple patterns of one subject. A star's solutions lie wholly in the
//! part that holds its subject, so each worker finds those of its own part by the operators of `esker-rdf`: that is the
//! leaf of the plan. Stars are joined by the distributed engine on 16-byte keys of terms; texts travel only where they are
//! wanted in the end. What a query does with the solutions is done by `esker-rdf` again, at the coordinator, so an answer
//! is the one that a single process gives. What is not done so (paths, DESCRIBE, some patterns within `GRAPH ?g`) is
//! answered at the coordinator from those triples that the query may ask at all.

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
mod walk;
mod wire;
mod worker;

pub use coordinator::{Coordinator, Prepared, Settings};
pub use error::{Error, Result};
pub use part::Held;
pub use secret::Secret;
pub use worker::{About, Listener};
