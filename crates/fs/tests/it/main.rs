//! Tests of the library through the calls that programs use.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "what is left out is told")]

mod behind;
mod c;
mod scratch;
