//! The store on RocksDB, for those who trust it more or need its tools. Off by default: it compiles some 350 C++ files.
//!
//! One column family for each [`Table`](esker_store::Table). The rooms: `tuning` says which settings and why, `store`
//! implements the seam, `error` puts RocksDB's errors into words. [`raw`] is the bare engine with the same settings, to
//! measure the seam against.

mod error;
pub mod raw;
mod store;
mod tuning;

pub use store::RocksStore;
