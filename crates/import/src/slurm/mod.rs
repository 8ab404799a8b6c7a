//! Slurm's accounting turned into jobs of the graph.
//!
//! Slurm tells of its jobs in three ways, and all become the same vertices:
//!
//! - the stock plug-in `jobcomp/elasticsearch` sends a JSON document for each job that ended ([`document`]);
//! - `sacct --parsable2` prints a table ([`sacct`]);
//! - `sacct --json` prints all that its database has ([`listing`]).
//!
//! ```text
//!  user:1000 ──run──► job:77 ──belongs──► job:70        an array's task, or a part of a heterogeneous job
//!                        ▲
//!                     belongs
//!                        │
//!                process:slurm/77.0                      a step, where it is told of
//! ```
//!
//! **Keys.** A job is its number, `job:77`, as `$SLURM_JOB_ID` has it in the job: so a mount that records, and runs that are recorded, meet the same
//! vertex. Where several clusters' jobs come into one database, `cluster` goes before it: `job:frontier/77`. A user is the numeric uid; the name where only
//! that is told.
//!
//! **Times.** What a job is began at its start (at its submission, if it never started), and how it ended holds from its end: a question as of
//! a time between sees it running. A document that comes twice makes the very same mutations, and changes nothing.
//!
//! **Fields.** What the schema has a place for lies there (`jobid`, `name`, `start`, `end`, `host`, `nprocs`); every other field, those that nobody knows
//! included, is a user-defined attribute by its own name, in small letters, without `@`. Secrets in scripts and command lines are blotted out
//! ([`crate::secrets`]).

mod document;
mod graph;
mod job;
mod listing;
mod sacct;

pub use document::document;
pub use graph::{Types, batch};
pub use job::{Job, Step};
pub use listing::listing;
pub use sacct::{Sacct, SacctError};
