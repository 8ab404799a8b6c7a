//! The site cache (SMURF) without I/O: remote metadata cached, prefetched and invalidated in tiers.
//!
//! The host supplies requests, answers, time and connections; this crate consists of state machines, so that the simulator
//! ([`replay`]) and a server run the same code.
//!
//! Suggested reading order: [`path`], [`entry`], [`cache`], [`queue`], [`predict`], then [`tier`], which combines them;
//! [`trace`] and [`replay`] replay recorded requests against tiers.

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
