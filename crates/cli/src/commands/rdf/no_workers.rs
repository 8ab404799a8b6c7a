//! Errors of the commands for workers in a build without the feature `workers`.

use crate::args::{RdfWorkerArgs, SparqlArgs};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use esker_rdf::Graphs;

/// Prefix of a target that names workers.
pub(super) const SCHEME: &str = "workers://";

fn none() -> anyhow::Error {
    usage(
        "this `esker` came with the Python package and has no workers, to be small: build the whole command with `make build` \
         in a checkout of Esker",
    )
}

pub(super) fn worker(_: &RdfWorkerArgs, _: &mut Context) -> anyhow::Result<Outcome> {
    Err(none())
}

pub(super) fn sparql(
    _: &SparqlArgs,
    _: &str,
    _: Option<&Graphs>,
    _: &str,
    _: &mut Context,
) -> anyhow::Result<Outcome> {
    Err(none())
}
