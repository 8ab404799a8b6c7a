//! Tests of the store on fjall: the conformance suite, crashes, and behaviour particular to fjall.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod crash;
mod open;
