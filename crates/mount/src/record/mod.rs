//! Recording of lineage: which process had which file of the mount open for reading or writing, as edges of the graph.
//!
//! The kernel reads and writes contents itself, so only opens and closes are visible. Closing a file waits for
//! nothing: accesses are buffered for a moment and sent together. They are lost if the process dies, as are files that
//! were not closed.

mod graph;
mod process;

use esker_model::{GraphWrite, Result, VertexId};
use graph::{Access, Types, Writer};
use parking_lot::{Condvar, Mutex};
use process::{Process, Processes};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest time that an access is buffered.
const BUFFERED_TIME: Duration = Duration::from_millis(300);
/// Number of accesses in one batch.
const ACCESSES_PER_BATCH: usize = 2_000;
/// Largest number of processes recorded for one open file.
const SHARERS_MAX: usize = 64;
/// Largest number of buffered accesses while the database does not respond; later ones are lost and counted.
const BUFFERED_MAX: usize = 200_000;

/// Recorder that turns the accesses of a mount into edges.
pub struct Recorder {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

struct Inner {
    graph: Arc<dyn GraphWrite>,
    processes: Processes,
    open: Mutex<HashMap<u64, RecordedOpen>>,
    next: AtomicU64,
    state: Mutex<RecorderState>,
    changed: Condvar,
    /// Held while sending.
    writer: Mutex<Writer>,
}

/// A file that a process has open.
struct RecordedOpen {
    process: Arc<Process>,
    /// Processes that inherited the file and closed it: a shell may open what its child reads or writes.
    sharers: Vec<Arc<Process>>,
    file: VertexId,
    path: Option<String>,
    read: bool,
    write: bool,
    start: i64,
}

#[derive(Default)]
struct RecorderState {
    kept: Vec<Access>,
    oldest: Option<Instant>,
    recorded: u64,
    lost: u64,
    closed: bool,
}

/// Result of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorded {
    /// Number of accesses in the graph.
    pub accesses: u64,
    /// Number of accesses lost, because the database refused them or did not respond in time.
    pub lost: u64,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

impl Recorder {
    /// Creates a recorder for a graph whose schema has `GraphMeta`'s types, as the default schema does.
    pub fn new(graph: Arc<dyn GraphWrite>) -> Result<Self> {
        let schema = graph.schema()?;
        let types = Types::resolve(&schema)?;
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let inner = Arc::new(Inner {
            graph,
            processes: Processes::new(),
            open: Mutex::default(),
            next: AtomicU64::new(1),
            state: Mutex::default(),
            changed: Condvar::new(),
            writer: Mutex::new(Writer::new(types, host)),
        });
        let work = Arc::clone(&inner);
        let thread = std::thread::Builder::new()
            .name("record".into())
            .spawn(move || work.work())
            .map_err(|e| esker_model::Error::io("starting a thread that records accesses", e))?;
        Ok(Self {
            inner,
            thread: Some(thread),
        })
    }

    /// Records that a thread has opened a file. Returns its number, or 0 if the thread is unknown.
    pub(crate) fn opened(
        &self,
        (thread, uid): (u32, u32),
        (file, path): (VertexId, Option<String>),
        (read, write): (bool, bool),
    ) -> u64 {
        let Some(process) = self.inner.processes.of(thread, uid) else {
            return 0;
        };
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let opened = RecordedOpen {
            process,
            sharers: Vec::new(),
            file,
            path,
            read,
            write,
            start: now(),
        };
        self.inner.open.lock().insert(number, opened);
        number
    }

    /// Records that a thread has closed a descriptor of the file. Its program may be another one than the one that
    /// opened it, as with programs started by a shell.
    pub(crate) fn flushed(&self, thread: u32, number: u64) {
        let Some((uid, pid)) = self.owner(number) else {
            return;
        };
        let Some(process) = self.inner.processes.of(thread, uid) else {
            return;
        };
        let mut open = self.inner.open.lock();
        let Some(opened) = open.get_mut(&number) else {
            return;
        };
        if process.pid == pid {
            opened.process = process;
        } else {
            opened.sharers.retain(|heir| heir.pid != process.pid);
            if opened.sharers.len() < SHARERS_MAX {
                opened.sharers.push(process);
            }
        }
    }

    fn owner(&self, number: u64) -> Option<(u32, u32)> {
        let open = self.inner.open.lock();
        let opened = open.get(&number)?;
        Some((opened.process.uid, opened.process.pid))
    }

    /// Records the last close of the file.
    pub(crate) fn closed(&self, number: u64) {
        let opened = self.inner.open.lock().remove(&number);
        let Some(RecordedOpen {
            process,
            sharers,
            file,
            path,
            read,
            write,
            start,
        }) = opened
        else {
            return;
        };
        // The opening process may have executed another program with the file, as a shell does.
        let process = self.inner.processes.latest(&process);
        let end = now();
        let mut state = self.inner.state.lock();
        for process in std::iter::once(process).chain(sharers) {
            if state.kept.len() >= BUFFERED_MAX {
                state.lost += 1;
                continue;
            }
            state.kept.push(Access {
                process,
                file,
                path: path.clone(),
                read,
                write,
                start,
                end,
            });
        }
        let first = state.oldest.is_none();
        state.oldest.get_or_insert_with(Instant::now);
        let enough = state.kept.len() >= ACCESSES_PER_BATCH;
        drop(state);
        if first || enough {
            self.inner.changed.notify_one();
        }
    }

    /// Sends buffered accesses and ends the recording.
    pub fn finish(&self) -> Recorded {
        let sent = self.inner.send();
        let mut state = self.inner.state.lock();
        if sent.is_err() {
            state.lost += state.kept.len() as u64;
            state.kept.clear();
        }
        Recorded {
            accesses: state.recorded,
            lost: state.lost,
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.inner.state.lock().closed = true;
        self.inner.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn send(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        loop {
            let mut state = self.state.lock();
            let n = state.kept.len().min(ACCESSES_PER_BATCH);
            let some: Vec<Access> = state.kept.drain(..n).collect();
            state.oldest = (!state.kept.is_empty()).then(Instant::now);
            drop(state);
            if some.is_empty() {
                return Ok(());
            }
            let batch = writer.batch(&some);
            match self.graph.apply(batch) {
                Ok(_) => self.state.lock().recorded += some.len() as u64,
                Err(e) => {
                    writer.forget();
                    let mut state = self.state.lock();
                    state.kept.splice(..0, some);
                    state.oldest = Some(Instant::now());
                    return Err(e);
                }
            }
        }
    }

    /// Sends accesses that are old enough or enough for a batch, until the recorder is closed.
    fn work(&self) {
        let mut state = self.state.lock();
        let mut failed = false;
        while !state.closed {
            let due = state.oldest.map(|oldest| oldest + BUFFERED_TIME);
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            match left {
                Some(left)
                    if left.is_zero() || state.kept.len() >= ACCESSES_PER_BATCH && !failed =>
                {
                    drop(state);
                    // Accesses that cannot be sent stay buffered and are retried after a while.
                    failed = self.send().is_err();
                    state = self.state.lock();
                }
                Some(left) => {
                    self.changed.wait_for(&mut state, left);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}
