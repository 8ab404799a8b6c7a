//! Opens a database: as its owner, or attached to its owner.
//!
//! Every process runs the same loop until it has either role. [`crate::owner::claim`] explains why two processes cannot
//! become the owner at once.

use crate::archive::FolderArchive;
use crate::clock::SystemClock;
use crate::engine::{Clock, Engine, Settings};
use crate::folder::{Content, Folder};
use crate::limits::{OWNER_ANSWER_MAX, OWNER_SILENT_MAX, STORE_LOCK_MAX};
use crate::options::OpenOptions;
use crate::owner::claim::{Claim, OwnerInfo, OwnerState, Record, Registry};
use crate::owner::core::{Core, HeartbeatStatus};
use crate::owner::process::{Liveness, Process};
use crate::owner::{HeartbeatThread, Owner};
use crate::remote::{NoConnection, Remote};
use crate::server::ServerClient;
use crate::store_engine::StoreEngine;
use crate::window::WindowStore;
use esker_model::{Error, ErrorKind, Result};
use esker_store::{Durability, Store, StoreSettings};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The open database of a process, by role.
pub(crate) enum Session {
    /// This process has the store open.
    Owner(Box<Owner>),
    /// Another process has the store open.
    Attached(Remote),
    /// A server has the store open.
    Server(Box<dyn ServerClient>),
}

/// Expectation of the caller about the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// An existing database.
    Existing,
    /// An existing database, or else a new one.
    Create,
    /// A new database.
    New,
}

/// Opens the database in a folder.
pub(crate) fn open(folder: &Folder, options: &OpenOptions, intent: Intent) -> Result<Session> {
    let me = Process::current();
    let registry = Registry::new(folder);
    let mut wait = OwnerWait::new();
    loop {
        let content = folder.content()?;
        prepare(folder, options, intent, content)?;
        let highest = registry.highest()?;
        let unfinished = !matches!(content, Content::Database(_)) && intent == Intent::Existing;
        let next = match &highest {
            None if unfinished => return Err(folder.missing(content)),
            None => 1,
            Some(record) => match owner_status(record, &me) {
                OwnerStatus::Free if unfinished => return Err(folder.missing(content)),
                OwnerStatus::Free => record.generation + 1,
                OwnerStatus::Serving => {
                    match Remote::attach(&registry, record.generation) {
                        Ok(_) if intent == Intent::New => return Err(exists(folder)),
                        Ok(remote) => return Ok(Session::Attached(remote)),
                        Err(NoConnection::Refused(e)) => return Err(e),
                        Err(NoConnection::Absent) => {}
                    }
                    wait.wait_for(folder, record)?;
                    continue;
                }
                OwnerStatus::Busy => {
                    wait.wait_for(folder, record)?;
                    continue;
                }
                OwnerStatus::OtherHost if wait.is_silent(folder, record)? => record.generation + 1,
                OwnerStatus::OtherHost => continue,
            },
        };
        if options.part_of.is_none() {
            folder.check_not_in_cluster()?;
        }
        if !options.trust_foreign_folder {
            crate::foreign::check(&folder.path)?;
        }
        if let Some(claim) = registry.claim(next, &me)? {
            return open_as_owner(folder, options, intent, claim)
                .map(|o| Session::Owner(Box::new(o)));
        }
    }
}

fn exists(folder: &Folder) -> Error {
    Error::Target(format!(
        "`{}` is a database already; to use it, leave out `init`; to start over, remove the folder first",
        folder.path.display()
    ))
}

/// Refuses what the intent does not allow; creates the folder if requested.
fn prepare(folder: &Folder, options: &OpenOptions, intent: Intent, content: Content) -> Result<()> {
    match (intent, content) {
        (Intent::New, Content::Database(_)) => Err(exists(folder)),
        (Intent::Existing, Content::Absent | Content::Empty) => Err(folder.missing(content)),
        (Intent::New | Intent::Create, Content::Absent) => {
            Folder::check_engine(options.engine)?;
            folder.make(options.group)
        }
        (Intent::New | Intent::Create, Content::Empty | Content::Unfinished) => {
            Folder::check_engine(options.engine)
        }
        (Intent::Existing | Intent::Create, Content::Database(_))
        | (Intent::Existing, Content::Unfinished) => Ok(()),
    }
}

