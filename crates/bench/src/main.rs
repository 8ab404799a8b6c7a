//! `esker-bench`, which `esker bench` runs: the overhead of the graph over the key-value store that holds it, both measured in one run.
//!
//! Each workload writes or reads the same keys and values twice, through a database and directly through the key-value store
//! ([`esker::raw`]), alternately and several times; medians and their ratio are printed. Everything happens in a scratch folder
//! that is removed afterwards. `docs/book/bench.md` has figures and explains them.
//!
//! Suggested reading order: [`args`], [`source`] (the graph), [`sides`] (the data of both sides), then a workload:
//! [`ingest`], [`hot_vertex`], [`read`], [`scan`], [`travel`], [`open`], [`serve`]. [`report`] prints. [`all`] runs the workloads one after the
//! other. Eleven others differ:
//! [`placement`] only counts; [`cluster`] compares several servers with one; [`objects`] and [`boss`] repeat the measurements of
//! SoMeta's paper, the latter compared with other databases; [`namespace`] compares files with file systems, and [`mount`] does
//! so through a mount; [`tree`] compares an import of a directory tree with a walk; [`mod@run`] measures the overhead of recording;
//! [`rdf`] compares queries with other RDF stores; [`site`] measures
//! the site cache, and [`wan`] remote servers with tiers in between.

mod all;
mod args;
mod batches;
mod boss;
mod cluster;
mod comparison;
mod copurchase;
mod hot_vertex;
mod ingest;
mod machine;
mod mount;
mod namespace;
mod objects;
mod open;
mod placement;
mod random;
mod rdf;
mod read;
mod report;
mod rmat;
mod run;
mod scan;
mod scratch;
mod serve;
mod site;
mod source;
mod timed;
mod travel;
mod tree;
mod versions;
mod wan;

use args::{BenchArgs, Timed, Workload};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::program;
use report::Report;
use scratch::Scratch;
use std::process::ExitCode;
use timed::{Bench, is_interruption};

/// The program itself and its servers allocate as `esker` does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    program::install_panic_hook();
    match esker_terminal::help::parse::<BenchArgs>() {
        Ok(args) => program::run(args.globals, |context, _| run(&args.workload, context)),
        Err(error) => program::print_usage(&error),
    }
}

fn run(workload: &Workload, context: &mut Context) -> anyhow::Result<Outcome> {
    match workload {
        Workload::Timed(workload) => time(workload, context),
        Workload::All(args) => all::run(args, context),
        Workload::Placement(args) => placement::run(args, context),
        Workload::Cluster(args) => cluster::run(args, context),
        Workload::Objects(args) => objects::run(args, context),
        Workload::Boss(args) => boss::run(args, context),
        Workload::Namespace(args) => namespace::run(args, context),
        Workload::Mount(args) => mount::run(args, context),
        Workload::Tree(args) => tree::run(args, context),
        Workload::Run(args) => run::run(args, context),
        Workload::Rdf(args) => rdf::run(args, context),
        Workload::Site(args) => site::run(args, context),
        Workload::Wan(args) => wan::run(args, context),
    }
}

fn time(workload: &Timed, context: &mut Context) -> anyhow::Result<Outcome> {
    let common = workload.common();
    let scratch = Scratch::make(&common.directory, common.keep)?;
    let mut report = Report::new(workload.name());
    let mut bench = Bench {
        args: common,
        context,
        scratch: &scratch,
        report: &mut report,
    };
    let ran = match workload {
        Timed::Ingest(args) => ingest::run(&mut bench, args.bulk),
        Timed::HotVertex(args) => hot_vertex::run(&mut bench, args.degree),
        Timed::Read(_) => read::run(&mut bench),
        Timed::Scan(_) => scan::run(&mut bench),
        Timed::Travel(_) => travel::run(&mut bench),
        Timed::Open(_) => open::run(&mut bench),
        Timed::Versions(args) => versions::run(&mut bench, args.versions),
        Timed::Serve(args) => serve::run(&mut bench, args),
    };
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    let settings = common.settings(context.globals.memory);
    let how = (common.format.format, common.json.as_deref());
    report.print(&settings, how, context)?;
    if stopped {
        context.warn("stopped before the end: the figures above are those that were complete");
    }
    Ok(Outcome::partly_if(stopped))
}
