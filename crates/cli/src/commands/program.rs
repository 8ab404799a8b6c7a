//! Commands that are programs of their own: `esker-bench` and `esker-workers`.

use anyhow::Context as _;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::program::installed;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Runs a program that is installed with this one, in place of this process, with the arguments of this process.
///
/// The word `without`, if any, is left out: `esker --quiet bench scan` runs `esker-bench --quiet scan`.
pub(crate) fn run_program(
    name: &str,
    without: Option<&str>,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    if context.is_in_shell() {
        return Err(usage(format!(
            "the shell has this database open, and `{name}` is a program of its own: run the command outside of the shell"
        )));
    }
    context.finish()?;
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(at) = arguments
        .iter()
        .position(|a| without.is_some_and(|w| a == w))
    {
        arguments.remove(at);
    }
    let mut command = Command::new(installed(name)?);
    Err(command.args(arguments).exec()).with_context(|| format!("starting `{name}`"))
}