/// Status of the owner that a record names.
enum OwnerStatus {
    /// No process owns the database.
    Free,
    /// The owner of the database accepts connections.
    Serving,
    /// The owner is opening or closing the database.
    Busy,
    /// The owner is on another host, where this process cannot check it.
    OtherHost,
}

fn owner_status(record: &Record, me: &Process) -> OwnerStatus {
    // An unreadable record was left by a crash of its host.
    let Some(owner) = &record.owner else {
        return OwnerStatus::Free;
    };
    match (owner.state, me.liveness_of(&owner.process)) {
        (OwnerState::Released, _) | (_, Liveness::Dead) => OwnerStatus::Free,
        (_, Liveness::Unknown) => OwnerStatus::OtherHost,
        (OwnerState::Serving, Liveness::Alive) => OwnerStatus::Serving,
        (OwnerState::Opening | OwnerState::Closing, Liveness::Alive) => OwnerStatus::Busy,
    }
}

/// Bounded wait for an owner.
struct OwnerWait {
    since: Instant,
    generation: u64,
    pause: Duration,
    last_heartbeat: Option<(OwnerInfo, Instant)>,
}

impl OwnerWait {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            generation: 0,
            pause: Duration::from_millis(1),
            last_heartbeat: None,
        }
    }

    fn pause(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(50));
    }

    /// Waits for a live owner on this host that does not accept connections.
    fn wait_for(&mut self, folder: &Folder, record: &Record) -> Result<()> {
        if self.generation != record.generation {
            (self.generation, self.since, self.pause) =
                (record.generation, Instant::now(), Duration::from_millis(1));
        }
        if self.since.elapsed() > OWNER_ANSWER_MAX {
            let pid = record.owner.as_ref().map_or(0, |o| o.process.pid);
            return Err(Error::InUse(format!(
                "process {pid} has `{}` open and has not answered for {} s; wait for it, or end it (kill {pid}) and \
                 repeat",
                folder.path.display(),
                OWNER_ANSWER_MAX.as_secs()
            )));
        }
        self.pause();
        Ok(())
    }

    /// Whether an owner on another host has sent no heartbeat for long enough to be dead.
    fn is_silent(&mut self, folder: &Folder, record: &Record) -> Result<bool> {
        let Some(owner) = &record.owner else {
            return Ok(true);
        };
        match &self.last_heartbeat {
            Some((before, since)) if before == owner => {
                if since.elapsed() > OWNER_SILENT_MAX {
                    return Ok(true);
                }
            }
            // That process has sent a newer heartbeat.
            Some((before, _)) if before.process == owner.process => {
                return Err(in_use_elsewhere(folder, owner));
            }
            _ => self.last_heartbeat = Some((owner.clone(), Instant::now())),
        }
        self.pause();
        Ok(false)
    }
}

fn in_use_elsewhere(folder: &Folder, owner: &OwnerInfo) -> Error {
    let Process { host, pid, .. } = &owner.process;
    Error::InUse(format!(
        "`{}` is open in process {pid} on host {host}, and only processes of that host (and container) can share it: \
         run there, or end that process and repeat",
        folder.path.display()
    ))
}

/// Opens the store as the owner.
fn open_as_owner(
    folder: &Folder,
    options: &OpenOptions,
    intent: Intent,
    claim: Claim,
) -> Result<Owner> {
    let heartbeat_status = HeartbeatStatus::new(folder);
    let heartbeat = HeartbeatThread::start(claim, heartbeat_status.clone())?;
    match open_store(folder, options, intent, &heartbeat, heartbeat_status) {
        Ok(core) => {
            // The window has its own thread that persists it.
            let relaxed = options.durability == Durability::Relaxed && options.window.is_none();
            let interval = relaxed.then(|| Duration::from_millis(options.sync_interval_ms));
            Owner::start(core, heartbeat, interval)
        }
        Err(e) => {
            // The cause of the failed opening matters more than a failure to update the record.
            let _ = heartbeat.give_up();
            Err(e)
        }
    }
}

