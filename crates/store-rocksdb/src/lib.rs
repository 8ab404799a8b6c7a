//! The key-value store on RocksDB, for users who trust it more or need its tools. Off by default: it compiles some 350
//! C++ files.
//!
//! It has one column family for each [`Table`](esker_store::Table). The modules: `tuning` chooses the settings and
//! explains them, `store` implements the store interface, `error` translates RocksDB's errors. [`raw`] is the bare
//! engine with the same settings, to measure the overhead of the interface.

mod error;
pub mod raw;
mod store;
mod tuning;

pub use store::RocksStore;
