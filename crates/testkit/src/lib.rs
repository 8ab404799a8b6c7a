//! Test infrastructure: a reference model, histories of operations, a simulated clock, an in-memory archive.
//!
//! [`model::GraphModel`] answers every call of the API from a plain list of all events; it is slow and obvious.
//! [`history::History`] is a random sequence of batches, bulk loads, compactions, restarts and crashes, generated
//! from seeds. [`run::Run`] runs one against an engine and compares every answer with the model's. [`sim`] is a
//! cluster of servers in one thread, with an unreliable network, checked against the same model. [`members`] tests
//! membership alone: processes that pause and crash, an etcd with leases, folders that outlive their owners.
//! Development only: no released crate depends on this one.

pub mod archive;
pub mod clock;
pub mod compare;
pub mod graphs;
pub mod history;
pub mod members;
pub mod model;
pub mod names;
pub mod port;
pub mod program;
pub mod reads;
pub mod rng;
pub mod run;
pub mod signal;
pub mod sim;
pub mod test_graph;
pub mod wait;
