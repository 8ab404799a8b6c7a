//! RDF: documents, lines, images and records of updates. What must hold is asked by the library's own random tests, too.

use crate::any;

pub(crate) fn document(bytes: &[u8]) {
    any::document(bytes);
}

pub(crate) fn image(bytes: &[u8]) {
    any::image(bytes);
}

pub(crate) fn lines(bytes: &[u8]) {
    any::lines(bytes);
}

pub(crate) fn record(bytes: &[u8]) {
    any::record(bytes);
}

/// Parsers call themselves for what stands within brackets, on the stack that a server has for that.
pub(crate) fn sparql(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 20);
        let run = thread.spawn_scoped(scope, || any::sparql(text));
        run.expect("a thread").join().expect("no panic");
    });
}
