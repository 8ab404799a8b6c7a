//! Darshan logs: what a job read and wrote, as its I/O was counted, turned into vertices and edges.
//!
//! [`parse`] reads a log of any format (1.21 to 3.41, either byte order, zlib, bzip2, gzip or plain) from the bytes of a
//! file; [`scan`] does so without keeping the records. [`file_accesses`] puts the records of several modules
//! together into what the job did with each file, [`graph`] makes mutations of that. Nothing here opens a file, starts a thread or reads the
//! clock: the host does.
//!
//! A damaged log gives what is left of it, and says which byte is wrong ([`Damage`]).

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
pub use graph::{GraphCounts, GraphOptions, GraphTypes, LogIdentity, graph, job_key};
pub use helpers::{Helper, helper};
pub use inflate::Compression;
pub use job::{Job, JobTime, Mount};
pub use log::{Log, ModuleEntry, ParseOptions, parse, scan};
pub use names::Names;
pub use record::{Module, ModuleId, ModuleRecord, Span};
