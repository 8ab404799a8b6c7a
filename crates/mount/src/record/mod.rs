//! Lineage for free: who had which file of the mount open, to read or to write, as edges of the graph.
//!
//! The kernel reads and writes contents by itself, so what is seen is that a file was opened, how, and when it was closed. Whoever closes waits for
//! nothing: accesses are kept here for a moment, and sent together. They are lost with the process, as what was not closed is.

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

/// For so long they are kept at most.
const AGE: Duration = Duration::from_millis(300);
/// So many are sent at once.
const TOGETHER: usize = 2_000;
/// Processes that one open file is told of.
const HEIRS_MAX: usize = 64;
/// So many are kept while the database does not answer; what comes then is lost, and counted.
const KEPT_MAX: usize = 200_000;

/// How the accesses of a mount become edges.
pub struct Recorder {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

struct Inner {
    graph: Arc<dyn GraphWrite>,
    processes: Processes,
    open: Mutex<HashMap<u64, Opened>>,
    next: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
    /// Held by who sends.
    writer: Mutex<Writer>,
}

/// What somebody has open.
struct Opened {
    process: Arc<Process>,
    /// Those that got it from that one, and closed it: a shell may open what its child reads or writes.
    heirs: Vec<Arc<Process>>,
    file: VertexId,
    path: Option<String>,
    read: bool,
    write: bool,
    start: i64,
}

#[derive(Default)]
struct State {
    kept: Vec<Access>,
    oldest: Option<Instant>,
    recorded: u64,
    lost: u64,
    closed: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorded {
    /// Accesses that are in the graph.
    pub accesses: u64,
    /// Those that are not: the database did not take them, or not in time.
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
    /// Records into a graph whose schema has `GraphMeta`'s types, as the default schema has them.
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

    /// A thread has opened a file; the number of that, or 0 if nothing is known of the thread.
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
        let opened = Opened {
            process,
            heirs: Vec::new(),
            file,
            path,
            read,
            write,
            start: now(),
        };
        self.inner.open.lock().insert(number, opened);
        number
    }

    /// A descriptor of it was closed, by a thread that is there yet: it may be another program by now than the one that opened it, as what
    /// a shell starts is.
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
            opened.heirs.retain(|heir| heir.pid != process.pid);
            if opened.heirs.len() < HEIRS_MAX {
                opened.heirs.push(process);
            }
        }
    }

    fn owner(&self, number: u64) -> Option<(u32, u32)> {
        let open = self.inner.open.lock();
        let opened = open.get(&number)?;
        Some((opened.process.uid, opened.process.pid))
    }

    /// It is closed for good.
    pub(crate) fn closed(&self, number: u64) {
        let opened = self.inner.open.lock().remove(&number);
        let Some(Opened {
            process,
            heirs,
            file,
            path,
            read,
            write,
            start,
        }) = opened
        else {
            return;
        };
        // What a shell has opened it may have become another program with.
        let process = self.inner.processes.latest(&process);
        let end = now();
        let mut state = self.inner.state.lock();
        for process in std::iter::once(process).chain(heirs) {
            if state.kept.len() >= KEPT_MAX {
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
        let enough = state.kept.len() >= TOGETHER;
        drop(state);
        if first || enough {
            self.inner.changed.notify_one();
        }
    }

    /// Sends what is kept, and ends.
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
            let n = state.kept.len().min(TOGETHER);
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

    /// Sends what has been kept for long enough, or is enough, until it is closed.
    fn work(&self) {
        let mut state = self.state.lock();
        let mut failed = false;
        while !state.closed {
            let due = state.oldest.map(|oldest| oldest + AGE);
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            match left {
                Some(left) if left.is_zero() || state.kept.len() >= TOGETHER && !failed => {
                    drop(state);
                    // It stays kept if it cannot be sent, and is tried again after a while.
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
