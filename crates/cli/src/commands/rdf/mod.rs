//! `esker sparql`, `esker rdf`.

mod algorithm;
mod load;
mod maintenance;
mod remote;
mod sparql;

pub(crate) use sparql::sparql;

use crate::args::RdfCommand;
use crate::commands::program::run_program;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;

pub(crate) fn run(command: &RdfCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        RdfCommand::Load(args) => load::load(args, context),
        RdfCommand::Checkpoint(args) => maintenance::checkpoint(args, context),
        RdfCommand::Dump(args) => maintenance::dump(args, context),
        RdfCommand::Stats(args) => maintenance::stats(args, context),
        RdfCommand::Algorithm(args) => algorithm::run(args, context),
        RdfCommand::Worker(_) => run_program("esker-workers", None, context),
        RdfCommand::Drop(args) => maintenance::drop_all(args, context),
    }
}
