//! Simulation of a cluster: servers, their clocks, the network and the clients on one thread, from one seed.
//!
//! [`exec`] is the executor and the time, [`net`] the network, [`cluster`] the servers, which crash and restart on
//! stores that outlive them. [`workload`] generates requests ([`request`]), [`client`] repeats them until they are
//! answered, [`chaos`] injects faults meanwhile. [`check`] then checks whether all responses are possible.
//! [`scenario`] makes a run of these from a seed; [`single_client`] makes one without concurrency, so that every
//! response is known beforehand. [`differences`] compares and measures differences between two versions. [`copies`] are made of a cluster meanwhile. [`moving`] moves servers between
//! processes, as in a cluster with etcd. [`objects`] is a run for objects, [`names`] one for files, both under a
//! [`fault_schedule`]. [`faulty_engine`] is an engine in place of the cluster that answers incorrectly, to test the
//! checks.

pub mod blocking_client;
pub mod chaos;
pub mod check;
pub mod client;
pub mod client_version;
pub mod cluster;
pub mod copies;
pub mod differences;
pub mod exec;
pub mod fault_schedule;
pub mod faulty_engine;
pub mod files;
pub mod moving;
pub mod names;
pub mod net;
pub mod objects;
pub mod request;
pub mod scenario;
pub mod single_client;
pub mod travel;
pub mod workload;
