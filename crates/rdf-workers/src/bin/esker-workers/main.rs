//! `esker-workers`, which `esker rdf worker` and `esker sparql workers://…` run: SPARQL over several processes. `DataFusion` is as large
//! as the rest of Esker, so it is not part of the command.

mod args;
mod query;
mod secret;
mod worker;

use args::RdfWorkerArgs;
use clap::{Args, Parser, Subcommand};
use esker_terminal::args::Globals;
use esker_terminal::context::Context;
use esker_terminal::program;
use esker_terminal::sparql::SparqlArgs;
use std::process::ExitCode;

/// Workers allocate as `esker` does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command line, as `esker` has it for these two commands.
#[derive(Debug, Parser)]
#[command(
    name = "esker-workers",
    bin_name = "esker",
    version,
    about = "SPARQL over several processes, with a part of the data in each",
    arg_required_else_help = true,
    subcommand_required = true,
    propagate_version = true,
    max_term_width = 110
)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer queries for one part of RDF data
    Rdf(RdfArgs),
    /// Query the workers of a target workers://HOST:PORT,…
    Sparql(SparqlArgs),
}

#[derive(Debug, Args)]
struct RdfArgs {
    #[command(subcommand)]
    command: RdfCommand,
}

#[derive(Debug, Subcommand)]
enum RdfCommand {
    /// Answer queries for one part of RDF data that several processes hold together
    Worker(RdfWorkerArgs),
}

fn main() -> ExitCode {
    program::install_panic_hook();
    match esker_terminal::help::parse::<Cli>() {
        Ok(cli) => program::run(cli.globals, |context, _| match cli.command {
            Command::Rdf(RdfArgs {
                command: RdfCommand::Worker(args),
            }) => worker::run(&args, context),
            Command::Sparql(args) => query::run(&args, context),
        }),
        Err(error) => program::print_usage(&error),
    }
}

/// Returns the memory of a query, in bytes.
fn memory(context: &Context) -> usize {
    usize::try_from(context.globals.memory)
        .unwrap_or(usize::MAX)
        .max(4 << 30)
}
