//! `esker import tree T DIRECTORY`: imports the metadata of a directory tree of this machine, and later its changes.
//!
//! Threads read directories ([`walk`]) and compare them with the database ([`compare`]); the main thread writes, new files in batches
//! ([`batch`]). The changes of a directory are sent before its subdirectories are read, so that each finds its parent in the database.

mod attributes;
mod batch;
mod compare;
mod entry_path;
mod part;
mod walk;

use crate::args::{ImportTreeArgs, RowFormat};
use attributes::ScanAttributes;
use batch::{BatchSender, FileBatch};
use compare::FileMetadata;
use esker::Database;
use esker_model::namespace::{Change, Errno, NamePath, Namespace as _};
use esker_model::{Cancel as _, Error};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::progress::Progress;
use esker_terminal::units::{count, counted, elapsed};
use part::DirectoryPart;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;
use walk::{ScanLimits, TreeReader};

/// Capacity of the queue between readers and writer.
const QUEUE: usize = 64;
/// Maximum number of problems to print.
const PROBLEMS_PRINTED_MAX: u64 = 20;

/// Counts of a scan.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) entries: u64,
    pub(super) made: u64,
    pub(super) changed: u64,
    pub(super) removed: u64,
    pub(super) failed: u64,
}

/// Messages of a reader.
enum Message {
    Directory(DirectoryPart),
    /// A further name of a file, applied at the end, when both directories exist.
    Link {
        /// The file's first name.
        from: NamePath,
        /// The further name.
        to: NamePath,
        /// The path of the further name on this machine.
        real: PathBuf,
    },
    /// A file or directory could not be read.
    Problem(String),
}

pub(crate) fn run(args: &ImportTreeArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let directory = args.directory.as_path();
    let canonical = directory.canonicalize();
    let canonical = canonical.map_err(|e| usage(format!("{}: {e}", directory.display())))?;
    if !canonical.is_dir() {
        return Err(usage(format!("{}: not a directory", directory.display())));
    }
    let at = match &args.tree.as_path {
        Some(at) => super::path(at)?,
        None => super::path(canonical.as_os_str())?,
    };
    let database = context.open_or_create(&args.target)?;
    let began = Instant::now();
    let own_path = args.tree.as_path.is_none();
    let cluster = database.is_cluster()?;
    let attributes = ScanAttributes::new(&args.tree);
    let is_new = make_parents(&database, &canonical, &at, own_path, &attributes)?;
    let interrupt = context.interrupt.clone();
    let limits = ScanLimits::new(&args.tree, interrupt.clone());
    let mut tally = Tally::default();
    let (mut links, mut touched) = (BTreeMap::new(), BTreeMap::new());
    let progress = Progress::rows(context.globals.quiet, "scanning");
    let (root, start) = (at.clone(), canonical.clone());
    let walk = TreeReader::new(&database, limits, &attributes, (start, at), is_new);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let (send, receive) = mpsc::sync_channel(QUEUE);
        for _ in 0..args.tree.workers {
            let (send, walk) = (send.clone(), &walk);
            scope.spawn(move || walk.work(&send));
        }
        drop(send);
        let (mut changes, mut attribute_bytes) = (Vec::new(), 0);
        let mut batch = FileBatch::new(cluster);
        let mut sender = BatchSender::start(scope, &database);
        let written = (|| -> anyhow::Result<()> {
            for message in &receive {
                match message {
                    Message::Directory(part) => {
                        tally.entries += part.entries;
                        progress.at(tally.entries);
                        // Separate changes and a batch may depend on each other, so one is sent before the other grows.
                        if let Some(part) = batch.add(part) {
                            flush(&database, &mut batch, &mut sender, &mut tally, context)?;
                            attribute_bytes += part.attribute_bytes;
                            changes.extend(part.into_changes());
                        } else if !changes.is_empty() {
                            write(&database, &mut changes, &mut tally, context)?;
                        }
                        let is_large = attribute_bytes >= walk::ATTRIBUTE_BYTES_MAX;
                        if is_large || changes.len() >= super::BATCH {
                            write(&database, &mut changes, &mut tally, context)?;
                            attribute_bytes = 0;
                        }
                        if batch.is_due() {
                            take_answer(&database, &mut sender, &mut tally, context)?;
                            if let Some(full) = batch.take() {
                                sender.start_sending(full);
                            }
                        }
                    }
                    Message::Link { from, to, real } => {
                        let parent = real.parent().map(Path::to_path_buf);
                        touched.extend(parent.map(|p| (to.parent(), p)));
                        touched.insert(to.clone(), real);
                        links.insert(to, from);
                    }
                    Message::Problem(text) => report_problem(&mut tally, context, &text),
                }
            }
            flush(&database, &mut batch, &mut sender, &mut tally, context)?;
            write(&database, &mut changes, &mut tally, context)
        })();
        // Readers end when their receiver is gone.
        drop(receive);
        written
    })?;
    let mut changes = Vec::new();
    for (to, from) in links {
        let (link, changes_first) = compare::link(&database, from.clone(), to)?;
        changes.extend(link);
        if changes_first {
            touched.extend(real_parent(&from, &root, &canonical));
        }
        // Later links of the same file are compared with the file that is kept.
        if changes_first || changes.len() >= super::BATCH {
            write(&database, &mut changes, &mut tally, context)?;
        }
    }
    write(&database, &mut changes, &mut tally, context)?;
    // A hard link changes the times of the file and its directory; they are set to those of this machine.
    for (at, real) in touched {
        let found = compare::stat_path(&real, &attributes);
        let own = compare::own_changes(&database, found, &at, false, &attributes);
        changes.extend(own);
    }
    write(&database, &mut changes, &mut tally, context)?;
    drop(progress);
    attributes.warn(context);
    report(args, &tally, began, context)?;
    if interrupt.cancelled() {
        context.warn(
            "stopped before the end: the same command continues, and writes only what is missing",
        );
        return Ok(Outcome::Partly);
    }
    Ok(if tally.failed > 0 {
        Outcome::Partly
    } else {
        Outcome::Done
    })
}

