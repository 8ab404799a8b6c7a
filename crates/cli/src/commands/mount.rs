//! `esker mount` and `esker umount`: the namespace as a file system of this machine.

use crate::args::{MountArgs, UmountArgs};
use crate::commands::remote;
use anyhow::Context as _;
use esker::Database;
use esker::lineage::{LineageOptions, TreeStyle, impact, lineage, render_json, render_tree};
use esker_model::namespace::{NamePath, Namespace};
use esker_model::object::Principal;
use esker_model::{Error, GraphRead as _, NeverCancel, Result, Version, VertexId};
use esker_mount::{Mounted, Options, PastNamespace, Recorder, Target, UnmountMode, mount_point};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval between checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for which the kernel caches names and attributes of a past time, which never change.
const PAST_TIMEOUT: Duration = Duration::from_hours(24);
/// Option that starts the mount as a background process.
const BACKGROUND: &str = "--background";

/// A database as the target of a mount.
pub(crate) struct Mountable(pub(crate) Database);

impl Target for Mountable {
    fn names(&self) -> &dyn Namespace {
        &self.0
    }

    fn persist(&self) -> Result<()> {
        self.0.persist()
    }

    fn views(&self) -> &'static [&'static str] {
        &VIEWS
    }

    fn view(&self, view: &str, principal: &Principal, file: VertexId) -> Result<Vec<u8>> {
        view_as_of(&self.0, view, principal, file, Version::MAX)
    }
}

/// A database as of a past time as the target of a mount.
struct PastTarget {
    database: Database,
    names: PastNamespace,
    as_of: Version,
}

impl Target for PastTarget {
    fn names(&self) -> &dyn Namespace {
        &self.names
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }

    fn views(&self) -> &'static [&'static str] {
        &VIEWS
    }

    fn view(&self, view: &str, principal: &Principal, file: VertexId) -> Result<Vec<u8>> {
        view_as_of(&self.database, view, principal, file, self.as_of)
    }
}

fn view_as_of(
    database: &Database,
    view: &str,
    principal: &Principal,
    file: VertexId,
    as_of: Version,
) -> Result<Vec<u8>> {
    let database = database.on_behalf_of(Some(principal));
    let schema = database.schema()?;
    let options = LineageOptions {
        as_of,
        vertices: Some(VIEW_VERTICES_MAX),
        edges: Some(VIEW_EDGES_MAX),
        ..LineageOptions::default()
    };
    let found = if view.starts_with("impact") {
        impact(&database, file, &options, &NeverCancel)?
    } else {
        lineage(&database, file, &options, &NeverCancel)?
    };
    let mut text = if view.strip_suffix(".json").is_some() {
        render_json(&found, &schema)
    } else {
        render_tree(&found, &schema, &TreeStyle::default())
    };
    text.truncate(text.trim_end().len());
    text.push('\n');
    Ok(text.into_bytes())
}

/// Views of files: how they were made and what was made of them, as text and as JSON.
const VIEWS: [&str; 4] = ["lineage", "lineage.json", "impact", "impact.json"];
/// Largest number of vertices in a view; the text says that more were not followed.
const VIEW_VERTICES_MAX: u64 = 10_000;
/// Largest number of edges that are read for a view.
const VIEW_EDGES_MAX: u64 = 1_000_000;

/// An origin as the target of a mount.
struct RemoteTarget(remote::RemoteNamespace);

impl Target for RemoteTarget {
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
        esker_mount::mount_null(args.mount_point(), &options)
    } else if let Some(url) = &args.origin {
        let (origin, top) = remote::parse_url(url)?;
        let remote = remote::open_long_lived(&args.remote)?;
        let names = remote::RemoteNamespace::new(remote, origin, top);
        // An unreachable origin is reported before the mount, not to each program that uses it.
        let top = names.stat(None, &NamePath::root(), false)?;
        if !top.is_directory() {
            return Err(usage(format!(
                "`{url}` is not a directory: expected one to mount"
            )));
        }
        esker_mount::mount(Arc::new(RemoteTarget(names)), args.mount_point(), options)
    } else {
        remote::refuse_options(&args.first, &args.remote)?;
        let database = context.open(&args.target())?;
        if args.record {
            recorder = Some(Arc::new(Recorder::new(Arc::new(database.clone()))?));
        }
        let target: Arc<dyn Target> = match options.as_of {
            None => Arc::new(Mountable(database)),
            Some(as_of) => Arc::new(PastTarget {
                names: PastNamespace::read(&database, as_of)?,
                database,
                as_of,
            }),
        };
        esker_mount::mount_recorded(target, args.mount_point(), options, recorder.clone())
    };
    let mounted = mounted.map_err(|e| Error::io("mount", e))?;
    context.note(&format!(
        "mounted `{}` on {}; Ctrl-C or `esker umount {}` ends it",
        args.source(),
        mounted.at().display(),
        mounted.at().display()
    ));
    while context.interrupt.stopped().is_none() && !mounted.is_over() {
        std::thread::sleep(SIGNAL_INTERVAL);
    }
    end_mount(mounted, context)?;
    let recorded = recorder.map(|recorder| recorder.finish());
    if let Some(lost) = recorded.map(|r| r.lost).filter(|lost| *lost > 0) {
        context.warn(&format!(
            "{} not recorded: the database did not accept them",
            esker_terminal::units::counted(lost, "access was", "accesses were")
        ));
    }
    Ok(Outcome::Done)
}

