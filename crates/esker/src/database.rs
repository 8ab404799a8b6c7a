//! A database, whoever owns it.

use crate::backup::{self, BackupReport};
use crate::clock::SystemClock;
use crate::engine::{
    BulkReport, CheckOptions, CheckReport, Clock as _, CompactReport, Stats, View,
};
use crate::folder::Folder;
use crate::limits::OWNER_ANSWER_MAX;
use crate::options::OpenOptions;
use crate::owner::Owner;
use crate::remote::{Broken, Receiver, Remote};
use crate::server;
use crate::session::{self, Intent, Session};
use crate::sessions::{Present, Sessions};
use crate::wire::request::Request;
use crate::wire::travel::Assembly;
use esker_model::object::Asker;
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Batch, Cancel, Commit, Counts, Degree, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect,
    EdgeTypeId, Error, Flow, GraphRead, GraphWrite, Mutation, Result, Schema, SchemaChange,
    Traversal, Version, VersionRange, Vertex, VertexEvent, VertexId, VertexSelect,
};
use esker_rpc::marker::{Number, Sender};
use esker_rpc::resume::{EdgesResume, VerticesResume};
use esker_rpc::{Address, Client};
use esker_store::Durability;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What this process is to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It holds the store and serves others.
    Owner,
    /// Another process holds the store.
    Attached {
        /// That process.
        pid: u32,
    },
    /// A server holds the store.
    Client {
        /// Its process, on its machine.
        pid: u32,
    },
}

/// An open database. Cheap to clone; all clones are one. The last one to go closes it.
///
/// If its owner process ends, an attached one goes on with the next owner, or becomes it; a call under way is
/// repeated, and a write that was repeated counts once. Only a scan that had begun is not of one moment then: it goes
/// on behind the last item that its sink got, with the next owner's state.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
    /// On whose behalf the graph is read: `None` sees all.
    asker: Option<Arc<Asker>>,
}

struct Shared {
    /// Not used with a server.
    folder: Folder,
    options: OpenOptions,
    sessions: Sessions,
    reopening: Mutex<()>,
    /// Numbers the batches that go through another process.
    sender: Arc<Sender>,
    /// RDF data, once somebody asked for it to be held.
    rdf: Mutex<Option<Arc<crate::rdf::Live>>>,
    open_files: crate::file::OpenFiles,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("folder", &self.shared.folder.path)
            .field("role", &self.role())
            .field("asker", &self.asker)
            .finish()
    }
}

fn closed() -> Error {
    Error::Unavailable("the database was closed".into())
}

impl Database {
    pub(crate) fn open_with(target: &str, options: &OpenOptions) -> Result<Self> {
        let intent = if options.create {
            Intent::Create
        } else {
            Intent::Existing
        };
        if Address::is_address(target) {
            return Self::connect(&Address::parse(target)?, options);
        }
        Self::start(Folder::of_target(target)?, options, intent)
    }

    fn connect(address: &Address, options: &OpenOptions) -> Result<Self> {
        let session = Session::Server(Client::connect(address)?);
        let folder = Folder::at(Path::new(&address.to_string()));
        Ok(Self::with(folder, options, session))
    }

    /// Makes a database at `target`, a folder that is absent or empty, and opens it. A server's is made where it lies.
    pub fn init(target: &str, options: &OpenOptions) -> Result<Self> {
        if Address::is_address(target) {
            return Err(Error::Target(format!(
                "`{target}` is a server, and its database is made where it lies: run `esker init FOLDER` and `esker serve \
                 FOLDER` there"
            )));
        }
        Self::start(Folder::of_target(target)?, options, Intent::New)
    }

    fn start(folder: Folder, options: &OpenOptions, intent: Intent) -> Result<Self> {
        let session = session::open(&folder, options, intent)?;
        Ok(Self::with(folder, options, session))
    }

    fn with(folder: Folder, options: &OpenOptions, session: Session) -> Self {
        let sessions = Sessions::new(session);
        let (options, reopening) = (options.clone(), Mutex::new(()));
        Self {
            shared: Arc::new(Shared {
                folder,
                options,
                sessions,
                reopening,
                sender: Arc::new(Sender::new()),
                rdf: Mutex::default(),
                open_files: crate::file::OpenFiles::default(),
            }),
            asker: None,
        }
    }

