//! A document of Turtle, `TriG`, RDF/XML or JSON-LD (its first byte says which) is read or refused; what is read comes back.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The random tests of the library ask the same.
#[allow(dead_code, reason = "each target asks one of them")]
#[path = "../../crates/rdf/tests/it/any.rs"]
mod any;

fuzz_target!(|bytes: &[u8]| any::document(bytes));
