//! `esker demo`: imports five small Darshan logs into a database, shows the lineage of a figure, and names the next commands.
//!
//! `scripts/demo-logs.py` wrote the logs, of an invented ensemble of a climate model and its analysis.

use super::{console, run_command};
use crate::args::{self, ConsoleArgs, DemoArgs};
use anyhow::Context as _;
use esker_model::Error;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use std::io::Write as _;

/// File whose lineage is shown.
const RESULT: &str = "file:/lab/results/figure3.png";
/// File on which all results depend.
const INPUT: &str = "file:/lab/input/topography.nc";

/// Includes the log of a job.
macro_rules! logs {
    ($($name:literal),+) => {
        [$(($name, include_bytes!(concat!($name, ".darshan")))),+]
    };
}

const LOGS: [(&str, &[u8]); 5] = logs!(
    "u1001_simulate_id4101",
    "u1001_simulate_id4102",
    "u1002_ensemble-mean_id4110",
    "u1002_plot_id4117",
    "u1003_verify_id4123"
);

pub(crate) fn run(
    args: &DemoArgs,
    context: &mut Context,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let folder = args
        .folder
        .to_str()
        .with_context(|| format!("`{}` is not UTF-8", args.folder.display()))?;
    let logs = tempfile::tempdir().context("creating a folder for the logs")?;
    for (name, bytes) in LOGS {
        let file = logs.path().join(name).with_extension("darshan");
        std::fs::write(&file, bytes)
            .map_err(|e| Error::io(format!("writing `{}`", file.display()), e))?;
    }
    let mut demo = Demo {
        context,
        interrupt,
        folder,
    };
    writeln!(
        demo.context.out,
        "Five Darshan logs of an invented climate model: two simulations, their mean, a figure and a verification."
    )?;
    demo.command("import darshan", &logs.path().to_string_lossy(), "LOGS")?;
    writeln!(demo.context.out, "\nWhere does the figure come from?")?;
    let outcome = demo.command("lineage", RESULT, RESULT)?;
    demo.print_next()?;
    context.finish()?;
    if args.open {
        let args = ConsoleArgs {
            target: folder.to_owned(),
            port: 0,
            print: false,
        };
        return console::run_at(&args, Some(RESULT), context);
    }
    Ok(outcome)
}

struct Demo<'a> {
    context: &'a mut Context,
    interrupt: &'a Interrupt,
    folder: &'a str,
}

impl Demo<'_> {
    /// Prints a command as a user types it, with `shown` for its argument, and runs it.
    fn command(&mut self, name: &str, argument: &str, shown: &str) -> anyhow::Result<Outcome> {
        let Self { folder, .. } = self;
        writeln!(self.context.out, "\n$ esker {name} {folder} {shown}")?;
        self.context.out.flush()?;
        let words = name.split(' ').chain([*folder, argument]);
        let line = args::parse(args::command(), std::iter::once("esker").chain(words));
        let line = line.map_err(|e| usage(e.to_string()))?;
        run_command(line.command, self.context, self.interrupt)
    }

    fn print_next(&mut self) -> anyhow::Result<()> {
        let Self {
            context, folder, ..
        } = self;
        let next = [
            (
                format!("impact {folder} {INPUT}"),
                "what was made from an input",
            ),
            (format!("top {folder}"), "the vertices with most edges"),
            (format!("console {folder}"), "all of it in a browser"),
        ];
        let width = next.iter().map(|(command, _)| command.len()).max();
        let width = width.unwrap_or_default();
        writeln!(context.out, "\nNext:")?;
        for (command, about) in next {
            writeln!(context.out, "  esker {command:width$}   {about}")?;
        }
        Ok(())
    }
}
