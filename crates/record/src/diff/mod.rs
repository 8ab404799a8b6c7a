//! Differences between two runs: `esker diff 4711 4698`.
//!
//! ```text
//!  a word ──find_run──► a vertex ──view──► parts: settings, arguments, files … ──┐
//!                                                                                ├─compare──► rows
//!  a word ──find_run──► a vertex ──view──► parts of the other run ───────────────┘
//! ```
//!
//! A run is a recorded execution, a job or a process; a job includes all executions in it.

mod compare;
mod find;
mod view;

pub use find::{find_run, is_run};

use esker_model::{GraphRead, Result, VertexId};
use std::fmt;

/// Part of a run's description, in the order of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Exit code, signal, or why they are unknown.
    Ended,
    /// Start time, end time and duration.
    Time,
    /// Settings named by the user.
    Setting,
    /// Executed program files.
    Program,
    /// Words of the command line.
    Argument,
    /// Lines of the batch script.
    Script,
    /// Input files.
    Input,
    /// Output files.
    Output,
    /// Loaded environment modules.
    Module,
    /// State of the source tree.
    Git,
    /// Environment variables.
    Environment,
    /// Host, folder, user and job.
    Location,
    /// Tags and other attributes.
    Tag,
}

impl Part {
    /// Returns the name in tables and JSON.
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
            Self::Location => "place",
            Self::Tag => "tag",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Relation of the two runs in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Only in the second run.
    Added,
    /// Only in the first run.
    Removed,
    /// In both runs, with different values.
    Changed,
    /// Equal file in another state.
    OtherVersion,
    /// A file of the same name in another folder.
    OtherFile,
    /// Equal in both runs.
    Same,
}

impl Change {
    /// Returns the name in tables and JSON.
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

/// One compared property of the two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Part of the run.
    pub part: Part,
    /// Name of the setting, path of the file, and so on.
    pub name: String,
    /// Relation of the two runs.
    pub change: Change,
    /// Value of the first run.
    pub before: Option<String>,
    /// Value of the second run.
    pub after: Option<String>,
    /// Whether it differs between any two runs: start times, job numbers.
    pub expected: bool,
}

/// Comparison of two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDiff {
    /// First run, as `execution:ID`.
    pub before: String,
    /// Second run, as `execution:ID`.
    pub after: String,
    /// All rows, equal and different, by part and name.
    pub rows: Vec<Row>,
}

impl RunDiff {
    /// Iterates over unexpected differences.
    pub fn differing(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(|row| row.change != Change::Same && !row.expected)
    }

    /// Returns the number of equal rows.
    pub fn same(&self) -> usize {
        let same = |row: &&Row| row.change == Change::Same;
        self.rows.iter().filter(same).count()
    }

    /// Returns the number of differences that any two runs have.
    pub fn expected(&self) -> usize {
        let expected = |row: &&Row| row.change != Change::Same && row.expected;
        self.rows.iter().filter(expected).count()
    }
}

/// Compares two runs as of now. [`find_run`] returns their ids.
///
/// # Errors
/// Fails if one of them does not exist or is not a run.
pub fn diff_runs(graph: &dyn GraphRead, before: VertexId, after: VertexId) -> Result<RunDiff> {
    let before = view::view(graph, before)?;
    let after = view::view(graph, after)?;
    Ok(RunDiff {
        rows: compare::rows(&before, &after),
        before: before.name,
        after: after.name,
    })
}
