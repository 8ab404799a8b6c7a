//! The wire as its two ends rely on it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod generated;
