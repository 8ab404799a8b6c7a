//! `esker scan T /directory`: the metadata of a tree of this machine comes into the namespace, and what has changed since.
//!
//! Threads read directories ([`walk`]) and compare them with what is there ([`compare`]); this one writes, new files many at once
//! ([`gather`]). What one
//! directory needs is sent before those in it are looked at, so each finds its parent there.

mod compare;
mod gather;
mod walk;

use crate::args::{RowFormat, ScanArgs};
use crate::context::Context;
use crate::exit::{Outcome, usage};
use crate::output::{Cell, Rows};
use crate::progress::Progress;
use crate::units::{count, counted, elapsed};
use compare::Found;
use esker::Database;
use esker_model::namespace::{Change, Errno, NamePath, Namespace as _};
use esker_model::{Cancel as _, Error};
use gather::Gather;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;
use walk::{Limits, Walk};

/// Messages between readers and the writer.
const QUEUE: usize = 64;
/// Troubles that are told one by one.
const TOLD_MAX: u64 = 20;

/// What a scan did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) entries: u64,
    pub(super) made: u64,
    pub(super) changed: u64,
    pub(super) removed: u64,
    pub(super) failed: u64,
}

/// What a reader found.
pub(super) enum Message {
    /// What one directory needs: so many entries were looked at.
    Directory(Vec<Change>, u64),
    /// A further name of a file: applied when both directories are sure to be there.
    Link {
        /// Its first name.
        from: NamePath,
        /// The other one.
        to: NamePath,
        /// Where this machine has that.
        real: PathBuf,
    },
    /// Something could not be read.
    Trouble(String),
}

pub(crate) fn run(args: &ScanArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    for (given, option) in [
        (!args.edge_types.is_empty(), "an edge type"),
        (args.as_of.is_some(), "--as-of"),
        (args.versions.is_some(), "--versions"),
        (args.limit.is_some(), "--limit"),
        (args.inverse, "--inverse"),
        (args.asker.asker.is_some(), "--as"),
    ] {
        if given {
            return Err(usage(format!(
                "{option} is for the edges of a vertex, not for a directory tree"
            )));
        }
    }
    let directory = Path::new(&args.vertex);
    let canonical = directory.canonicalize();
    let canonical = canonical.map_err(|e| usage(format!("{}: {e}", directory.display())))?;
    if !canonical.is_dir() {
        return Err(usage(format!("{}: not a directory", directory.display())));
    }
    let at = match &args.tree.at {
        Some(at) => super::path(at)?,
        None => super::path(canonical.as_os_str())?,
    };
    let database = context.open_or_create(&args.target)?;
    let began = Instant::now();
    let own_path = args.tree.at.is_none();
    let cluster = database.is_cluster()?;
    make_parents(&database, &canonical, &at, own_path)?;
    let interrupt = context.interrupt.clone();
    let limits = Limits {
        rate: args.tree.rate,
        one_file_system: args.tree.one_file_system,
        exclude: args
            .tree
            .exclude
            .iter()
            .map(|n| n.as_bytes().to_vec())
            .collect(),
        stop: interrupt.clone(),
    };
    let mut tally = Tally::default();
    let (mut links, mut touched) = (BTreeMap::new(), BTreeMap::new());
    let progress = Progress::rows(context.globals.quiet, "scanning");
    let walk = Walk::new(&database, limits, canonical, at.clone());
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let (send, receive) = mpsc::sync_channel(QUEUE);
        for _ in 0..args.tree.workers {
            let (send, walk) = (send.clone(), &walk);
            scope.spawn(move || walk.work(&send));
        }
        drop(send);
        let mut changes = Vec::new();
        let mut gather = Gather::new(cluster);
        let written = (|| -> anyhow::Result<()> {
            for message in &receive {
                match message {
                    Message::Directory(more, entries) => {
                        tally.entries += entries;
                        progress.at(tally.entries);
                        // What is to be done alone may be about what was gathered before, and the other way round.
                        if let Err(more) = gather.take(more) {
                            flush(&database, &mut gather, &mut changes, &mut tally, context)?;
                            changes.extend(more);
                        } else if !changes.is_empty() {
                            write(&database, &mut changes, &mut tally, context)?;
                        }
                        if changes.len() >= super::BATCH {
                            write(&database, &mut changes, &mut tally, context)?;
                        }
                        if gather.is_due() {
                            flush(&database, &mut gather, &mut changes, &mut tally, context)?;
                        }
                    }
                    Message::Link { from, to, real } => {
                        let parent = real.parent().map(Path::to_path_buf);
                        touched.extend(parent.map(|p| (to.parent(), p)));
                        touched.insert(to.clone(), real);
                        links.insert(to, from);
                    }
                    Message::Trouble(text) => trouble(&mut tally, context, &text),
                }
            }
            flush(&database, &mut gather, &mut changes, &mut tally, context)?;
            write(&database, &mut changes, &mut tally, context)
        })();
        // Readers that find nobody to tell end.
        drop(receive);
        written
    })?;
    let mut changes = Vec::new();
    for (to, from) in links {
        changes.extend(compare::link(&database, from, to)?);
        if changes.len() >= super::BATCH {
            write(&database, &mut changes, &mut tally, context)?;
        }
    }
    write(&database, &mut changes, &mut tally, context)?;
    // A further name changes its file's and its directory's times; they are to be those of this machine.
    for (at, real) in touched {
        changes.extend(compare::itself(&database, &real, at, false));
    }
    write(&database, &mut changes, &mut tally, context)?;
    drop(progress);
    report(args, &tally, began, context)?;
    if interrupt.cancelled() {
        context.warn("stopped before the end: the same command goes on, and writes only what is not there yet");
        return Ok(Outcome::Partly);
    }
    Ok(if tally.failed > 0 {
        Outcome::Partly
    } else {
        Outcome::Done
    })
}

