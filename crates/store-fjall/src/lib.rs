//! The key-value store on fjall, a log-structured merge engine in Rust: Esker's default.
//!
//! One fjall database has one keyspace for each [`Table`](esker_store::Table). The modules: `tuning` chooses the
//! settings and explains them, `engine` opens and closes the database, bounds its memory and runs its compactions,
//! `store` implements the store interface, `checkpoint` adds what fjall lacks, `error` translates fjall's errors.
//! [`raw`] is the bare engine with the same settings, to measure the overhead of the interface.
//!
//! The crate's `NOTES.md` describes the behaviour of fjall that a reader must know.

mod checkpoint;
mod compaction;
mod engine;
mod error;
pub mod raw;
mod store;
mod tuning;

pub use store::FjallStore;
