//! The database without a disk of its own: catalog, transactions, graph, traversal, statistics, check.
//!
//! An [`Engine`] runs over any [`esker_store::Store`], reads the time from a [`Clock`] and implements the API traits of
//! `esker_model::graph`. It has no clock, threads, sockets or files of its own; the host provides them.
//!
//! Suggested reading order: `engine` (entry points), `txn` (how a batch is applied), `read` (how a snapshot is read),
//! `traverse` and `adjacency` (how a traversal runs), `counts` (why degrees are exact), `visibility` (access control on the
//! graph), `shares` (exceptions from it).

mod adjacency;
mod archive;
mod bulk;
mod catalog;
mod check;
mod clock;
mod commit;
mod compact;
mod counts;
mod deleted;
mod engine;
mod export;
mod feed;
pub mod filtered_stats;
mod free_memory;
mod graph_read;
mod memtable;
mod names;
mod object;
mod read;
mod settings;
mod shares;
mod sharing;
mod top;
mod traverse;
mod txn;
mod visibility;

pub use archive::{Archive, ArchiveCursor, ArchiveView, HistoryRows, NoArchive};
pub use catalog::{FORMAT, idempotency_row_key};
pub use clock::Clock;
pub use engine::Engine;
pub use export::{DatabaseMeta, RowSubject, row_subject};
pub use feed::{FeedChanges, FeedMark, Touched};
pub use names::{
    ChangePlan, DirectorySums, DirectoryUsage, EntriesFrom, EntriesPage, EntryChange,
    FileVisibility, IngestedRows, LEASE_MAX, ListCursor, LocalOutcome, LocalStop, MaybeFile,
    NamesChange, NamesListener, NamesReader, Need, PartialNamespace, PlannedRow, RawEntry,
    RemoteData, RowLocation, RowPlacement, RunResult, UsageTree, show_tags, sums_of,
};
pub use object::{ObjectUsage, ObjectUsages};
pub use settings::{
    BulkReport, CheckOptions, CheckReport, CompactReport, Problem, Settings, Stats,
};
pub use traverse::{
    PartExpansion, PlannedHop, PlannedSegment, StepOutcome, TraversalDriver, TraversalPlan,
    TraversalStep, VisitedNode, assemble_paths, explain,
};
pub use txn::{Absent, EdgeRow, PartChange, PartCommit, PartOp, SideWrites};
pub use visibility::View;
