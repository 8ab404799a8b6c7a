//! Random histories on the default store.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "everything here is a test; figures of what was played are for people"
)]

mod fjall;
