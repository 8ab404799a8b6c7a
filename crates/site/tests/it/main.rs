//! Tiers as processes have them: real sockets, real folders as origins.
#![allow(clippy::unwrap_used, reason = "tests")]

mod http;
mod pool;
mod stay;
mod tiers;
