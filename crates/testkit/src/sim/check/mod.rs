//! Checks whether the observed history is possible.
//!
//! [`batches`] determines which batches were applied and when, and replays them in the model in that order.
//! [`responses`] checks that every response is the model's as of a version that its client could see. [`rows`] looks
//! below the nodes: on which server each row is, and whether both directions of each edge agree.

pub mod batches;
pub mod responses;
pub mod rows;

/// Descriptions of errors; empty without errors.
pub type Findings = Vec<String>;