    /// Where it lies; a server's address for a server's.
    /// Where it lies, if this process has its folder: the path as it was given.
    pub fn directory(&self) -> &Path {
        &self.folder().path
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.shared.folder
    }

    pub(crate) fn live(&self) -> &Mutex<Option<Arc<crate::rdf::Live>>> {
        &self.shared.rdf
    }

    /// The same database, read on somebody's behalf: reads of the graph through this handle show only what they may see
    /// ([`crate::engine::View`]). `None` sees all. Calls of objects and of the namespace say themselves who asks.
    #[must_use]
    pub fn on_behalf_of(&self, asker: Option<&Asker>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            asker: asker.map(|a| Arc::new(a.clone())),
        }
    }

    /// On whose behalf the graph is read.
    pub fn asker(&self) -> Option<&Asker> {
        self.asker.as_deref()
    }

    /// What the asker sees of a database that this process has open.
    fn view<'o>(&'o self, owner: &'o Owner) -> Result<View<'o>> {
        Ok(View::new(owner.engine()?, self.asker.as_deref()))
    }

    /// A read, on the asker's behalf.
    fn asked(&self, request: Request) -> Request {
        match &self.asker {
            Some(asker) => Request::As((**asker).clone(), Box::new(request)),
            None => request,
        }
    }

    /// A server, on the asker's behalf.
    fn all_of(&self, client: &Client) -> Client {
        client.on_behalf_of(self.asker.as_deref())
    }

    pub(crate) fn session(&self) -> Result<Present> {
        self.shared.sessions.present().ok_or_else(closed)
    }

    /// The session after `lost`: the one that another thread has opened meanwhile, or a new one.
    fn reopen(&self, lost: &Present) -> Result<Present> {
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
        self.shared.sessions.replace(next).ok_or_else(closed)
    }

    /// Makes a call, again with the next owner if the present one goes away in the middle.
    pub(crate) fn run<T>(&self, mut call: impl FnMut(&Session) -> Result<T, Broken>) -> Result<T> {
        let mut session = self.session()?;
        let mut same_owner = (0, 0, Instant::now());
        loop {
            match call(&session) {
                Ok(value) => return Ok(value),
                Err(Broken::Failed(e)) => return Err(e),
                Err(Broken::Lost) => {}
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
                return Err(Error::Unavailable(format!(
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

    /// A caller that asked for sync gets it, whatever the owner was opened with.
    pub(crate) fn durable<T>(&self, remote: &Remote, done: Result<T, Broken>) -> Result<T, Broken> {
        let done = done?;
        if self.is_sync() {
            remote.value::<()>(&Request::Persist, None)?;
        }
        Ok(done)
    }

    /// Whether callers want what they wrote to survive a power failure.
    /// How many files are open, and how many may be.
    pub(crate) fn open_files(&self) -> (&crate::file::OpenFiles, usize) {
        (&self.shared.open_files, self.shared.options.open_files)
    }

    pub(crate) fn is_sync(&self) -> bool {
        self.shared.options.durability == Durability::Sync
    }

    /// The number of the next write that goes through another process.
    pub(crate) fn next_number(&self) -> Result<Number> {
        self.shared.sender.next(SystemClock.now_millis())
    }

    /// What this process is to the database right now. It changes when an owner ends and this process takes over.
    pub fn role(&self) -> Role {
        match self.session().as_deref() {
            Ok(Session::Attached(remote)) => Role::Attached { pid: remote.pid() },
            Ok(Session::Server(client)) => Role::Client { pid: client.pid() },
            Ok(Session::Owner(_)) | Err(_) => Role::Owner,
        }
    }

    /// What the server says of itself, if there is one: its release, and its clock in milliseconds since 1970.
    pub fn about_server(&self) -> Result<Option<(String, u64)>> {
        self.run(|s| match s {
            Session::Owner(_) | Session::Attached(_) => Ok(None),
            Session::Server(c) => {
                let about = c.about()?;
                Ok(Some((about.version, about.clock_millis)))
            }
        })
    }

    /// For whoever makes many databases one: the engine, which must be let go before the database is closed, and its clock.
    pub fn engine(&self) -> Result<(Arc<crate::engine::Engine>, Arc<dyn crate::engine::Clock>)> {
        match &*self.session()? {
            Session::Owner(owner) => Ok((owner.shared_engine()?, Arc::new(SystemClock))),
            Session::Attached(_) | Session::Server(_) => Err(Error::Unavailable(
                "another process has the database open: end that process and repeat".into(),
            )),
        }
    }

    /// The writes that no checkpoint holds yet, where this process has the database and its store dies with its machine.
    pub fn window(&self) -> Option<crate::Window> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => owner.operations().ok()?.window.clone(),
            _ => None,
        }
    }

    /// Counts, sizes, cache figures.
    pub fn stats(&self) -> Result<Stats> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.stats()?),
            Session::Attached(r) => r.value(&Request::Stats, None),
            Session::Server(c) => Ok(server::stats(c)?),
        })
    }

    /// Reads everything and compares what must agree. `progress` gets the rows done so far.
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
                    .ok_or(Broken::Lost)
            }
            Session::Server(c) => Ok(server::check(c, *options, cancel, progress)?),
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
            Session::Server(c) => Ok(server::compact(c, retain_after, cancel)?),
        })
    }

    /// Copies the database, while it is in use, to a folder that is absent or empty. The copy is a database. With a
    /// server, the folder is one on the server's machine, where its settings allow backups.
    pub fn backup(&self, directory: &Path) -> Result<BackupReport> {
        if let Session::Server(client) = &*self.session()? {
            return server::backup(client, directory);
        }
        let directory = std::path::absolute(directory)
            .map_err(|e| Error::io(format!("making `{}`", directory.display()), e))?;
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.backup(&directory)?),
            Session::Attached(r) => backup::take(&directory, self.directory(), || {
                r.value(&Request::Backup, None)
            }),
            Session::Server(c) => Ok(server::backup(c, &directory)?),
        })
    }

    /// Copies a backup to a folder that is absent or empty, and reads every row of the copy before it gets its name.
    pub fn restore(backup: &Path, target: &Path) -> Result<()> {
        backup::restore(backup, target)
    }

    /// Loads many mutations as sorted tables. Only the owner can: an attached process gets an error.
    pub fn bulk_load(
        &self,
        mutations: &mut dyn Iterator<Item = Result<Mutation>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BulkReport> {
        match &*self.session()? {
            Session::Owner(o) => o.operations()?.bulk_load(mutations, progress),
            Session::Attached(r) => Err(Error::Unavailable(format!(
                "a bulk load needs `{}` to itself, but process {} has it open: end that process and repeat, or import \
                 in batches",
                self.shared.folder.path.display(),
                r.pid()
            ))),
            Session::Server(c) => Err(Error::Unavailable(format!(
                "a bulk load needs the database to itself, but {} is a server: import in batches, or load into the \
                 folder before it is served",
                c.address()
            ))),
        }
    }

    /// Applies batches that were gathered from many callers in one group commit, each whole or not at all. The answers
    /// are in the order of the batches.
    pub fn apply_together(&self, batches: Vec<Batch>) -> Vec<Result<Commit>> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => match owner.operations() {
                Ok(core) => core.apply_together(batches),
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

    /// Applies a batch if this process owns the database and nobody writes just now, and does not wait for the disk; else
    /// gives the batch back. For threads that must not wait.
    pub fn apply_now(&self, batch: Batch) -> std::result::Result<Result<Commit>, Batch> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) if !self.is_sync() => match owner.operations() {
                Ok(core) => core.apply_now(batch),
                Err(_) => Err(batch),
            },
            _ => Err(batch),
        }
    }

    /// Begins to apply a batch. With a server, one thread can have many on their way at once; elsewhere the batch is
    /// applied when this returns.
    pub fn submit(&self, batch: Batch) -> Result<Submitted> {
        if let Session::Server(client) = &*self.session()? {
            let sync = self.is_sync();
            return client
                .submit(batch, sync)
                .map(|sent| Submitted::Sent(Box::new(sent)));
        }
        Ok(Submitted::Done(self.apply(batch)))
    }

    /// Makes everything written so far survive power failure.
    pub fn persist(&self) -> Result<()> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.operations()?.persist()?),
            Session::Attached(r) => r.value(&Request::Persist, None),
            Session::Server(c) => Ok(c.persist()?),
        })
    }

    /// Persists and lets go of the database, for all clones of this handle. A call under way in another thread
    /// finishes first, and then it is that thread that lets go.
    pub fn close(self) -> Result<()> {
        let live = {
            let mut live = self.live().lock().unwrap_or_else(PoisonError::into_inner);
            live.take()
        };
        drop(live);
        match self.shared.sessions.close() {
            Some(Session::Owner(owner)) => owner.close(),
            // Servers whose stores die with their machines have not persisted everything yet.
            Some(Session::Server(client)) => client.flush(),
            Some(Session::Attached(_)) | None => Ok(()),
        }
    }
}

