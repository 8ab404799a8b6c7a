//! Planning: from the text of a query to an executable pattern.

mod bound_variables;
mod filter;
mod node;
mod order;
mod pattern;
mod translate;

pub use node::{Aggregate, Group, Node, Path, Service};
pub(crate) use order::order;
pub use pattern::{Pos, Triple};
pub use translate::{Translator, VariableNames};
