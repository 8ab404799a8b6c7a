//! `esker harvest`: the headers of scientific files as tags of objects.
//!
//! One thread walks ([`find`]) and passes over files that have not changed; others have one process each that reads headers ([`worker`]); this
//! one writes ([`write`]), many files at once.

mod find;
mod readers;
mod worker;
mod write;

use crate::args::{HarvestArgs, RowFormat};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{self, Cell, Rows};
use crate::progress::Progress;
use crate::units::{count, counted, elapsed};
use esker::Database;
use esker_model::{Cancel as _, Properties};
use find::{Candidate, Met, Source};
use readers::Groups;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use worker::{Answer, Limits, Worker};
use write::{Item, Known, Writer};

/// Files that are written at once, and tags of theirs.
const BATCH: usize = 256;
const BATCH_TAGS: usize = 20_000;
/// Files that wait for a reader, and headers that wait to be written.
const QUEUE: usize = 256;
/// Troubles that are told one by one; all are counted.
const TOLD_MAX: u64 = 100;

/// A file to read.
struct Task {
    candidate: Candidate,
    known: Option<Known>,
}

/// What the threads say.
enum Event {
    Unchanged,
    Expect,
    Read(Item),
    Trouble(String),
    /// Nobody can read such files: what is missing.
    Left(&'static str, String),
    /// So many were harvested before and are there no more.
    Gone(u64),
    /// No reader starts.
    Broken(anyhow::Error),
}

#[derive(Debug, Default)]
struct Sums {
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
        Some(database) => write::known(database, &roots, &context.interrupt)?,
        None => HashMap::new(),
    };
    let writer = match &database {
        Some(database) if !args.dry_run => Some(Writer::new(database)?),
        _ => None,
    };
    let progress = Progress::files(context.globals.quiet, "harvesting");
    let mut harvest = Harvest {
        args,
        writer,
        context,
        progress: &progress,
        sums: Sums::default(),
        missing: BTreeMap::new(),
        waiting: Vec::new(),
        tags: 0,
    };
    harvest.run(&roots, known)?;
    let (sums, missing) = (harvest.sums, harvest.missing);
    drop(progress);
    if sums.failed > TOLD_MAX {
        context.warn(&format!("{} more", count(sums.failed - TOLD_MAX)));
    }
    for (library, why) in &missing {
        context.warn(&format!(
            "{why}, so that its files are left: `{} -m pip install {library}`, or give another Python with --python",
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

/// Where to walk: absolute, without links, each once.
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

/// The database; none where there is none yet, and nothing is to be written.
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
    writer: Option<Writer<'a>>,
    context: &'a mut Context,
    progress: &'a Progress,
    sums: Sums,
    /// By library: why not.
    missing: BTreeMap<&'static str, String>,
    waiting: Vec<Item>,
    /// Tags of those that wait.
    tags: usize,
}

impl Harvest<'_> {
    fn run(&mut self, roots: &[PathBuf], known: HashMap<String, Known>) -> anyhow::Result<()> {
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
                    result = self.hear(event);
                }
                if result.is_err() {
                    // The others stop, and all that they still say is taken off the queue, so that none waits.
                    failed.store(true, Ordering::Relaxed);
                }
            }
            result
        })?;
        self.flush()
    }

    fn hear(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Unchanged => self.sums.unchanged += 1,
            Event::Expect => {
                self.progress.expect(1);
                return Ok(());
            }
            Event::Gone(n) => self.sums.gone = n,
            Event::Broken(error) => return Err(error),
            Event::Trouble(text) => self.trouble(&text),
            Event::Left(library, why) => {
                self.progress.advance(1);
                self.sums.left += 1;
                self.missing.entry(library).or_insert(why);
            }
            Event::Read(item) => {
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

    fn trouble(&mut self, text: &str) {
        self.sums.failed += 1;
        if self.sums.failed <= TOLD_MAX {
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
            return self.show(&items);
        };
        let mut refused = Vec::new();
        let written = writer.write(&items, &mut |item, error| {
            refused.push(format!("{}: {error}", item.candidate.path));
        })?;
        self.sums.written.created += written.created;
        self.sums.written.updated += written.updated;
        self.sums.written.tags += written.tags;
        for text in refused {
            self.trouble(&text);
        }
        Ok(())
    }

    fn show(&mut self, items: &[Item]) -> anyhow::Result<()> {
        let columns = &["path", "format", "tags"];
        // One document is one thing: several rows of it would be several documents.
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
    mut known: HashMap<String, Known>,
    tasks: &SyncSender<Task>,
    told: &SyncSender<Event>,
    stop: &dyn Fn() -> bool,
) {
    let mut met = |met| {
        let candidate = match met {
            Met::Candidate(candidate) => candidate,
            Met::Trouble(text) => return told.send(Event::Trouble(text)).is_ok() && !stop(),
        };
        let known = known.remove(&candidate.path);
        // Under other limits other tags come out.
        let stamp = stamp(args, &candidate.stamp);
        // Who can read it may have changed without it.
        let mode = i64::from(candidate.about.mode);
        let same = |known: &Known| known.stamp == stamp && known.mode == Some(mode);
        let sent = if !args.again && known.as_ref().is_some_and(same) {
            told.send(Event::Unchanged).is_ok()
        } else {
            let task = Task { candidate, known };
            told.send(Event::Expect).is_ok() && tasks.send(task).is_ok()
        };
        sent && !stop()
    };
    if roots.iter().all(|root| find::walk(root, &mut met)) {
        // Nobody listens any more only where all has failed.
        let _ = told.send(Event::Gone(known.len() as u64));
    }
}

fn stamp(args: &HarvestArgs, of_file: &str) -> String {
    format!("{of_file}/{}/{}", args.max_tags, args.max_value)
}

fn read(
    args: &HarvestArgs,
    tasks: &Mutex<Receiver<Task>>,
    told: &SyncSender<Event>,
    stop: &dyn Fn() -> bool,
) {
    let limits = Limits {
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
            // The walk may wait for room in the queue: it is emptied.
            continue;
        }
        let reader = match worker
            .take()
            .map_or_else(|| Worker::start(&limits, stop), Ok)
        {
            Ok(reader) => worker.insert(reader),
            Err(error) => {
                let _ = told.send(Event::Broken(error));
                continue;
            }
        };
        let Task {
            mut candidate,
            known,
        } = task;
        // What is read is what is open here, and whose it is and who can read it is asked of that, too: at the path may be something else by
        // now than when it was found.
        let source = match Source::open(Path::new(&candidate.path), candidate.kind, &mut groups) {
            Ok(source) => source,
            Err(error) => {
                let text = format!("{}: {error:#}", candidate.path);
                if told.send(Event::Trouble(text)).is_err() {
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
            Answer::Read(header) => Event::Read(Item {
                candidate,
                stamp,
                known: known.map(|k| k.id),
                header,
            }),
            Answer::Failed(why) => {
                let why = why.replace(&at, &candidate.path);
                Event::Trouble(format!("{}: {why}", candidate.path))
            }
            Answer::Missing(why) => Event::Left(candidate.kind.library(), why),
            Answer::Stopped => continue,
        };
        if told.send(event).is_err() {
            return;
        }
    }
}

fn sentence(sums: &Sums, dry_run: bool, began: Instant) -> String {
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
    sums: &Sums,
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