fn open_store(
    folder: &Folder,
    options: &OpenOptions,
    intent: Intent,
    heartbeat: &HeartbeatThread,
    heartbeat_status: Arc<HeartbeatStatus>,
) -> Result<Core> {
    // Another process may have owned the database since this process looked.
    let (store_engine, create) = match folder.content()? {
        Content::Database(_) if intent == Intent::New => return Err(exists(folder)),
        Content::Database(engine) => (engine, false),
        content if intent == Intent::Existing => return Err(folder.missing(content)),
        _ => (options.engine, true),
    };
    if create {
        // Leftovers of an interrupted creation contain no acknowledged writes.
        for path in [folder.store(), folder.archive()] {
            match std::fs::remove_dir_all(path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(folder.failed("making", e));
                }
                _ => {}
            }
        }
        if options.window.is_none() {
            crate::modes::create_inside(&folder.store()).map_err(|e| folder.failed("making", e))?;
        }
    }
    let settings = StoreSettings {
        memory_bytes: crate::raw::store_memory(options.memory_bytes),
        ..StoreSettings::default()
    };
    if options.window.is_none() && !create && crate::window::is_window(&folder.path) {
        return Err(Error::Target(format!(
            "`{}` was made with durability \"window\", and that cannot change: set that in the cluster's file again",
            folder.path.display()
        )));
    }
    let (store, window): (Arc<dyn Store>, _) = match &options.window {
        None => (
            open_engine(store_engine, &folder.store(), &settings, create)?,
            None,
        ),
        Some(window) => {
            let open = |path: &Path| open_engine(store_engine, path, &settings, true);
            let generation = heartbeat.claim().generation();
            let store = WindowStore::open(&folder.path, window, generation, create, open)?;
            let window = store.window();
            (Arc::new(store), Some(window))
        }
    };
    crate::backup::remove_copies(folder);
    let archive = Arc::new(FolderArchive::open(&folder.archive())?);
    let clock = SystemClock;
    let engine = Engine::open(
        store.clone(),
        Arc::new(clock),
        archive.clone(),
        Settings {
            adjacency_bytes: options.memory_bytes / 16 * 5,
            row_cache_bytes: options.memory_bytes / 8,
            memtable_bytes: usize::try_from(options.memory_bytes / 16)
                .unwrap_or(usize::MAX)
                .min(STAGED_MOST),
            durability: options.durability,
            group_commits: options.durability == Durability::Sync,
            ..Settings::default()
        },
    )?;
    if create {
        store.persist()?;
        folder.write_format(store_engine, clock.now_millis())?;
    }
    let mut core = Core::new(
        Arc::new(engine),
        store,
        archive,
        folder.clone(),
        store_engine,
        heartbeat_status,
        heartbeat.claim().clone(),
    );
    core.part_of.clone_from(&options.part_of);
    core.window = window;
    core.forget_old_requests(clock.now_millis())?;
    Ok(core)
}

/// Maximum size of the memtable in bytes. Writers wait while it is flushed, and a larger one is not cheaper per byte.
const STAGED_MOST: usize = 64 << 20;

/// Opens a store engine. Retries for a while, because an owner that was just killed may still have the engine's lock.
pub(crate) fn open_engine(
    engine: StoreEngine,
    path: &Path,
    settings: &StoreSettings,
    create: bool,
) -> Result<Arc<dyn Store>> {
    let since = Instant::now();
    loop {
        let opened: Result<Arc<dyn Store>> = match engine {
            StoreEngine::Fjall => esker_store_fjall::FjallStore::open(path, settings, create)
                .map(|s| Arc::new(s) as Arc<dyn Store>),
            #[cfg(feature = "rocksdb")]
            StoreEngine::RocksDb => esker_store_rocksdb::RocksStore::open(path, settings, create)
                .map(|s| Arc::new(s) as Arc<dyn Store>),
            #[cfg(not(feature = "rocksdb"))]
            StoreEngine::RocksDb => Folder::check_engine(engine).and(Err(Error::Interrupted)),
        };
        match opened {
            Err(e) if e.kind() == ErrorKind::Unavailable && since.elapsed() < STORE_LOCK_MAX => {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}
