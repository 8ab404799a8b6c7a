//! `esker cluster resize`: redistributes the data of a stopped cluster over another number of servers.
//!
//! The old databases are only read, and stay open so that no server can start. New ones are created beside them, verified, and then
//! replace them ([`esker_server::Switch`]); at last the old ones are removed.

mod folders;

use super::{io_failure, up_process};
use crate::args::ClusterResizeArgs;
use esker_cluster::node::{PAGE_ROWS, SERVERS_MAX, Settings, deliver_decisions};
use esker_cluster::{Loading, Plan, Resize, ServerContents, ServerId};
use esker_model::{Counts, GraphRead as _, Version};
use esker_server::{ClusterConfig, Switch};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::progress::Progress;
use esker_terminal::units::counted;
use folders::{OpenDatabase, check_free_space, open_new, open_sources, size_of};
use std::cell::RefCell;
use std::fs::File;
use std::path::Path;

/// Result of a resize.
struct Done {
    redistributed: Vec<(ServerContents, u64)>,
    split: usize,
    delivered: usize,
    /// The counters before and after, if they were wrong.
    recounted: Option<(u64, u64)>,
}

pub(super) fn run(args: &ClusterResizeArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let config = ClusterConfig::from_file(&args.file)?;
    let switch = plan(args, &config)?;
    esker::modes::create_private_all(&config.storage)
        .map_err(|e| io_failure(format!("making `{}`", config.storage.display()), e))?;
    let _alone = lock_storage(&config)?;
    if let Some(pid) = up_process(&config) {
        anyhow::bail!(
            "cluster `{}` is up: process {pid} runs it; stop it first: esker cluster down {}",
            config.name,
            args.file.display()
        );
    }
    let mut done = None;
    if let Some(begun) = config.switching()? {
        if begun.to != switch.to {
            return Err(usage(format!(
                "the cluster in `{}` is being resized to {} servers: complete that first (--servers {})",
                config.storage.display(),
                begun.to,
                begun.to
            )));
        }
        context.note("the new databases are complete: moving them into place");
        // Fails if another process still has an old database open.
        drop(open_present(&config, begun, context)?);
        config.switch(begun)?;
    } else if switch.from == switch.to {
        // An earlier run may have ended before it had removed all old databases.
        drop(open_sources(&config, switch.from, None, context)?);
    } else {
        done = Some(redistribute(args, &config, switch, context)?);
    }
    config.remove_leftovers()?;
    print_summary(args, &config, switch, done.as_ref(), context)
}

/// Checks the file, the command line and the storage against each other, and returns the numbers of servers.
fn plan(args: &ClusterResizeArgs, config: &ClusterConfig) -> anyhow::Result<Switch> {
    if config.etcd.is_some() {
        return Err(usage(format!(
            "the number of stores of cluster `{}` is fixed; servers come and go with `esker cluster add` and `drain`",
            config.name
        )));
    }
    let says = config.servers.len() as u32;
    let to = args.servers.unwrap_or(says);
    if to == 0 || to as usize > SERVERS_MAX || to > config.vnodes {
        return Err(usage(format!(
            "a cluster has 1 to {} servers, not {to}",
            SERVERS_MAX.min(config.vnodes as usize)
        )));
    }
    let begun = config.switching()?;
    let stored = config.stored_servers()?;
    let from = match (begun, stored, &args.from) {
        (Some(begun), ..) => begun.from,
        (None, None, Some(_)) => 0,
        (None, Some(_), Some(from)) => {
            return Err(usage(format!(
                "there is a cluster in `{}` already: name another `storage`, and it is made there from `{}`",
                config.storage.display(),
                from.display()
            )));
        }
        (None, Some(stored), None) => stored,
        (None, None, None) => {
            return Err(usage(format!(
                "there is no cluster in `{}` yet: `esker cluster up` makes it with as many servers as the file says",
                config.storage.display()
            )));
        }
    };
    if says != from && says != to {
        return Err(usage(format!(
            "`{}` says {says} servers, but the cluster has {from} and the target is {to}: expected one of these in the file",
            args.file.display()
        )));
    }
    Ok(Switch { from, to })
}

