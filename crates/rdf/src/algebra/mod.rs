//! Algebra: a query's text as patterns and expressions over term ids and variable numbers.

mod bound_variables;
mod filter;
mod node;
mod pattern;
mod translate;
mod variable_names;

pub use node::{Aggregate, Group, Node, Path, Service};
pub(crate) use pattern::components;
pub use pattern::{Pos, Triple};
pub use translate::Translator;
pub use variable_names::VariableNames;
