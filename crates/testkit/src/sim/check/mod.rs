//! Whether what happened could have happened.
//!
//! [`batches`] finds out which batches were applied and when, and plays them into the model in that order. [`questions`]
//! asks of every answer whether it is the model's as of a time that its client could be shown. [`rows`] looks below the
//! nodes: where each row lies, and whether both halves of each edge agree.

pub mod batches;
pub mod questions;
pub mod rows;

/// What is wrong, in words; nothing if nothing is.
pub type Findings = Vec<String>;
