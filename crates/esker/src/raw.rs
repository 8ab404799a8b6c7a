//! The bare store engine, for those who measure what Esker costs on top of it (`esker bench`). Nothing that it writes is
//! a database.

pub use esker_store::StoreSettings;
pub use esker_store_fjall::raw::Raw;

/// How much of a database's memory is its store's, in bytes. The adjacency cache has most of the rest.
pub const fn store_memory(memory_bytes: u64) -> u64 {
    memory_bytes / 2
}
