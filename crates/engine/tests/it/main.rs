//! The engine against its reference model, under threads, faults and budgets.

#![allow(
    clippy::disallowed_methods,
    reason = "tests are hosts: they may start threads and read the environment"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "everything here is a test; figures of what was played are for people"
)]

mod budgets;
mod commit;
mod crash;
mod explain;
mod formats;
mod idempotency;
mod model;
mod names;
mod objects;
mod objects_new;
mod regressions;
mod retention;
mod small;
mod threads;
