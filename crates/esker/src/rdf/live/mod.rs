//! RDF data that one process holds for many: queries take snapshots, updates are made one after another by a thread of
//! their own, and those that wait together become durable together.
//!
//! ```text
//!  update ─► queue ─► writer: a group on a copy ─► log (one write, one fsync) ─► the copy is the snapshot ─► answers
//!                        │
//!                        └── the log is long: a thread writes the snapshot's image aside; then the writer switches
//!  query ──► the snapshot (nobody waits for anybody)
//! ```

#[cfg(test)]
mod tests;
mod work;

use super::meta::{Meta, MetaGraphs, Wanted, graphs_in};
use super::{Changed, Rules, disk, moment};
use crate::database::Database;
use esker_model::object::Asker;
use esker_model::{Error, Result};
use esker_rdf::{Dataset, Graphs, Solutions, Update};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;
use work::Work;

/// Stack of a thread that parses and answers: parsers call themselves for what stands within brackets.
pub const STACK: usize = 256 << 20;
/// Updates that may wait.
const WAITING_MAX: usize = 65_536;

/// Who is told what became of something.
pub type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;
/// Asked now and then whether to stop, and why.
pub type Stop = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// What is to be updated.
#[derive(Debug)]
pub enum Request {
    /// A text.
    Text(String),
    /// A text that is parsed.
    Parsed(Box<Update>),
}

/// How.
#[derive(Clone)]
pub struct How {
    /// Graphs that patterns ask, instead of those that the text says.
    pub graphs: Option<Graphs>,
    /// Whether to stop.
    pub stop: Stop,
    /// Whether the change must survive a power failure.
    pub sync: bool,
    /// Whether `LOAD` may read files of this machine.
    pub files: bool,
    /// Bytes that an intermediate result may have.
    pub memory: usize,
    /// Metadata graphs that the update reads: [`Live::meta_of`].
    pub meta: MetaGraphs,
    /// What other endpoints said to what the update asks them.
    pub heard: Arc<Heard>,
    /// On whose behalf: graphs' rights are for them.
    pub asker: Option<Asker>,
}

/// What other endpoints said, by endpoint and query.
pub type Heard = HashMap<(String, String), std::result::Result<Solutions, String>>;

impl Default for How {
    fn default() -> Self {
        Self {
            graphs: None,
            stop: Arc::new(|| None),
            sync: false,
            files: true,
            memory: 4 << 30,
            meta: MetaGraphs::new(),
            heard: Arc::default(),
            asker: None,
        }
    }
}

impl std::fmt::Debug for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("How")
            .field("graphs", &self.graphs)
            .field("sync", &self.sync)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Quads that were read aside, and what they take the place of.
#[derive(Debug, Default)]
pub struct Add {
    /// The quads.
    pub data: Dataset,
    /// A graph that is emptied before: its IRI, or the default one.
    pub instead_of: Option<Option<String>>,
    /// A graph that is asked for whether it was there.
    pub into: Option<String>,
    /// By which rules to infer from now on.
    pub infer: Rules,
    /// Whether the change must survive a power failure.
    pub sync: bool,
    /// On whose behalf: graphs' rights are for them.
    pub asker: Option<Asker>,
}

/// What adding did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Whether the graph had quads before.
    pub existed: bool,
    /// Quads that are new, those that took the place of the same ones not counted.
    pub new: usize,
    /// Quads before.
    pub before: usize,
}

enum Task {
    Update(Request, How, Done<Changed>),
    Add(Box<Add>, Done<Added>),
    Checkpoint(Done<u64>),
    Drop(Done<usize>),
    /// Gives the data away, to be given back with more terms.
    Lend(mpsc::SyncSender<Dataset>, mpsc::Receiver<Dataset>),
    /// The image that was written aside, by its number.
    Image(u64, Result<u64>),
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    stopped: bool,
}

struct Shared {
    folder: PathBuf,
    present: RwLock<Arc<Dataset>>,
    state: Mutex<State>,
    more: Condvar,
    seeds: AtomicU64,
    log_bytes: AtomicU64,
}

/// RDF data of a folder, held by this process. The last copy to go ends the writer.
pub struct Live {
    shared: Arc<Shared>,
    /// The metadata graphs that were made of the database beside it.
    meta: Mutex<Meta>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("folder", &self.shared.folder)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Arc<Dataset> {
        Arc::clone(&self.present.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn publish(&self, data: Dataset, log_bytes: u64) {
        self.log_bytes.store(log_bytes, Ordering::Release);
        let new = Arc::new(data);
        let old = {
            let mut present = self.present.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *present, new)
        };
        drop(old);
    }

    /// The next task; `None` once stopped and all is done.
    fn next(&self, wait: bool) -> Option<Task> {
        let mut state = self.state();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            if state.stopped || !wait {
                return None;
            }
            state = self
                .more
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    #[allow(
        clippy::result_large_err,
        reason = "a refused task goes back whole, to be answered"
    )]
    fn push(&self, task: Task) -> Result<(), Task> {
        let mut state = self.state();
        if state.stopped || state.tasks.len() >= WAITING_MAX && !matches!(task, Task::Image(..)) {
            return Err(task);
        }
        state.tasks.push_back(task);
        // The writer takes all that is there before it sleeps.
        let first = state.tasks.len() == 1;
        drop(state);
        if first {
            self.more.notify_one();
        }
        Ok(())
    }

    fn seed(&self) -> u64 {
        self.seeds
            .fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
    }
}

