//! Traversals on one engine: a chain is planned against the schema, then run hop by hop over whole frontiers.
//!
//! GraphMeta, section 5.3 (synchronous traversal) on one server: each hop expands its frontier once, in batches, and
//! reaches each vertex once; a vertex may be visited again in another hop. Paths are parent pointers, one for each
//! edge followed, so that their memory is proportional to the edges and not to the number of paths.

mod admit;
mod driver;
mod expand;
mod filter;
mod part;
mod paths;
mod plan;
mod run;
mod stop;
mod visited;

pub use driver::{StepOutcome, TraversalDriver, TraversalStep};
pub use part::{
    PartExpansion, PlannedHop, PlannedSegment, TraversalPlan, VisitedNode, assemble_paths,
};
pub use plan::explain;
pub(crate) use run::run;
