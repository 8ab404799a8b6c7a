//! The store on fjall: the suite of all back ends, crashes, and what is particular to it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod crash;
mod open;
