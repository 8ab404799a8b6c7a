//! Tiers as processes use them: real sockets, real folders as origins.
#![allow(clippy::print_stdout, reason = "what was skipped must be seen")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod access;
#[path = "../../../etcd/tests/it/program.rs"]
mod etcd_program;
#[path = "../../../etcd/tests/it/server.rs"]
mod etcd_server;
mod hostile;
mod http;
mod pool;
mod sources;
mod stay;
mod tiers;
