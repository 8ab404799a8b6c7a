//! Runs that tasks left in folders come into the database by themselves: a thread looks there every other second.
//!
//! It looks rather than being told: what another machine writes to a shared file system, no notification tells of.

//!
//! Several users may be able to write to a folder. Whose a run is, its file's owner says, and a run of another user than the server's own is
//! written on that user's behalf ([`esker_record::Behalf`]).

use crate::metrics::Metrics;
use esker::Database;
use esker::modes::create_private_all;
use esker_model::object::Asker;
use esker_model::{Error, Result};
use esker_record::{Behalf, Delivery, FileId, Found, Spool, Waiting, Which, deliver_all};
use nix::unistd::{Uid, User, getgrouplist};
use std::collections::{BTreeMap, HashSet};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// Between two looks at runs that have not ended: some of them have been killed.
const LOOK_AT_ALL: Duration = Duration::from_mins(1);
/// Runs that are in memory at once, and the bytes of their files.
const RUNS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: u64 = 64 << 20;
/// So many sentences about what runs may not say are logged at a look.
const LEFT_OUT_TOLD: usize = 20;
/// So many different failures are logged while the server runs: file names are whatever users call their files.
const TOLD_MAX: usize = 1000;

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
            create_private_all(folder).map_err(failed)?;
        }
        let (stop, stopped) = mpsc::channel();
        let mut look = Look {
            database,
            spools: folders.iter().map(Spool::new).collect(),
            metrics,
            stopped,
            stuck: HashSet::new(),
            told: HashSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name("esker-spool".into())
            .spawn(move || {
                let mut all = Instant::now();
                look.at_all(true);
                while look.stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
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
    /// Disconnected once the server stops.
    stopped: Receiver<()>,
    /// Files that are done with and can be neither removed nor moved; tried again once a minute.
    stuck: HashSet<FileId>,
    /// What was said once is not said every other second.
    told: HashSet<String>,
}

impl Look {
    fn at_all(&mut self, every: bool) {
        let mut waiting = 0;
        if every {
            self.stuck.clear();
        }
        for spool in self.spools.clone() {
            waiting += self.at(&spool, every);
        }
        let mut last = self.metrics.spool.waiting.lock();
        if let Ok(last) = last.as_deref_mut() {
            *last = waiting;
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Looks into one folder; how many runs are left there.
    fn at(&mut self, spool: &Spool, every: bool) -> u64 {
        let which = if every { Which::All } else { Which::Ended };
        let found = match spool.look(which) {
            Ok(found) => found.without(self.stuck.clone()),
            Err(e) => {
                self.failed(&format!("{}: {e}", spool.folder().display()));
                return 0;
            }
        };
        let mut runs: BTreeMap<u32, Vec<Waiting>> = BTreeMap::new();
        let (mut count, mut bytes, mut waiting) = (0, 0, 0);
        for found in found {
            if self.is_stopped() {
                return waiting;
            }
            match found {
                Found::Run(run) => match run.check_owner() {
                    Ok(()) => {
                        count += 1;
                        bytes += run.bytes;
                        runs.entry(run.run.uid).or_default().push(run);
                    }
                    Err(why) => self.aside(spool, &run.path, &why),
                },
                Found::GoesOn(_) | Found::Other(..) => waiting += 1,
                Found::Broken(path, why) => self.aside(spool, &path, &why),
            }
            if count >= RUNS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                waiting += self.merge(spool, std::mem::take(&mut runs));
                (count, bytes) = (0, 0);
            }
        }
        waiting + self.merge(spool, runs)
    }

    /// Brings runs to the database, those of each user on that user's behalf; how many of them are left.
    fn merge(&mut self, spool: &Spool, runs: BTreeMap<u32, Vec<Waiting>>) -> u64 {
        let mut left = 0;
        for (user, runs) in runs {
            let behalf = (user != rustix::process::geteuid().as_raw()).then(|| behalf_of(user));
            let mut delivery = Delivery::default();
            let done = deliver_all(&self.database, &runs, behalf.as_ref(), &mut delivery);
            let folder = spool.folder().display();
            if delivery.runs > 0 {
                self.metrics.spool.runs.add(delivery.runs);
                tracing::info!(runs = delivery.runs, user, %folder, "merged runs");
            }
            left += (runs.len() as u64).saturating_sub(delivery.runs);
            if let Err(e) = done {
                self.failed(&format!(
                    "{folder}: runs wait, for the database takes none: {e}"
                ));
            }
            for what in delivery.left_out.iter().take(LEFT_OUT_TOLD) {
                tracing::warn!("a run says what its user may not, and that was left out: {what}");
            }
            if let Some(more) = delivery.left_out.len().checked_sub(LEFT_OUT_TOLD + 1) {
                tracing::warn!("{} more were left out", more + 1);
            }
            for (path, why) in delivery.refused {
                self.aside(spool, &path, &why);
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
        if self.told.len() < TOLD_MAX && self.told.insert(what.to_owned()) {
            tracing::warn!("spool {what}");
        }
    }

    /// Nothing can be made of a file: it goes out of the way, and whoever looks after the server is told.
    fn aside(&mut self, spool: &Spool, path: &Path, why: &str) {
        match spool.aside(path) {
            Ok(to) => {
                self.metrics.spool.aside.add(1);
                tracing::warn!(file = %to.display(), "a run that cannot be merged was moved aside: {why}");
            }
            // Somebody else was faster.
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

/// A user, as this machine knows them. One that it does not know has no groups.
fn behalf_of(user: u32) -> Behalf {
    let known = User::from_uid(Uid::from_raw(user)).ok().flatten();
    let groups = known.as_ref().and_then(|known| {
        let name = CString::new(known.name.as_str()).ok()?;
        getgrouplist(&name, known.gid).ok()
    });
    Behalf {
        asker: Asker {
            uid: i64::from(user),
            gids: groups
                .unwrap_or_default()
                .into_iter()
                .map(|gid| i64::from(gid.as_raw()))
                .collect(),
        },
        name: known.map(|known| known.name),
    }
}
