//! Unmodified programs with the preloaded library.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "what is left out is told")]

mod programs;
mod scratch;
