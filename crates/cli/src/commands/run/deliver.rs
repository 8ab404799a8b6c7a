//! Bringing runs from a spool to their databases: `esker spool`, and what `esker run` and `esker log` do of it.

use super::{detached, told};
use crate::args::{Globals, SpoolCommand, SpoolDeliverArgs, SpoolListArgs, Target};
use crate::context::Context;
use crate::exit::Outcome;
use crate::interrupt::Interrupt;
use crate::output::{Cell, Rows};
use crate::units::counted;
use esker::rpc::Address;
use esker::{Database, OpenOptions};
use esker_model::{Cancel as _, Error, Result};
use esker_record::{Delivery, Found, Run, Spool, Waiting, Which, deliver_all, deliver_one};
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
    /// Runs for other databases, by what they say.
    pub(crate) elsewhere: BTreeMap<String, u64>,
    /// Files of other users.
    pub(crate) others: u64,
    /// What is wrong, a line each.
    pub(crate) problems: Vec<String>,
}

impl Delivered {
    /// Delivers runs to a database by `deliver`, and adds what came of it.
    fn add(
        &mut self,
        runs: &[Waiting],
        target: &str,
        deliver: impl FnOnce(&mut Delivery) -> Result<()>,
    ) {
        let mut delivery = Delivery::default();
        let done = deliver(&mut delivery);
        let say = |(path, why): (PathBuf, String)| format!("{}: {why}", path.display());
        self.problems.extend(delivery.refused.into_iter().map(say));
        self.runs += delivery.runs;
        let left = (runs.len() as u64).saturating_sub(delivery.runs);
        self.left += left;
        for (path, e) in delivery.stay {
            let path = path.display();
            self.problems
                .push(format!("{path} was delivered, and cannot be removed: {e}"));
        }
        if let Err(e) = done {
            let waits = counted(left, "run waits", "runs wait");
            self.problems.push(format!("{waits} for {target}: {e}"));
        }
    }
}

/// Brings the user's own runs that wait for a database there. Which database that is, the caller says, and how it is reached: a file in the spool
/// says only whether it is for that one.
pub(crate) fn deliver(
    spool: &Spool,
    target: Option<&str>,
    options: &OpenOptions,
    open: Option<&Database>,
) -> Delivered {
    let mut out = Delivered::default();
    let found = match spool.look(Which::All) {
        Ok(found) => found.only_of(rustix::process::getuid().as_raw()),
        Err(e) => {
            out.problems
                .push(format!("{}: {e}", spool.folder().display()));
            return out;
        }
    };
    let mut runs = Vec::new();
    for found in found {
        match found {
            Found::Run(waiting) => {
                if let Err(why) = waiting.check_owner() {
                    out.left += 1;
                    out.problems
                        .push(format!("{}: {why}", waiting.path.display()));
                    continue;
                }
                let wanted = &waiting.run.target;
                // One that names no database is for whoever asks.
                if target.is_some_and(|target| wanted.is_empty() || same(target, wanted)) {
                    runs.push(waiting);
                } else if wanted.is_empty() {
                    out.left += 1;
                    let folder = spool.folder().display();
                    out.problems.push(format!(
                        "{} names no database: `esker spool deliver --spool {folder} --target T` or `esker serve --spool {folder}` brings it",
                        told(&waiting.run)
                    ));
                } else {
                    *out.elsewhere.entry(wanted.clone()).or_default() += 1;
                }
            }
            Found::GoesOn(_) => out.going_on += 1,
            Found::Other(..) => out.others += 1,
            Found::Broken(path, why) => {
                out.left += 1;
                out.problems.push(format!("{}: {why}", path.display()));
            }
        }
    }
    let Some(target) = target.filter(|_| !runs.is_empty()) else {
        return out;
    };
    let opened = open.cloned();
    let opened = opened.map_or_else(|| options.clone().create(true).open(target), Ok);
    out.add(&runs, target, |delivery| {
        let database = opened?;
        let done = deliver_all(&database, &runs, None, delivery);
        if open.is_none() {
            database.close()?;
        }
        done
    });
    out
}

/// Opens a database that exists, and first delivers the user's ended runs that name it: `esker run` returns before its run is delivered, and the
/// next command must see that run. What cannot be delivered is a warning.
pub(crate) fn open_with_runs(context: &mut Context, target: &Target) -> anyhow::Result<Database> {
    let database = context.open(target)?;
    let whole = super::whole_target(&target.target);
    // `esker log` and `esker spool` report a spool that cannot be read.
    let Ok(found) = Spool::usual().look(Which::Ended) else {
        return Ok(database);
    };
    let of_user = found.only_of(rustix::process::getuid().as_raw());
    let runs: Vec<Waiting> = of_user
        .filter_map(|found| match found {
            Found::Run(waiting) => Some(waiting),
            _ => None,
        })
        .filter(|waiting| waiting.check_owner().is_ok() && same(&whole, &waiting.run.target))
        .collect();
    if !runs.is_empty() {
        let mut delivered = Delivered::default();
        delivered.add(&runs, &whole, |delivery| {
            deliver_all(&database, &runs, None, delivery)
        });
        for problem in &delivered.problems {
            context.warn(problem);
        }
    }
    Ok(database)
}

/// Whether two targets are one database. How a server is to be reached is no part of which it is.
fn same(one: &str, other: &str) -> bool {
    let place = |target: &str| {
        let address = Address::parse(target).ok()?;
        Some((address.host.to_ascii_lowercase(), address.port))
    };
    match (Address::is_address(one), Address::is_address(other)) {
        (true, true) => place(one).is_some_and(|one| Some(one) == place(other)),
        (false, false) => one == other,
        _ => false,
    }
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
    let target = args.target.as_deref().map(super::whole_target);
    loop {
        let mut done = deliver(&spool, target.as_deref(), &options, None);
        all += done.runs;
        tell_elsewhere(&mut done, &spool, target.is_some());
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

/// Runs that are not for the database that was named, and files of others.
fn tell_elsewhere(done: &mut Delivered, spool: &Spool, named: bool) {
    let folder = spool.folder().display();
    for (target, count) in &done.elsewhere {
        let waits = counted(*count, "run waits", "runs wait");
        done.problems.push(format!(
            "{waits} for {target}: `esker spool deliver --spool {folder} --target {target}` brings them"
        ));
        // Who names a database asks for no other.
        if !named {
            done.left += count;
        }
    }
    if done.others > 0 {
        let files = counted(done.others, "file there is", "files there are");
        done.problems.push(format!(
            "{files} other users': each delivers their own, and `esker serve --spool {folder}` takes in all"
        ));
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
    let found = spool.look(Which::All).map_err(|e| {
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
            Found::Run(waiting) => {
                let state = match waiting.check_owner() {
                    Ok(()) => "waits".to_owned(),
                    Err(why) => {
                        broken = true;
                        format!("broken: {why}")
                    }
                };
                (Some(waiting.run), state, waiting.path)
            }
            Found::Other(path, user) => (None, format!("is user {user}'s"), path),
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
