//! What tests stand on: a reference model, histories of operations, a simulated clock, an archive in memory.
//!
//! [`model::GraphModel`] answers every question of the API from a plain list of everything that happened; it is slow and
//! obvious. [`history::History`] is a random sequence of batches, bulk loads, compactions, reopenings and crashes, made from
//! seeds alone. [`run::Run`] plays one against an engine and compares every answer with the model's.
//! [`sim`] is a cluster of servers in one thread, with a network that fails, checked against the same model.
//! [`members`] is membership alone: processes that pause and die, an etcd with leases, folders that outlive their owners.
//! Development only: nothing that ships depends on this crate.

pub mod archive;
pub mod clock;
pub mod compare;
pub mod graphs;
pub mod history;
pub mod members;
pub mod model;
pub mod names;
pub mod program;
pub mod reads;
pub mod rng;
pub mod run;
pub mod sim;
pub mod wait;
pub mod world;
