//! Tests of the network protocol.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod convert;
mod decode;
mod failure;
mod generated;
mod malformed;
mod objects;