/// Takes the lock against another resize of the same cluster.
fn lock_storage(config: &ClusterConfig) -> anyhow::Result<File> {
    let path = config.storage.join("resize.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| io_failure(format!("opening `{}`", path.display()), e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => anyhow::bail!(
            "another process is resizing the cluster in `{}`: wait for it, or end it and repeat",
            config.storage.display()
        ),
        Err(std::fs::TryLockError::Error(e)) => {
            Err(io_failure(format!("locking `{}`", path.display()), e))
        }
    }
}

/// Opens the databases in the servers' folders during a switch, so that no other process can.
fn open_present(
    config: &ClusterConfig,
    switch: Switch,
    context: &Context,
) -> anyhow::Result<Vec<OpenDatabase>> {
    let all = (0..switch.from.max(switch.to)).map(ServerId);
    let there = all.filter(|id| config.folder(*id).exists());
    there
        .map(|id| OpenDatabase::open(&config.folder(id), config, id, 1, context))
        .collect()
}

/// Creates the new databases and lets them replace the old ones.
fn redistribute(
    args: &ClusterResizeArgs,
    config: &ClusterConfig,
    switch: Switch,
    context: &Context,
) -> anyhow::Result<Done> {
    let sources = open_sources(config, switch.from, args.from.as_deref(), context)?;
    config.remove_leftovers()?;
    for (id, _) in (0..)
        .zip(&sources)
        .filter(|(_, source)| source.may_lack_changes())
    {
        context.warn(&format!(
            "{} did not shut down cleanly: writes that only its clients hold, because no checkpoint has them, will be missing from the new databases",
            ServerId(id)
        ));
    }
    let rows: Vec<&Path> = sources.iter().map(OpenDatabase::rows).collect();
    // With checkpoints the databases are in another folder.
    let place = config.checkpoint.as_ref().map(|c| c.live.as_path());
    let place = place.unwrap_or(&config.storage);
    esker::modes::create_private_all(place)
        .map_err(|e| io_failure(format!("making `{}`", place.display()), e))?;
    check_free_space(&rows, place)?;
    let made = create_databases(config, switch, &sources, context);
    let done = match made {
        Ok(done) => done,
        Err(e) => {
            // Incomplete new databases would only take space.
            let _ = config.remove_leftovers();
            return Err(e.context("nothing was changed"));
        }
    };
    config.begin_switch(switch)?;
    for source in sources {
        source.close()?;
    }
    config.switch(switch)?;
    Ok(done)
}

fn create_databases(
    config: &ClusterConfig,
    switch: Switch,
    sources: &[OpenDatabase],
    context: &Context,
) -> anyhow::Result<Done> {
    let engines: Vec<_> = sources
        .iter()
        .map(OpenDatabase::engine)
        .collect::<esker_model::Result<_>>()?;
    let time = sources.first().map(OpenDatabase::clock).transpose()?;
    let time = time.ok_or_else(|| anyhow::anyhow!("there are no servers"))?;
    let plan = Plan {
        placement: config.placement,
        vnodes: config.vnodes,
        servers: switch.to,
        now: Version::end_of_millis(time.now_millis()),
    };
    let delivered = if switch.from == 0 {
        0
    } else {
        let settings = Settings {
            id: ServerId(0),
            servers: (0..switch.from).map(ServerId).collect(),
            vnodes: config.vnodes,
            placement: config.placement,
            threshold: config.threshold,
            directory_threshold: config.directory_threshold,
            // No partition splits while the servers are stopped.
            table_min_rows: config.shared_least,
            page_rows: PAGE_ROWS,
            replay_millis: 0,
            epoch: 0,
        };
        deliver_decisions(&engines, &time, &settings)?
    };
    let all = (0..switch.to as usize).collect::<Vec<_>>();
    let parts = switch.to as usize + sources.len();
    let open = |k: usize| open_new(config, k, parts, context);
    let mut resize = Resize::read(&engines, plan)?;
    let split = resize.split_vertices();
    for k in &all {
        let part = open(*k)?;
        resize.begin(*k, &*part.engine()?)?;
        part.close()?;
    }
    {
        let targets: Vec<OpenDatabase> = all.iter().map(|k| open(*k)).collect::<Result<_, _>>()?;
        let opened = targets.iter().map(OpenDatabase::engine);
        let opened: Vec<_> = opened.collect::<esker_model::Result<_>>()?;
        let loading = if config.checkpoint.is_some() {
            Loading::Commits
        } else {
            Loading::Sorted
        };
        resize.rows(
            &opened,
            loading,
            &mut Stage::new("copying rows", context).watch(),
        )?;
        drop(opened);
        targets.into_iter().try_for_each(OpenDatabase::close)?;
    }
    let (mut redistributed, mut counts) = (Vec::new(), Vec::<Counts>::new());
    let (copying, checking) = (
        Stage::new("copying objects", context),
        Stage::new("checking", context),
    );
    for k in all {
        let part = open(k)?;
        resize.archive(k, &*part.engine()?, &mut copying.watch())?;
        resize.objects(k, &*part.engine()?, &mut copying.watch())?;
        part.close()?;
        // Reopened, the database returns what is on disk.
        let part = open(k)?;
        let found = resize.check(k, &*part.engine()?, &mut checking.watch())?;
        counts.push(part.engine()?.counts()?);
        part.close()?;
        let bytes = size_of(&config.new_folder(ServerId(k as u32)))?;
        redistributed.push((found, bytes));
    }
    let recounted = resize.finish(&counts)?;
    Ok(Done {
        redistributed,
        split,
        delivered,
        recounted,
    })
}

