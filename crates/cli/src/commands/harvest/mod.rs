//! `esker harvest`: imports headers of scientific files as tags of objects.
//!
//! One thread traverses the directories ([`find`]) and skips unchanged files; others have one process each that reads headers
//! ([`worker`]); the main thread writes ([`write`]), many files per batch.

mod find;
mod readers;
mod worker;
mod write;

use crate::args::{HarvestArgs, RowFormat};
use esker::Database;
use esker_model::{Cancel as _, Properties};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{self, Cell, Rows};
use esker_terminal::progress::Progress;
use esker_terminal::units::{count, counted, elapsed};
use find::{Candidate, HarvestSource, Visited};
use readers::Groups;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use worker::{ReaderLimits, Worker, WorkerAnswer};
use write::{HarvestWriter, HarvestedFile, Item};

/// Files, and their tags, per batch.
const BATCH: usize = 256;
const BATCH_TAGS: usize = 20_000;
/// Capacity of the queues between the threads.
const QUEUE: usize = 256;
/// Maximum number of problems to print; all are counted.
const PROBLEMS_PRINTED_MAX: u64 = 100;

/// A file to read.
struct HarvestTask {
    candidate: Candidate,
    known: Option<HarvestedFile>,
}

/// Messages of the threads to the main thread.
enum HarvestEvent {
    Unchanged,
    Expect,
    Read(Item),
    Problem(String),
    /// The library for the format is missing: its name and the error.
    LibraryMissing(&'static str, String),
    /// Number of harvested files that no longer exist.
    Gone(u64),
    /// The reader process cannot be started.
    ReaderFailed(anyhow::Error),
}

#[derive(Debug, Default)]
struct HarvestTotals {
    written: write::Written,
    unchanged: u64,
    failed: u64,
    left: u64,
    gone: u64,
}

pub(crate) fn run(args: &HarvestArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let roots = roots(&args.paths)?;
    let database = database(args, context)?;
    let began = Instant::now();
    let known = match &database {
        Some(database) => write::harvested_files(database, &roots, &context.interrupt)?,
        None => HashMap::new(),
    };
    let writer = match &database {
        Some(database) if !args.dry_run => Some(HarvestWriter::new(database)?),
        _ => None,
    };
    let progress = Progress::files(context.globals.quiet, "harvesting");
    let mut harvest = Harvest {
        args,
        writer,
        context,
        progress: &progress,
        sums: HarvestTotals::default(),
        missing: BTreeMap::new(),
        waiting: Vec::new(),
        tags: 0,
    };
    harvest.run(&roots, known)?;
    let (sums, missing) = (harvest.sums, harvest.missing);
    drop(progress);
    if sums.failed > PROBLEMS_PRINTED_MAX {
        context.warn(&format!(
            "{} more",
            count(sums.failed - PROBLEMS_PRINTED_MAX)
        ));
    }
    for (library, why) in &missing {
        context.warn(&format!(
            "{why}, so its files are skipped: `{} -m pip install {library}`, or give another Python with --python",
            args.python.display()
        ));
    }
    if args.dry_run {
        context.note(&sentence(&sums, true, began));
    } else {
        print(&sums, args.format.format, context, began)?;
    }
    let stopped = super::note_if_stopped(context);
    Ok(Outcome::partly_if(sums.failed + sums.left > 0).and(stopped))
}

/// Returns the roots of the traversal: absolute, without links, without duplicates.
fn roots(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut roots = BTreeSet::new();
    for path in paths {
        let root = path.canonicalize();
        let root = root.map_err(|e| usage(format!("{}: {e}", path.display())))?;
        if !root.is_dir() && !root.is_file() {
            let text = format!("{}: neither a file nor a directory", path.display());
            return Err(usage(text));
        }
        roots.insert(root);
    }
    let all: Vec<PathBuf> = roots.into_iter().collect();
    let inside = |path: &&PathBuf| {
        !all.iter()
            .any(|other| other != *path && path.starts_with(other))
    };
    Ok(all.iter().filter(inside).cloned().collect())
}

/// Opens the database; `None` if it does not exist and nothing is to be written.
fn database(args: &HarvestArgs, context: &mut Context) -> anyhow::Result<Option<Database>> {
    if !args.dry_run {
        return Ok(Some(context.open_or_create(&args.target)?));
    }
    let target = &args.target.target;
    if !target.starts_with("esker://") && !Path::new(target).exists() {
        return Ok(None);
    }
    Ok(Some(context.open(&args.target)?))
}

struct Harvest<'a> {
    args: &'a HarvestArgs,
    writer: Option<HarvestWriter<'a>>,
    context: &'a mut Context,
    progress: &'a Progress,
    sums: HarvestTotals,
    /// By library, the error of its import.
    missing: BTreeMap<&'static str, String>,
    waiting: Vec<Item>,
    /// Number of tags of the waiting items.
    tags: usize,
}

