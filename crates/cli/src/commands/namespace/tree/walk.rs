//! Traversal of a directory tree with several threads.

use super::Message;
use super::compare::{self, FileMetadata};
use esker::Database;
use esker_model::Cancel as _;
use esker_model::namespace::{Change, Inode, Name, NamePath, Namespace as _, display};
use esker_terminal::interrupt::Interrupt;
use rustix::fs::{self, Dir, Mode, OFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Options of the traversal.
pub(super) struct ScanLimits {
    /// Maximum number of entries per second.
    pub(super) rate: Option<u64>,
    /// Whether other file systems are skipped.
    pub(super) one_file_system: bool,
    /// Names of entries to skip.
    pub(super) exclude: Vec<Vec<u8>>,
    /// State of Ctrl-C and `--timeout`.
    pub(super) stop: Interrupt,
}

/// The ancestors of a directory, to detect mounts that lead back to one of them.
struct Ancestors {
    identity: (u64, u64),
    above: Option<Arc<Self>>,
}

impl Ancestors {
    fn has(&self, identity: (u64, u64)) -> bool {
        std::iter::successors(Some(self), |c| c.above.as_deref()).any(|c| c.identity == identity)
    }
}

/// A directory to read.
struct ScanTask {
    real: PathBuf,
    path: NamePath,
    ancestors: Arc<Ancestors>,
    /// Whether the directory is new to the database, so that there is nothing to compare with.
    is_new: bool,
}

struct ScanWork {
    tasks: Vec<ScanTask>,
    /// Number of threads that may still find more directories.
    busy: usize,
}

/// A tree that is being read.
pub(super) struct TreeReader<'d> {
    database: &'d Database,
    limits: ScanLimits,
    work: Mutex<ScanWork>,
    more: Condvar,
    /// The first names of files with several names, by device and inode number.
    multiply_named: Mutex<HashMap<(u64, u64), NamePath>>,
    /// Time at which the next entry may be read.
    next: Mutex<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The receiver of messages is gone.
struct ReceiverGone;

impl<'d> TreeReader<'d> {
    pub(super) fn new(
        database: &'d Database,
        limits: ScanLimits,
        root: PathBuf,
        at: NamePath,
    ) -> Self {
        let identity = compare::stat_path(&root).map_or((0, 0), |found| found.identity);
        let first = ScanTask {
            real: root,
            path: at,
            ancestors: Arc::new(Ancestors {
                identity,
                above: None,
            }),
            is_new: false,
        };
        Self {
            database,
            limits,
            work: Mutex::new(ScanWork {
                tasks: vec![first],
                busy: 0,
            }),
            more: Condvar::new(),
            multiply_named: Mutex::new(HashMap::new()),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Reads directories until none are left.
    pub(super) fn work(&self, send: &SyncSender<Message>) {
        while let Some(task) = self.take() {
            let done = self.directory(&task, send);
            let mut work = lock(&self.work);
            work.busy -= 1;
            if done.is_err() || self.limits.stop.cancelled() {
                work.tasks.clear();
            }
            drop(work);
            self.more.notify_all();
        }
    }

    fn take(&self) -> Option<ScanTask> {
        let mut work = lock(&self.work);
        loop {
            // Depth first, so that few directories wait.
            if let Some(task) = work.tasks.pop() {
                work.busy += 1;
                return Some(task);
            }
            if work.busy == 0 {
                return None;
            }
            work = self.more.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `entries` more entries may be read at the given rate.
    fn limit_rate(&self, entries: usize) {
        let Some(rate) = self.limits.rate else { return };
        let cost = Duration::from_secs_f64(entries as f64 / rate as f64);
        let until = {
            let mut next = lock(&self.next);
            *next = (*next).max(Instant::now()) + cost;
            *next
        };
        while let Some(left) = until
            .checked_duration_since(Instant::now())
            .filter(|l| !l.is_zero())
        {
            if self.limits.stop.cancelled() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }

    /// Returns the entries of a directory in the database.
    fn stored_entries(&self, task: &ScanTask) -> esker_model::Result<HashMap<Name, Inode>> {
        let mut stored_entries = HashMap::new();
        if !task.is_new {
            self.database
                .list(None, &task.path, None, &mut |_, entry| {
                    stored_entries.insert(entry.name, entry.inode);
                    ControlFlow::Continue(())
                })?;
        }
        Ok(stored_entries)
    }

    fn directory(&self, task: &ScanTask, send: &SyncSender<Message>) -> Result<(), ReceiverGone> {
        let tell = |message| send.send(message).map_err(|_| ReceiverGone);
        let trouble = |what: &dyn std::fmt::Display| {
            tell(Message::Problem(format!("{}: {what}", task.real.display())))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entries = fs::open(&task.real, flags, Mode::empty()).and_then(Dir::new);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(e) => return trouble(&std::io::Error::from(e)),
        };
        let mut stored_entries = match self.stored_entries(task) {
            Ok(stored_entries) => stored_entries,
            Err(e) => return trouble(&e),
        };
        let (mut changes, mut below) = (Vec::new(), Vec::new());
        let (mut seen, mut sent) = (0_usize, 0_usize);
        let mut complete = true;
        loop {
            if self.limits.stop.cancelled() {
                complete = false;
                break;
            }
            let entry = match entries.read() {
                None => break,
                Some(Ok(entry)) => entry,
                Some(Err(e)) => {
                    complete = false;
                    trouble(&std::io::Error::from(e))?;
                    break;
                }
            };
            let bytes = entry.file_name().to_bytes();
            if bytes == b"." || bytes == b".." || self.limits.exclude.iter().any(|n| n == bytes) {
                continue;
            }
            seen += 1;
            let told = |what: &dyn std::fmt::Display| {
                tell(Message::Problem(format!(
                    "{}/{}: {what}",
                    task.real.display(),
                    display(bytes)
                )))
            };
            let Ok(name) = Name::new(bytes) else { continue };
            let at = task.path.join(&name);
            let before = stored_entries.remove(&name);
            if at.as_bytes().len() > esker_model::namespace::PATH_BYTES_MAX {
                told(&"its path is longer than 4,096 bytes")?;
                continue;
            }
            let found = match entries
                .fd()
                .and_then(|fd| compare::stat_entry(fd, entry.file_name()))
            {
                Ok(found) => found,
                // The entry was removed after the directory was listed.
                Err(rustix::io::Errno::NOENT) => {
                    stored_entries.extend(before.map(|inode| (name, inode)));
                    continue;
                }
                Err(e) => {
                    told(&std::io::Error::from(e))?;
                    continue;
                }
            };
            let is_new = self.entry(task, (&found, &at), before, &mut changes, send)?;
            if found.is_directory() {
                match self.check_enterable(task, &found) {
                    Ok(()) => below.push(ScanTask {
                        real: task.real.join(OsStr::from_bytes(bytes)),
                        path: at,
                        ancestors: Arc::new(Ancestors {
                            identity: found.identity,
                            above: Some(Arc::clone(&task.ancestors)),
                        }),
                        is_new,
                    }),
                    Err(Some(why)) => told(&why)?,
                    Err(None) => {}
                }
            }
            if changes.len() >= super::super::BATCH {
                self.limit_rate(seen - sent);
                tell(Message::Directory(
                    std::mem::take(&mut changes),
                    (seen - sent) as u64,
                ))?;
                sent = seen;
            }
        }
        self.limit_rate(seen - sent);
        if complete && !task.is_new {
            let removed = !stored_entries.is_empty();
            for name in stored_entries.keys() {
                if let Err(e) = compare::removal(self.database, &task.path.join(name), &mut changes)
                {
                    trouble(&e)?;
                }
            }
            changes.extend(compare::directory_change(
                self.database,
                &task.real,
                task.path.clone(),
                removed,
            ));
        }
        tell(Message::Directory(changes, (seen - sent) as u64))?;
        if !below.is_empty() {
            lock(&self.work).tasks.extend(below);
            self.more.notify_all();
        }
        Ok(())
    }

    /// Appends the changes of one entry; returns whether the entry is new.
    fn entry(
        &self,
        task: &ScanTask,
        (found, at): (&FileMetadata, &NamePath),
        before: Option<Inode>,
        changes: &mut Vec<Change>,
        send: &SyncSender<Message>,
    ) -> Result<bool, ReceiverGone> {
        if found.links > 1 && !found.is_directory() {
            let mut multiply_named = lock(&self.multiply_named);
            if let Some(first) = multiply_named.get(&found.identity) {
                let name = at.split().map(|(_, name)| name);
                let name = name.as_ref().map_or(&[][..], Name::as_bytes);
                let real = task.real.join(OsStr::from_bytes(name));
                let (from, to) = (first.clone(), at.clone());
                drop(multiply_named);
                let told = send.send(Message::Link { from, to, real });
                return told.map(|()| false).map_err(|_| ReceiverGone);
            }
            multiply_named.insert(found.identity, at.clone());
        }
        let Some(inode) = before else {
            changes.push(Change::Create(at.clone(), found.new_file()));
            return Ok(true);
        };
        if !found.can_become(&inode) {
            let removal = compare::removal(self.database, at, changes);
            if let Err(e) = removal {
                let told = send.send(Message::Problem(format!("{at}: {e}")));
                return told.map(|()| false).map_err(|_| ReceiverGone);
            }
            changes.push(Change::Create(at.clone(), found.new_file()));
            return Ok(true);
        }
        // A directory's own attributes are set after its entries.
        if !found.is_directory()
            && let Some(set) = found.changes(&inode, false)
        {
            changes.push(Change::Set {
                path: at.clone(),
                follow: false,
                set,
            });
        }
        Ok(false)
    }

    /// Checks whether to enter a directory; an error has the reason if it is to be printed.
    fn check_enterable(&self, task: &ScanTask, found: &FileMetadata) -> Result<(), Option<String>> {
        if task.ancestors.has(found.identity) {
            return Err(Some(
                "it leads back to a directory above it: not followed".into(),
            ));
        }
        if self.limits.one_file_system && found.identity.0 != task.ancestors.identity.0 {
            return Err(None);
        }
        Ok(())
    }
}
