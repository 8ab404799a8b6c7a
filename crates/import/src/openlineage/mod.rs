//! `OpenLineage`'s events turned into the graph (`OpenLineage` specification 2.0.2: `RunEvent`, `JobEvent`, `DatasetEvent`).
//!
//! ```text
//!  namespace:NS ──has──► plan:NS/JOB ──consumes──► file:/data/in.nc
//!                            ▲      └──produces──► dataset:s3://lake/out.parquet ◄──has── namespace:s3://lake
//!                           exe                                ▲
//!  execution:PARENT ◄─belongs─ execution:RUN ──read, write─────┘
//! ```
//!
//! **Keys.** A run is `execution:` and its `runId`. A job, which is what runs are runs *of*, is a plan: `plan:NAMESPACE/NAME`. A dataset of the
//! namespace `file` is the file itself, `file:/path`, and so meets what Darshan, traces and `esker run` say of it; every other dataset is
//! `dataset:NAMESPACE/NAME`.
//!
//! **Times.** All that an event says holds from its `eventTime`. Events may come in any order and any number of times: what is there already is not
//! written again, and one that comes late goes into the past, where it belongs ([`batch`]).
//!
//! **Facets.** Every facet, those that nobody knows included, is kept as it came, as JSON: of runs, jobs and datasets in user-defined attributes
//! `openlineage.NAME`; of inputs and outputs in properties of the `read` and `write` edges. A facet that says `_deleted` takes the attribute away.
//! Secrets in the facets that hold environments and settings are blotted out ([`crate::secrets`]).

mod event;
mod facets;
mod graph;
mod merge;

pub use event::{DataUse, Event, EventError, Named, Run, State, event, events};
pub use facets::{PARTS, PREFIX, joined};
pub use graph::{Types, data_name, job_name, run_name};
pub use merge::batch;

/// The attributes that say what a job or dataset is called by `OpenLineage`.
pub const NAMESPACE: &str = "openlineage.namespace";
/// See [`NAMESPACE`].
pub const NAME: &str = "openlineage.name";