/// One stage of the work with its progress bar.
struct Stage<'a> {
    progress: RefCell<Progress>,
    interrupt: &'a Interrupt,
}

impl<'a> Stage<'a> {
    fn new(what: &'static str, context: &'a Context) -> Self {
        Self {
            progress: RefCell::new(Progress::rows(context.globals.quiet, what)),
            interrupt: &context.interrupt,
        }
    }

    fn watch(&self) -> impl FnMut(u64) -> esker_model::Result<()> + '_ {
        |rows| {
            self.progress.borrow().advance(rows);
            match self.interrupt.stopped() {
                None => Ok(()),
                Some(_) => Err(esker_model::Error::Interrupted),
            }
        }
    }
}

/// Prints what was done, and what the user has to change in the file.
fn print_summary(
    args: &ClusterResizeArgs,
    config: &ClusterConfig,
    switch: Switch,
    done: Option<&Done>,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    if let Some(done) = done {
        let columns = &[
            "server",
            "vertices",
            "edges",
            "objects",
            "superseded",
            "bytes",
        ];
        let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
        for (id, (redistributed, bytes)) in (0..).zip(&done.redistributed) {
            let counts = [
                id,
                redistributed.vertices,
                redistributed.edges,
                redistributed.objects,
                redistributed.superseded,
                *bytes,
            ];
            rows.row(counts.map(Cell::Count).to_vec())?;
        }
        rows.finish()?;
        context.out.flush()?;
        if done.delivered > 0 {
            let parts = counted(done.delivered as u64, "part", "parts");
            context.note(&format!(
                "{parts} of batches that were decided but not delivered were applied first"
            ));
        }
        if done.split > 0 {
            let split = counted(done.split as u64, "vertex", "vertices");
            context.note(&format!("{split} had split, and stay split"));
        }
        if let Some((old, new)) = done.recounted {
            context.warn(&format!(
                "the servers' counters added up to {old} vertices and edges; recounted, there are {new}"
            ));
        }
    }
    let servers = counted(u64::from(switch.to), "server", "servers");
    let name = &config.name;
    context.note(&match (done, switch.from == switch.to) {
        (None, true) => format!("cluster `{name}` has {servers} already"),
        _ => format!("cluster `{name}` has {servers} now"),
    });
    let says = config.servers.len() as u32;
    if says != switch.to {
        context.note(&format!(
            "before it starts, `{}` must say so: {}",
            args.file.display(),
            line_to_change(&args.file, switch.to)
        ));
    }
    Ok(Outcome::Done)
}

/// Returns the line of the cluster's file that must change.
fn line_to_change(file: &Path, servers: u32) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().zip(1..).find(|(line, _)| {
        let rest = line.trim_start().strip_prefix("servers");
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    });
    let Some((line, number)) = line else {
        return format!("`servers = {servers}`");
    };
    if line.contains('[') {
        format!("line {number}, `servers`, is to have the addresses of {servers}")
    } else {
        format!("line {number} is to be `servers = {servers}`")
    }
}