/// A batch that [`Database::submit`] took.
#[derive(Debug)]
pub enum Submitted {
    /// It is on its way to a server.
    Sent(Box<esker_rpc::Pending>),
    /// It is answered.
    Done(Result<Commit>),
}

impl Submitted {
    /// The answer.
    pub fn wait(self) -> Result<Commit> {
        match self {
            Self::Sent(pending) => pending.wait(),
            Self::Done(answer) => answer,
        }
    }
}

impl GraphRead for Database {
    fn schema(&self) -> Result<Arc<Schema>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.schema()?),
            Session::Attached(r) => r.value(&Request::Schema, None).map(Arc::new),
            Session::Server(c) => Ok(c.schema()?),
        })
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(self.view(o)?.read_vertices(ids, as_of)?),
            Session::Attached(r) => r.list(&self.asked(Request::ReadVertices(ids.to_vec(), as_of))),
            Session::Server(c) => Ok(self.all_of(c).read_vertices(ids, as_of)?),
        })
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(self.view(o)?.read_edges(keys, as_of)?),
            Session::Attached(r) => r.list(&self.asked(Request::ReadEdges(keys.to_vec(), as_of))),
            Session::Server(c) => Ok(self.all_of(c).read_edges(keys, as_of)?),
        })
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let mut resume = EdgesResume::default();
        self.run(|s| match s {
            Session::Owner(o) => {
                let (from, rest) = resume.rest(frontier);
                Ok(self
                    .view(o)?
                    .scan_edges(rest, select, &mut |i, e| resume.pass(from + i, e, sink))?)
            }
            Session::Attached(r) => {
                let (from, rest) = resume.rest(frontier);
                let request = self.asked(Request::ScanEdges(rest.to_vec(), select.clone()));
                r.stream(&request, &mut |(i, e): (usize, Edge)| {
                    resume.pass(from + i, e, sink)
                })
            }
            Session::Server(c) => Ok(self.all_of(c).scan_edges(frontier, select, sink)?),
        })
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        let mut resume = VerticesResume::after(select.after);
        self.run(|s| {
            let rest = VertexSelect {
                after: resume.position(),
                ..*select
            };
            match s {
                Session::Owner(o) => {
                    let view = self.view(o)?;
                    Ok(view.scan_vertices(&rest, &mut |v| resume.pass(v, sink))?)
                }
                Session::Attached(r) => {
                    let request = self.asked(Request::ScanVertices(rest));
                    r.stream(&request, &mut |v: Vertex| resume.pass(v, sink))
                }
                Session::Server(c) => Ok(self.all_of(c).scan_vertices(select, sink)?),
            }
        })
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(self.view(o)?.vertex_history(id, range)?),
            Session::Attached(r) => r.list(&self.asked(Request::VertexHistory(id, range))),
            Session::Server(c) => Ok(self.all_of(c).vertex_history(id, range)?),
        })
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(self.view(o)?.edge_history(key, range)?),
            Session::Attached(r) => r.list(&self.asked(Request::EdgeHistory(key, range))),
            Session::Server(c) => Ok(self.all_of(c).edge_history(key, range)?),
        })
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(self.view(o)?.degrees(of)?),
            Session::Attached(r) => r.value(&self.asked(Request::Degrees(of.to_vec())), None),
            Session::Server(c) => Ok(self.all_of(c).degrees(of)?),
        })
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(self.view(o)?.top_degrees(edge_type, limit)?),
            Session::Attached(r) => r.list(&self.asked(Request::TopDegrees(edge_type, limit))),
            Session::Server(c) => Ok(self.all_of(c).top_degrees(edge_type, limit)?),
        })
    }

    fn counts(&self) -> Result<Counts> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(self.view(o)?.counts()?),
            Session::Attached(r) => r.value(&self.asked(Request::Counts), None),
            Session::Server(c) => Ok(self.all_of(c).counts()?),
        })
    }

    fn diff(
        &self,
        before: Version,
        after: Version,
        sink: &mut dyn FnMut(Difference) -> Flow,
    ) -> Result<()> {
        // Between two times that lie in the past the answer is always the same, so that it can be skipped through.
        let mut done = 0_u64;
        self.run(|s| {
            let mut skip = done;
            let mut pass = |d: Difference| {
                if skip > 0 {
                    skip -= 1;
                    return ControlFlow::Continue(());
                }
                done += 1;
                sink(d)
            };
            match s {
                Session::Owner(o) => Ok(self.view(o)?.diff(before, after, &mut pass)?),
                Session::Attached(r) => {
                    r.stream(&self.asked(Request::Diff(before, after)), &mut pass)
                }
                Session::Server(c) => Ok(self.all_of(c).diff(before, after, &mut pass)?),
            }
        })
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(self.view(o)?.travel(traversal, budget, cancel)?),
            Session::Attached(r) => {
                let mut assembly = Assembly::default();
                let receiver = Receiver {
                    item: &mut |r| assembly.take(r).map(ControlFlow::Continue),
                    progress: &mut |_| {},
                    cancel: Some(cancel),
                };
                let rest = r.call(
                    &self.asked(Request::Travel(traversal.clone(), *budget)),
                    receiver,
                )?;
                rest.map(|rest| assembly.finish(rest)).ok_or(Broken::Lost)
            }
            Session::Server(c) => Ok(self.all_of(c).travel(traversal, budget, cancel)?),
        })
    }

    fn applied(&self, once: &[u8]) -> Result<bool> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.applied(once)?),
            Session::Attached(r) => r.value(&Request::Applied(once.to_vec()), None),
            Session::Server(c) => Ok(c.applied(once)?),
        })
    }
}

