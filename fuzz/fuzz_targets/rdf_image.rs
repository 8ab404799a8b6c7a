//! An image of RDF data is read or refused; what is read is asked without harm.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The random tests of the library ask the same.
#[allow(dead_code, reason = "each target asks one of them")]
#[path = "../../crates/rdf/tests/it/any.rs"]
mod any;

fuzz_target!(|bytes: &[u8]| any::image(bytes));
