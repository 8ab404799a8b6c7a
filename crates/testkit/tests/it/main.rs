//! Random histories on the store that ships.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "everything here is a test; figures of what was played are for people"
)]

mod fjall;
