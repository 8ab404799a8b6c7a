//! The store on fjall, a log-structured merge engine in Rust: Esker's default.
//!
//! One fjall database holds one keyspace for each [`Table`](esker_store::Table). The rooms: `tuning` says which settings and why, `engine` opens
//! and closes the database, bounds its memory and runs its compactions, `store` implements the seam, `checkpoint` does what
//! fjall lacks, `error` puts fjall's errors into words. [`raw`] is the bare engine with the same settings, to measure the
//! seam against.
//!
//! What fjall does that a reader of this crate must know is in the crate's `NOTES.md`.

mod checkpoint;
mod compaction;
mod engine;
mod error;
pub mod raw;
mod store;
mod tuning;

pub use store::FjallStore;
