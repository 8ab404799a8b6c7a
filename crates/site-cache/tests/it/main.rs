//! Integration tests of the site cache, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that has no answer has failed")]

mod cache;
mod predict;
mod queue;
mod replay;
mod tier;
mod trace;
