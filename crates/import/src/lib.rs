//! Importers: foreign metadata converted to mutation batches.
//!
//! Parsers take bytes and return mutations; the host opens files, starts threads and shows progress.

pub mod darshan;
pub mod graphar;
pub mod jobs;
pub mod openlineage;
pub mod prov;
pub mod secrets;
pub mod slurm;
pub mod table;
