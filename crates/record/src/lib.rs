//! Runs of programs, recorded: what was started, where, by whom, with which settings and inputs, how it ended and what it wrote.
//!
//! ```text
//!  capture ──► Run ──► spool: one small file a run ──► graph: a batch ──► the target, now or later
//! ```
//!
//! Recording never fails or delays what is recorded. A run is written to a spool, a folder of this machine or of the cluster, and whoever has
//! time brings it to the database; again and again if need be, for the same run twice changes nothing.
//!
//! Suggested reading order: [`Run`], [`Spool`], [`batch`], [`diff_runs`].

mod behalf;
mod capture;
mod deliver;
mod diff;
mod git;
mod graph;
#[doc(hidden)]
pub mod hostile;
mod read;
mod run;
mod spool;

pub use behalf::Behalf;
pub use capture::{Begin, OWN_ID, begin, host_name, modules, resolved, settings};
pub use deliver::{Delivery, Target, deliver_all, deliver_one};
pub use diff::{Change, Part, Row, RunDiff, diff_runs, find_run, is_run};
pub use esker_import::secrets::Redactor;
pub use git::git;
pub use graph::{Types, batch};
pub use read::{Found, Look, Waiting, Which};
pub use run::{Ended, Git, Run, Slurm, Use, new_id};
pub use spool::{Entry, FileId, Spool};

/// Nanoseconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}
