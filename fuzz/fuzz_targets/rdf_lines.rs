//! N-Quads are read or skipped line by line, alike on any number of threads; what is read comes back.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The random tests of the library ask the same.
#[allow(dead_code, reason = "each target asks one of them")]
#[path = "../../crates/rdf/tests/it/any.rs"]
mod any;

fuzz_target!(|bytes: &[u8]| any::lines(bytes));
