//! A tier of the site cache as a process (SMURF, sections III-A to III-C): it answers clients and downstream tiers from its
//! cache, and queries origins, or upstream tiers, for missing metadata.
//!
//! The logic is in `esker-site-cache`; this crate adds time, connections and other processes.
//!
//! Suggested reading order: [`config`], [`answer`], [`node`], [`upstream`], then [`serve`] (with `access`, the access control).

mod access;
pub mod address;
pub mod answer;
pub mod client;
mod clock;
pub mod config;
mod disk;
pub mod remote_files;
pub mod upstream;
#[doc(hidden)]
pub mod hostile {
    //! Invariants of received and stored bytes, for fuzz targets.

    pub use crate::disk::hostile::stored;
    pub use crate::wire::hostile::{down, up};
}
mod http;
pub mod listen;
pub mod node;
pub mod serve;
mod wire;

pub use address::TierAddress;
pub use answer::{Refused, TierAnswer};
pub use client::Client;
pub use config::Config;
pub use node::{MetadataQuery, Node};
pub use remote_files::{FetchOptions, RemoteFiles, TreeEvent};
