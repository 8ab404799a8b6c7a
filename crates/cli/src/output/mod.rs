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

pub(crate) use cell::{Cell, quote, value_text};
pub(crate) use figures::figures;
pub(crate) use json::{properties_json, vertex_attributes_json};
pub(crate) use object::{ObjectColumn, attribute_text};
pub(crate) use report::report;
pub(crate) use rows::Rows;
pub(crate) use style::Style;
