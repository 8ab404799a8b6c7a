//! Subtrees that come in at once (`IndexFS`'s bulk insertion; Ren, Zheng, Patil & Gibson, SC 2014).
//!
//! Whoever made one has seen it alone, so nothing in it has to be looked up: its rows are made in the order of their keys ([`take`]) and
//! become a sorted table past the log ([`rows`]). The commit behind it brings what makes them reachable: the entry of
//! the first directory, and the sums. [`give`] makes a subtree of what is there.

mod give;
mod rows;
mod take;

pub(super) use rows::{NewRows, unmark};
