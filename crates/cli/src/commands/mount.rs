//! `esker mount` and `esker umount`: the namespace as a file system of this machine.

use crate::args::{MountArgs, UmountArgs};
use crate::commands::far;
use crate::context::Context;
use crate::exit::{Outcome, usage};
use anyhow::Context as _;
use esker::Database;
use esker_model::namespace::{NamePath, Namespace};
use esker_model::{Error, Result};
use esker_mount::{How, Mounted, Options, Recorder, Target, place};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How often the signals are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Set for the process that goes on in the background.
const BACKGROUND: &str = "--background";

/// A database as something to mount.
pub(crate) struct Mountable(pub(crate) Database);

impl Target for Mountable {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> Result<()> {
        self.0.persist()
    }
}

/// An origin as something to mount.
struct FarTarget(far::FarNames);

impl Target for FarTarget {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }
}

pub(crate) fn mount(args: &MountArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if args.background {
        return in_background(args, context);
    }
    let options = options(args)?;
    options.check().map_err(|e| usage(e.to_string()))?;
    let mut recorder = None;
    let mounted = if args.null {
        esker_mount::mount_null(args.place(), &options)
    } else if let Some(url) = &args.origin {
        let (place, top) = far::place(url)?;
        let far = far::stay(&args.far)?;
        let names = far::FarNames::new(far, place, top);
        // A server that cannot be asked is told of now, not by each program.
        let top = names.stat(None, &NamePath::root(), false)?;
        if !top.is_directory() {
            return Err(usage(format!(
                "`{url}` is no directory: expected one to mount"
            )));
        }
        esker_mount::mount(Arc::new(FarTarget(names)), args.place(), options)
    } else {
        far::refuse(&args.first, &args.far)?;
        let database = context.open(&args.target())?;
        if args.record {
            recorder = Some(Arc::new(Recorder::new(Arc::new(database.clone()))?));
        }
        let target = Arc::new(Mountable(database));
        esker_mount::mount_recorded(target, args.place(), options, recorder.clone())
    };
    let mounted = mounted.map_err(|e| Error::io("mount", e))?;
    context.note(&format!(
        "mounted `{}` on {}; Ctrl-C or `esker umount {}` ends it",
        args.source(),
        mounted.at().display(),
        mounted.at().display()
    ));
    while context.interrupt.stopped().is_none() && !mounted.is_over() {
        std::thread::sleep(LOOK);
    }
    end(mounted, context)?;
    let recorded = recorder.map(|recorder| recorder.finish());
    if let Some(lost) = recorded.map(|r| r.lost).filter(|lost| *lost > 0) {
        context.warn(&format!(
            "{} not recorded: the database did not take them",
            crate::units::counted(lost, "access was", "accesses were")
        ));
    }
    Ok(Outcome::Done)
}

fn options(args: &MountArgs) -> anyhow::Result<Options> {
    let inline_bytes = usize::try_from(args.inline)?;
    Ok(Options {
        data: args.data.clone(),
        read_only: args.read_only || args.origin.is_some(),
        allow_other: args.allow_other,
        threads: usize::from(args.threads),
        timeout: args.attr_timeout,
        negative: args.negative_timeout,
        inline_bytes,
        passthrough: !args.no_passthrough,
        source: source(args),
    })
}

/// What the list of mounts says: `esker lineage` finds the database by it, from any directory.
fn source(args: &MountArgs) -> String {
    let said = args.source();
    let whole = Path::new(said).canonicalize().ok();
    let whole = whole.filter(|_| args.origin.is_none() && !said.contains("://"));
    let whole = whole.and_then(|path| path.into_os_string().into_string().ok());
    whole.unwrap_or_else(|| said.to_owned())
}

/// Programs that use it are not cut off, unless somebody says so once more.
fn end(mounted: Mounted, context: &Context) -> anyhow::Result<()> {
    if !mounted.is_over() && mounted.unmount(How::Plain).is_err() {
        context.warn(&format!(
            "programs still use {}: it is detached, and ends once they let go; a second signal ends it at once",
            mounted.at().display()
        ));
        mounted
            .unmount(How::Detach)
            .map_err(|e| Error::io("umount", e))?;
    }
    let ended = mounted.wait().map_err(|e| Error::io("mount", e));
    Ok(ended?)
}

/// A process of its own does it; this one waits until it is mounted, or has failed and said why.
fn in_background(args: &MountArgs, context: &Context) -> anyhow::Result<Outcome> {
    let program = std::env::current_exe().context("finding this program")?;
    let rest = std::env::args_os().skip(1).filter(|a| a != BACKGROUND);
    let mut child = Command::new(program)
        .args(rest)
        .arg("--quiet")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Whoever waits for this command to end its output does not wait for the other.
        .stderr(Stdio::piped())
        // Ctrl-C at the terminal is not meant for it.
        .process_group(0)
        .spawn()
        .context("starting the process in the background")?;
    loop {
        if let Some(status) = child
            .try_wait()
            .context("waiting for the process in the background")?
        {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                stderr.read_to_string(&mut said)?;
            }
            let _ = io::stderr().write_all(said.as_bytes());
            return Ok(Outcome::partly_if(!status.success()));
        }
        if is_mounted(args.place()) {
            context.note(&format!(
                "mounted `{}` on {}, by process {}",
                args.source(),
                args.place().display(),
                child.id()
            ));
            return Ok(Outcome::Done);
        }
        std::thread::sleep(LOOK);
    }
}

fn is_mounted(at: &Path) -> bool {
    let Ok(at) = at.canonicalize() else {
        return false;
    };
    matches!(place::mount_at(&at), Ok(Some(mount)) if mount.is_ours())
}

pub(crate) fn umount(args: &UmountArgs) -> anyhow::Result<Outcome> {
    let how = match (args.lazy, args.force) {
        (_, true) => How::Force,
        (true, false) => How::Detach,
        (false, false) => How::Plain,
    };
    place::unmount(&args.at, how).map_err(|e| Error::io("umount", e))?;
    Ok(Outcome::Done)
}
