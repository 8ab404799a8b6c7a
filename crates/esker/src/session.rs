//! Opening: own the database, or attach to its owner.
//!
//! Every process runs the same loop until it is one or the other. [`crate::owner::claim`] says why no two can become
//! the owner at once.

use crate::archive::ParquetArchive;
use crate::clock::SystemClock;
use crate::engine::{Clock, Engine, Settings};
use crate::folder::{Content, Folder};
use crate::limits::{OWNER_ANSWER_MAX, OWNER_SILENT_MAX, STORE_LOCK_MAX};
use crate::options::{OpenOptions, StoreEngine};
use crate::owner::claim::{Claim, Owner as OwnerRecord, Record, Registry, State};
use crate::owner::core::{Core, Pulse};
use crate::owner::process::{Life, Process};
use crate::owner::{Heart, Owner};
use crate::remote::{NoConnection, Remote};
use crate::window::WindowStore;
use esker_model::{Error, ErrorKind, Result};
use esker_rpc::Client;
use esker_store::{Durability, Store, StoreSettings};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a process is to an open database.
pub(crate) enum Session {
    /// It holds the store.
    Owner(Box<Owner>),
    /// Another process does.
    Attached(Remote),
    /// A server does.
    Server(Client),
}

/// What the caller wants of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// A database that exists.
    Existing,
    /// One that exists, or else a new one.
    Create,
    /// A new one.
    New,
}

/// Opens the database in a folder.
pub(crate) fn open(folder: &Folder, options: &OpenOptions, intent: Intent) -> Result<Session> {
    let me = Process::current();
    let registry = Registry::new(folder);
    let mut patience = Patience::new();
    loop {
        let content = folder.content()?;
        prepare(folder, options, intent, content)?;
        let highest = registry.highest()?;
        let unfinished = !matches!(content, Content::Database(_)) && intent == Intent::Existing;
        let next = match &highest {
            None if unfinished => return Err(folder.missing(content)),
            None => 1,
            Some(record) => match judge(record, &me) {
                Standing::Free if unfinished => return Err(folder.missing(content)),
                Standing::Free => record.generation + 1,
                Standing::Serving => {
                    match Remote::attach(&registry, record.generation) {
                        Ok(_) if intent == Intent::New => return Err(exists(folder)),
                        Ok(remote) => return Ok(Session::Attached(remote)),
                        Err(NoConnection::Refused(e)) => return Err(e),
                        Err(NoConnection::Absent) => {}
                    }
                    patience.wait_for(folder, record)?;
                    continue;
                }
                Standing::Busy => {
                    patience.wait_for(folder, record)?;
                    continue;
                }
                Standing::Elsewhere if patience.silent(folder, record)? => record.generation + 1,
                Standing::Elsewhere => continue,
            },
        };
        if options.part_of.is_none() {
            folder.check_alone()?;
        }
        if !options.trust_foreign_folder {
            crate::foreign::check(&folder.path)?;
        }
        if let Some(claim) = registry.claim(next, &me)? {
            return own(folder, options, intent, claim).map(|o| Session::Owner(Box::new(o)));
        }
    }
}

fn exists(folder: &Folder) -> Error {
    Error::Target(format!(
        "`{}` is a database already; to use it, leave out `init`; to begin anew, remove the folder first",
        folder.path.display()
    ))
}

/// Refuses what the intent does not allow; makes the folder if that is wanted.
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

/// What a record means to this process.
enum Standing {
    /// Nobody owns the database.
    Free,
    /// Its owner answers.
    Serving,
    /// Its owner opens or closes it.
    Busy,
    /// Its owner is where this process cannot look.
    Elsewhere,
}

fn judge(record: &Record, me: &Process) -> Standing {
    // A record that does not read is what a crash of its host left.
    let Some(owner) = &record.owner else {
        return Standing::Free;
    };
    match (owner.state, me.life_of(&owner.process)) {
        (State::Released, _) | (_, Life::Dead) => Standing::Free,
        (_, Life::Elsewhere) => Standing::Elsewhere,
        (State::Serving, Life::Alive) => Standing::Serving,
        (State::Opening | State::Closing, Life::Alive) => Standing::Busy,
    }
}

/// How long to wait for an owner.
struct Patience {
    since: Instant,
    generation: u64,
    pause: Duration,
    seen: Option<(OwnerRecord, Instant)>,
}

