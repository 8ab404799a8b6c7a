//! What the console shows, worked out here: pictures with everything in its place, tables, numbers. And the pages themselves,
//! which `web/` is built into.
//!
//! A page asks one question and draws the answer. What is looked at, and how much of it, is limited in each function; an
//! answer that is not whole says so ([`Stopped`]).
//!
//! Start with [`lineage::picture`].

pub mod around;
pub mod assets;
pub mod complete;
pub mod label;
pub mod layout;
pub mod lineage;
pub mod names;
pub mod ro_crate;
pub mod runs;
pub mod spread;
pub mod value;

use serde::Serialize;

/// An answer that is not whole: why, and what was looked at until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// `limit`, `time`, `bytes`, `interrupted`, …
    pub reason: String,
    /// Things looked at.
    pub looked_at: u64,
}
