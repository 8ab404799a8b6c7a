//! Tests of the crate `esker-etcd`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calls;
#[path = "program.rs"]
mod etcd_program;
mod generated;
mod server;