fn busy() -> Error {
    Error::Unavailable(
        "too many updates of RDF data wait, or the database is being closed; try again later"
            .into(),
    )
}

impl Live {
    /// Opens the data of a folder. This process is the only one to write there from now on.
    /// With `sync`, all that is changed survives a power failure, else what asks for it.
    pub(crate) fn open(folder: &Path, sync: bool) -> Result<Self> {
        super::part::whole(folder)?;
        let mut disk = disk::lock(folder)?;
        let opened = disk::read(folder)?;
        disk.begin(opened.number, opened.log_bytes)?;
        if opened.number == 0 {
            disk.checkpoint(&opened.data)?;
        }
        let (_, seed) = moment();
        let shared = Arc::new(Shared {
            folder: folder.to_path_buf(),
            present: RwLock::new(Arc::new(opened.data)),
            state: Mutex::default(),
            more: Condvar::new(),
            seeds: AtomicU64::new(seed),
            log_bytes: AtomicU64::new(disk.log_bytes),
        });
        let mut work = Work::new(Arc::clone(&shared), disk, sync);
        let thread = std::thread::Builder::new()
            .name("esker-rdf".into())
            .stack_size(STACK)
            .spawn(move || work.run())
            .map_err(|e| Error::io("starting the thread that updates RDF data", e))?;
        Ok(Self {
            shared,
            meta: Mutex::default(),
            thread: Some(thread),
        })
    }

    /// The data as it is now.
    pub fn snapshot(&self) -> Arc<Dataset> {
        self.shared.snapshot()
    }

    /// The data as it is now, with metadata graphs of the database beside it. Making one takes a while, in which updates
    /// wait; who asks for what is up to date waits for nobody but others who ask for such graphs.
    pub fn with_meta(
        &self,
        database: &Database,
        wanted: &Wanted,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<Arc<Dataset>> {
        if wanted.is_empty() {
            return Ok(self.snapshot());
        }
        let mut meta = self.meta.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = meta.ready(&self.snapshot(), database, wanted)? {
            return Ok(Arc::new(ready));
        }
        // The terms of the graph get numbers in the data, which is the writer's to change.
        let (give, take) = (mpsc::sync_channel(1), mpsc::sync_channel(1));
        let lend = Task::Lend(give.0, take.1);
        if self.shared.push(lend).is_err() {
            return Err(busy());
        }
        let mut data = give.1.recv().map_err(|_| busy())?;
        let snapshot = meta.snapshot(&mut data, database, wanted, stop);
        // Terms that nobody uses do no harm.
        let _ = take.0.send(data);
        snapshot.map(Arc::new)
    }

    /// Triples of the metadata graph, if it was made.
    pub fn meta_len(&self) -> Option<usize> {
        self.meta.try_lock().ok()?.triples()
    }

    /// The metadata graphs that an update reads.
    pub fn meta_of(
        &self,
        database: &Database,
        update: &Update,
        graphs: Option<&Graphs>,
        stop: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<MetaGraphs> {
        let wanted = Wanted::of_update(update, graphs)?;
        if wanted.is_empty() {
            return Ok(MetaGraphs::new());
        }
        Ok(graphs_in(&*self.with_meta(database, &wanted, stop)?))
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Bytes of the log behind the image.
    pub fn log_bytes(&self) -> u64 {
        self.shared.log_bytes.load(Ordering::Acquire)
    }

    /// A seed that no other request has.
    pub fn seed(&self) -> u64 {
        self.shared.seed()
    }

    /// Updates, and tells `done` once that is durable. It may be told on this thread, if nothing is done.
    pub fn submit(&self, request: Request, how: How, done: Done<Changed>) {
        if let Err(Task::Update(_, _, done)) = self.shared.push(Task::Update(request, how, done)) {
            done(Err(busy()));
        }
    }

    /// Updates, and waits for it.
    pub fn update(&self, request: Request, how: How) -> Result<Changed> {
        wait(|done| self.submit(request, how, done))
    }

    /// Adds what was read aside, and tells `done` once that is durable.
    pub fn submit_add(&self, add: Add, done: Done<Added>) {
        if let Err(Task::Add(_, done)) = self.shared.push(Task::Add(Box::new(add), done)) {
            done(Err(busy()));
        }
    }

    /// Adds what was read aside, and waits for it.
    pub fn add(&self, add: Add) -> Result<Added> {
        wait(|done| self.submit_add(add, done))
    }

    /// Writes an image of all data beside the work on it. Its bytes.
    pub fn checkpoint(&self) -> Result<u64> {
        wait(|done| {
            if let Err(Task::Checkpoint(done)) = self.shared.push(Task::Checkpoint(done)) {
                done(Err(busy()));
            }
        })
    }

    /// Forgets all RDF data. How many quads there were.
    pub fn drop_all(&self) -> Result<usize> {
        wait(|done| {
            if let Err(Task::Drop(done)) = self.shared.push(Task::Drop(done)) {
                done(Err(busy()));
            }
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.more.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn wait<T: Send + 'static>(ask: impl FnOnce(Done<T>)) -> Result<T> {
    let (tell, told) = mpsc::sync_channel(1);
    ask(Box::new(move |result| {
        // Who asked may be gone.
        let _ = tell.send(result);
    }));
    told.recv().unwrap_or_else(|_| {
        Err(Error::Unavailable(
            "the thread that updates RDF data could not finish this; whether it was done is not known".into(),
        ))
    })
}
