//! Execution: plans to solutions in columns.

mod aggregate;
mod bits;
mod context;
mod exists;
mod filter;
mod graph;
mod join;
mod join_all;
mod memory;
mod optional;
pub(crate) mod parallel;
mod path;
mod pattern;
mod profile;
mod rows;
mod run;
pub(crate) mod service;
mod sort;
mod table;

pub(crate) use context::is_local;
pub use context::{Context, Options};
pub use memory::STRING_BYTES_MAX;
pub(crate) use run::run;
pub use service::services_of;
pub(crate) use sort::{by_term, sort_triples};
pub use table::{Row, Table, Var};
