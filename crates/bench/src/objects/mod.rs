//! `esker bench objects`: the measurements of SoMeta's evaluation (sections III-B to III-H), compared with the
//! key-value store that
//! holds the same objects as rows.
//!
//! Suggested reading order: [`args`], [`shape`] (the objects), [`stores`] (databases filled with them), then a case: [`create`],
//! [`memory`], [`search`], [`change`], [`scan`] (with [`scan::indexed`]), [`balance`], [`duplicates`].

mod args;
mod balance;
mod change;
mod create;
mod duplicates;
mod memory;
mod scan;
mod search;
mod shape;
mod stores;

pub(crate) use args::ObjectsBenchArgs;

use super::report::Report;
use super::scratch::Scratch;
use args::ObjectCase;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use serde_json::json;

/// The context of a case.
struct ObjectsBench<'a> {
    args: &'a ObjectsBenchArgs,
    context: &'a Context,
    scratch: &'a Scratch,
    report: &'a mut Report,
}

impl ObjectsBench<'_> {
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

pub(crate) fn run(args: &ObjectsBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let mut report = Report::new("objects");
    let mut bench = ObjectsBench {
        args,
        context,
        scratch: &scratch,
        report: &mut report,
    };
    let ran = args.cases.iter().try_for_each(|case| {
        bench.check_interrupt()?;
        match case {
            ObjectCase::Create => create::embedded(&mut bench),
            ObjectCase::Served => create::served(&mut bench),
            ObjectCase::Memory => memory::run(&mut bench),
            ObjectCase::Search => search::run(&mut bench),
            ObjectCase::Change => change::run(&mut bench),
            ObjectCase::Scan => scan::run(&mut bench),
            ObjectCase::Indexed => scan::indexed(&mut bench),
            ObjectCase::Balance => balance::run(&mut bench),
            ObjectCase::Duplicates => duplicates::run(&mut bench),
        }
    });
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if crate::timed::is_interruption(&error) => true,
        Err(error) => return Err(error),
    };
    let settings = json!({
        "objects": args.objects,
        "batch": args.batch,
        "threads": args.threads,
        "clients": args.clients,
        "rounds": args.rounds,
        "memory_bytes": context.globals.memory,
    });
    let how = (args.format.format, args.json.as_deref());
    report.print(&settings, how, context)?;
    if stopped {
        context.warn("stopped before the end: the figures above are those that were complete");
    }
    Ok(Outcome::partly_if(stopped))
}
