//! Parsing of arbitrary spool files, for fuzz targets: the same checks as in a delivery.

use crate::deliver::Target;
use crate::read::{State, run_of_file};
use crate::run::Run;
use crate::run_owner::RunOwner;
use crate::spool;
use esker_model::{Result, Schema};
use std::time::SystemTime;

/// Parses the bytes of a spool file; `None` if its run has not ended.
///
/// # Errors
/// Describes the mistake in the file.
pub fn run_of(bytes: &[u8]) -> std::result::Result<Option<Run>, String> {
    match run_of_file(bytes, true, SystemTime::UNIX_EPOCH) {
        State::Waits(run) => Ok(Some(*run)),
        State::Active => Ok(None),
        State::Broken(why) => Err(why),
    }
}

/// Formats a line of a spool file with any content.
pub fn line(json: &[u8]) -> Vec<u8> {
    spool::sealed(json)
}

/// Formats the line of a run.
///
/// # Errors
/// Fails if the run cannot be serialized.
pub fn line_of(run: &Run) -> std::io::Result<Vec<u8>> {
    spool::line_of(run)
}

/// Restricts a run to what its user may assert ([`crate::deliver_all`] with a [`RunOwner`]).
///
/// # Errors
/// Fails if the database does not answer; the inner error says why the run may not be written.
pub fn allowed<T: Target>(
    owner: &RunOwner,
    database: &T,
    schema: &Schema,
    run: &Run,
) -> Result<std::result::Result<Run, String>> {
    owner.allowed(database, schema, run, &mut Vec::new())
}
