//! The program `esker-bench` at minimal sizes: its reports and counts, not its times. Workloads with servers start the command `esker`,
//! which is built beside it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(
    clippy::print_stderr,
    reason = "messages about skipped tests are for people"
)]

mod cluster;
#[path = "../../../etcd/tests/it/program.rs"]
mod etcd_program;
mod hostile;
mod mount;
mod moving;
mod names;
mod objects;
mod rdf;
mod tree;
