//! A query or an update is answered or refused within limits, optimised and not alike; its record does the same.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The random tests of the library ask the same.
#[allow(dead_code, reason = "each target asks one of them")]
#[path = "../../crates/rdf/tests/it/any.rs"]
mod any;

// Parsers call themselves for what stands within brackets, on the stack that a server has for that.
fuzz_target!(|text: &str| {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 20);
        let run = thread.spawn_scoped(scope, || any::sparql(text));
        run.expect("a thread").join().expect("no panic");
    });
});
