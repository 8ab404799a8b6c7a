//! `esker bench cluster`: several servers as one database, measured from outside.
//!
//! Servers are processes that the benchmark starts in a scratch folder; clients are threads with a connection each. All share
//! this machine: only cases of one run are comparable, by time and by the processor time of all processes.
//! `docs/book/paper-graphmeta.md` compares the figures with GraphMeta's.
//!
//! Suggested reading order: [`args`], [`servers`], [`work`] (clients), then a workload: [`insert`], [`hot_vertex`],
//! [`threshold`], [`travel`], [`scan`], [`mdtest`], [`splits`]. [`moving`] covers servers that join and fail.
//! [`report`] prints and
//! [`plot`] draws.

mod args;
mod hot_vertex;
mod insert;
mod mdtest;
mod moving;
mod pause;
pub(super) mod plot;
mod report;
mod scan;
mod servers;
mod splits;
mod threshold;
mod travel;
mod work;

pub(crate) use args::ClusterBenchArgs;

use crate::scratch::Scratch;
use args::{ClusterWorkload, Shared};
use esker_cluster::Vnodes;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use report::ClusterReport;

const MIB: u64 = 1 << 20;
/// Memory of a server for insert workloads, in bytes.
const MEMORY: u64 = 64 * MIB;
/// Memory of a server that should read from disk, in bytes.
const MEMORY_SMALL: u64 = 16 * MIB;

/// The context of a workload.
pub(super) struct ClusterBench<'a> {
    shared: &'a Shared,
    context: &'a Context,
    scratch: &'a Scratch,
    report: &'a mut ClusterReport,
}

impl ClusterBench<'_> {
    /// Returns an error once the user has interrupted; the measurements so far are printed.
    fn check_interrupt(&self) -> anyhow::Result<()> {
        match self.context.interrupt.stopped() {
            Some(_) => Err(esker_model::Error::Interrupted.into()),
            None => Ok(()),
        }
    }

    /// Prints a progress message.
    fn say(&self, text: &str) {
        self.context.note(text);
    }
}

pub(crate) fn run(args: &ClusterBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let workload = &args.workload;
    let shared = workload.shared();
    Vnodes::new(shared.vnodes).map_err(|error| usage(format!("--vnodes: {error}")))?;
    if let Some(folder) = &shared.plots {
        std::fs::create_dir_all(folder).map_err(|e| {
            esker_model::Error::io(format!("making the directory {}", folder.display()), e)
        })?;
    }
    let scratch = Scratch::make(&shared.directory, shared.keep)?;
    let mut report = ClusterReport::new(workload.name());
    let mut bench = ClusterBench {
        shared,
        context,
        scratch: &scratch,
        report: &mut report,
    };
    // Whether all checks of the workload passed.
    let mut whole = true;
    let mut watched = |ran: anyhow::Result<bool>| ran.map(|right| whole = right);
    let ran = match workload {
        ClusterWorkload::Insert(args) => insert::run(&mut bench, args),
        ClusterWorkload::HotVertex(args) => hot_vertex::run(&mut bench, args),
        ClusterWorkload::Threshold(args) => threshold::run(&mut bench, args),
        ClusterWorkload::Travel(args) => travel::run(&mut bench, args),
        ClusterWorkload::Scan(args) => scan::run(&mut bench, args),
        ClusterWorkload::Mdtest(args) => mdtest::run(&mut bench, args),
        ClusterWorkload::Splits(args) => splits::run(&mut bench, args),
        ClusterWorkload::Failover(args) => watched(moving::failover::run(&mut bench, args)),
        ClusterWorkload::Add(args) => watched(moving::add::run(&mut bench, args)),
        ClusterWorkload::Soak(args) => watched(moving::soak::run(&mut bench, args)),
    };
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if crate::timed::is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    report.print(shared, context)?;
    if stopped {
        context.warn("stopped before the end: the figures above are those that were complete");
    }
    Ok(Outcome::partly_if(stopped || !whole))
}
