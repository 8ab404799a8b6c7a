//! The database without a disk of its own: catalog, transactions, graph, traversal, statistics, check.
//!
//! An [`Engine`] stands on any [`esker_store::Store`], is told the time by a [`Clock`] and implements the API traits of
//! `esker_model::graph`. It has no clock, threads, sockets or files of its own: its host has them.
//!
//! Suggested reading order: `engine` (what happens at each call), `txn` (how a batch is applied), `read` (how a
//! moment is read), `traverse` and `adjacency` (how a chain runs), `counts` (why degrees are exact), `sight` (who sees
//! what), `lineage`.

mod adjacency;
mod archive;
mod bulk;
mod carry;
mod catalog;
mod check;
mod clock;
mod compact;
mod counts;
mod deleted;
mod engine;
mod feed;
pub mod lineage;
mod names;
mod object;
mod read;
pub mod seen;
mod settings;
mod sight;
mod spare;
mod staged;
mod top;
mod traverse;
mod txn;

pub use archive::{Archive, ArchiveCursor, ArchiveView, HistoryRows, NoArchive};
pub use carry::{Carried, Memory, carried};
pub use catalog::{FORMAT, once_key};
pub use clock::Clock;
pub use engine::Engine;
pub use feed::{Mark, News, Touched};
pub use names::{
    Arriving, DirectorySums, Fetched, Here, MaybeFile, NameNow, NamesEar, NamesNews, Need,
    PROMISE_MAX, Placed, Plan, PlannedRow, Ran, RawEntry, RowPlace, Shown, Stopped, path_of,
    show_tags, sums_of,
};
pub use settings::{
    BulkReport, CheckOptions, CheckReport, CompactReport, Problem, Settings, Stats,
};
pub use sight::View;
pub use traverse::{PartExpansion, PartPlan, PlannedHop, PlannedSegment, assemble_paths, explain};
pub use txn::{Absent, Beside, EdgeRow, PartChange, PartOp};
