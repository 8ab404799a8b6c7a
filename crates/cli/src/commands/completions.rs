//! `esker completions`: completion scripts for shells.

use crate::args::{Cli, CompletionsArgs};
use clap::CommandFactory as _;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use std::io::Write as _;

pub(crate) fn run(args: &CompletionsArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    // The generator cannot handle a closed output, so the script is built in memory first.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "esker", &mut script);
    context.out.write_all(&script)?;
    Ok(Outcome::Done)
}
