//! Sources of namespace rows: each operation is written once, over a [`RowSource`].
//!
//! [`super::LocalRows`] has all rows of a namespace and never lacks any. An engine that has a part of a distributed namespace
//! uses [`super::partial_rows::PartialRows`] instead: data that is missing stops the operation, which runs again when the host has
//! fetched the data.

use super::directory::Directories;
use super::rows::NameRows;
use crate::txn::Overlay;
use esker_model::key::Measure;
use esker_model::namespace::{AppliedChange, Cookie, Name};
use esker_model::record::UserAttribute;
use esker_model::{Flow, Op, Result, Version, VertexId};

/// Reason why an engine cannot apply a change alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalStop {
    /// Other engines have rows of the change: see [`super::PartialNamespace::plan`].
    Remote,
    /// An operation in progress must end first.
    Busy,
}

/// Outcome of the changes of one caller.
#[derive(Debug, Default)]
pub struct LocalOutcome {
    /// Outcomes of the leading changes, which are committed.
    pub answers: Vec<Result<AppliedChange>>,
    /// Reason why the next change was not tried; only where other engines have rows.
    pub stopped: Option<LocalStop>,
    /// Entries created by the committed changes where other engines have rows: directories and hashes of names.
    pub made: Vec<(VertexId, u64)>,
}

/// Receives an entry's key and value, and the rows of the state that the entry belongs to.
pub(super) type EntrySink<'s> = dyn FnMut(&dyn NameRows, &[u8], &[u8]) -> Flow + 's;

/// Committed rows, and what is derived from them.
pub(crate) trait RowSource: NameRows {
    /// The directory cache, unless it belongs to another state than the rows.
    fn directories(&self) -> Option<&Directories>;

    /// Returns a sum of a directory's content: what this commit changes is not included.
    fn sum(&self, directory: VertexId, measure: Measure) -> Result<i64>;

    /// Returns the tags of a file, or `None` if the graph has no vertex of the file.
    fn tags(&self, id: VertexId) -> Result<Option<Vec<UserAttribute>>>;

    /// Passes the entries of a directory to `sink`, behind a cookie and in the order of their keys. `limit` is the number of
    /// entries after which `sink` is expected to break.
    fn entries(
        &self,
        directory: VertexId,
        after: Option<Cookie>,
        limit: usize,
        sink: &mut EntrySink<'_>,
    ) -> Result<()>;

    /// Returns the subdirectories of a directory.
    fn children(&self, directory: VertexId) -> Result<Vec<(VertexId, Name)>>;

    /// Whether all rows of the namespace are here. Otherwise the rows that say which names have left a directory, and
    /// which directory a path is named after, may be written without being read.
    fn is_whole(&self) -> bool {
        true
    }

    /// Whether data was missing. The operation must stop, but may first look at what is independent of the data: the
    /// host then fetches everything at once.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Epoch of the directory cache at which data was fetched.
    fn epoch(&self) -> Option<u64> {
        None
    }

    /// Version for the changes of a commit, if the host decides it.
    fn version(&self) -> Option<Version> {
        None
    }

    /// Whether the vertex of a file, if there is one, is here.
    fn is_home(&self, _id: VertexId) -> bool {
        true
    }

    /// Requires at commit that a directory is empty on all engines.
    fn require_empty(&self, _directory: VertexId) {}

    /// Takes over a change of a file's vertex; returns the change if this commit must apply it.
    fn take_over(&self, _id: VertexId, op: Op) -> Result<Option<Op>> {
        Ok(Some(op))
    }

    /// Returns why this engine cannot commit the change that was just run. `structural`: whether it moves or removes
    /// directories, or changes their permissions.
    fn stop(&self, _overlay: &Overlay<'_>, _done: bool, _structural: bool) -> Option<LocalStop> {
        None
    }
}
