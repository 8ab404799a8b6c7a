//! Runs from a spool into a database.

use crate::graph::{Types, batch};
use crate::run::Run;
use esker_model::namespace::{Namespace, Settled};
use esker_model::{Batch, Error, ErrorKind, GraphRead, GraphWrite, Result};
use std::fs;
use std::path::PathBuf;

/// Runs in one batch.
const TOGETHER: usize = 500;

/// A run and its file in a spool.
pub type Waiting = (Box<Run>, PathBuf);

/// One that the database refuses, and why.
pub type Refused = (PathBuf, String);

/// What a database has to be able to do to take runs.
pub trait Target: GraphRead + GraphWrite + Namespace {}

impl<T: GraphRead + GraphWrite + Namespace> Target for T {}

/// Brings runs to a database and removes their files; how many. A run that makes no sense there stays where it is, and is told in `refused`: the others
/// do not wait for it. Bringing one twice changes nothing.
///
/// # Errors
/// If the database takes nothing at all now.
pub fn deliver_all<T: Target>(
    database: &T,
    runs: &[Waiting],
    refused: &mut Vec<Refused>,
) -> Result<u64> {
    let types = Types::resolve(&*database.schema()?)?;
    let mut delivered = 0;
    for chunk in runs.chunks(TOGETHER) {
        let mut all = Batch::new();
        for (run, _) in chunk {
            all.mutations.extend(batch(run, &types).mutations);
        }
        match apply(database, all) {
            Ok(()) => {
                chunk.iter().for_each(|(_, path)| remove(path));
                delivered += chunk.len() as u64;
                continue;
            }
            Err(e) if !is_about_input(&e) => return Err(e),
            Err(_) => {}
        }
        for (run, path) in chunk {
            match apply(database, batch(run, &types)) {
                Ok(()) => {
                    remove(path);
                    delivered += 1;
                }
                Err(e) if is_about_input(&e) => {
                    let why = format!("execution:{} ({}): {e}", run.id, run.name);
                    refused.push((path.clone(), why));
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok(delivered)
}

/// Brings one run to a database, whether it has ended or not.
///
/// # Errors
/// If the database does not take it.
pub fn deliver_one<T: Target>(database: &T, run: &Run) -> Result<()> {
    let types = Types::resolve(&*database.schema()?)?;
    apply(database, batch(run, &types))
}

fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}

fn apply<T: Target>(database: &T, mut batch: Batch) -> Result<()> {
    // Paths are of the files that have them now.
    let schema = database.schema()?;
    Settled::default().settle(database, &schema, &mut batch.mutations)?;
    database.apply(batch).map(drop)
}

/// Somebody else may have delivered it, too: that changes nothing.
fn remove(path: &PathBuf) {
    let _ = fs::remove_file(path);
}
