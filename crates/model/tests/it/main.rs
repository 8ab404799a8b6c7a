//! Tests of the public data model: golden cases of the chain syntax, laws of every encoding.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::format_collect, reason = "short strings, in tests")]
#![allow(clippy::many_single_char_names, reason = "laws are read as formulas")]

mod cases;
mod filters;
mod keys;
mod names;
mod plain_filter;
mod records;
mod schemas;
mod strategies;
mod traversals;
mod values;
mod versions;
