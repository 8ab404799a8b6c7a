//! A tier of the site cache as a process (SMURF, sections III-A to III-C): it answers clients and tiers below out of its
//! cache, and asks origins, or tiers above, for what it does not have.
//!
//! `esker-site-cache` decides; this crate brings time, connections and other processes to it.
//!
//! Suggested reading order: [`config`], [`given`], [`node`], [`above`], then [`serve`] (with `access`, who may ask).

pub mod above;
mod access;
pub mod address;
pub mod client;
mod clock;
pub mod config;
mod disk;
pub mod far;
pub mod given;
#[doc(hidden)]
pub mod hostile {
    //! What must hold of bytes that tiers send each other or keep on disk, for fuzz targets.

    pub use crate::disk::hostile::stored;
    pub use crate::wire::hostile::{down, up};
}
mod http;
pub mod listen;
pub mod node;
pub mod serve;
mod wire;

pub use address::TierAddress;
pub use client::Client;
pub use config::Config;
pub use far::{Far, Step, Wish};
pub use given::{Given, Refused};
pub use node::{Asked, Node};
