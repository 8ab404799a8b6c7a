//! Programs that know nothing of Esker, with the library before the C library's.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "what is left out is told")]

mod programs;
mod scratch;
