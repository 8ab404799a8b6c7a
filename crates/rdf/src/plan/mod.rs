//! From the text of a query to what is executed.

mod certain;
mod filter;
mod node;
mod order;
mod pattern;
mod translate;

pub use node::{Aggregate, Group, Node, Path, Service};
pub(crate) use order::order;
pub use pattern::{Pos, Triple};
pub use translate::{Names, Translator};
