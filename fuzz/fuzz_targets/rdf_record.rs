//! A record of updates is replayed or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The random tests of the library ask the same.
#[allow(dead_code, reason = "each target asks one of them")]
#[path = "../../crates/rdf/tests/it/any.rs"]
mod any;

fuzz_target!(|bytes: &[u8]| any::record(bytes));