fn options(args: &MountArgs) -> anyhow::Result<Options> {
    let inline_bytes = usize::try_from(args.inline)?;
    let unchanging = args.as_of.map_or(Duration::ZERO, |_| PAST_TIMEOUT);
    Ok(Options {
        data: args.data.clone(),
        read_only: args.read_only || args.origin.is_some(),
        as_of: args.as_of.map(|as_of| as_of.min(newest_now())),
        allow_other: args.allow_other,
        threads: usize::from(args.threads),
        timeout: args.attr_timeout.max(unchanging),
        negative: args.negative_timeout.max(unchanging),
        inline_bytes,
        passthrough: !args.no_passthrough,
        source: source(args),
    })
}

/// Returns the version of the present millisecond: "now" must not include what is written while the mount is there.
fn newest_now() -> Version {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since_1970.map_or(0, |time| time.as_millis());
    Version::end_of_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Returns the source in the list of mounts, by which `esker lineage` finds the database from any directory.
fn source(args: &MountArgs) -> String {
    let said = args.source();
    let whole = Path::new(said).canonicalize().ok();
    let whole = whole.filter(|_| args.origin.is_none() && !said.contains("://"));
    let whole = whole.and_then(|path| path.into_os_string().into_string().ok());
    whole.unwrap_or_else(|| said.to_owned())
}

/// Unmounts; if programs still use the mount, it is only detached, until a second signal.
fn end_mount(mounted: Mounted, context: &Context) -> anyhow::Result<()> {
    if !mounted.is_over() && mounted.unmount(UnmountMode::Plain).is_err() {
        context.warn(&format!(
            "programs still use {}: it is detached, and ends when they close their files; a second signal ends it at once",
            mounted.at().display()
        ));
        mounted
            .unmount(UnmountMode::Detach)
            .map_err(|e| Error::io("umount", e))?;
    }
    let ended = mounted.wait().map_err(|e| Error::io("mount", e));
    Ok(ended?)
}

/// Mounts in a child process. Returns once the file system is mounted, or prints the child's error.
fn in_background(args: &MountArgs, context: &Context) -> anyhow::Result<Outcome> {
    let program = std::env::current_exe().context("finding this program")?;
    let rest = std::env::args_os().skip(1).filter(|a| a != BACKGROUND);
    let mut child = Command::new(program)
        .args(rest)
        .args((!context.globals.quiet).then_some("--quiet"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // The background process does not inherit stdout, so that readers of this command's output do not wait for it.
        .stderr(Stdio::piped())
        // Ctrl-C at the terminal must not reach the background process.
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
        if is_mounted(args.mount_point()) {
            context.note(&format!(
                "mounted `{}` on {}, by process {}",
                args.source(),
                args.mount_point().display(),
                child.id()
            ));
            return Ok(Outcome::Done);
        }
        std::thread::sleep(SIGNAL_INTERVAL);
    }
}

fn is_mounted(at: &Path) -> bool {
    let Ok(at) = at.canonicalize() else {
        return false;
    };
    matches!(mount_point::mount_at(&at), Ok(Some(mount)) if mount.is_ours())
}

pub(crate) fn umount(args: &UmountArgs) -> anyhow::Result<Outcome> {
    let how = match (args.lazy, args.force) {
        (_, true) => UnmountMode::Force,
        (true, false) => UnmountMode::Detach,
        (false, false) => UnmountMode::Plain,
    };
    mount_point::unmount(&args.at, how).map_err(|e| Error::io("umount", e))?;
    Ok(Outcome::Done)
}
