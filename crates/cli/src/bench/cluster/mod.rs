//! `esker bench cluster`: several servers as one database, measured from outside.
//!
//! Servers are processes that the benchmark starts in a scratch folder; clients are threads with a connection each. All of
//! them share this machine: what can be compared are cases of one run, by the clock and by the processor time of all
//! processes together. `docs/book/paper-graphmeta.md` puts the figures beside GraphMeta's.
//!
//! Suggested reading order: [`args`], [`servers`], [`work`] (clients), then a workload: [`insert`], [`hot_vertex`],
//! [`threshold`], [`travel`], [`scan`], [`mdtest`], [`splits`]. [`moving`] is about servers that come and go. [`report`] prints and
//! [`plot`] draws.

mod args;
mod hot_vertex;
mod insert;
mod mdtest;
mod moving;
pub(super) mod plot;
mod report;
mod scan;
mod servers;
mod splits;
mod threshold;
mod travel;
mod work;

pub(crate) use args::ClusterBenchArgs;

use crate::bench::scratch::Scratch;
use crate::context::Context;
use crate::exit::{Outcome, usage};
use args::{Shared, Workload};
use esker_cluster::Vnodes;
use report::Report;

const MIB: u64 = 1 << 20;
/// Memory of a server that is inserted into.
const MEMORY: u64 = 64 * MIB;
/// Of one that is to read from the disk.
const MEMORY_SMALL: u64 = 16 * MIB;

/// What a workload is given.
pub(super) struct Bench<'a> {
    shared: &'a Shared,
    context: &'a Context,
    scratch: &'a Scratch,
    report: &'a mut Report,
}

impl Bench<'_> {
    /// An error once the user wants no more of it; what was measured by then is printed.
    fn go_on(&self) -> anyhow::Result<()> {
        match self.context.interrupt.stopped() {
            Some(_) => Err(esker_model::Error::Interrupted.into()),
            None => Ok(()),
        }
    }

    /// Says what is being done, for people who wait.
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
    let mut report = Report::new(workload.name());
    let mut bench = Bench {
        shared,
        context,
        scratch: &scratch,
        report: &mut report,
    };
    // Whether what must not happen did not.
    let mut whole = true;
    let mut watched = |ran: anyhow::Result<bool>| ran.map(|right| whole = right);
    let ran = match workload {
        Workload::Insert(args) => insert::run(&mut bench, args),
        Workload::HotVertex(args) => hot_vertex::run(&mut bench, args),
        Workload::Threshold(args) => threshold::run(&mut bench, args),
        Workload::Travel(args) => travel::run(&mut bench, args),
        Workload::Scan(args) => scan::run(&mut bench, args),
        Workload::Mdtest(args) => mdtest::run(&mut bench, args),
        Workload::Splits(args) => splits::run(&mut bench, args),
        Workload::Failover(args) => watched(moving::failover::run(&mut bench, args)),
        Workload::Add(args) => watched(moving::add::run(&mut bench, args)),
        Workload::Soak(args) => watched(moving::soak::run(&mut bench, args)),
    };
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if super::is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    report.print(shared, context)?;
    if stopped {
        context.warn("stopped before the end: the figures above are those that were complete");
    }
    Ok(Outcome::partly_if(stopped || !whole))
}
