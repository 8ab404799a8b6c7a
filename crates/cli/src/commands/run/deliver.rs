//! Bringing runs from a spool to their databases: `esker spool`, and what `esker run` and `esker log` do of it.

use super::{detached, told};
use crate::args::{Globals, SpoolCommand, SpoolDeliverArgs, SpoolListArgs};
use crate::context::Context;
use crate::exit::Outcome;
use crate::interrupt::Interrupt;
use crate::output::{Cell, Rows};
use crate::units::counted;
use esker::{Database, OpenOptions};
use esker_model::{Cancel as _, Error, Result};
use esker_record::{Found, Run, Spool, deliver_all, deliver_one};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Between two looks of `--watch`.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    pub(crate) runs: u64,
    pub(crate) left: u64,
    pub(crate) going_on: u64,
    /// What is wrong, a line each.
    pub(crate) problems: Vec<String>,
}

/// Brings what waits for a target, or for any, there.
pub(crate) fn deliver(
    spool: &Spool,
    only: Option<&str>,
    options: &OpenOptions,
    open: Option<&Database>,
) -> Delivered {
    let mut out = Delivered::default();
    let found = match spool.read() {
        Ok(found) => found,
        Err(e) => {
            out.problems
                .push(format!("{}: {e}", spool.folder().display()));
            return out;
        }
    };
    let mut by_target: BTreeMap<String, Vec<(Box<Run>, PathBuf)>> = BTreeMap::new();
    for found in found {
        match found {
            Found::Run(run, path) => {
                // One that names no database is for whoever asks.
                let target = match only {
                    Some(only) if run.target.is_empty() => only.to_owned(),
                    _ => run.target.clone(),
                };
                if target.is_empty() {
                    out.left += 1;
                    let folder = spool.folder().display();
                    out.problems.push(format!(
                        "{} names no database: `esker spool deliver --spool {folder} --target T` or `esker serve --spool {folder}` brings it",
                        told(&run)
                    ));
                } else if only.is_none_or(|only| only == target) {
                    by_target.entry(target).or_default().push((run, path));
                }
            }
            Found::GoesOn(_) => out.going_on += 1,
            Found::Broken(path, why) => {
                out.left += 1;
                out.problems.push(format!("{}: {why}", path.display()));
            }
        }
    }
    for (target, runs) in by_target {
        let count = runs.len() as u64;
        let opened = open.filter(|_| only.is_some()).cloned();
        let database = opened.map_or_else(|| options.clone().create(true).open(&target), Ok);
        let delivered = database.and_then(|database| {
            let mut refused = Vec::new();
            let done = deliver_all(&database, &runs, &mut refused);
            let say = |(path, why): (PathBuf, String)| format!("{}: {why}", path.display());
            out.problems.extend(refused.into_iter().map(say));
            if open.is_none() {
                database.close()?;
            }
            done
        });
        match delivered {
            Ok(delivered) => {
                out.runs += delivered;
                out.left += count - delivered;
            }
            Err(e) => {
                out.left += count;
                let waits = counted(count, "run waits", "runs wait");
                out.problems.push(format!("{waits} for {target}: {e}"));
            }
        }
    }
    out
}

/// Delivers before `esker run` ends.
pub(super) fn now(spool: &Spool, target: &str, globals: &Globals) {
    let options = OpenOptions::new().memory_bytes(globals.memory);
    for problem in deliver(spool, Some(target), &options, None).problems {
        super::warn(globals, &problem);
    }
}

/// Delivers a run that the spool has no room for, and removes what the spool has of it.
pub(super) fn directly(run: &Run, begun: Option<PathBuf>, globals: &Globals) -> Result<()> {
    if run.target.is_empty() {
        return Err(Error::Invalid("no database is named (--target)".into()));
    }
    let options = OpenOptions::new().memory_bytes(globals.memory);
    let database = options.create(true).open(&run.target)?;
    let applied = deliver_one(&database, run);
    database.close()?;
    applied?;
    // If it stays, it is delivered again, which changes nothing.
    let _ = begun.map(std::fs::remove_file);
    Ok(())
}

/// Has a process of its own deliver.
pub(super) fn beside(spool: &Spool, target: &str) {
    let words = [
        OsStr::new("--quiet"),
        OsStr::new("spool"),
        OsStr::new("deliver"),
        OsStr::new("--spool"),
        spool.folder().as_os_str(),
        OsStr::new("--target"),
        OsStr::new(target),
    ];
    // The next one delivers, too.
    let _ = detached(&words);
}

pub(crate) fn run(command: &SpoolCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        SpoolCommand::List(args) => list(args, context),
        SpoolCommand::Deliver(args) => deliver_command(args, context),
    }
}

fn deliver_command(args: &SpoolDeliverArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let spool = super::spool(&args.spool);
    let options = context.open_options();
    let mut told: Vec<String> = Vec::new();
    let mut all = 0;
    loop {
        let target = args.target.as_deref().map(super::whole_target);
        let done = deliver(&spool, target.as_deref(), &options, None);
        all += done.runs;
        for problem in done.problems.iter().filter(|p| !told.contains(p)) {
            context.warn(problem);
        }
        told = done.problems;
        if !args.watch {
            report(args, context, (all, done.left, done.going_on))?;
            return Ok(Outcome::partly_if(done.left > 0));
        }
        if !rest(&context.interrupt) {
            report(args, context, (all, done.left, done.going_on))?;
            return Ok(Outcome::Done);
        }
    }
}

fn report(
    args: &SpoolDeliverArgs,
    context: &mut Context,
    (runs, left, going_on): (u64, u64, u64),
) -> anyhow::Result<()> {
    let sentence = format!(
        "delivered {}; {left} left, {going_on} going on",
        counted(runs, "run", "runs")
    );
    let columns = &["delivered", "left", "going_on"];
    let cells = [runs, left, going_on].map(Cell::Count).into();
    crate::output::report(context, args.format.format, &sentence, columns, cells)?;
    Ok(())
}

/// False once somebody has interrupted it.
fn rest(interrupt: &Interrupt) -> bool {
    let step = Duration::from_millis(100);
    let mut left = LOOK_AFTER;
    while !left.is_zero() && !interrupt.cancelled() {
        std::thread::sleep(step);
        left = left.saturating_sub(step);
    }
    !interrupt.cancelled()
}

fn list(args: &SpoolListArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let spool = super::spool(&args.spool);
    let found = spool.read().map_err(|e| {
        Error::io(
            format!("reading the spool `{}`", spool.folder().display()),
            e,
        )
    })?;
    let columns = &["run", "name", "state", "target", "file"];
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
    let mut broken = false;
    for found in found {
        let (run, state, path) = match found {
            Found::Run(run, path) => (Some(run), "waits".to_owned(), path),
            Found::GoesOn(path) => (None, "goes on".to_owned(), path),
            Found::Broken(path, why) => {
                broken = true;
                (None, format!("broken: {why}"), path)
            }
        };
        let text = |part: fn(&Run) -> &str| run.as_deref().map_or("", part).to_owned();
        rows.row(vec![
            Cell::from(
                run.as_deref()
                    .map_or_else(String::new, |r| format!("execution:{}", r.id)),
            ),
            Cell::from(text(|r| &r.name)),
            Cell::from(state),
            Cell::from(text(|r| &r.target)),
            Cell::from(path.display().to_string()),
        ])?;
    }
    rows.finish()?;
    Ok(Outcome::partly_if(broken))
}
