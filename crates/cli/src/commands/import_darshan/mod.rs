//! `esker import darshan`: imports logs on all cores, each log completely or not at all; an interrupted import continues where it
//! stopped.
//!
//! ```text
//!  walk ──paths──► workers: read, parse, build mutations, apply ──results──► main thread: problems in order, progress, summary
//! ```
//!
//! Each worker applies its own batches. Batches that reach the database at the same time share one commit, which makes thousands of small
//! logs as cheap as a few large ones and keeps each log a batch of its own. With `--durability sync` a worker mostly waits for the disk,
//! so there are more workers than cores.
//!
//! **Resuming.** The last batch of a log links it to its job and has the log's own idempotency key, the earlier ones have one each: a log
//! whose key exists is skipped before it is parsed, and an interrupted log continues at its next batch. A log of an earlier release, which
//! wrote no links, gets its link.

mod log;
mod report;
mod walk;

use crate::args::{DurabilityArg, ImportDarshanArgs};
use esker_import::darshan::{GraphOptions, GraphTypes};
use esker_import::jobs::LinkTypes;
use esker_model::{Cancel as _, Error, GraphRead as _};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use esker_terminal::progress::Progress;
use log::{LogOutcome, LogWork, import_log};
use report::ImportReport;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use std::{panic, thread};

/// Capacity of the queue of paths.
const PATHS_WAITING: usize = 4096;
/// Minimum number of workers if each waits for the disk.
const SYNC_WORKERS: usize = 16;
/// Maximum number of workers.
const WORKERS_MAX: usize = 256;

pub(crate) fn run(args: &ImportDarshanArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    for path in &args.paths {
        if !path.exists() {
            return Err(usage(format!(
                "{}: there is no such file or folder",
                path.display()
            )));
        }
    }
    let database = context.open_or_create(&args.target)?;
    let schema = database.schema()?;
    let types = GraphTypes::resolve(&schema).map_err(Error::from)?;
    let work = LogWork {
        database: &database,
        types,
        options: GraphOptions {
            keep_helpers: args.keep_helpers,
            processes: args.processes,
            ..GraphOptions::default()
        },
        links: LinkTypes::resolve(&schema).map_err(Error::from)?,
        cluster: args.cluster.as_deref(),
        again: args.again,
        schema,
    };
    let workers = worker_count(args.jobs, context.globals.durability);
    let began = Instant::now();
    let mut report = ImportReport::default();
    let fatal = import_all(args, &work, workers, context, &mut report)?;
    report.elapsed = began.elapsed();
    report.interrupted = context.interrupt.stopped();
    report.print(args.format.format, context)?;
    if let Some(error) = fatal {
        return Err(error.into());
    }
    let target = &args.target.target;
    context.hint(&format!(
        "next: esker lineage {target} FILE shows how a file was made; esker top {target} lists the busiest jobs and files"
    ));
    Ok(Outcome::partly_if(
        report.failed() || report.interrupted.is_some(),
    ))
}

fn worker_count(jobs: Option<usize>, durability: DurabilityArg) -> usize {
    let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = jobs.unwrap_or_else(cores);
    let jobs = match durability {
        DurabilityArg::Sync => jobs.max(SYNC_WORKERS),
        DurabilityArg::Relaxed => jobs,
    };
    jobs.clamp(1, WORKERS_MAX)
}

/// Runs the traversal and the workers. Returns the error that stopped the import, if one did.
fn import_all(
    args: &ImportDarshanArgs,
    work: &LogWork<'_>,
    workers: usize,
    context: &Context,
    report: &mut ImportReport,
) -> anyhow::Result<Option<Error>> {
    let progress = Progress::files(context.globals.quiet, "logs");
    let interrupt = &context.interrupt;
    let failed = &AtomicBool::new(false);
    let (path_sender, paths) = mpsc::sync_channel::<(u64, PathBuf)>(PATHS_WAITING);
    let (result_sender, results) = mpsc::channel::<(u64, PathBuf, LogOutcome)>();
    let paths = &Mutex::new(paths);
    thread::scope(|scope| {
        let progress = &progress;
        let walker = scope.spawn(move || {
            let mut number = 0;
            walk::each_file(&args.paths, &mut |path| {
                progress.expect(1);
                let sent = path_sender.send((number, path)).is_ok();
                number += 1;
                sent && !interrupt.cancelled() && !failed.load(Ordering::Relaxed)
            })
        });
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let results = result_sender.clone();
                scope.spawn(move || {
                    while let Some((number, path)) = next_path(paths, interrupt, failed) {
                        let outcome = import_log(&path, work, interrupt);
                        if matches!(outcome, LogOutcome::Fatal(_)) {
                            failed.store(true, Ordering::Relaxed);
                        }
                        if results.send((number, path, outcome)).is_err() {
                            break;
                        }
                    }
                })
            })
            .collect();
        drop(result_sender);
        let fatal = collect(&results, progress, context, report);
        for thread in threads {
            if let Err(cause) = thread.join() {
                panic::resume_unwind(cause);
            }
        }
        match walker.join() {
            Ok(left_out) => {
                report.other_files = left_out.other_files;
                for (path, error) in left_out.problems {
                    report.unreadable(&path, &error, context, progress);
                }
            }
            Err(cause) => panic::resume_unwind(cause),
        }
        Ok(fatal)
    })
}

/// Returns the next path to import; `None` at the end or after a stop.
fn next_path(
    paths: &Mutex<Receiver<(u64, PathBuf)>>,
    interrupt: &Interrupt,
    failed: &AtomicBool,
) -> Option<(u64, PathBuf)> {
    let paths = paths.lock().unwrap_or_else(PoisonError::into_inner);
    // The traversal ends when it notices the stop; its remaining paths are received and dropped so that it can.
    loop {
        let next = paths.recv().ok()?;
        if !interrupt.cancelled() && !failed.load(Ordering::Relaxed) {
            return Some(next);
        }
    }
}

/// Reports results in the order of their paths, which does not depend on the threads.
fn collect(
    results: &Receiver<(u64, PathBuf, LogOutcome)>,
    progress: &Progress,
    context: &Context,
    report: &mut ImportReport,
) -> Option<Error> {
    let mut fatal = None;
    let mut early: BTreeMap<u64, (PathBuf, LogOutcome)> = BTreeMap::new();
    let mut next = 0;
    for (number, path, outcome) in results {
        progress.advance(1);
        early.insert(number, (path, outcome));
        while let Some((path, outcome)) = early.remove(&next) {
            next += 1;
            fatal = report.take(&path, outcome, context, progress).or(fatal);
        }
        progress.message(report.progress_text());
    }
    // After a stop there are gaps in the order.
    for (path, outcome) in early.into_values() {
        fatal = report.take(&path, outcome, context, progress).or(fatal);
    }
    fatal
}
