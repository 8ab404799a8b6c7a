//! The database handle: one interface, whether this process, another process or a server owns the database.

use crate::backup::{self, BackupReport};
use crate::clock::SystemClock;
use crate::current_session::{CurrentSession, SessionRef};
use crate::engine::{
    BulkReport, CheckOptions, CheckReport, Clock as _, CompactReport, Stats, View,
};
use crate::folder::Folder;
use crate::limits::OWNER_ANSWER_MAX;
use crate::options::OpenOptions;
use crate::owner::Owner;
use crate::remote::{CallError, Receiver, Remote};
use crate::server::{self, ServerClient, is_address};
use crate::session::{self, Intent, Session};
use crate::wire::request::Request;
use esker_model::graph_read::GraphAttempts;
use esker_model::object::Principal;
use esker_model::{
    Batch, Cancel, Commit, Error, GraphRead, GraphWrite, Mutation, Result, Schema, SchemaChange,
    Version,
};
use esker_process::producer::{BatchNumber, Producer};
use esker_store::Durability;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Relation of this process to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This process has the store open and serves others.
    Owner,
    /// Another process has the store open.
    Attached {
        /// Process id of the owner.
        pid: u32,
    },
    /// A server has the store open.
    Client {
        /// Process id of the server, on its machine.
        pid: u32,
    },
}

/// An open database. Cheap to clone; all clones share one connection, and dropping the last clone closes the database.
///
/// If its owner process ends, an attached process continues with the next owner, or becomes the owner itself. A call in
/// progress is repeated, and a repeated write is applied once. Only a scan in progress then mixes two states: it
/// continues after the last item that its sink received, with the state of the next owner.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
    /// Principal for whom the graph is read; `None` sees everything.
    principal: Option<Arc<Principal>>,
}

struct Shared {
    /// Unused if the database is on a server.
    folder: Folder,
    options: OpenOptions,
    current_session: CurrentSession,
    reopening: Mutex<()>,
    /// Assigns numbers to the batches that go through another process.
    producer: Arc<Producer>,
    /// RDF data in memory, once it was requested.
    #[cfg(feature = "rdf")]
    rdf: Mutex<Option<Arc<crate::rdf::Live>>>,
    open_files: crate::file::OpenFiles,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("folder", &self.shared.folder.path)
            .field("role", &self.role())
            .field("principal", &self.principal)
            .finish()
    }
}

fn closed() -> Error {
    Error::Closed("the database was closed".into())
}

impl Database {
    pub(crate) fn open_with(target: &str, options: &OpenOptions) -> Result<Self> {
        let intent = if options.create {
            Intent::Create
        } else {
            Intent::Existing
        };
        if is_address(target) {
            return Self::connect(target, options);
        }
        Self::start(Folder::of_target(target)?, options, intent)
    }

    fn connect(address: &str, options: &OpenOptions) -> Result<Self> {
        let client = server::connect(address)?;
        let folder = Folder::at(Path::new(&client.address()));
        Ok(Self::with(folder, options, Session::Server(client)))
    }

    /// Creates a database at `target`, a folder that is absent or empty, and opens it. A server's database cannot be
    /// created from here.
    pub fn init(target: &str, options: &OpenOptions) -> Result<Self> {
        if is_address(target) {
            return Err(Error::Target(format!(
                "`{target}` is a server, and a database is made on the machine that will hold it: \
                 run `esker init FOLDER` and `esker serve FOLDER` there"
            )));
        }
        Self::start(Folder::of_target(target)?, options, Intent::New)
    }

    fn start(folder: Folder, options: &OpenOptions, intent: Intent) -> Result<Self> {
        let session = session::open(&folder, options, intent)?;
        Ok(Self::with(folder, options, session))
    }

    fn with(folder: Folder, options: &OpenOptions, session: Session) -> Self {
        let current_session = CurrentSession::new(session);
        let (options, reopening) = (options.clone(), Mutex::new(()));
        Self {
            shared: Arc::new(Shared {
                folder,
                options,
                current_session,
                reopening,
                producer: Arc::new(Producer::new()),
                #[cfg(feature = "rdf")]
                rdf: Mutex::default(),
                open_files: crate::file::OpenFiles::default(),
            }),
            principal: None,
        }
    }

    /// Path of the database's folder as the caller gave it; the address if the database is on a server.
    pub fn directory(&self) -> &Path {
        &self.folder().path
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.shared.folder
    }

    /// Frees the RDF data.
    #[cfg(feature = "rdf")]
    fn drop_live(&self) {
        let live = self
            .live()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(live);
    }

