//! Integration tests of the importers, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod corpus;
mod darshan_damage;
mod darshan_formats;
mod darshan_graph;
mod darshan_oracle;
mod old_log;
mod rewrite;
mod slurm;