impl GraphWrite for Database {
    /// Through another process, a batch without a marker of its own gets one, so that it can be sent again if the
    /// owner dies before it answers. If such a batch turns out to have been applied by the dead owner, the counts of
    /// the [`Commit`] are zero: they died with the answer.
    fn apply(&self, batch: Batch) -> Result<Commit> {
        let mut batch = batch;
        let (mut number, mut repeated): (Option<Number>, bool) = (None, false);
        let answer = self.run(|s| match s {
            // An owner is asked once, so that the batch can be given away.
            Session::Owner(o) => Ok(o.operations()?.apply(std::mem::take(&mut batch))?),
            Session::Attached(r) => {
                if batch.once.is_none() {
                    let next = self.next_number()?;
                    batch.once = Some(next.marker());
                    number = Some(next);
                }
                let request = Request::Apply(std::mem::take(&mut batch));
                let commit = self.durable(r, r.value::<Commit>(&request, None));
                if let Request::Apply(b) = request {
                    batch = b;
                }
                repeated |= matches!(commit, Err(Broken::Lost));
                commit
            }
            Session::Server(c) => {
                let sync = self.is_sync();
                Ok(c.apply_with(std::mem::take(&mut batch), sync)?)
            }
        });
        let applied_by_us = repeated && number.is_some();
        // Whoever is told that it failed may write it anew, and must not find this one applied too later.
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
