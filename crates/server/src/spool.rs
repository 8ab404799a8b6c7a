//! Merges recorded runs from spools into the database: a thread polls the folders every two seconds.
//!
//! It polls because file notifications do not report what other machines write to a shared file system.

//!
//! Several users may be able to write to a folder. The owner of a run's file is its user, and a run of another user than the server's own
//! is written on that user's behalf ([`esker_record::RunOwner`]).

use crate::metrics::Metrics;
use esker::Database;
use esker::modes::create_private_all;
use esker_access::accounts::Accounts;
use esker_model::object::Principal;
use esker_model::{Error, Result};
use esker_record::{
    Delivery, FileId, RunOwner, Spool, SpoolFile, SpoolSelection, SpooledRun, deliver_all,
};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between polls.
const POLL: Duration = Duration::from_secs(2);
/// Interval between polls that include runs without an end: some of their processes were killed.
const POLL_ALL: Duration = Duration::from_mins(1);
/// Largest number of runs in memory at once.
const RUNS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: u64 = 64 << 20;
/// Largest number of warnings per poll about statements of runs that were left out.
const LEFT_OUT_LOGGED: usize = 20;
/// Largest number of different failures that are logged while the server runs: messages contain file names, which users choose.
const LOGGED_MAX: usize = 1000;

/// Counters of the merging thread.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Runs that were merged into the database.
    pub(crate) runs: crate::metrics::Counter,
    /// Files that were moved aside.
    pub(crate) aside: crate::metrics::Counter,
    /// Polls that failed, because of a folder or because the database accepts no writes.
    pub(crate) failures: crate::metrics::Counter,
    /// Waiting runs, as of the last poll.
    pub(crate) waiting: Mutex<u64>,
}

/// The thread that merges runs.
pub(crate) struct Merger {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Merger {
    /// Starts to poll folders, which are created if they do not exist.
    pub(crate) fn start(
        database: Database,
        folders: &[PathBuf],
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        for folder in folders {
            let failed = |e| Error::io(format!("making the spool `{}`", folder.display()), e);
            create_private_all(folder).map_err(failed)?;
        }
        let (stop, stopped) = mpsc::channel();
        let mut poller = SpoolPoller {
            database,
            spools: folders.iter().map(Spool::new).collect(),
            metrics,
            stopped,
            stuck: HashSet::new(),
            logged: HashSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name("esker-spool".into())
            .spawn(move || {
                let mut all = Instant::now();
                poller.poll_all(true);
                while poller.stopped.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                    let every = all.elapsed() >= POLL_ALL;
                    if every {
                        all = Instant::now();
                    }
                    poller.poll_all(every);
                }
            })
            .map_err(|e| Error::io("starting the server's threads", e))?;
        Ok(Self { stop, thread })
    }

