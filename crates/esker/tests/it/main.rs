//! Tests of the public API: one process, several processes, processes that are killed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "a test that is not run says why")]

mod backup;
mod child;
mod death;
mod death_names;
mod graph;
mod messages;
mod meta;
mod modes;
mod names;
mod objects;
mod open_files;
mod other_users;
mod parity;
mod private_subtree;
mod processes;
mod retention;
mod speed;
mod window;
mod write_back;
