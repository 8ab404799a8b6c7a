//! The command as its users see it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stderr, reason = "a case that was skipped must be seen")]

mod access;
mod bench_cluster;
mod bench_moving;
mod bench_names;
mod bench_objects;
mod bench_rdf;
mod cases;
mod cluster;
mod cluster_objects;
mod cluster_same;
mod console;
mod doctor;
mod failover;
mod faults;
mod graphar;
mod mount;
mod moving;
mod names;
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
mod runs;
mod runs_diff;
mod runs_spool;
mod runs_trace;
mod serve;
mod site;
mod slurm;
mod slurm_jobs;
mod tables;
mod upgrade;
mod window;