/// The directories above the tree, as this machine has them.
fn make_parents(
    database: &Database,
    directory: &Path,
    at: &NamePath,
    own_path: bool,
) -> anyhow::Result<()> {
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
    while let Some((path, real)) = missing.pop() {
        let found = match real {
            Some(real) => compare::look(real)?,
            None => Found::directory(),
        };
        super::apply(database, None, Change::Make(path, found.make()))?;
    }
    Ok(())
}

fn trouble(tally: &mut Tally, context: &Context, text: &str) {
    tally.failed += 1;
    if tally.failed <= TOLD_MAX {
        context.complain(text);
    } else if tally.failed == TOLD_MAX + 1 {
        context.complain("… further ones are only counted");
    }
}

/// Writes what was gathered; what is refused as a whole is written one by one.
fn flush(
    database: &Database,
    gather: &mut Gather,
    changes: &mut Vec<Change>,
    tally: &mut Tally,
    context: &Context,
) -> anyhow::Result<()> {
    let (made, mut alone) = gather.write(database)?;
    tally.made += made;
    while !alone.is_empty() {
        let rest = alone.split_off(alone.len().min(super::BATCH));
        changes.append(&mut alone);
        write(database, changes, tally, context)?;
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
                Change::Make(..) | Change::Link { .. } => tally.made += 1,
                Change::Unlink(_) | Change::Rmdir(_) => tally.removed += 1,
                Change::Set { .. }
                | Change::Rename { .. }
                | Change::Xattr { .. }
                | Change::Write { .. }
                | Change::Merge(_) => {
                    tally.changed += 1;
                }
            },
            // The tree changed while it was read: what its directory had is not there, or something else is.
            Err(Error::File(e)) if e.errno == Errno::NotFound => {
                trouble(
                    tally,
                    context,
                    &format!("{e}: it went while it was scanned"),
                );
            }
            Err(e @ Error::File(_)) => trouble(tally, context, &e.to_string()),
            Err(e) => return Err(e.into()),
        }
    }
    changes.clear();
    Ok(())
}

fn report(
    args: &ScanArgs,
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
