//! The old and new databases of a cluster, opened one by one.

use crate::commands::cluster::io_failure;
use esker::{Database, Durability, OpenOptions, Role, is_window};
use esker_cluster::{Clock, Engine, ServerId};
use esker_server::ClusterConfig;
use esker_terminal::context::Context;
use esker_terminal::exit::usage;
use esker_terminal::units::size;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Minimum memory for the caches of each database, in bytes.
const MEMORY_LEAST: u64 = 16 << 20;

/// A database that only this process has open.
pub(super) struct OpenDatabase {
    database: Database,
    /// The folder of the rows while the database is open.
    rows: PathBuf,
}

impl OpenDatabase {
    /// Opens the database of a present or future server; `parts` databases are open at once.
    pub(super) fn open(
        folder: &Path,
        config: &ClusterConfig,
        id: ServerId,
        parts: usize,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let whole = format!(
            "cluster `{}` is being resized by process {}, which has the new database of {id} open",
            config.name,
            std::process::id()
        );
        let mut options = options(parts, context).part_of(&whole);
        let mut live = None;
        if is_window(folder) {
            let window = config.window(id)?.ok_or_else(|| {
                usage(format!(
                    "`{}` was made with durability \"window\": set that in the cluster's file again",
                    folder.display()
                ))
            })?;
            live = Some(window.live.clone());
            options = options.window(window);
        }
        let mut part = Self::with(folder, &options)?;
        if let Some(live) = live {
            part.rows = live;
        }
        Ok(part)
    }

    fn with(folder: &Path, options: &OpenOptions) -> anyhow::Result<Self> {
        let database = options.open(&folder.to_string_lossy())?;
        if database.role() != Role::Owner {
            anyhow::bail!(
                "another process has `{}` open: end that process and repeat",
                folder.display()
            );
        }
        if let Some(window) = database.window() {
            // Closing must not mark the store as cleanly shut down: if the resize fails, its server still lets clients resend lost
            // changes.
            window.preserve_loss_mark();
        }
        Ok(Self {
            database,
            rows: folder.to_path_buf(),
        })
    }

    /// Whether its server did not shut down cleanly, so that clients may hold changes that are in no checkpoint.
    pub(super) fn may_lack_changes(&self) -> bool {
        self.database.window().is_some_and(|w| w.may_have_lost())
    }

    pub(super) fn engine(&self) -> esker_model::Result<Arc<Engine>> {
        self.database.engine().map(|(engine, _)| engine)
    }

    pub(super) fn clock(&self) -> esker_model::Result<Arc<dyn Clock>> {
        self.database.engine().map(|(_, clock)| clock)
    }

    /// Returns the folder of the rows while the database is open.
    pub(super) fn rows(&self) -> &Path {
        &self.rows
    }

    pub(super) fn close(self) -> anyhow::Result<()> {
        Ok(self.database.close()?)
    }
}

fn options(parts: usize, context: &Context) -> OpenOptions {
    let share = context.globals.memory / parts.max(1) as u64;
    context
        .open_options()
        .memory_bytes(share.max(MEMORY_LEAST))
        // The database is synced when it is closed, and is not used before.
        .durability(Durability::Relaxed)
}

/// Opens the databases of all servers, or the one database from which a new cluster is created.
pub(super) fn open_sources(
    config: &ClusterConfig,
    servers: u32,
    from: Option<&Path>,
    context: &Context,
) -> anyhow::Result<Vec<OpenDatabase>> {
    if let Some(from) = from {
        return Ok(vec![OpenDatabase::with(from, &options(2, context))?]);
    }
    let all = (0..servers).map(ServerId);
    all.map(|id| {
        let folder = config.folder(id);
        if !folder.exists() {
            return Err(usage(format!(
                "`{}` is not there: the folders of all {servers} servers must be where the cluster's storage is",
                folder.display()
            )));
        }
        OpenDatabase::open(&folder, config, id, 2 * servers as usize, context)
    })
    .collect()
}

/// Creates the new database of a server, or opens it again.
pub(super) fn open_new(
    config: &ClusterConfig,
    k: usize,
    parts: usize,
    context: &Context,
) -> anyhow::Result<OpenDatabase> {
    let id = ServerId(k as u32);
    let whole = format!(
        "it is the new database of {id} of cluster `{}`, and process {} is making it",
        config.name,
        std::process::id()
    );
    let mut options = options(parts, context).create(true).part_of(&whole);
    if let Some(window) = config.new_window(id)? {
        options = options.window(window);
    }
    OpenDatabase::with(&config.new_folder(id), &options)
}

/// Returns the size of all files below a folder, in bytes.
pub(super) fn size_of(folder: &Path) -> anyhow::Result<u64> {
    let reading = |e| io_failure(format!("reading `{}`", folder.display()), e);
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(reading)? {
        let entry = entry.map_err(reading)?;
        match entry.metadata() {
            Ok(m) if m.is_dir() => bytes += size_of(&entry.path())?,
            Ok(m) => bytes += m.len(),
            // The database may just have removed the file.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(reading(e)),
        }
    }
    Ok(bytes)
}

/// Fails if the new databases do not fit beside the old ones.
pub(super) fn check_free_space(old: &[&Path], storage: &Path) -> anyhow::Result<()> {
    let mut needed = 0;
    for folder in old {
        needed += size_of(folder)?;
    }
    let found = rustix::fs::statvfs(storage).map_err(|e| {
        io_failure(
            format!("checking the free space at `{}`", storage.display()),
            e,
        )
    })?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free < needed {
        anyhow::bail!(
            "the new databases need about {} beside the old ones, and at `{}` there are {}: make room and repeat",
            size(needed),
            storage.display(),
            size(free)
        );
    }
    Ok(())
}