    /// Stops the thread after its present step.
    pub(crate) fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct SpoolPoller {
    database: Database,
    spools: Vec<Spool>,
    metrics: Arc<Metrics>,
    /// Disconnected when the server stops.
    stopped: Receiver<()>,
    /// Files that are finished but can be neither removed nor moved; retried once a minute.
    stuck: HashSet<FileId>,
    /// Messages that were logged, so that they are not repeated every two seconds.
    logged: HashSet<String>,
}

impl SpoolPoller {
    fn poll_all(&mut self, every: bool) {
        let mut waiting = 0;
        if every {
            self.stuck.clear();
        }
        for spool in self.spools.clone() {
            waiting += self.poll(&spool, every);
        }
        let mut last = self.metrics.spool.waiting.lock();
        if let Ok(last) = last.as_deref_mut() {
            *last = waiting;
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Polls one folder; returns the number of runs left there.
    fn poll(&mut self, spool: &Spool, every: bool) -> u64 {
        let which = if every {
            SpoolSelection::All
        } else {
            SpoolSelection::Ended
        };
        let found = match spool.files(which) {
            Ok(found) => found.without(self.stuck.clone()),
            Err(e) => {
                self.failed(&format!("{}: {e}", spool.folder().display()));
                return 0;
            }
        };
        let mut runs: BTreeMap<u32, Vec<SpooledRun>> = BTreeMap::new();
        let (mut count, mut bytes, mut waiting) = (0, 0, 0);
        for found in found {
            if self.is_stopped() {
                return waiting;
            }
            match found {
                SpoolFile::Run(run) => match run.check_owner() {
                    Ok(()) => {
                        count += 1;
                        bytes += run.bytes;
                        runs.entry(run.run.uid).or_default().push(run);
                    }
                    Err(why) => self.move_aside(spool, &run.path, &why),
                },
                SpoolFile::Active(_) | SpoolFile::OtherUser(..) => waiting += 1,
                SpoolFile::Broken(path, why) => self.move_aside(spool, &path, &why),
            }
            if count >= RUNS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                waiting += self.merge(spool, std::mem::take(&mut runs));
                (count, bytes) = (0, 0);
            }
        }
        waiting + self.merge(spool, runs)
    }

    /// Merges runs, those of each user on that user's behalf; returns the number of runs left.
    fn merge(&mut self, spool: &Spool, runs: BTreeMap<u32, Vec<SpooledRun>>) -> u64 {
        let mut left = 0;
        for (user, runs) in runs {
            let owner = (user != rustix::process::geteuid().as_raw()).then(|| run_owner_of(user));
            let mut delivery = Delivery::default();
            let done = deliver_all(&self.database, &runs, owner.as_ref(), &mut delivery);
            let folder = spool.folder().display();
            if delivery.runs > 0 {
                self.metrics.spool.runs.add(delivery.runs);
                tracing::info!(runs = delivery.runs, user, %folder, "merged runs");
            }
            left += (runs.len() as u64).saturating_sub(delivery.runs);
            if let Err(e) = done {
                self.failed(&format!(
                    "{folder}: runs wait, because the database accepts none: {e}"
                ));
            }
            for what in delivery.left_out.iter().take(LEFT_OUT_LOGGED) {
                tracing::warn!(
                    "a run claims what its user has no right to, and that was left out: {what}"
                );
            }
            if let Some(more) = delivery.left_out.len().checked_sub(LEFT_OUT_LOGGED + 1) {
                tracing::warn!("{} more were left out", more + 1);
            }
            for (path, why) in delivery.refused {
                self.move_aside(spool, &path, &why);
            }
            for (path, e) in delivery.stay {
                self.stuck.extend(spool.file(&path));
                let path = path.display();
                self.failed(&format!("{path} was merged, and cannot be removed: {e}"));
            }
        }
        left
    }

    fn failed(&mut self, what: &str) {
        self.metrics.spool.failures.add(1);
        if self.logged.len() < LOGGED_MAX && self.logged.insert(what.to_owned()) {
            tracing::warn!("spool {what}");
        }
    }

    /// Moves an unusable file aside, with a warning for the administrator.
    fn move_aside(&mut self, spool: &Spool, path: &Path, why: &str) {
        match spool.set_aside(path) {
            Ok(to) => {
                self.metrics.spool.aside.add(1);
                tracing::warn!(file = %to.display(), "a run that cannot be merged was moved aside: {why}");
            }
            // Another process was faster.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => {
                self.stuck.extend(spool.file(path));
                self.failed(&format!(
                    "{}: {why}; it cannot be moved aside: {e}",
                    path.display()
                ));
            }
        }
    }
}

/// Looks up a user on this machine. An unknown user has no groups.
fn run_owner_of(user: u32) -> RunOwner {
    let known = Accounts::system().by_uid(user).ok();
    let gids = known.as_ref().map(|known| known.gids.as_slice());
    RunOwner {
        principal: Principal {
            uid: i64::from(user),
            gids: gids
                .unwrap_or_default()
                .iter()
                .map(|gid| i64::from(*gid))
                .collect(),
        },
        name: known.map(|known| known.login.clone()),
    }
}
