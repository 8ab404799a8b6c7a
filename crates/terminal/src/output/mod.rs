//! Output of commands: rows ([`Rows`]) as a table, JSON, NDJSON or CSV; styles for a terminal.
//!
//! This module buffers at most a few hundred rows: a scan of ten million edges prints while it reads.

mod cell;
mod figures;
mod json;
mod object;
mod report;
mod rows;
mod style;

pub use cell::{Cell, quote, value_text};
pub use figures::figures;
pub use json::{properties_json, vertex_attributes_json};
pub use object::{ObjectColumn, attribute_text};
pub use report::report;
pub use rows::Rows;
pub use style::Style;
