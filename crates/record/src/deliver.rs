//! Delivery of runs from a spool to a database.

use crate::graph::{Types, batch};
use crate::read::SpooledRun;
use crate::run::Run;
use crate::run_owner::RunOwner;
use esker_import::jobs::{LinkTypes, delete_foreign};
use esker_model::namespace::{FileRefResolver, Namespace};
use esker_model::{Batch, Error, ErrorKind, GraphRead, GraphWrite, Mutation, Result};
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

/// Runs per batch.
const TOGETHER: usize = 500;

/// Result of a delivery.
#[derive(Debug, Default)]
pub struct Delivery {
    /// Number of accepted runs.
    pub runs: u64,
    /// Files of refused runs, with reasons.
    pub refused: Vec<(PathBuf, String)>,
    /// Claims about other users' data that were not written, one sentence each.
    pub left_out: Vec<String>,
    /// Files of accepted runs that could not be removed.
    pub stay: Vec<(PathBuf, io::Error)>,
}

/// Database interface that deliveries need.
pub trait Target: GraphRead + GraphWrite + Namespace {}

impl<T: GraphRead + GraphWrite + Namespace> Target for T {}

/// Delivers runs to a database and removes their files. A refused run keeps its file and is reported in `refused`; the others are
/// delivered. Delivering a run twice changes nothing. `owner` is the user on whose behalf runs are delivered, if not the database's
/// owner; all runs belong to that user.
///
/// # Errors
/// Fails if the database accepts nothing at present. `delivery` has the runs delivered until then.
pub fn deliver_all<T: Target>(
    database: &T,
    runs: &[SpooledRun],
    owner: Option<&RunOwner>,
    delivery: &mut Delivery,
) -> Result<()> {
    let schema = database.schema()?;
    let types = Types::resolve(&schema)?;
    for chunk in runs.chunks(TOGETHER) {
        let mut made: Vec<(&SpooledRun, Batch)> = Vec::with_capacity(chunk.len());
        for waiting in chunk {
            let run = match owner {
                None => Ok(Cow::Borrowed(&*waiting.run)),
                Some(owner) => owner
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

/// Delivers one run to a database, ended or not.
///
/// # Errors
/// Fails if the database does not accept it.
pub fn deliver_one<T: Target>(database: &T, run: &Run) -> Result<()> {
    let types = Types::resolve(&*database.schema()?)?;
    apply(database, batch(run, &types)?.mutations)
}

fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}

fn apply<T: Target>(database: &T, mut mutations: Vec<Mutation>) -> Result<()> {
    // A path refers to the file that has it now.
    let schema = database.schema()?;
    FileRefResolver::default().resolve_mutations(database, &schema, &mut mutations)?;
    let links = LinkTypes::resolve(&schema)?;
    delete_foreign(database, &links, links.execution, &mut mutations)?;
    let mut batch = Batch::new();
    batch.mutations = mutations;
    database.apply(batch).map(drop)
}

fn refuse(waiting: &SpooledRun, why: &str, delivery: &mut Delivery) {
    let run = &waiting.run;
    let why = format!("execution:{} ({}): {why}", run.id, run.name);
    delivery.refused.push((waiting.path.clone(), why));
}

fn done(waiting: &SpooledRun, delivery: &mut Delivery) {
    delivery.runs += 1;
    if let Err(e) = waiting.remove() {
        delivery.stay.push((waiting.path.clone(), e));
    }
}
