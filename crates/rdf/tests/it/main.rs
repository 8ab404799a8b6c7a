//! Queries and updates from text to answer.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod any;
mod conformance;
mod differential;
mod generator;
mod hostile;
mod limits;
mod lines;
mod plan;
mod requests;
mod service;
mod triples;
mod view;
mod w3c;
mod w3c_jsonld;
mod w3c_misses;
mod w3c_syntax;

use esker_rdf::parse::Loader;
use esker_rdf::{Dataset, DateTime, Options, RdfFormat};

/// Current time in all tests.
pub(crate) fn now() -> DateTime {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

/// Loads a dataset from `TriG`.
pub(crate) fn load(text: &str) -> Dataset {
    let mut loader = Loader::new(Dataset::default(), "t", false);
    loader
        .read(
            "test",
            &mut text.as_bytes(),
            RdfFormat::TriG,
            None,
            Some("http://example.org/"),
        )
        .unwrap();
    loader.finish().0
}

/// Returns the options for a query.
pub(crate) fn options() -> Options<'static> {
    Options::new(now(), 7)
}
