//! The key-value store on fjall, a log-structured merge engine in Rust: Esker's default.
//!
//! One fjall database has one keyspace for each [`Table`](esker_store::Table). The modules: `tuning` chooses the
//! settings and explains them, `engine` opens and closes the database, bounds its memory and runs its compactions,
//! `memtable_filter`
//! excludes absent keys before the memtables are searched, `rows` passes rows to fjall and reads them
//! back, `store` implements the store interface, `checkpoint` adds what fjall lacks, `error` translates fjall's errors.
//! [`raw`] is the bare engine with the same settings, to measure the overhead of the interface.
//!
//! The crate's `NOTES.md` describes the behaviour of fjall that a reader must know.

mod checkpoint;
mod compaction;
mod engine;
mod error;
mod memtable_filter;
pub mod raw;
mod rows;
mod store;
mod tuning;

pub use store::FjallStore;
