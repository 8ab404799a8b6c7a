//! A spool's files as bytes that anybody may have written, for fuzz targets: what is asked here is what a delivery asks.

use crate::behalf::Behalf;
use crate::deliver::Target;
use crate::read::{State, run_of_file};
use crate::run::Run;
use crate::spool;
use esker_model::{Result, Schema};
use std::time::SystemTime;

/// The run that a file's bytes are of; nothing if it goes on.
///
/// # Errors
/// What is wrong with the file.
pub fn run_of(bytes: &[u8]) -> std::result::Result<Option<Run>, String> {
    match run_of_file(bytes, true, SystemTime::UNIX_EPOCH) {
        State::Waits(run) => Ok(Some(*run)),
        State::GoesOn => Ok(None),
        State::Broken(why) => Err(why),
    }
}

/// A line of such a file, whatever it says.
pub fn line(json: &[u8]) -> Vec<u8> {
    spool::sealed(json)
}

/// The line that is written of a run.
///
/// # Errors
/// If it has none.
pub fn line_of(run: &Run) -> std::io::Result<Vec<u8>> {
    spool::line_of(run)
}

/// What a user may say of a run ([`crate::deliver_all`] with a [`Behalf`]).
///
/// # Errors
/// If the database does not answer; within, why the run may not be written.
pub fn allowed<T: Target>(
    behalf: &Behalf,
    database: &T,
    schema: &Schema,
    run: &Run,
) -> Result<std::result::Result<Run, String>> {
    behalf.allowed(database, schema, run, &mut Vec::new())
}
