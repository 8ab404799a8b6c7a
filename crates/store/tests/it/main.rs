//! The in-memory store and the fault-injecting one, against the suite and on their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fault;
mod memory;
mod segment;
