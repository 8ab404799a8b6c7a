//! `esker bench tree`: the import of a directory tree, new and unchanged, compared with a walk that only reads the same metadata.

use super::machine;
use super::random::Random;
use super::report::{Figure, FigureTarget, Report, Unit, median};
use super::scratch::Scratch;
use anyhow::Context as _;
use clap::Args;
use esker_terminal::args::FormatArgs;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use serde_json::{Value as Json, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Mean number of files in a directory.
const DIRECTORY_FILES: u64 = 32;
/// Targets: entries a second of an import into an empty database, and of one that finds nothing to change.
const NEW_LEAST: f64 = 200_000.0;
const UNCHANGED_LEAST: f64 = 400_000.0;

#[derive(Debug, Args)]
#[command(
    after_help = "RAW is a walk by the same number of threads that reads each directory and the metadata of each entry, and stores \
                  nothing.\n\nExamples:\n  \
                  esker bench tree /dev/shm\n  \
                  esker bench tree /scratch --tree /usr --rounds 3"
)]
pub(crate) struct TreeBenchArgs {
    /// Directory for the scratch folder, on the file system to be measured
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// Number of files and directories of the tree
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    files: u32,
    /// Import this directory instead of a new tree
    #[arg(long, value_name = "DIRECTORY")]
    tree: Option<PathBuf>,
    /// Number of threads that read the tree
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Number of measurements; medians are printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Keep the scratch folder
    #[arg(long)]
    keep: bool,
    /// Write all figures as JSON to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Entries a second, and the processor time of an entry in microseconds, by round.
#[derive(Default)]
struct TreeRates {
    rates: Vec<f64>,
    micros: Vec<f64>,
}

impl TreeRates {
    fn add(&mut self, entries: u64, seconds: f64, cpu: f64) {
        self.rates.push(entries as f64 / seconds);
        self.micros.push(cpu * 1e6 / entries as f64);
    }
}

pub(crate) fn run(args: &TreeBenchArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let scratch = Scratch::make(&args.directory, args.keep)?;
    let tree = if let Some(tree) = &args.tree {
        tree.clone()
    } else {
        context.note("making the tree");
        make(&scratch.cleared_path("tree")?, args.files.into())?
    };
    let (mut new, mut unchanged) = (TreeRates::default(), TreeRates::default());
    let mut walked = TreeRates::default();
    // The first walk fills the caches of the system.
    walk(&tree, args.workers)?;
    for round in 0..args.rounds {
        if context.interrupt.stopped().is_some() {
            return Err(esker_model::Error::Interrupted.into());
        }
        context.note(&format!("round {}", round + 1));
        let database = scratch.cleared_path("database")?;
        for rates in [&mut new, &mut unchanged] {
            import(args, &tree, &database, rates)?;
        }
        let (began, cpu) = (Instant::now(), machine::process_seconds());
        let entries = walk(&tree, args.workers)?;
        let cpu = machine::process_seconds() - cpu;
        walked.add(entries, began.elapsed().as_secs_f64(), cpu);
    }
    let mut report = Report::new("tree");
    for (case, measured, least) in [
        ("new", new, NEW_LEAST),
        ("unchanged", unchanged, UNCHANGED_LEAST),
    ] {
        let rate = Figure::new(case, Unit::FilesPerSecond, median(measured.rates));
        let rate = rate.raw(median(walked.rates.clone()));
        report.add(rate.target(FigureTarget::AtLeast(least)));
        let case = format!("{case}: processor");
        let cpu = Figure::new(case, Unit::CpuMicrosPerFile, median(measured.micros));
        report.add(cpu.raw(median(walked.micros.clone())));
    }
    let settings = json!({
        "files": args.files,
        "tree": args.tree,
        "workers": args.workers,
        "rounds": args.rounds,
    });
    let how = (args.format.format, args.json.as_deref());
    report.print(&settings, how, context)?;
    Ok(Outcome::Done)
}

/// Makes a tree of empty files; returns its path.
fn make(root: &Path, files: u64) -> anyhow::Result<PathBuf> {
    let mut random = Random::new(1);
    let mut directories = vec![root.to_owned()];
    std::fs::create_dir(root)?;
    let mut left = files;
    while left > 0 {
        let parent = random.next_below(directories.len() as u64) as usize;
        let directory = directories
            .get(parent)
            .map(|parent| parent.join(format!("directory-{}", directories.len())))
            .unwrap_or_default();
        std::fs::create_dir(&directory)?;
        left -= 1;
        let count = random.next_below(2 * DIRECTORY_FILES).min(left);
        for n in 0..count {
            std::fs::File::create(directory.join(format!("file-{n:05}.dat")))?;
        }
        left -= count;
        directories.push(directory);
    }
    Ok(root.to_owned())
}

/// Imports the tree with the command, which prints its own time; its processor time includes opening and closing the database.
fn import(
    args: &TreeBenchArgs,
    tree: &Path,
    database: &Path,
    rates: &mut TreeRates,
) -> anyhow::Result<()> {
    let mut child = Command::new(esker_terminal::program::installed("esker")?)
        .args(["--quiet", "import", "tree"])
        .args([database, tree])
        .args(["--as-path", "/tree", "--format", "json", "--workers"])
        .arg(args.workers.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting an import")?;
    let output = child.stdout.take().context("the import has no output")?;
    let Ok(output) = serde_json::from_reader::<_, Json>(output) else {
        let status = child.wait().context("waiting for an import")?;
        anyhow::bail!("the import of {} ended with {status}", tree.display());
    };
    // A process that ended and is not waited for still has its processor time.
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(process) = process {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(process), ended)?;
    }
    let cpu = machine::seconds_of(&child.id().to_string());
    let status = child.wait()?;
    let figure = |name: &str| output.get(0).and_then(|row| row.get(name)?.as_u64());
    let (Some(entries), Some(rate), true) = (
        figure("entries"),
        figure("entries_per_second"),
        // Some files of a tree in use may be unreadable, or disappear.
        status.success() || args.tree.is_some(),
    ) else {
        anyhow::bail!("the import failed ({status}): {output}");
    };
    rates.add(entries, entries as f64 / rate.max(1) as f64, cpu);
    Ok(())
}

/// Directories to read, and the number of threads that may find more.
struct WalkQueue {
    directories: Vec<PathBuf>,
    busy: usize,
}

/// Reads the metadata of all entries below a directory; returns their number.
fn walk(tree: &Path, workers: u16) -> anyhow::Result<u64> {
    let queue = Mutex::new(WalkQueue {
        directories: vec![tree.to_owned()],
        busy: 0,
    });
    let more = Condvar::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| scope.spawn(|| walk_thread(&queue, &more)))
            .collect();
        threads.into_iter().try_fold(0, |entries, thread| {
            let read = thread.join();
            let read = read.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            anyhow::Ok(entries + read?)
        })
    })
}

