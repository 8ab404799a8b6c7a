//! The error of a build without the feature `workers` when workers are to be measured.

use super::{RdfBenchArgs, Source};
use crate::bench::scratch::Scratch;
use crate::context::Context;
use crate::exit::{Outcome, usage};
use std::path::PathBuf;

/// The scratch folder, data files and query files.
type UnusedInputs<'a> = (&'a Scratch, &'a [Source], &'a [PathBuf]);

pub(super) fn run(
    _: &RdfBenchArgs,
    _: u16,
    _: UnusedInputs<'_>,
    _: &mut Context,
) -> anyhow::Result<Outcome> {
    Err(usage(
        "--workers: this `esker` came with the Python package and has none; build the whole command with `make build`",
    ))
}
