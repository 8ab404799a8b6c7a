//! The audit log of a server: who asked for what, from where, and whether it was allowed.
//!
//! A log is a folder of **segments**, `NNNNNNNN.jsonl`, with one JSON object on each line. Each line has a number (`seq`) and the
//! SHA-256 of the line before it (`prev`), also across segments. A change of a line, a missing line and a missing segment therefore
//! break the **chain**. `head.json` has the number and hash of the last line on disk, so that a cut end is noticed, too.
//!
//! The caller passes the time in. Suggested reading order: [`record`], [`chain`], [`log`], [`verify`], [`export`].

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod chain;
pub mod export;
pub mod log;
pub mod reader;
pub mod record;
mod repair;
mod segment;
pub mod select;
pub mod time;
pub mod verify;

pub use chain::Head;
pub use log::{Log, Options};
pub use reader::Reader;
pub use record::{Behalf, Entry, Outcome, QueryText, Subject};
pub use select::Selection;
pub use verify::{Problem, Report, verify};

/// Name of the folder of a log in the folder of its database.
pub const FOLDER: &str = "audit";