fn walk_thread(queue: &Mutex<WalkQueue>, more: &Condvar) -> anyhow::Result<u64> {
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let mut buffer = Vec::with_capacity(1 << 16);
    let mut entries = 0;
    let mut work = lock();
    loop {
        let Some(directory) = work.directories.pop() else {
            if work.busy == 0 {
                return Ok(entries);
            }
            work = more.wait(work).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        work.busy += 1;
        drop(work);
        let mut below = Vec::new();
        let read = walk_directory(&directory, &mut buffer, &mut below);
        work = lock();
        work.busy -= 1;
        work.directories.extend(below);
        more.notify_all();
        entries += read?;
    }
}

fn walk_directory(
    path: &Path,
    buffer: &mut Vec<u8>,
    below: &mut Vec<PathBuf>,
) -> anyhow::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A directory that was removed meanwhile or cannot be read is skipped.
    let Ok(directory) = rustix::fs::open(path, flags, Mode::empty()) else {
        return Ok(0);
    };
    let mut read = 0;
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry.with_context(|| format!("reading {}", path.display()))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let want = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let Ok(found) = rustix::fs::statx(&directory, name, flags, want) else {
            continue;
        };
        read += 1;
        if FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory {
            below.push(path.join(OsStr::from_bytes(name.to_bytes())));
        }
    }
    Ok(read)
}