    #[cfg(feature = "rdf")]
    pub(crate) fn live(&self) -> &Mutex<Option<Arc<crate::rdf::Live>>> {
        &self.shared.rdf
    }

    /// A handle on the same database that reads the graph for a principal: reads through it return only what the
    /// principal may see ([`crate::engine::View`]). `None` sees everything. Calls on objects and the namespace name their
    /// principal themselves.
    #[must_use]
    pub fn on_behalf_of(&self, principal: Option<&Principal>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            principal: principal.map(|a| Arc::new(a.clone())),
        }
    }

    /// Principal for whom the graph is read; `None` sees everything.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_deref()
    }

    /// View of the principal on a database that this process owns.
    fn view<'o>(&'o self, owner: &'o Owner) -> Result<View<'o>> {
        Ok(View::new(owner.engine()?, self.principal.as_deref()))
    }

    /// A client of the server that calls for the principal.
    fn client_for_principal(&self, client: &dyn ServerClient) -> Box<dyn ServerClient> {
        client.on_behalf_of(self.principal.as_deref())
    }

    pub(crate) fn session(&self) -> Result<SessionRef> {
        self.shared.current_session.get().ok_or_else(closed)
    }

    /// Returns the session that follows `lost`: the one that another thread has opened meanwhile, or a new one.
    fn reopen(&self, lost: &SessionRef) -> Result<SessionRef> {
        let _one = self
            .shared
            .reopening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let present = self.session()?;
        if !present.is(lost) {
            return Ok(present);
        }
        let next = session::open(&self.shared.folder, &self.shared.options, Intent::Existing)?;
        self.shared.current_session.replace(next).ok_or_else(closed)
    }

    /// Makes a call; repeats it with the next owner if the present owner ends before it has answered.
    pub(crate) fn run<T>(
        &self,
        mut call: impl FnMut(&Session) -> Result<T, CallError>,
    ) -> Result<T> {
        let mut session = self.session()?;
        let mut same_owner = (0, 0, Instant::now());
        loop {
            match call(&session) {
                Ok(value) => return Ok(value),
                Err(CallError::Failed(e)) => return Err(e),
                Err(CallError::Lost) => {}
            }
            let Session::Attached(remote) = &*session else {
                return Err(closed());
            };
            let (generation, losses, since) = &mut same_owner;
            if *generation == remote.generation() {
                *losses += 1;
            } else {
                (*generation, *losses, *since) = (remote.generation(), 0, Instant::now());
            }
            if *losses > 20 && since.elapsed() > OWNER_ANSWER_MAX {
                let pid = remote.pid();
                return Err(Error::InUse(format!(
                    "process {pid}, which has `{}` open, drops each connection; end it (kill {pid}) and repeat",
                    self.shared.folder.path.display()
                )));
            }
            if *losses > 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            session = self.reopen(&session)?;
        }
    }

    /// Persists after a call if this process opened the database with `Durability::Sync`, whatever the owner uses.
    pub(crate) fn durable<T>(
        &self,
        remote: &Remote,
        done: Result<T, CallError>,
    ) -> Result<T, CallError> {
        let done = done?;
        if self.is_sync() {
            remote.value::<()>(&Request::Persist, None)?;
        }
        Ok(done)
    }

    /// Counter and maximum of open files.
    pub(crate) fn open_files(&self) -> (&crate::file::OpenFiles, usize) {
        (&self.shared.open_files, self.shared.options.open_files)
    }

    /// Whether writes of this process must survive a power failure before they are acknowledged.
    pub(crate) fn is_sync(&self) -> bool {
        self.shared.options.durability == Durability::Sync
    }

    /// Number of the next write that goes through another process.
    pub(crate) fn next_number(&self) -> Result<BatchNumber> {
        self.shared.producer.next(SystemClock.now_millis())
    }

    /// Current relation of this process to the database. Changes when the owner ends and this process takes over.
    pub fn role(&self) -> Role {
        match self.session().as_deref() {
            Ok(Session::Attached(remote)) => Role::Attached { pid: remote.pid() },
            Ok(Session::Server(client)) => Role::Client { pid: client.pid() },
            Ok(Session::Owner(_)) | Err(_) => Role::Owner,
        }
    }

    /// Release of the server and its clock in milliseconds since 1970; `None` without a server.
    pub fn about_server(&self) -> Result<Option<(String, u64)>> {
        self.run(|s| match s {
            Session::Owner(_) | Session::Attached(_) => Ok(None),
            Session::Server(c) => Ok(Some(c.about()?)),
        })
    }

    /// The engine and its clock, for tools that merge several databases. Drop the engine before closing the database.
    pub fn engine(&self) -> Result<(Arc<crate::engine::Engine>, Arc<dyn crate::engine::Clock>)> {
        match &*self.session()? {
            Session::Owner(owner) => Ok((owner.shared_engine()?, Arc::new(SystemClock))),
            Session::Attached(_) | Session::Server(_) => Err(Error::InUse(
                "another process has the database open: end that process and repeat".into(),
            )),
        }
    }

    /// Window of writes that no checkpoint contains yet; `None` unless this process owns a database with an ephemeral
    /// store.
    pub fn window(&self) -> Option<crate::Window> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => owner.operations().ok()?.window.clone(),
            _ => None,
        }
    }

    /// Counts, sizes and cache statistics.
    pub fn stats(&self) -> Result<Stats> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.stats()?),
            Session::Attached(r) => r.value(&Request::Stats, None),
            Session::Server(c) => Ok(c.stats()?),
        })
    }

    /// Checks the consistency of all rows. `progress` receives the number of rows checked so far.
    pub fn check(
        &self,
        options: &CheckOptions,
        cancel: &dyn Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CheckReport> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.check(options, cancel, progress)?),
            Session::Attached(r) => {
                let receiver = Receiver {
                    item: &mut |r| Err(r.error("no items")),
                    progress,
                    cancel: Some(cancel),
                };
                r.call(&Request::Check(*options), receiver)?
                    .ok_or(CallError::Lost)
            }
            Session::Server(c) => Ok(c.check(*options, cancel, progress)?),
        })
    }

    /// Moves versions superseded before `retain_after` to the archive (`None` moves nothing) and compacts the store.
    pub fn compact(
        &self,
        retain_after: Option<Version>,
        cancel: &dyn Cancel,
    ) -> Result<CompactReport> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.compact(retain_after, cancel)?),
            Session::Attached(r) => r.value(&Request::Compact(retain_after), Some(cancel)),
            Session::Server(c) => Ok(c.compact(retain_after, cancel)?),
        })
    }

    /// Copies the database, while it is in use, to a folder that is absent or empty. The copy is a complete database.
    /// With a server, the folder is on the server's machine, where its settings must allow backups.
    pub fn backup(&self, directory: &Path) -> Result<BackupReport> {
        if let Session::Server(client) = &*self.session()? {
            return client.backup(directory);
        }
        let directory = std::path::absolute(directory)
            .map_err(|e| Error::io(format!("making `{}`", directory.display()), e))?;
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.backup(&directory)?),
            Session::Attached(r) => backup::take(&directory, self.directory(), || {
                r.value(&Request::Backup, None)
            }),
            Session::Server(c) => Ok(c.backup(&directory)?),
        })
    }

    /// Copies a backup to a folder that is absent or empty. Every row of the copy is read before the folder gets its name.
    pub fn restore(backup: &Path, target: &Path) -> Result<()> {
        backup::restore(backup, target)
    }

    /// Loads many mutations as sorted tables. Only the owner can do so: an attached process gets an error.
    pub fn bulk_load(
        &self,
        mutations: &mut dyn Iterator<Item = Result<Mutation>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BulkReport> {
        match &*self.session()? {
            Session::Owner(o) => o.operations()?.bulk_load(mutations, progress),
            Session::Attached(r) => Err(Error::InUse(format!(
                "a bulk load needs `{}` to itself, but process {} has it open: end that process and repeat, or import \
                 in batches",
                self.shared.folder.path.display(),
                r.pid()
            ))),
            Session::Server(c) => Err(Error::InUse(format!(
                "a bulk load needs the database to itself, but {} is a server: import in batches, or load into the \
                 folder before it is served",
                c.address()
            ))),
        }
    }

    /// Applies batches from several callers in one group commit, each batch whole or not at all. Results are in the
    /// order of the batches.
    pub fn apply_all(&self, batches: Vec<Batch>) -> Vec<Result<Commit>> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => match owner.operations() {
                Ok(core) => core.apply_all(batches),
                Err(_) => batches.into_iter().map(|b| self.apply(b)).collect(),
            },
            Ok(Session::Server(_)) => {
                let sent: Vec<_> = batches.into_iter().map(|b| self.submit(b)).collect();
                sent.into_iter()
                    .map(|s| s.and_then(Submitted::wait))
                    .collect()
            }
            Ok(Session::Attached(_)) | Err(_) => {
                batches.into_iter().map(|b| self.apply(b)).collect()
            }
        }
    }

    /// Applies batches in one group commit without blocking: only if this process owns the database, no other write is in progress and the
    /// durability is relaxed. Otherwise returns the batches. Results are in the order of the batches.
    pub fn try_apply_all(
        &self,
        batches: Vec<Batch>,
    ) -> std::result::Result<Vec<Result<Commit>>, Vec<Batch>> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) if !self.is_sync() => match owner.operations() {
                Ok(core) => core.try_apply_all(batches),
                Err(_) => Err(batches),
            },
            _ => Err(batches),
        }
    }

    /// Starts applying a batch. With a server, one thread can have many batches in flight; otherwise the batch has been
    /// applied when this returns.
    pub fn submit(&self, batch: Batch) -> Result<Submitted> {
        if let Session::Server(client) = &*self.session()? {
            let sync = self.is_sync();
            return client.submit(batch, sync);
        }
        Ok(Submitted::Done(self.apply(batch)))
    }

    /// Syncs all earlier writes to disk, so that they survive a power failure.
    pub fn persist(&self) -> Result<()> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.persist()?),
            Session::Attached(r) => r.value(&Request::Persist, None),
            Session::Server(c) => Ok(c.persist()?),
        })
    }

    /// Persists and closes the database for all clones of this handle. A call in progress in another thread finishes
    /// first; that thread then closes the database.
    pub fn close(self) -> Result<()> {
        #[cfg(feature = "rdf")]
        self.drop_live();
        match self.shared.current_session.close() {
            Some(Session::Owner(owner)) => owner.close(),
            // Servers with ephemeral stores may not have persisted all writes yet.
            Some(Session::Server(client)) => client.flush(),
            Some(Session::Attached(_)) | None => Ok(()),
        }
    }
}