impl Harvest<'_> {
    fn run(
        &mut self,
        roots: &[PathBuf],
        known: HashMap<String, HarvestedFile>,
    ) -> anyhow::Result<()> {
        let jobs = self.args.jobs.map_or_else(
            || std::thread::available_parallelism().map_or(1, |n| n.get().min(16)),
            |jobs| jobs as usize,
        );
        let args = self.args;
        let interrupt = self.context.interrupt.clone();
        let failed = AtomicBool::new(false);
        let stop = || interrupt.cancelled() || failed.load(Ordering::Relaxed);
        let (events, heard) = mpsc::sync_channel(QUEUE);
        let (tasks, waiting) = mpsc::sync_channel(QUEUE);
        let waiting = Mutex::new(waiting);
        std::thread::scope(|scope| {
            let (told, stop, waiting) = (events.clone(), &stop, &waiting);
            scope.spawn(move || walk(args, roots, known, &tasks, &told, stop));
            for _ in 0..jobs {
                let told = events.clone();
                scope.spawn(move || read(args, waiting, &told, stop));
            }
            drop(events);
            let mut result = Ok(());
            for event in &heard {
                if result.is_ok() {
                    result = self.handle(event);
                }
                if result.is_err() {
                    // All threads stop; their messages are still received, so that none blocks on a full queue.
                    failed.store(true, Ordering::Relaxed);
                }
            }
            result
        })?;
        self.flush()
    }

    fn handle(&mut self, event: HarvestEvent) -> anyhow::Result<()> {
        match event {
            HarvestEvent::Unchanged => self.sums.unchanged += 1,
            HarvestEvent::Expect => {
                self.progress.expect(1);
                return Ok(());
            }
            HarvestEvent::Gone(n) => self.sums.gone = n,
            HarvestEvent::ReaderFailed(error) => return Err(error),
            HarvestEvent::Problem(text) => self.report_problem(&text),
            HarvestEvent::LibraryMissing(library, why) => {
                self.progress.advance(1);
                self.sums.left += 1;
                self.missing.entry(library).or_insert(why);
            }
            HarvestEvent::Read(item) => {
                self.progress.advance(1);
                self.tags += item.header.tags.len();
                self.waiting.push(item);
                if self.waiting.len() >= BATCH || self.tags >= BATCH_TAGS {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    fn report_problem(&mut self, text: &str) {
        self.sums.failed += 1;
        if self.sums.failed <= PROBLEMS_PRINTED_MAX {
            let line = Cell::from(text).table_text();
            self.progress.above(|| self.context.warn(&line));
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let items = std::mem::take(&mut self.waiting);
        self.tags = 0;
        if items.is_empty() {
            return Ok(());
        }
        let Some(writer) = &self.writer else {
            return self.print_tags(&items);
        };
        let mut refused = Vec::new();
        let written = writer.write(&items, &mut |item, error| {
            refused.push(format!("{}: {error}", item.candidate.path));
        })?;
        self.sums.written.created += written.created;
        self.sums.written.updated += written.updated;
        self.sums.written.tags += written.tags;
        for text in refused {
            self.report_problem(&text);
        }
        Ok(())
    }

    fn print_tags(&mut self, items: &[Item]) -> anyhow::Result<()> {
        let columns = &["path", "format", "tags"];
        // A JSON document per batch would not be one document.
        let format = match self.args.format.format {
            RowFormat::Json => RowFormat::Ndjson,
            format => format,
        };
        let mut rows = Rows::new(&mut self.context.out, format, self.context.style, columns);
        for item in items {
            let mut tags = Properties::new();
            for (name, value) in &item.header.tags {
                tags.set(name.as_str(), value.clone());
            }
            self.sums.written.tags += item.header.tags.len() as u64;
            let changed = u64::from(item.known.is_some());
            self.sums.written.updated += changed;
            self.sums.written.created += 1 - changed;
            rows.row(vec![
                item.candidate.path.as_str().into(),
                item.header.format.as_str().into(),
                Cell::Properties(tags),
            ])?;
        }
        rows.finish()?;
        Ok(())
    }
}

fn walk(
    args: &HarvestArgs,
    roots: &[PathBuf],
    mut known: HashMap<String, HarvestedFile>,
    tasks: &SyncSender<HarvestTask>,
    told: &SyncSender<HarvestEvent>,
    stop: &dyn Fn() -> bool,
) {
    let mut met = |met| {
        let candidate = match met {
            Visited::Candidate(candidate) => candidate,
            Visited::Problem(text) => {
                return told.send(HarvestEvent::Problem(text)).is_ok() && !stop();
            }
        };
        let known = known.remove(&candidate.path);
        // Other limits lead to other tags.
        let stamp = stamp(args, &candidate.stamp);
        // Permissions of parent folders can change without the file.
        let mode = i64::from(candidate.about.mode);
        let same = |known: &HarvestedFile| known.stamp == stamp && known.mode == Some(mode);
        let sent = if !args.again && known.as_ref().is_some_and(same) {
            told.send(HarvestEvent::Unchanged).is_ok()
        } else {
            let task = HarvestTask { candidate, known };
            told.send(HarvestEvent::Expect).is_ok() && tasks.send(task).is_ok()
        };
        sent && !stop()
    };
    if roots.iter().all(|root| find::walk(root, &mut met)) {
        // The receiver is gone only after a failure.
        let _ = told.send(HarvestEvent::Gone(known.len() as u64));
    }
}

fn stamp(args: &HarvestArgs, of_file: &str) -> String {
    format!("{of_file}/{}/{}", args.max_tags, args.max_value)
}

fn read(
    args: &HarvestArgs,
    tasks: &Mutex<Receiver<HarvestTask>>,
    told: &SyncSender<HarvestEvent>,
    stop: &dyn Fn() -> bool,
) {
    let limits = ReaderLimits {
        python: &args.python,
        tags: args.max_tags,
        value: args.max_value,
        memory: args.file_memory,
        time: args.file_timeout,
    };
    let mut worker: Option<Worker> = None;
    let mut groups = Groups::default();
    loop {
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = task else { return };
        if stop() {
            // The queue is emptied, because the traversal may wait for space in it.
            continue;
        }
        let reader = match worker
            .take()
            .map_or_else(|| Worker::start(&limits, stop), Ok)
        {
            Ok(reader) => worker.insert(reader),
            Err(error) => {
                let _ = told.send(HarvestEvent::ReaderFailed(error));
                continue;
            }
        };
        let HarvestTask {
            mut candidate,
            known,
        } = task;
        // The reader gets the file that is open here, and owner and readers are taken from it, too, because another file may be at the
        // path by now.
        let source =
            match HarvestSource::open(Path::new(&candidate.path), candidate.kind, &mut groups) {
                Ok(source) => source,
                Err(error) => {
                    let text = format!("{}: {error:#}", candidate.path);
                    if told.send(HarvestEvent::Problem(text)).is_err() {
                        return;
                    }
                    continue;
                }
            };
        candidate.about = source.about;
        let stamp = stamp(args, &source.stamp);
        let at = source.at.to_string_lossy().into_owned();
        let (answer, alive) = reader.read(candidate.kind, &at, &limits, stop);
        if !alive {
            worker = None;
        }
        let event = match answer {
            WorkerAnswer::Read(header) => HarvestEvent::Read(Item {
                candidate,
                stamp,
                known: known.map(|k| k.id),
                header,
            }),
            WorkerAnswer::Failed(why) => {
                let why = why.replace(&at, &candidate.path);
                HarvestEvent::Problem(format!("{}: {why}", candidate.path))
            }
            WorkerAnswer::Missing(why) => {
                HarvestEvent::LibraryMissing(candidate.kind.library(), why)
            }
            WorkerAnswer::Stopped => continue,
        };
        if told.send(event).is_err() {
            return;
        }
    }
}

fn sentence(sums: &HarvestTotals, dry_run: bool, began: Instant) -> String {
    let gone = match sums.gone {
        0 => String::new(),
        n => format!("; {} harvested before and not there any more", count(n)),
    };
    let left = match sums.left {
        0 => String::new(),
        n => format!(", {} left", count(n)),
    };
    format!(
        "{} {} with {} in {}: {} new, {} changed, {} unchanged, {} failed{left}{gone}",
        if dry_run {
            "would harvest"
        } else {
            "harvested"
        },
        counted(sums.written.created + sums.written.updated, "file", "files"),
        counted(sums.written.tags, "tag", "tags"),
        elapsed(began.elapsed()),
        count(sums.written.created),
        count(sums.written.updated),
        count(sums.unchanged),
        count(sums.failed),
    )
}

fn print(
    sums: &HarvestTotals,
    format: RowFormat,
    context: &mut Context,
    began: Instant,
) -> anyhow::Result<()> {
    let figures = [
        sums.written.created + sums.written.updated,
        sums.written.tags,
        sums.written.created,
        sums.written.updated,
        sums.unchanged,
        sums.failed,
        sums.left,
        sums.gone,
    ];
    output::report(
        context,
        format,
        &sentence(sums, false, began),
        &[
            "files",
            "tags",
            "created",
            "updated",
            "unchanged",
            "failed",
            "left",
            "gone",
        ],
        figures.map(Cell::Count).into(),
    )?;
    Ok(())
}
