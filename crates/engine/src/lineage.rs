//! Where data came from and what came of it: lineage and impact over any [`GraphRead`].
//!
//! Data objects have versions: each version of a `wasWrittenBy` edge is one (`GraphMeta`, section 2.4). So the walk goes
//! from *versions* to the executions that wrote them, and from there to the versions that those executions
//! read: never simply from vertex to vertex, which would blame a file's later writers for its earlier readers.
//!
//! - **A version's writers** are the executions whose write made it. The newest version as of the time asked for
//!   is the one that lineage starts from.
//! - **An execution's inputs** are the versions that its reads can have seen: the newest that was complete when the
//!   read was over, and, marked `concurrent`, what was being written meanwhile (see `event`). Its own writes are no
//!   inputs of its own, though they hide what was there before them.
//! - **Inside one execution** a write depends on reads that began before the write was over. Edges say so with
//!   timestamps `start` and `end`; where either edge lacks them the write depends on the read.
//! - A deleted *vertex* stays in the picture, marked: what it was when others read it is a fact. A deleted
//!   *edge* takes back all its earlier versions, for reads as of the deletion or later.
//!
//! Each round of the walk is a handful of batch calls for the whole frontier, so it costs a remote database the same
//! number of round trips however wide the graph is. Nothing recurses: chains may be as long as memory.
//!
//! Start with [`lineage`]; [`Provenance`] is what comes back; [`render_tree`], [`render_json`] and
//! [`render_dot`] print it.

mod dot;
mod event;
mod json;
mod paths;
mod result;
mod roles;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

pub use dot::render_dot;
pub use json::{graph_json, render_json, write_json_string, write_json_value};
pub use paths::graph_of_paths;
pub use result::{
    Child, FactTypes, FoundEdge, FoundVertex, Node, Provenance, STOPPED_NAMES_MAX, Stopped,
    UserImpact, names_of_stopped,
};
pub use tree::{TreeStyle, render_tree};

use esker_model::{Cancel, GraphRead, Result, Version, VertexId};

/// Which way a walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To what the target was made from.
    Lineage,
    /// To what was made from the target.
    Impact,
}

/// What to walk, and how far.
#[derive(Debug, Clone, PartialEq)]
pub struct LineageOptions {
    /// The time to see everything as of.
    pub as_of: Version,
    /// Impact only: leave out reads of the target that were over before this version and saw nothing as new as it.
    pub since: Option<Version>,
    /// How many executions to go back (or on) through; `None` for all. With 0 only the target is read.
    pub depth: Option<u32>,
    /// Most distinct vertices to find, users and executables among them.
    pub vertices: Option<u64>,
    /// Most edges to look at.
    pub edges: Option<u64>,
    /// Most bytes to hold, roughly.
    pub bytes: Option<u64>,
    /// Edge types from a data object to the executions that made it.
    pub made_by: Vec<String>,
    /// Edge types from an execution to the data objects that it used.
    pub used: Vec<String>,
    /// Edge types from an execution to the user who ran it: shown, not followed (`impact` of a user begins there).
    pub run_by: Vec<String>,
    /// Edge types from an execution to its executable: shown; `impact` follows them like reads.
    pub executable: Vec<String>,
    /// Edge types from an execution to the one that it is part of: shown, with all above it.
    pub part_of: Vec<String>,
}

/// The relations of Table 1 of `GraphMeta`, everything, as it is now.
impl Default for LineageOptions {
    fn default() -> Self {
        let names = |name: &str| vec![name.to_owned()];
        Self {
            as_of: Version::MAX,
            since: None,
            depth: None,
            vertices: None,
            edges: None,
            bytes: None,
            made_by: names("wasWrittenBy"),
            used: names("read"),
            run_by: names("wasRunBy"),
            executable: names("exe"),
            part_of: names("belongs"),
        }
    }
}

/// How the target came to be: the executions that wrote its newest version as of `options.as_of`, what those
/// read, and so on. The target may be a data object or an execution.
///
/// A walk that meets one of its limits, or is cancelled, returns what it found and says where it stopped.
pub fn lineage(
    graph: &dyn GraphRead,
    target: VertexId,
    options: &LineageOptions,
    cancel: &dyn Cancel,
) -> Result<Provenance> {
    walk::run(graph, target, Direction::Lineage, options, cancel)
}

/// What was made from the target: the executions that read it (since `options.since`, if given), what they wrote,
/// and so on. The target may be a data object, an execution, an executable, or a user: then everything that came of
/// what the user ran.
pub fn impact(
    graph: &dyn GraphRead,
    target: VertexId,
    options: &LineageOptions,
    cancel: &dyn Cancel,
) -> Result<Provenance> {
    walk::run(graph, target, Direction::Impact, options, cancel)
}
