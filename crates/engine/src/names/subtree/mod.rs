//! Bulk insertion of subtrees (`IndexFS`; Ren, Zheng, Patil & Gibson, SC 2014).
//!
//! A private subtree has been visible only to its creator, so nothing in it needs a look-up: its rows are generated in key order
//! ([`merge`]) and become a sorted table that bypasses the log ([`rows`]). The following commit makes them reachable: it has the
//! entry of the first directory, and the sums. [`export`] exports an existing directory as a subtree.

mod export;
mod merge;
mod rows;

pub(super) use rows::{SubtreeLoad, SubtreeRows};
