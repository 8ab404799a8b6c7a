//! RDF documents, lines, images, records of updates and SPARQL queries. The random tests of the RDF library check the same properties.

use crate::rdf_invariants;

pub(crate) fn document(bytes: &[u8]) {
    rdf_invariants::document(bytes);
}

pub(crate) fn image(bytes: &[u8]) {
    rdf_invariants::image(bytes);
}

pub(crate) fn lines(bytes: &[u8]) {
    rdf_invariants::lines(bytes);
}

pub(crate) fn record(bytes: &[u8]) {
    rdf_invariants::record(bytes);
}

/// Runs on a stack of 256 MiB, the size that a server uses: the parsers recurse into nested brackets.
pub(crate) fn sparql(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 20);
        let run = thread.spawn_scoped(scope, || rdf_invariants::sparql(text));
        run.expect("a thread").join().expect("no panic");
    });
}
