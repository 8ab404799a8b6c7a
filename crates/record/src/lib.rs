//! Recording of program runs: program, host, user, settings, inputs, exit status and outputs.
//!
//! ```text
//!  capture ──► Run ──► spool: one small file a run ──► graph: a batch ──► the target, now or later
//! ```
//!
//! Recording never fails or delays the recorded program. A run is written to a spool, a folder of this machine or of the cluster, and
//! any process can deliver it to the database later; repeated delivery is harmless, because applying a run twice changes nothing.
//!
//! Suggested reading order: [`Run`], [`Spool`], [`batch`], [`diff_runs`].

mod capture;
mod deliver;
mod diff;
mod git;
mod graph;
#[doc(hidden)]
pub mod hostile;
mod read;
mod run;
mod run_owner;
mod spool;

pub use capture::{Begin, OWN_ID, begin, host_name, modules, resolved, settings};
pub use deliver::{Delivery, Target, deliver_all, deliver_one};
pub use diff::{Change, Part, Row, RunDiff, diff_runs, find_run, is_run};
pub use esker_import::secrets::Redactor;
pub use git::git;
pub use graph::{Types, batch};
pub use read::{SpoolFile, SpoolReader, SpoolSelection, SpooledRun};
pub use run::{Ended, Git, Run, Slurm, Use, absolute_path, new_id};
pub use run_owner::RunOwner;
pub use spool::{Entry, FileId, Spool};

/// Returns the current time, in nanoseconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}
