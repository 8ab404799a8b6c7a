//! A cluster in a box: servers, their clocks, the network between them and their clients on one thread, from one seed.
//!
//! [`exec`] is the thread and the time, [`net`] the network, [`cluster`] the servers, which die and come back on stores that
//! outlive them. [`workload`] says what clients ask ([`ask`]), [`client`] how they insist on an answer, [`chaos`] what goes
//! wrong meanwhile. [`check`] then asks whether all that was answered could have been. [`play`] makes a run of these from a
//! seed; [`alone`] makes one in which nothing happens at the same time, so that every answer is known beforehand.
//! [`copies`] are made of a cluster meanwhile. [`moving`] has servers move between processes, as in a cluster with an etcd.
//! [`objects`] is a run of its own for objects, [`names`] one for files, both in [`weather`]. [`liar`] is an engine in the cluster's place that answers wrongly, to try the checks.

pub mod alone;
pub mod ask;
pub mod chaos;
pub mod check;
pub mod client;
pub mod cluster;
pub mod copies;
pub mod exec;
pub mod facade;
pub mod files;
pub mod liar;
pub mod moving;
pub mod names;
pub mod net;
pub mod objects;
pub mod play;
pub mod weather;
pub mod workload;
