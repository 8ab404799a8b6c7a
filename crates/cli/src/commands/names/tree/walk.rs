//! Reading a directory tree with several threads.

use super::Message;
use super::compare::{self, Found};
use crate::interrupt::Interrupt;
use esker::Database;
use esker_model::Cancel as _;
use esker_model::namespace::{Change, Inode, Name, NamePath, Namespace as _, display};
use rustix::fs::{self, Dir, Mode, OFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How a tree is read.
pub(super) struct Limits {
    /// At most so many entries a second.
    pub(super) rate: Option<u64>,
    /// Not into other file systems.
    pub(super) one_file_system: bool,
    /// Names that are left out.
    pub(super) exclude: Vec<Vec<u8>>,
    /// When to stop.
    pub(super) stop: Interrupt,
}

/// The directories on the way to one: where it was met before, a mount leads into itself.
struct Chain {
    identity: (u64, u64),
    above: Option<Arc<Self>>,
}

impl Chain {
    fn has(&self, identity: (u64, u64)) -> bool {
        std::iter::successors(Some(self), |c| c.above.as_deref()).any(|c| c.identity == identity)
    }
}

/// A directory to be read.
struct Task {
    real: PathBuf,
    path: NamePath,
    chain: Arc<Chain>,
    /// It is new to the database: there is nothing to compare with.
    fresh: bool,
}

struct Work {
    tasks: Vec<Task>,
    /// Threads that may still find more.
    busy: usize,
}

/// A tree being read.
pub(super) struct Walk<'d> {
    database: &'d Database,
    limits: Limits,
    work: Mutex<Work>,
    more: Condvar,
    /// Files with several names, by what makes them one: their first names.
    several: Mutex<HashMap<(u64, u64), NamePath>>,
    /// When the next entry may be read.
    next: Mutex<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nobody reads messages any more.
struct Gone;

impl<'d> Walk<'d> {
    pub(super) fn new(database: &'d Database, limits: Limits, root: PathBuf, at: NamePath) -> Self {
        let identity = compare::look(&root).map_or((0, 0), |found| found.identity);
        let first = Task {
            real: root,
            path: at,
            chain: Arc::new(Chain {
                identity,
                above: None,
            }),
            fresh: false,
        };
        Self {
            database,
            limits,
            work: Mutex::new(Work {
                tasks: vec![first],
                busy: 0,
            }),
            more: Condvar::new(),
            several: Mutex::new(HashMap::new()),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Reads directories until there are no more.
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

    fn take(&self) -> Option<Task> {
        let mut work = lock(&self.work);
        loop {
            // The last one first: a tree is deep before it is wide, so that few wait.
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

    /// Waits until so many more entries may be read.
    fn pace(&self, entries: usize) {
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

    /// What the database has in a directory.
    fn known(&self, task: &Task) -> esker_model::Result<HashMap<Name, Inode>> {
        let mut known = HashMap::new();
        if !task.fresh {
            self.database
                .list(None, &task.path, None, &mut |_, entry| {
                    known.insert(entry.name, entry.inode);
                    ControlFlow::Continue(())
                })?;
        }
        Ok(known)
    }

    fn directory(&self, task: &Task, send: &SyncSender<Message>) -> Result<(), Gone> {
        let tell = |message| send.send(message).map_err(|_| Gone);
        let trouble = |what: &dyn std::fmt::Display| {
            tell(Message::Trouble(format!("{}: {what}", task.real.display())))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entries = fs::open(&task.real, flags, Mode::empty()).and_then(Dir::new);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(e) => return trouble(&std::io::Error::from(e)),
        };
        let mut known = match self.known(task) {
            Ok(known) => known,
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
                tell(Message::Trouble(format!(
                    "{}/{}: {what}",
                    task.real.display(),
                    display(bytes)
                )))
            };
            let Ok(name) = Name::new(bytes) else { continue };
            let at = task.path.join(&name);
            let before = known.remove(&name);
            if at.as_bytes().len() > esker_model::namespace::PATH_BYTES_MAX {
                told(&"its path is longer than 4,096 bytes")?;
                continue;
            }
            let found = match entries
                .fd()
                .and_then(|fd| compare::look_at(fd, entry.file_name()))
            {
                Ok(found) => found,
                // It went between being listed and being looked at.
                Err(rustix::io::Errno::NOENT) => {
                    known.extend(before.map(|inode| (name, inode)));
                    continue;
                }
                Err(e) => {
                    told(&std::io::Error::from(e))?;
                    continue;
                }
            };
            let fresh = self.entry(task, (&found, &at), before, &mut changes, send)?;
            if found.is_directory() {
                match self.descend(task, &found) {
                    Ok(()) => below.push(Task {
                        real: task.real.join(OsStr::from_bytes(bytes)),
                        path: at,
                        chain: Arc::new(Chain {
                            identity: found.identity,
                            above: Some(Arc::clone(&task.chain)),
                        }),
                        fresh,
                    }),
                    Err(Some(why)) => told(&why)?,
                    Err(None) => {}
                }
            }
            if changes.len() >= super::super::BATCH {
                self.pace(seen - sent);
                tell(Message::Directory(
                    std::mem::take(&mut changes),
                    (seen - sent) as u64,
                ))?;
                sent = seen;
            }
        }
        self.pace(seen - sent);
        if complete && !task.fresh {
            let removed = !known.is_empty();
            for name in known.keys() {
                if let Err(e) = compare::removal(self.database, &task.path.join(name), &mut changes)
                {
                    trouble(&e)?;
                }
            }
            changes.extend(compare::itself(
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

    /// What one entry needs; whether it is new.
    fn entry(
        &self,
        task: &Task,
        (found, at): (&Found, &NamePath),
        before: Option<Inode>,
        changes: &mut Vec<Change>,
        send: &SyncSender<Message>,
    ) -> Result<bool, Gone> {
        if found.links > 1 && !found.is_directory() {
            let mut several = lock(&self.several);
            if let Some(first) = several.get(&found.identity) {
                let name = at.split().map(|(_, name)| name);
                let name = name.as_ref().map_or(&[][..], Name::as_bytes);
                let real = task.real.join(OsStr::from_bytes(name));
                let (from, to) = (first.clone(), at.clone());
                drop(several);
                let told = send.send(Message::Link { from, to, real });
                return told.map(|()| false).map_err(|_| Gone);
            }
            several.insert(found.identity, at.clone());
        }
        let Some(inode) = before else {
            changes.push(Change::Make(at.clone(), found.make()));
            return Ok(true);
        };
        if !found.can_become(&inode) {
            let removal = compare::removal(self.database, at, changes);
            if let Err(e) = removal {
                let told = send.send(Message::Trouble(format!("{at}: {e}")));
                return told.map(|()| false).map_err(|_| Gone);
            }
            changes.push(Change::Make(at.clone(), found.make()));
            return Ok(true);
        }
        // A directory says what it is itself, behind its entries.
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

    /// Whether to go into a directory; else why not, if that is worth telling.
    fn descend(&self, task: &Task, found: &Found) -> Result<(), Option<String>> {
        if task.chain.has(found.identity) {
            return Err(Some(
                "it leads back to a directory above it: not followed".into(),
            ));
        }
        if self.limits.one_file_system && found.identity.0 != task.chain.identity.0 {
            return Err(None);
        }
        Ok(())
    }
}
