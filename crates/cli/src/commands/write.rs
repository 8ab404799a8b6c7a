//! Functions of all commands that write: applying a batch, and reporting the commit.

use crate::args::RowFormat;
use esker::Database;
use esker_model::{Batch, Commit, GraphWrite as _, Op, Version};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{self, Cell};
use esker_terminal::zone;

/// A batch whose changes are valid from one time on.
pub(crate) struct Change {
    batch: Batch,
    at: Option<Version>,
}

impl Change {
    pub(crate) fn new(at: Option<Version>) -> Self {
        Self {
            batch: Batch::new(),
            at,
        }
    }

    pub(crate) fn push(&mut self, op: Op) {
        match self.at {
            Some(version) => self.batch.push_at(version, op),
            None => self.batch.push(op),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    pub(crate) fn apply(self, database: &Database) -> anyhow::Result<Commit> {
        Ok(database.apply(self.batch)?)
    }
}

/// Reports a commit: the version of the change, and the numbers of created vertices and edges.
pub(crate) fn report(
    context: &mut Context,
    format: RowFormat,
    done: &str,
    name: &str,
    at: Option<Version>,
    commit: &Commit,
) -> anyhow::Result<Outcome> {
    let version = at.unwrap_or(commit.version);
    let sentence = format!("{done} {name} at {}", zone::version(version));
    let columns = &[
        "done",
        "name",
        "version",
        "vertices_created",
        "edges_created",
    ];
    let cells = vec![
        done.into(),
        name.into(),
        Cell::Version(version),
        Cell::Count(commit.vertices_created),
        Cell::Count(commit.edges_created),
    ];
    output::report(context, format, &sentence, columns, cells)?;
    Ok(Outcome::Done)
}
