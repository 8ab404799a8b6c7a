//! What differs between two runs: `esker diff 4711 4698`.
//!
//! ```text
//!  a word ──find_run──► a vertex ──view──► parts: settings, arguments, files … ──┐
//!                                                                                ├─compare──► rows
//!  a word ──find_run──► a vertex ──view──► the same of the other ────────────────┘
//! ```
//!
//! A run may be an execution that was recorded, a job or a process; a job stands for all that ran in it.

mod compare;
mod find;
mod view;

pub use find::{find_run, is_run};

use esker_model::{GraphRead, Result, VertexId};
use std::fmt;

/// A part of what is known of a run, in the order in which differences are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// How it ended: exit code, signal, why nothing is known.
    Ended,
    /// When it began and ended, how long it took.
    Time,
    /// Settings that its user named.
    Setting,
    /// The programs that it ran.
    Program,
    /// Words of its command line.
    Argument,
    /// Lines of its batch script.
    Script,
    /// Files that it read.
    Input,
    /// Files that it wrote.
    Output,
    /// Modules that were loaded.
    Module,
    /// The state of its source.
    Git,
    /// Variables of its environment.
    Environment,
    /// Where, by whom, in which job.
    Place,
    /// Tags, and all else that is known.
    Tag,
}

impl Part {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Time => "time",
            Self::Setting => "setting",
            Self::Program => "program",
            Self::Argument => "argument",
            Self::Script => "script",
            Self::Input => "input",
            Self::Output => "output",
            Self::Module => "module",
            Self::Git => "git",
            Self::Environment => "environment",
            Self::Place => "place",
            Self::Tag => "tag",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the two runs are to each other in one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Only the second has it.
    Added,
    /// Only the first has it.
    Removed,
    /// Both have it, each its own.
    Changed,
    /// The same file, in another state.
    OtherVersion,
    /// A file of the same name, elsewhere.
    OtherFile,
    /// Both have the same.
    Same,
}

impl Change {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::OtherVersion => "other version",
            Self::OtherFile => "other file",
            Self::Same => "same",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that both runs, or one of them, have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which part of a run it belongs to.
    pub part: Part,
    /// What it is: the name of a setting, the path of a file.
    pub name: String,
    /// How the runs are to each other in it.
    pub change: Change,
    /// What the first run has.
    pub before: Option<String>,
    /// What the second run has.
    pub after: Option<String>,
    /// It differs between any two runs: their start, the numbers of their jobs.
    pub expected: bool,
}

/// Two runs beside each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDiff {
    /// The first run, as `execution:ID`.
    pub before: String,
    /// The second one.
    pub after: String,
    /// All that either has, the same and what differs, by part and name.
    pub rows: Vec<Row>,
}

impl RunDiff {
    /// What differs, and is not expected to.
    pub fn differing(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(|row| row.change != Change::Same && !row.expected)
    }

    /// How many things are the same.
    pub fn same(&self) -> usize {
        let same = |row: &&Row| row.change == Change::Same;
        self.rows.iter().filter(same).count()
    }

    /// How many differ as between any two runs.
    pub fn expected(&self) -> usize {
        let expected = |row: &&Row| row.change != Change::Same && row.expected;
        self.rows.iter().filter(expected).count()
    }
}

/// Compares two runs, as they are known now. [`find_run`] gives their ids.
///
/// # Errors
/// If one of them is not there, or is no run.
pub fn diff_runs(graph: &dyn GraphRead, before: VertexId, after: VertexId) -> Result<RunDiff> {
    let before = view::view(graph, before)?;
    let after = view::view(graph, after)?;
    Ok(RunDiff {
        rows: compare::rows(&before, &after),
        before: before.name,
        after: after.name,
    })
}
