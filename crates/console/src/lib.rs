//! Data of the web console: layouts, tables and statistics, computed on the server; and the web pages themselves, which are built from
//! `web/`.
//!
//! A page sends one request and draws the response. Each function limits what it reads; an incomplete response says so
//! ([`Stopped`]).
//!
//! Start with [`lineage::picture`].

pub mod assets;
pub mod complete;
pub mod distribution;
pub mod label;
pub mod layout;
pub mod lineage;
pub mod names;
pub mod neighbourhood;
pub mod ro_crate;
pub mod runs;
pub mod value;

use serde::Serialize;

/// Reason why a response is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// One of `limit`, `time`, `bytes`, `interrupted` and others.
    pub reason: String,
    /// Number of items examined until then.
    pub looked_at: u64,
}