impl Patience {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            generation: 0,
            pause: Duration::from_millis(1),
            seen: None,
        }
    }

    fn pause(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(50));
    }

    /// A live owner on this host that does not answer just now.
    fn wait_for(&mut self, folder: &Folder, record: &Record) -> Result<()> {
        if self.generation != record.generation {
            (self.generation, self.since, self.pause) =
                (record.generation, Instant::now(), Duration::from_millis(1));
        }
        if self.since.elapsed() > OWNER_ANSWER_MAX {
            let pid = record.owner.as_ref().map_or(0, |o| o.process.pid);
            return Err(Error::Unavailable(format!(
                "process {pid} has `{}` open and has not answered for {} s; wait for it, or end it (kill {pid}) and \
                 repeat",
                folder.path.display(),
                OWNER_ANSWER_MAX.as_secs()
            )));
        }
        self.pause();
        Ok(())
    }

    /// An owner on another host: true once its heartbeat has stood still for long enough.
    fn silent(&mut self, folder: &Folder, record: &Record) -> Result<bool> {
        let Some(owner) = &record.owner else {
            return Ok(true);
        };
        match &self.seen {
            Some((before, since)) if before == owner => {
                if since.elapsed() > OWNER_SILENT_MAX {
                    return Ok(true);
                }
            }
            // The same process, and it moved.
            Some((before, _)) if before.process == owner.process => {
                return Err(in_use_elsewhere(folder, owner));
            }
            _ => self.seen = Some((owner.clone(), Instant::now())),
        }
        self.pause();
        Ok(false)
    }
}

fn in_use_elsewhere(folder: &Folder, owner: &OwnerRecord) -> Error {
    let Process { host, pid, .. } = &owner.process;
    Error::Unavailable(format!(
        "`{}` is open in process {pid} on host {host}, and only processes of that host (and container) can share it: \
         run there, or end that process and repeat",
        folder.path.display()
    ))
}

/// Opens the store as the owner.
fn own(folder: &Folder, options: &OpenOptions, intent: Intent, claim: Claim) -> Result<Owner> {
    let pulse = Pulse::new(folder);
    let heart = Heart::start(claim, pulse.clone())?;
    match open_store(folder, options, intent, &heart, pulse) {
        Ok(core) => {
            // A window is persisted by its own thread.
            let relaxed = options.durability == Durability::Relaxed && options.window.is_none();
            let interval = relaxed.then(|| Duration::from_millis(options.sync_interval_ms));
            Owner::start(core, heart, interval)
        }
        Err(e) => {
            // Why it did not open says more than why the record could not be rewritten as well.
            let _ = heart.give_up();
            Err(e)
        }
    }
}

fn open_store(
    folder: &Folder,
    options: &OpenOptions,
    intent: Intent,
    heart: &Heart,
    pulse: Arc<Pulse>,
) -> Result<Core> {
    // Another owner may have been here since this process looked.
    let (store_engine, create) = match folder.content()? {
        Content::Database(_) if intent == Intent::New => return Err(exists(folder)),
        Content::Database(engine) => (engine, false),
        content if intent == Intent::Existing => return Err(folder.missing(content)),
        _ => (options.engine, true),
    };
    if create {
        // What an earlier attempt left holds nothing that was ever acknowledged.
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
            let generation = heart.claim().generation();
            let store = WindowStore::open(&folder.path, window, generation, create, open)?;
            let window = store.window();
            (Arc::new(store), Some(window))
        }
    };
    crate::backup::remove_copies(folder);
    let archive = Arc::new(ParquetArchive::open(&folder.archive())?);
    let clock = SystemClock;
    let engine = Engine::open(
        store.clone(),
        Arc::new(clock),
        archive.clone(),
        Settings {
            adjacency_bytes: options.memory_bytes / 16 * 5,
            entries_bytes: options.memory_bytes / 8,
            staged_bytes: usize::try_from(options.memory_bytes / 16)
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
        pulse,
        heart.claim().clone(),
    );
    core.part_of.clone_from(&options.part_of);
    core.window = window;
    core.forget_old_requests(clock.now_millis())?;
    Ok(core)
}

/// What is staged is written into the table while writers wait: more does not make that cheaper.
const STAGED_MOST: usize = 64 << 20;

/// Opens a store engine. An owner that was just killed may hold the engine's own lock for a moment.
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
