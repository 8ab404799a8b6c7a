//! `esker sparql`, `esker rdf`.

mod algorithm;
mod load;
mod maintenance;
mod remote;
mod sparql;
#[cfg_attr(not(feature = "workers"), path = "no_workers.rs")]
mod workers;

pub(crate) use sparql::{refused, sparql};

use crate::args::RdfCommand;
use crate::context::Context;
use crate::exit::Outcome;

/// Stack size of query threads, because parsers recurse for nested brackets, in bytes.
const STACK: usize = 256 << 20;

pub(crate) fn run(command: &RdfCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        RdfCommand::Load(args) => load::load(args, context),
        RdfCommand::Checkpoint(args) => maintenance::checkpoint(args, context),
        RdfCommand::Dump(args) => maintenance::dump(args, context),
        RdfCommand::Stats(args) => maintenance::stats(args, context),
        RdfCommand::Algorithm(args) => algorithm::run(args, context),
        RdfCommand::Worker(args) => workers::worker(args, context),
        RdfCommand::Drop(args) => maintenance::drop_all(args, context),
    }
}

/// Runs a function on a stack that is large enough for any query.
pub(crate) fn on_large_stack<T: Send>(
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("sparql".into())
            .stack_size(STACK)
            .spawn_scoped(scope, work)?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