/// Returns the directory of a file of the tree, and its path on this machine. The tree is at `root`, and at `directory` on this machine.
fn real_parent(file: &NamePath, root: &NamePath, directory: &Path) -> Option<(NamePath, PathBuf)> {
    let parent = file.parent();
    let inside = parent.as_bytes().strip_prefix(root.as_bytes())?;
    let inside = Path::new(OsStr::from_bytes(inside));
    let real = directory.join(inside.strip_prefix("/").unwrap_or(inside));
    Some((parent, real))
}

/// Creates the directory of the tree and those above it, with this machine's attributes; returns whether the tree's is new.
fn make_parents(
    database: &Database,
    directory: &Path,
    at: &NamePath,
    own_path: bool,
    attributes: &ScanAttributes,
) -> anyhow::Result<bool> {
    let mut missing = Vec::new();
    let (mut next, mut real) = (at.clone(), Some(directory));
    while !next.is_root() {
        if database.stat(None, &next, false).is_ok() {
            break;
        }
        missing.push((next.clone(), real));
        next = next.parent();
        real = real.and_then(Path::parent).filter(|_| own_path);
    }
    let is_new = !missing.is_empty();
    while let Some((path, real)) = missing.pop() {
        let found = match real {
            Some(real) => compare::stat_path(real, attributes)?,
            None => FileMetadata::directory(),
        };
        super::apply(database, None, Change::Create(path, found.into_new_file()))?;
    }
    Ok(is_new)
}

fn report_problem(tally: &mut Tally, context: &Context, text: &str) {
    tally.failed += 1;
    if tally.failed <= PROBLEMS_PRINTED_MAX {
        context.complain(text);
    } else if tally.failed == PROBLEMS_PRINTED_MAX + 1 {
        context.complain("… further ones are only counted");
    }
}

/// Sends the batch and waits until it is written.
fn flush(
    database: &Database,
    batch: &mut FileBatch,
    sender: &mut BatchSender,
    tally: &mut Tally,
    context: &Context,
) -> anyhow::Result<()> {
    take_answer(database, sender, tally, context)?;
    if let Some(rest) = batch.take() {
        sender.start_sending(rest);
        take_answer(database, sender, tally, context)?;
    }
    Ok(())
}

/// Waits for the batch that is being sent; if it is refused, its changes are sent one by one.
fn take_answer(
    database: &Database,
    sender: &mut BatchSender,
    tally: &mut Tally,
    context: &Context,
) -> anyhow::Result<()> {
    let Some((made, mut alone)) = sender.answer()? else {
        return Ok(());
    };
    tally.made += made;
    while !alone.is_empty() {
        let rest = alone.split_off(alone.len().min(super::BATCH));
        write(database, &mut alone, tally, context)?;
        alone = rest;
    }
    Ok(())
}

fn write(
    database: &Database,
    changes: &mut Vec<Change>,
    tally: &mut Tally,
    context: &Context,
) -> anyhow::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let done = database.change(None, changes)?;
    for (change, done) in changes.iter().zip(done) {
        match done {
            Ok(_) => match change {
                Change::Create(..) | Change::Link { .. } => tally.made += 1,
                Change::Unlink(_) | Change::Rmdir(_) => tally.removed += 1,
                Change::Set { .. }
                | Change::Rename { .. }
                | Change::Exchange { .. }
                | Change::Xattr { .. }
                | Change::Write { .. }
                | Change::Merge(_) => {
                    tally.changed += 1;
                }
            },
            // The tree changed during the scan, so that the parent directory does not exist or is no directory.
            Err(Error::File(e)) if e.errno == Errno::NotFound => {
                report_problem(
                    tally,
                    context,
                    &format!("{e}: it was removed while the tree was imported"),
                );
            }
            Err(e @ Error::File(_)) => report_problem(tally, context, &e.to_string()),
            Err(e) => return Err(e.into()),
        }
    }
    changes.clear();
    Ok(())
}

fn report(
    args: &ImportTreeArgs,
    tally: &Tally,
    began: Instant,
    context: &mut Context,
) -> anyhow::Result<()> {
    let time = began.elapsed();
    let rate = tally.entries as f64 / time.as_secs_f64().max(1e-9);
    let figures = [
        ("entries", tally.entries),
        ("new", tally.made),
        ("changed", tally.changed),
        ("removed", tally.removed),
        ("unreadable", tally.failed),
        ("entries_per_second", rate as u64),
    ];
    if args.format.format == RowFormat::Table {
        context.note(&format!(
            "{} in {} ({}/s): {} new, {} changed, {} removed{}",
            counted(tally.entries, "entry", "entries"),
            elapsed(time),
            count(rate as u64),
            count(tally.made),
            count(tally.changed),
            count(tally.removed),
            if tally.failed > 0 {
                format!(", {} not read", count(tally.failed))
            } else {
                String::new()
            }
        ));
        return Ok(());
    }
    let columns = figures.map(|(name, _)| name);
    let mut rows = Rows::new(
        &mut context.out,
        args.format.format,
        context.style,
        &columns,
    );
    rows.row(figures.map(|(_, n)| Cell::Count(n)).to_vec())?;
    rows.finish()?;
    Ok(())
}
