//! `OpenLineage` events converted to the graph (`OpenLineage` specification 2.0.2: `RunEvent`, `JobEvent`, `DatasetEvent`).
//!
//! ```text
//!  namespace:NS ──has──► plan:NS/JOB ──consumes──► file:/data/in.nc
//!                            ▲      └──produces──► dataset:s3://lake/out.parquet ◄──has── namespace:s3://lake
//!                           exe                                ▲
//!  execution:PARENT ◄─belongs─ execution:RUN ──read, write─────┘
//!                                  └──belongs──► job:77
//! ```
//!
//! **Keys.** A run is `execution:` and its `runId`. A job, of which runs are executions, is a plan: `plan:NAMESPACE/NAME`. A dataset of the
//! namespace `file` is the file itself, `file:/path`, and thus the same vertex as in Darshan logs, traces and `esker run`; every other
//! dataset is `dataset:NAMESPACE/NAME`.
//!
//! **Jobs of Slurm.** A run with `SLURM_JOB_ID` in its facet `environmentVariables` belongs to that job ([`crate::jobs`]).
//!
//! **Times.** Facts of an event are valid from its `eventTime`. Events may arrive in any order and any number of times: existing facts are
//! not written again, and a late event is written at its time in the past ([`batch`]).
//!
//! **Facets.** Every facet, including unknown ones, is stored unchanged as JSON: those of runs, jobs and datasets in user-defined
//! attributes `openlineage.NAME`; those of inputs and outputs in properties of the `read` and `write` edges. A facet with `_deleted`
//! removes the attribute. Secrets in facets with environments and settings are redacted ([`crate::secrets`]).

mod event;
mod facets;
mod graph;
mod merge;

pub use event::{DataUse, Event, EventError, JobOrDataset, Run, RunState, event, events};
pub use facets::{PARTS, PREFIX, joined};
pub use graph::{Types, data_name, job_name, run_name};
pub use merge::batch;

/// Attribute with the environment variables of a run.
pub const ENVIRONMENT: &str = "openlineage.environmentVariables";
/// Attribute with the namespace of a job or dataset.
pub const NAMESPACE: &str = "openlineage.namespace";
/// Attribute with the name of a job or dataset in [`NAMESPACE`].
pub const NAME: &str = "openlineage.name";