/// A batch accepted by [`Database::submit`].
#[derive(Debug)]
pub enum Submitted {
    /// Sent to a server; the response is pending.
    #[cfg(feature = "remote")]
    Sent(Box<esker_rpc::Pending>),
    /// Applied or failed already.
    Done(Result<Commit>),
}

impl Submitted {
    /// Waits for the result of the batch.
    pub fn wait(self) -> Result<Commit> {
        match self {
            #[cfg(feature = "remote")]
            Self::Sent(pending) => pending.wait(),
            Self::Done(answer) => answer,
        }
    }
}

impl GraphAttempts for Database {
    fn attempt<T>(
        &self,
        _: Option<&dyn Cancel>,
        read: &mut dyn FnMut(&dyn GraphRead) -> Result<T>,
    ) -> Result<T> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(read(&self.view(o)?)?),
            Session::Attached(r) => r.read_graph(self.principal(), &mut *read),
            Session::Server(c) => Ok(read(&*self.client_for_principal(c.as_ref()))?),
        })
    }
}

impl GraphWrite for Database {
    /// Through another process, a batch without an idempotency key gets one, so that it can be sent again if the owner
    /// ends before it responds. If the former owner had applied such a batch, the counts of the [`Commit`] are zero,
    /// because
    /// they were lost with the response.
    fn apply(&self, batch: Batch) -> Result<Commit> {
        let mut batch = batch;
        let (mut number, mut repeated): (Option<BatchNumber>, bool) = (None, false);
        let answer = self.run(|s| match s {
            // An owner's call runs once, so the batch can be moved into it.
            Session::Owner(o) => Ok(o.operations()?.apply(std::mem::take(&mut batch))?),
            Session::Attached(r) => {
                if batch.idempotency_key.is_none() {
                    let next = self.next_number()?;
                    batch.idempotency_key = Some(next.idempotency_key());
                    number = Some(next);
                }
                let request = Request::Apply(std::mem::take(&mut batch));
                let commit = self.durable(r, r.value::<Commit>(&request, None));
                if let Request::Apply(b) = request {
                    batch = b;
                }
                repeated |= matches!(commit, Err(CallError::Lost));
                commit
            }
            Session::Server(c) => {
                let sync = self.is_sync();
                Ok(c.apply_with(std::mem::take(&mut batch), sync)?)
            }
        });
        let applied_by_us = repeated && number.is_some();
        // A caller that gets an error may write the batch anew; this one must not be applied later as well.
        if let Some(number) = number {
            number.settle();
        }
        let commit = answer?;
        let applied_before = applied_by_us && !commit.applied;
        Ok(if applied_before {
            Commit {
                applied: true,
                ..commit
            }
        } else {
            commit
        })
    }

    fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.define(changes)?),
            Session::Attached(r) => {
                let schema = r.value(&Request::Define(changes.to_vec()), None);
                self.durable(r, schema).map(Arc::new)
            }
            Session::Server(c) => {
                let sync = self.is_sync();
                Ok(c.define_with(changes, sync)?)
            }
        })
    }
}
