//! Darshan logs: I/O counters of a job, converted to vertices and edges.
//!
//! [`parse`] reads a log of any format (1.21 to 3.41, either byte order, zlib, bzip2, gzip or plain) from the bytes of a file; [`scan`]
//! does so without keeping the records. [`file_accesses`] combines the records of several modules into the accesses to each file, and
//! [`graph`] makes mutations from these. This module opens no files, starts no threads and reads no clock: the host does.
//!
//! From a damaged log the readable parts are returned, with the byte of each damage ([`Damage`]).

mod access;
mod bytes;
mod clock;
mod error;
mod graph;
mod helpers;
mod inflate;
mod job;
pub mod limits;
mod log;
mod names;
mod record;
mod v2;
mod v3;

pub use access::{FileAccess, Interval, ModuleSums, file_accesses, rank_accesses};
pub use bytes::ByteOrder;
pub use error::{Damage, LogError, Region};
pub use graph::{GraphCounts, GraphOptions, GraphTypes, LogIdentity, graph, job_link, log_key};
pub use helpers::{Helper, helper};
pub use inflate::Compression;
pub use job::{Job, JobTime, Mount};
pub use log::{Log, ModuleEntry, ParseOptions, parse, scan};
pub use names::Names;
pub use record::{Module, ModuleId, ModuleRecord, Span};
