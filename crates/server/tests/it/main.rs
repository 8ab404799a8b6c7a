//! The server as clients see it, in this process: with its own client, a plain gRPC client, and HTTP.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "what was skipped must be seen")]

mod access;
mod api;
mod audit;
mod background;
mod bound;
mod catalogue;
mod cluster;
mod common;
mod console;
mod hostile;
mod leases;
mod limits;
mod methods;
mod names;
mod names_graph;
mod objects;
mod open_files;
mod openlineage;
mod pages;
mod plain;
mod principals;
mod producers;
mod quotas;
mod raw;
mod rdf_rights;
mod refused;
mod routes;
mod sessions;
mod sharing;
mod sparql;
mod sparql_graphs;
mod sparql_load;
mod sparql_meta;
mod squatter;
mod tls;
mod versions;
mod visibility;
