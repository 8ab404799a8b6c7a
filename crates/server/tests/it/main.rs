//! The server as its clients see it, in this process: by its own client, by a plain gRPC client, by HTTP.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "what was skipped must be seen")]

mod access;
mod api;
mod cluster;
mod common;
mod console;
mod leases;
mod limits;
mod names;
mod names_graph;
mod objects;
mod open_files;
mod openlineage;
mod plain;
mod raw;
mod routes;
mod senders;
mod sparql;
mod sparql_graphs;
mod sparql_meta;
mod tls;
mod versions;
