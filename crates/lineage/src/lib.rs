//! Lineage and impact over any [`GraphRead`]: the inputs that data was derived from, and the data derived from it.
//!
//! Data objects have versions: each version of a `wasWrittenBy` edge is one (`GraphMeta`, section 2.4). So lineage goes
//! from *versions* to the executions that wrote them, and from there to the versions that those executions
//! read: never simply from vertex to vertex, which would attribute a file's later writers to its earlier readers.
//!
//! - **A version's writers** are the executions whose write made it. Lineage starts from the newest version as of the
//!   requested time.
//! - **An execution's inputs** are the versions that its reads can have seen: the newest that was complete when the
//!   read ended, and, marked `concurrent`, those that were being written meanwhile (see `event`). Its own writes are not
//!   among its inputs, though they hide older versions.
//! - **Inside one execution** a write depends on reads that began before the write ended. Edges tell the times with
//!   timestamps `start` and `end`; if either edge lacks them, the write depends on the read.
//! - A deleted *vertex* stays in the result, marked: its state when others read it is a fact. A deleted
//!   *edge* retracts all its earlier versions, for reads as of the deletion or later.
//!
//! Each round takes a few batch calls for the entire frontier, so it costs a remote database the same
//! number of round trips however wide the graph is. Nothing is recursive: chains are limited only by memory.
//!
//! Start with [`lineage`]; [`Provenance`] is the result; [`render_tree`], [`render_json`] and
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
pub use tree::{TimeFormat, TreeStyle, render_tree};

use esker_model::{Cancel, GraphRead, Result, Version, VertexId};

/// Direction in which provenance is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Towards the inputs of the target.
    Lineage,
    /// Towards the data derived from the target.
    Impact,
}

/// Relations to follow, and limits.
#[derive(Debug, Clone, PartialEq)]
pub struct LineageOptions {
    /// Version that everything is read as of.
    pub as_of: Version,
    /// Impact only: excludes reads of the target that ended before this version and saw no version as new as it.
    pub since: Option<Version>,
    /// Maximum number of executions between the target and a vertex; `None` for no limit. With 0 only the target is read.
    pub depth: Option<u32>,
    /// Maximum number of distinct vertices, including users and executables.
    pub vertices: Option<u64>,
    /// Maximum number of edges to read.
    pub edges: Option<u64>,
    /// Approximate maximum memory, in bytes.
    pub bytes: Option<u64>,
    /// Edge types from a data object to the executions that made it.
    pub made_by: Vec<String>,
    /// Edge types from an execution to the data objects that it used.
    pub used: Vec<String>,
    /// Edge types from an execution to the user who ran it: shown, not followed (`impact` of a user begins there).
    pub run_by: Vec<String>,
    /// Edge types from an execution to its executable: shown; `impact` follows them like reads.
    pub executable: Vec<String>,
    /// Edge types from an execution to the one that it is part of: shown, with all enclosing ones. Lineage and impact of an execution include
    /// all its parts.
    pub part_of: Vec<String>,
}

/// The relations of Table 1 of `GraphMeta`, without limits, at the present.
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

/// Computes the lineage of the target: the executions that wrote its newest version as of `options.as_of`, the versions that
/// they read, and so on. The target may be a data object or an execution.
///
/// If a limit is reached, or the caller cancels, the result is partial and tells where it stopped.
pub fn lineage(
    graph: &dyn GraphRead,
    target: VertexId,
    options: &LineageOptions,
    cancel: &dyn Cancel,
) -> Result<Provenance> {
    walk::run(graph, target, Direction::Lineage, options, cancel)
}

/// Computes the impact of the target: the executions that read it (since `options.since`, if given), the versions that they
/// wrote, and so on. The target may be a data object, an execution, an executable, or a user; for a user, impact covers
/// all executions that the user ran.
pub fn impact(
    graph: &dyn GraphRead,
    target: VertexId,
    options: &LineageOptions,
    cancel: &dyn Cancel,
) -> Result<Provenance> {
    walk::run(graph, target, Direction::Impact, options, cancel)
}
