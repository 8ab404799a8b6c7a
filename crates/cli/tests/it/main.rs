//! The command from a user's perspective.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(
    clippy::print_stderr,
    reason = "what was skipped, and figures of what was played, are for people"
)]

mod access;
mod cases;
mod cluster;
mod cluster_objects;
mod cluster_same;
mod console;
mod doctor;
mod doctor_open;
#[path = "../../../etcd/tests/it/program.rs"]
mod etcd_program;
mod failover;
mod faults;
mod graphar;
mod harvest;
mod job_orders;
mod kill;
mod mount;
mod moving;
mod names;
mod names_acls;
mod names_cluster;
mod names_graph;
mod normalise;
mod objects;
mod openlineage;
mod operations;
mod processes;
mod prov;
mod rdf;
mod rdf_workers;
mod resize;
mod resize_window;
mod ro_crate;
mod runs;
mod runs_diff;
mod runs_shared;
mod runs_spool;
mod runs_trace;
mod sandbox;
mod serve;
mod sessions;
mod site;
mod slurm;
mod slurm_jobs;
mod tables;
mod upgrade;
mod window;
