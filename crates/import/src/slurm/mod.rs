//! Slurm accounting converted to jobs of the graph.
//!
//! Three sources result in the same vertices:
//!
//! - the stock plug-in `jobcomp/elasticsearch` sends a JSON document for each finished job ([`document`]);
//! - `sacct --parsable2` prints a table ([`sacct`]);
//! - `sacct --json` prints everything in its database ([`listing`]).
//!
//! ```text
//!  user:1000 ──run──► job:77 ──belongs──► job:70        an array's task, or a part of a heterogeneous job
//!                        ▲
//!                     belongs
//!                        │
//!                process:slurm/77.0                      a step, if recorded
//! ```
//!
//! **Keys.** A job is its number, `job:77`, as `$SLURM_JOB_ID` in the job: so a recording mount, recorded runs, Darshan logs and runs of
//! `OpenLineage` refer to the same vertex ([`crate::jobs`]). If jobs of several clusters are in one database, `cluster` precedes the number: `job:frontier/77`. A user is the numeric uid;
//! the name if only that is recorded.
//!
//! **Times.** Attributes of a job are valid from its start (from its submission, if it never started), its outcome from its end: a query as
//! of a time in between shows the job running. A document that arrives twice results in identical mutations, and changes nothing.
//!
//! **Fields.** Fields with an attribute in the schema are stored there (`jobid`, `name`, `start`, `end`, `host`, `nprocs`); every other
//! field, including unknown ones, is a user-defined attribute by its own name, in lower case, without `@`. Secrets in scripts and command
//! lines are redacted ([`crate::secrets`]).

mod document;
mod graph;
mod job;
mod listing;
mod sacct;

pub use document::document;
pub use graph::{JobTypes, batch, vertex};
pub use job::{SlurmJob, Step};
pub use listing::listing;
pub use sacct::{Sacct, SacctError};
