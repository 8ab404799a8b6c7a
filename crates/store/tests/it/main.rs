//! Tests of the in-memory and the fault-injecting store, by the conformance suite and on their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fault;
mod memory;
mod segment;
