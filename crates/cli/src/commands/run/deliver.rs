//! Delivery of runs from a spool to their databases: `esker spool`, and the delivery by `esker run` and `esker log`.

use super::{detached, run_label};
use crate::args::{Globals, SpoolCommand, SpoolDeliverArgs, SpoolListArgs, Target};
use esker::rpc::Address;
use esker::{Database, OpenOptions};
use esker_model::{Cancel as _, Error, Result};
use esker_record::{
    Delivery, Run, Spool, SpoolFile, SpoolSelection, SpooledRun, deliver_all, deliver_one,
};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::interrupt::Interrupt;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::counted;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Result of a delivery.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    pub(crate) runs: u64,
    pub(crate) left: u64,
    pub(crate) running: u64,
    /// Number of runs for other databases, by the target in their files.
    pub(crate) for_others: BTreeMap<String, u64>,
    /// Number of files of other users.
    pub(crate) others: u64,
    /// Problems, one per line.
    pub(crate) problems: Vec<String>,
}

impl Delivered {
    /// Delivers runs to a database by `deliver`, and adds the result.
    fn add(
        &mut self,
        runs: &[SpooledRun],
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

/// Delivers the user's own waiting runs for a database. The caller chooses the database and the connection; a file in the spool only says
/// whether its run is for it.
pub(crate) fn deliver(
    spool: &Spool,
    target: Option<&str>,
    options: &OpenOptions,
    open: Option<&Database>,
) -> Delivered {
    let mut out = Delivered::default();
    let found = match spool.files(SpoolSelection::All) {
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
            SpoolFile::Run(waiting) => {
                if let Err(why) = waiting.check_owner() {
                    out.left += 1;
                    out.problems
                        .push(format!("{}: {why}", waiting.path.display()));
                    continue;
                }
                let wanted = &waiting.run.target;
                // A run without a database is delivered to the caller's.
                if target
                    .is_some_and(|target| wanted.is_empty() || is_same_database(target, wanted))
                {
                    runs.push(waiting);
                } else if wanted.is_empty() {
                    out.left += 1;
                    let folder = spool.folder().display();
                    out.problems.push(format!(
                        "{} names no database: `esker spool deliver --spool {folder} --target T` or `esker serve --spool {folder}` delivers it",
                        run_label(&waiting.run)
                    ));
                } else {
                    *out.for_others.entry(wanted.clone()).or_default() += 1;
                }
            }
            SpoolFile::Active(_) => out.running += 1,
            SpoolFile::OtherUser(..) => out.others += 1,
            SpoolFile::Broken(path, why) => {
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

/// Opens an existing database, and first delivers the user's ended runs that name it: `esker run` returns before its run is delivered,
/// and the next command must see that run. Problems of the delivery are warnings.
pub(crate) fn open_with_runs(context: &mut Context, target: &Target) -> anyhow::Result<Database> {
    let database = context.open(target)?;
    let whole = super::absolute_target(&target.target);
    // `esker log` and `esker spool` report a spool that cannot be read.
    let Ok(found) = Spool::usual().files(SpoolSelection::Ended) else {
        return Ok(database);
    };
    let of_user = found.only_of(rustix::process::getuid().as_raw());
    let runs: Vec<SpooledRun> = of_user
        .filter_map(|found| match found {
            SpoolFile::Run(waiting) => Some(waiting),
            _ => None,
        })
        .filter(|waiting| {
            waiting.check_owner().is_ok() && is_same_database(&whole, &waiting.run.target)
        })
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

/// Whether two targets are one database; options of an address are ignored.
fn is_same_database(one: &str, other: &str) -> bool {
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
pub(super) fn before_exit(spool: &Spool, target: &str, globals: &Globals) {
    let options = OpenOptions::new().memory_bytes(globals.memory);
    for problem in deliver(spool, Some(target), &options, None).problems {
        super::warn(globals, &problem);
    }
}

/// Delivers a run that does not fit into the spool, and removes the beginning of the run from the spool.
pub(super) fn without_spool(run: &Run, begun: Option<PathBuf>, globals: &Globals) -> Result<()> {
    if run.target.is_empty() {
        return Err(Error::Invalid("no database is named (--target)".into()));
    }
    let options = OpenOptions::new().memory_bytes(globals.memory);
    let database = options.create(true).open(&run.target)?;
    let applied = deliver_one(&database, run);
    database.close()?;
    applied?;
    // If the file remains, the run is delivered again, which changes nothing.
    let _ = begun.map(std::fs::remove_file);
    Ok(())
}

/// Starts a background process that delivers.
pub(super) fn in_background(spool: &Spool, target: &str) {
    let words = [
        OsStr::new("--quiet"),
        OsStr::new("spool"),
        OsStr::new("deliver"),
        OsStr::new("--spool"),
        spool.folder().as_os_str(),
        OsStr::new("--target"),
        OsStr::new(target),
    ];
    // If that fails, the next run or command delivers.
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
    let mut reported: Vec<String> = Vec::new();
    let mut all = 0;
    let target = args.target.as_deref().map(super::absolute_target);
    loop {
        let mut done = deliver(&spool, target.as_deref(), &options, None);
        all += done.runs;
        report_others(&mut done, &spool, target.is_some());
        for problem in done.problems.iter().filter(|p| !reported.contains(p)) {
            context.warn(problem);
        }
        reported = done.problems;
        if !args.watch {
            report(args, context, (all, done.left, done.running))?;
            return Ok(Outcome::partly_if(done.left > 0));
        }
        if !pause(&context.interrupt) {
            report(args, context, (all, done.left, done.running))?;
            return Ok(Outcome::Done);
        }
    }
}

/// Reports runs for other databases, and files of other users.
fn report_others(done: &mut Delivered, spool: &Spool, named: bool) {
    let folder = spool.folder().display();
    for (target, count) in &done.for_others {
        let waits = counted(*count, "run waits", "runs wait");
        done.problems.push(format!(
            "{waits} for {target}: `esker spool deliver --spool {folder} --target {target}` delivers them"
        ));
        // With a named database, runs for others are not expected to be delivered.
        if !named {
            done.left += count;
        }
    }
    if done.others > 0 {
        let files = counted(done.others, "file there is", "files there are");
        done.problems.push(format!(
            "{files} other users': each delivers their own, and `esker serve --spool {folder}` merges all"
        ));
    }
}

fn report(
    args: &SpoolDeliverArgs,
    context: &mut Context,
    (runs, left, running): (u64, u64, u64),
) -> anyhow::Result<()> {
    let sentence = format!(
        "delivered {}; {left} left, {running} still running",
        counted(runs, "run", "runs")
    );
    let columns = &["delivered", "left", "going_on"];
    let cells = [runs, left, running].map(Cell::Count).into();
    esker_terminal::output::report(context, args.format.format, &sentence, columns, cells)?;
    Ok(())
}

/// Waits for the next check; false after an interrupt.
fn pause(interrupt: &Interrupt) -> bool {
    let step = Duration::from_millis(100);
    let mut left = WATCH_INTERVAL;
    while !left.is_zero() && !interrupt.cancelled() {
        std::thread::sleep(step);
        left = left.saturating_sub(step);
    }
    !interrupt.cancelled()
}

fn list(args: &SpoolListArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let spool = super::spool(&args.spool);
    let found = spool.files(SpoolSelection::All).map_err(|e| {
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
            SpoolFile::Run(waiting) => {
                let state = match waiting.check_owner() {
                    Ok(()) => "waits".to_owned(),
                    Err(why) => {
                        broken = true;
                        format!("broken: {why}")
                    }
                };
                (Some(waiting.run), state, waiting.path)
            }
            SpoolFile::OtherUser(path, user) => (None, format!("is user {user}'s"), path),
            SpoolFile::Active(path) => (None, "goes on".to_owned(), path),
            SpoolFile::Broken(path, why) => {
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
