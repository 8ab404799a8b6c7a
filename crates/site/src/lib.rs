//! A tier of the site cache as a process (SMURF, sections III-A to III-C): it answers clients and tiers below out of its
//! cache, and asks origins, or tiers above, for what it does not have.
//!
//! `esker-site-cache` decides; this crate brings time, connections and other processes to it.
//!
//! Suggested reading order: [`config`], [`given`], [`node`], [`above`], then [`serve`].

pub mod above;
pub mod client;
mod clock;
pub mod config;
mod disk;
pub mod far;
pub mod given;
mod http;
pub mod node;
pub mod serve;
mod wire;

pub use client::Client;
pub use config::Config;
pub use far::{Far, Step, Wish};
pub use given::{Given, Refused};
pub use node::{Asked, Node};
