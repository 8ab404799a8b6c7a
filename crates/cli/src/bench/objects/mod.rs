//! `esker bench objects`: what SoMeta's evaluation measured (sections III-B to III-H), of Esker, beside the bare store engine
//! that is given the same objects as rows.
//!
//! Suggested reading order: [`args`], [`shape`] (the objects), [`sides`] (databases full of them), then a case: [`create`],
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
mod sides;

pub(crate) use args::ObjectsBenchArgs;

use super::report::Report;
use super::scratch::Scratch;
use crate::context::Context;
use crate::exit::Outcome;
use args::Case;
use serde_json::json;

/// What a case is given.
struct Bench<'a> {
    args: &'a ObjectsBenchArgs,
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

pub(crate) fn run(args: &ObjectsBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let mut report = Report::new("objects");
    let mut bench = Bench {
        args,
        context,
        scratch: &scratch,
        report: &mut report,
    };
    let ran = args.cases.iter().try_for_each(|case| {
        bench.go_on()?;
        match case {
            Case::Create => create::embedded(&mut bench),
            Case::Served => create::served(&mut bench),
            Case::Memory => memory::run(&mut bench),
            Case::Search => search::run(&mut bench),
            Case::Change => change::run(&mut bench),
            Case::Scan => scan::run(&mut bench),
            Case::Indexed => scan::indexed(&mut bench),
            Case::Balance => balance::run(&mut bench),
            Case::Duplicates => duplicates::run(&mut bench),
        }
    });
    let stopped = match ran {
        Ok(()) => false,
        Err(error) if super::is_interruption(&error) => true,
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
