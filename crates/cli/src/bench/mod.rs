//! `esker bench`: what the graph costs on top of the engine that stores it, both measured in one run.
//!
//! Each workload writes or reads the same keys and values twice, through a database and through the bare engine
//! ([`esker::raw`]), in turn and several times; what is printed are medians and their ratio. Everything happens in a
//! scratch folder that is removed after. `docs/book/bench.md` has figures and says how to read them.
//!
//! Suggested reading order: [`args`], [`source`] (which graph), [`sides`] (what both sides are given), then a workload:
//! [`ingest`], [`hot_vertex`], [`read`], [`scan`], [`travel`], [`open`], [`serve`]. [`report`] prints. Ten stand apart:
//! [`placement`] counts, and neither stores nor times anything; [`cluster`] measures several servers against one;
//! [`objects`] and [`boss`] measure what SoMeta's paper measured, the latter beside other databases; [`namespace`] measures
//! files beside file systems, and [`mount`] does so through a mount; [`mod@run`] measures what recording costs; [`rdf`] measures queries beside other stores of RDF; [`site`]
//! measures the site cache, and [`wan`] far servers and tiers between.

mod args;
mod batches;
mod boss;
mod cluster;
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
mod sides;
mod site;
mod source;
mod travel;
mod wan;

pub(crate) use args::BenchArgs;

use crate::context::Context;
use crate::exit::Outcome;
use args::{Common, Timed, Workload};
use report::Report;
use scratch::Scratch;

/// What a workload is given.
pub(crate) struct Bench<'a> {
    args: &'a Common,
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

pub(crate) fn run(args: &BenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    match &args.workload {
        Workload::Timed(workload) => time(workload, context),
        Workload::Placement(args) => placement::run(args, context),
        Workload::Cluster(args) => cluster::run(args, context),
        Workload::Objects(args) => objects::run(args, context),
        Workload::Boss(args) => boss::run(args, context),
        Workload::Namespace(args) => namespace::run(args, context),
        Workload::Mount(args) => mount::run(args, context),
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

fn is_interruption(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<esker_model::Error>()
        .is_some_and(|e| matches!(e, esker_model::Error::Interrupted))
}
