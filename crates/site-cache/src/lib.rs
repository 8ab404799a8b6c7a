//! The site cache (SMURF) without sockets: remote metadata cached, prefetched and kept fresh in tiers.
//!
//! The host brings requests, answers, time and connections; everything here is a state machine, so that the simulator
//! ([`replay`]) and a server run the very same code.
//!
//! Suggested reading order: [`path`], [`entry`], [`cache`], [`queue`], [`predict`], then [`tier`], which joins them;
//! [`trace`] and [`replay`] play recorded requests against tiers.

pub mod cache;
pub mod entry;
mod error;
pub mod path;
pub mod predict;
pub mod queue;
pub mod recent;
pub mod replay;
pub mod tier;
pub mod trace;

pub use error::{Error, Result};
