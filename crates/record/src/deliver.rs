//! Runs from a spool into a database.

use crate::behalf::Behalf;
use crate::graph::{Types, batch};
use crate::read::Waiting;
use crate::run::Run;
use esker_model::namespace::{Namespace, Settled};
use esker_model::{Batch, Error, ErrorKind, GraphRead, GraphWrite, Mutation, Result};
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

/// Runs in one batch.
const TOGETHER: usize = 500;

/// What came of runs that were brought to a database.
#[derive(Debug, Default)]
pub struct Delivery {
    /// How many runs it has taken.
    pub runs: u64,
    /// Files of runs that it refuses, and why.
    pub refused: Vec<(PathBuf, String)>,
    /// What runs say of what is another user's, and was not written: a sentence each.
    pub left_out: Vec<String>,
    /// Files of runs that it has taken, and that cannot be removed.
    pub stay: Vec<(PathBuf, io::Error)>,
}

/// What a database has to be able to do to take runs.
pub trait Target: GraphRead + GraphWrite + Namespace {}

impl<T: GraphRead + GraphWrite + Namespace> Target for T {}

/// Brings runs to a database and removes their files. A run that makes no sense there stays where it is, and is told in `refused`: the others
/// do not wait for it. Bringing one twice changes nothing. `behalf`: the user on whose behalf that is done, if it is not whoever owns the
/// database; all runs are of that user.
///
/// # Errors
/// If the database takes nothing at all now. What it has taken by then is in `delivery`.
pub fn deliver_all<T: Target>(
    database: &T,
    runs: &[Waiting],
    behalf: Option<&Behalf>,
    delivery: &mut Delivery,
) -> Result<()> {
    let schema = database.schema()?;
    let types = Types::resolve(&schema)?;
    for chunk in runs.chunks(TOGETHER) {
        let mut made: Vec<(&Waiting, Batch)> = Vec::with_capacity(chunk.len());
        for waiting in chunk {
            let run = match behalf {
                None => Ok(Cow::Borrowed(&*waiting.run)),
                Some(behalf) => behalf
                    .allowed(database, &schema, &waiting.run, &mut delivery.left_out)?
                    .map(Cow::Owned),
            };
            match run.and_then(|run| batch(&run, &types).map_err(|e| e.to_string())) {
                Ok(batch) => made.push((waiting, batch)),
                Err(why) => refuse(waiting, &why, delivery),
            }
        }
        let all = made.iter().flat_map(|(_, b)| b.mutations.iter().cloned());
        match apply(database, all.collect()) {
            Ok(()) => {
                for (waiting, _) in made {
                    done(waiting, delivery);
                }
                continue;
            }
            Err(e) if !is_about_input(&e) => return Err(e),
            Err(_) => {}
        }
        for (waiting, batch) in made {
            match apply(database, batch.mutations) {
                Ok(()) => done(waiting, delivery),
                Err(e) if is_about_input(&e) => refuse(waiting, &e.to_string(), delivery),
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// Brings one run to a database, whether it has ended or not.
///
/// # Errors
/// If the database does not take it.
pub fn deliver_one<T: Target>(database: &T, run: &Run) -> Result<()> {
    let types = Types::resolve(&*database.schema()?)?;
    apply(database, batch(run, &types)?.mutations)
}

fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}

fn apply<T: Target>(database: &T, mut mutations: Vec<Mutation>) -> Result<()> {
    // Paths are of the files that have them now.
    let schema = database.schema()?;
    Settled::default().settle(database, &schema, &mut mutations)?;
    let mut batch = Batch::new();
    batch.mutations = mutations;
    database.apply(batch).map(drop)
}

fn refuse(waiting: &Waiting, why: &str, delivery: &mut Delivery) {
    let run = &waiting.run;
    let why = format!("execution:{} ({}): {why}", run.id, run.name);
    delivery.refused.push((waiting.path.clone(), why));
}

fn done(waiting: &Waiting, delivery: &mut Delivery) {
    delivery.runs += 1;
    if let Err(e) = waiting.remove() {
        delivery.stay.push((waiting.path.clone(), e));
    }
}
