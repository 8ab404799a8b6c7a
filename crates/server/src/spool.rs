//! Runs that tasks left in folders come into the database by themselves: a thread looks there every other second.
//!
//! It looks rather than being told: what another machine writes to a shared file system, no notification tells of.

use crate::metrics::Metrics;
use esker::Database;
use esker_model::{Error, Result};
use esker_record::{Found, Spool, deliver_all};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// Between two looks at runs that have not ended: some of them have been killed.
const LOOK_AT_ALL: Duration = Duration::from_mins(1);
/// Where files go that nothing can be made from, below their folder.
const ASIDE: &str = "aside";

/// What it counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Runs that came into the database.
    pub(crate) runs: crate::metrics::Counter,
    /// Files moved aside.
    pub(crate) aside: crate::metrics::Counter,
    /// Looks that failed: at a folder, or because the database takes nothing.
    pub(crate) failures: crate::metrics::Counter,
    /// Runs that wait, by the last look.
    pub(crate) waiting: Mutex<u64>,
}

/// The thread.
pub(crate) struct Merger {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Merger {
    /// Starts to look into folders, which are made if they are not there.
    pub(crate) fn start(
        database: Database,
        folders: &[PathBuf],
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        for folder in folders {
            let failed = |e| Error::io(format!("making the spool `{}`", folder.display()), e);
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let (stop, stopped) = mpsc::channel();
        let mut look = Look {
            database,
            spools: folders.iter().map(Spool::new).collect(),
            metrics,
            told: HashSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name("esker-spool".into())
            .spawn(move || {
                let mut all = Instant::now();
                look.at_all(true);
                while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    let every = all.elapsed() >= LOOK_AT_ALL;
                    if every {
                        all = Instant::now();
                    }
                    look.at_all(every);
                }
            })
            .map_err(|e| Error::io("starting the server's threads", e))?;
        Ok(Self { stop, thread })
    }

    /// Ends it, after what it is doing.
    pub(crate) fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct Look {
    database: Database,
    spools: Vec<Spool>,
    metrics: Arc<Metrics>,
    /// What was said once is not said every other second.
    told: HashSet<String>,
}

impl Look {
    fn at_all(&mut self, every: bool) {
        let mut waiting = 0;
        for spool in self.spools.clone() {
            waiting += self.at(&spool, every);
        }
        let mut last = self.metrics.spool.waiting.lock();
        if let Ok(last) = last.as_deref_mut() {
            *last = waiting;
        }
    }

    /// Looks into one folder; how many runs are left there.
    fn at(&mut self, spool: &Spool, every: bool) -> u64 {
        let found = if every { spool.read() } else { spool.ended() };
        let found = match found {
            Ok(found) => found,
            Err(e) => {
                self.failed(&format!("{}: {e}", spool.folder().display()));
                return 0;
            }
        };
        let (mut runs, mut waiting) = (Vec::new(), 0);
        for found in found {
            match found {
                Found::Run(run, path) => match is_whose(run.uid, &path) {
                    Ok(()) => runs.push((run, path)),
                    Err(why) => self.aside(spool, &path, &why),
                },
                Found::GoesOn(_) => waiting += 1,
                Found::Broken(path, why) => self.aside(spool, &path, &why),
            }
        }
        if runs.is_empty() {
            return waiting;
        }
        let mut refused = Vec::new();
        let count = runs.len() as u64;
        match deliver_all(&self.database, &runs, &mut refused) {
            Ok(delivered) => {
                self.metrics.spool.runs.add(delivered);
                tracing::info!(runs = delivered, folder = %spool.folder().display(), "merged runs");
                waiting += count - delivered;
            }
            Err(e) => {
                waiting += count;
                let folder = spool.folder().display();
                self.failed(&format!(
                    "{folder}: runs wait, for the database takes none: {e}"
                ));
            }
        }
        for (path, why) in refused {
            self.aside(spool, &path, &why);
        }
        waiting
    }

    fn failed(&mut self, what: &str) {
        self.metrics.spool.failures.add(1);
        if self.told.insert(what.to_owned()) {
            tracing::warn!("spool {what}");
        }
    }

    /// Nothing can be made of a file: it goes out of the way, and whoever looks after the server is told.
    fn aside(&mut self, spool: &Spool, path: &Path, why: &str) {
        let folder = spool.folder().join(ASIDE);
        let to = folder.join(path.file_name().unwrap_or_default());
        let moved = fs::create_dir_all(&folder).and_then(|()| fs::rename(path, &to));
        match moved {
            Ok(()) => {
                self.metrics.spool.aside.add(1);
                tracing::warn!(file = %to.display(), "a run that cannot be merged was moved aside: {why}");
            }
            // Somebody else was faster.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => self.failed(&format!(
                "{}: {why}; it cannot be moved aside: {e}",
                path.display()
            )),
        }
    }
}

/// Nobody says in a folder that others can write to, too, what another one has done.
fn is_whose(uid: u32, path: &Path) -> Result<(), String> {
    let owner = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.uid(),
        // It is gone: somebody delivers it.
        Err(_) => return Ok(()),
    };
    if owner == uid || owner == 0 {
        return Ok(());
    }
    Err(format!(
        "it says that user {uid} ran it, but its file is user {owner}'s"
    ))
}
