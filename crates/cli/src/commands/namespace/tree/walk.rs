//! Traversal of a directory tree with several threads.

use super::Message;
use super::attributes::ScanAttributes;
use super::compare::{self, FileDifference, FileMetadata};
use super::entry_path::{EnteredDirectory, ThreadDirectory};
use super::part::DirectoryPart;
use crate::args::TreeOptions;
use crate::file_attributes::NFS4_NAMES;
use esker::Database;
use esker_model::Cancel as _;
use esker_model::namespace::{
    Change, Inode, Name, NamePath, Namespace as _, PATH_BYTES_MAX, display,
};
use esker_terminal::interrupt::Interrupt;
use foldhash::fast::RandomState;
use rustix::fs::{self, Mode, OFlags, RawDir};
use rustix::io::Errno as Os;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, OsStr};
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Size of the buffer for the entries of a directory: one system call reads about 1,500.
const LISTING_BYTES: usize = 1 << 16;
/// Extended attributes of the files of a message, in bytes: more begin another message.
pub(super) const ATTRIBUTE_BYTES_MAX: usize = 1 << 22;

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

impl ScanLimits {
    pub(super) fn new(options: &TreeOptions, stop: Interrupt) -> Self {
        let exclude = options.exclude.iter();
        Self {
            rate: options.rate,
            one_file_system: options.one_file_system,
            exclude: exclude.map(|name| name.as_bytes().to_vec()).collect(),
            stop,
        }
    }
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
    /// Number of threads that wait for a directory.
    waiting: usize,
}

/// An entry of a directory of this machine.
struct FoundEntry {
    /// Position and length of the name in [`Listing::names`].
    name: (usize, usize),
    /// `None` if the entry cannot be read.
    found: Option<FileMetadata>,
    stored: StoredEntry,
}

/// Comparison of an entry with the database.
enum StoredEntry {
    Missing,
    Same,
    Changed(Box<FileDifference>),
    /// The entry is a file that must be replaced.
    Other,
}

/// Entries of a directory, read and not yet sent. A thread reuses the memory.
#[derive(Default)]
struct Listing {
    names: Vec<u8>,
    entries: Vec<FoundEntry>,
}

impl Listing {
    fn push(&mut self, name: &[u8], found: Option<FileMetadata>) {
        let at = self.names.len();
        self.names.extend_from_slice(name);
        self.entries.push(FoundEntry {
            name: (at, name.len()),
            found,
            stored: StoredEntry::Missing,
        });
    }

    fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
    }
}

fn name_in(names: &[u8], (at, len): (usize, usize)) -> &[u8] {
    names.get(at..at + len).unwrap_or_default()
}

/// A thread that reads directories.
struct ScanThread<'s> {
    send: &'s SyncSender<Message>,
    listing: Listing,
    /// Number of entries read and not yet reported.
    unreported: u64,
}

impl ScanThread<'_> {
    fn tell(&self, message: Message) -> Result<(), ReceiverGone> {
        self.send.send(message).map_err(|_| ReceiverGone)
    }

    fn problem(&self, path: &dyn Display, what: &dyn Display) -> Result<(), ReceiverGone> {
        self.tell(Message::Problem(format!("{path}: {what}")))
    }

    /// Sends what was found in a directory, if there is anything to do.
    fn part(&mut self, mut part: DirectoryPart) -> Result<(), ReceiverGone> {
        if part.len() == 0 && self.unreported < super::super::BATCH as u64 {
            return Ok(());
        }
        part.entries = std::mem::take(&mut self.unreported);
        self.tell(Message::Directory(part))
    }
}

/// A tree that is being read.
pub(super) struct TreeReader<'d> {
    database: &'d Database,
    limits: ScanLimits,
    attributes: &'d ScanAttributes,
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
        attributes: &'d ScanAttributes,
        (root, at): (PathBuf, NamePath),
        is_new: bool,
    ) -> Self {
        let identity = compare::identity_of(&root).unwrap_or_default();
        let first = ScanTask {
            real: root,
            path: at,
            ancestors: Arc::new(Ancestors {
                identity,
                above: None,
            }),
            is_new,
        };
        Self {
            database,
            limits,
            attributes,
            work: Mutex::new(ScanWork {
                tasks: vec![first],
                busy: 0,
                waiting: 0,
            }),
            more: Condvar::new(),
            multiply_named: Mutex::new(HashMap::new()),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Reads directories until none are left.
    pub(super) fn work(&self, send: &SyncSender<Message>) {
        let mut thread = ScanThread {
            send,
            listing: Listing::default(),
            unreported: 0,
        };
        let mut buffer = Vec::with_capacity(LISTING_BYTES);
        let own = ThreadDirectory::own();
        let mut below = None;
        while let Some(task) = self.next(below) {
            let done = self.directory(&task, &mut thread, &own, buffer.spare_capacity_mut());
            let stopped = done.is_err() || self.limits.stop.cancelled();
            if stopped {
                lock(&self.work).tasks.clear();
            }
            below = Some(done.ok().filter(|_| !stopped).unwrap_or_default());
        }
        let entries = thread.unreported;
        // The last count; without a receiver nobody needs it.
        let _ = send.send(Message::Directory(DirectoryPart {
            entries,
            ..DirectoryPart::of(&NamePath::root())
        }));
    }

    /// Returns the next directory to read. `below`: the subdirectories of the one just read, if there was one.
    fn next(&self, below: Option<Vec<ScanTask>>) -> Option<ScanTask> {
        let mut work = lock(&self.work);
        if let Some(below) = below {
            work.busy -= 1;
            work.tasks.extend(below);
        }
        loop {
            // Depth first, so that few directories wait.
            let task = work.tasks.pop();
            let ended = task.is_none() && work.busy == 0;
            work.busy += usize::from(task.is_some());
            if work.waiting > 0 && (ended || !work.tasks.is_empty()) {
                self.more.notify_all();
            }
            if task.is_some() || ended {
                return task;
            }
            work.waiting += 1;
            work = self.more.wait(work).unwrap_or_else(PoisonError::into_inner);
            work.waiting -= 1;
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

    /// Reads a directory and sends its changes; returns its subdirectories.
    fn directory(
        &self,
        task: &ScanTask,
        thread: &mut ScanThread<'_>,
        own: &ThreadDirectory,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Result<Vec<ScanTask>, ReceiverGone> {
        let (real, mut below) = (task.real.display(), Vec::new());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match fs::open(&task.real, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(e) => {
                thread.problem(&real, &std::io::Error::from(e))?;
                return Ok(below);
            }
        };
        let device = task.ancestors.identity.0;
        let lists = self.attributes.of_device(device, directory.as_fd());
        let entered = own.enter(directory.as_fd());
        let mut entries = RawDir::new(&directory, buffer);
        thread.listing.clear();
        let mut complete = true;
        let mut unlimited = 0;
        while let Some(entry) = entries.next() {
            if self.limits.stop.cancelled() {
                complete = false;
                break;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    complete = false;
                    thread.problem(&real, &std::io::Error::from(e))?;
                    break;
                }
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || self.limits.exclude.iter().any(|n| n == name) {
                continue;
            }
            thread.unreported += 1;
            unlimited += 1;
            let problem = |what: &dyn Display| {
                thread.problem(&format_args!("{real}/{}", display(name)), what)
            };
            let found = if task.path.as_bytes().len() + 1 + name.len() > PATH_BYTES_MAX {
                problem(&"its path is longer than 4,096 bytes")?;
                None
            } else {
                let place = (&entered, directory.as_fd());
                match self.read_entry(place, entry.file_name(), device, lists.as_deref()) {
                    Ok((found, problems)) => {
                        problems.iter().try_for_each(|text| problem(text))?;
                        Some(found)
                    }
                    // The entry was removed after the directory was listed.
                    Err(Os::NOENT) => continue,
                    Err(e) => {
                        problem(&std::io::Error::from(e))?;
                        None
                    }
                }
            };
            thread.listing.push(name, found);
            if thread
                .listing
                .entries
                .len()
                .is_multiple_of(super::super::BATCH)
            {
                self.limit_rate(std::mem::take(&mut unlimited));
                // The entries of a known directory are compared all at once.
                if task.is_new {
                    self.send(task, thread, &[], Vec::new(), &mut below)?;
                }
            }
        }
        drop(entered);
        self.limit_rate(unlimited);
        let (mut gone, mut last) = (Vec::new(), Vec::new());
        if !task.is_new {
            match self.compare(task, &mut thread.listing) {
                Ok(names) => gone = names,
                Err(e) => {
                    thread.problem(&real, &e)?;
                    return Ok(below);
                }
            }
            if complete {
                last = compare::own_changes(
                    self.database,
                    compare::stat_open(&directory, self.attributes),
                    &task.path,
                    !gone.is_empty(),
                    self.attributes,
                );
            } else {
                gone.clear();
            }
        }
        self.send(task, thread, &gone, last, &mut below)?;
        Ok(below)
    }

    /// Reads the metadata of an entry of a directory of a device, and the problems with its attributes.
    fn read_entry(
        &self,
        place: (&EnteredDirectory<'_>, BorrowedFd<'_>),
        name: &CStr,
        device: u64,
        lists: Option<&[&'static [u8]]>,
    ) -> Result<(FileMetadata, Vec<String>), Os> {
        let mut found = compare::stat_entry(place.1, name)?;
        // Each kind of list is tried where another device is mounted.
        let is_mount = found.identity.0 != device;
        let lists = if is_mount {
            Some(&NFS4_NAMES[..])
        } else {
            lists
        };
        let scanned = self
            .attributes
            .read_entry(found.kind(), place, name, lists)?;
        let problems = scanned.attributes.problems();
        found.set_attributes(scanned);
        Ok((found, problems))
    }

    /// Compares all entries with those of the database; returns the names that only the database has.
    fn compare(&self, task: &ScanTask, listing: &mut Listing) -> esker_model::Result<Vec<Name>> {
        let Listing { names, entries } = listing;
        let mut gone = Vec::new();
        let mut index = HashMap::with_capacity_and_hasher(entries.len(), RandomState::default());
        for entry in entries {
            index.insert(name_in(names, entry.name), entry);
        }
        self.database
            .list(None, &task.path, None, &mut |_, stored| {
                match index.get_mut(stored.name.as_bytes()) {
                    Some(entry) => {
                        let found = entry.found.as_ref();
                        entry.stored = compare_entry(found, &stored.inode, self.attributes);
                    }
                    None => gone.push(stored.name),
                }
                ControlFlow::Continue(())
            })?;
        Ok(gone)
    }

    /// Sends the changes of the entries that were read, then those of the names that are gone and of the directory itself.
    fn send(
        &self,
        task: &ScanTask,
        thread: &mut ScanThread<'_>,
        gone: &[Name],
        last: Vec<Change>,
        below: &mut Vec<ScanTask>,
    ) -> Result<(), ReceiverGone> {
        let mut part = DirectoryPart::of(&task.path);
        for name in gone {
            let at = task.path.join(name);
            if let Err(e) = compare::removal(self.database, &at, &mut part.changes) {
                thread.problem(&at, &e)?;
            }
        }
        let Listing { names, mut entries } = std::mem::take(&mut thread.listing);
        for entry in entries.drain(..) {
            let Some(found) = entry.found else { continue };
            let bytes = name_in(&names, entry.name);
            let is_directory = found.is_directory();
            let linked = found.links > 1 && !is_directory;
            let is_new = matches!(entry.stored, StoredEntry::Missing | StoredEntry::Other);
            if matches!(entry.stored, StoredEntry::Same) && !is_directory && !linked {
                continue;
            }
            let Ok(name) = Name::new(bytes) else { continue };
            let at = || task.path.join(&name);
            if linked && let Some(from) = self.first_name(&found, at) {
                let (to, real) = (at(), task.real.join(OsStr::from_bytes(bytes)));
                thread.tell(Message::Link { from, to, real })?;
                continue;
            }
            if is_directory {
                match self.check_enterable(task, &found) {
                    Ok(()) => below.push(ScanTask {
                        real: task.real.join(OsStr::from_bytes(bytes)),
                        path: at(),
                        ancestors: Arc::new(Ancestors {
                            identity: found.identity,
                            above: Some(Arc::clone(&task.ancestors)),
                        }),
                        is_new,
                    }),
                    Err(Some(why)) => thread.problem(&at(), &why)?,
                    Err(None) => {}
                }
            }
            match entry.stored {
                StoredEntry::Same | StoredEntry::Missing => {}
                StoredEntry::Changed(difference) => {
                    part.attribute_bytes += found.attribute_bytes();
                    part.changes.extend(difference.into_changes(&at()));
                }
                StoredEntry::Other => {
                    let removal = compare::removal(self.database, &at(), &mut part.changes);
                    if let Err(e) = removal {
                        thread.problem(&at(), &e)?;
                        continue;
                    }
                }
            }
            if is_new {
                part.attribute_bytes += found.attribute_bytes();
                part.new.push((name, found));
            }
            let is_large = part.attribute_bytes >= ATTRIBUTE_BYTES_MAX;
            if is_large || part.len() >= super::super::BATCH {
                thread.part(std::mem::replace(&mut part, DirectoryPart::of(&task.path)))?;
            }
        }
        part.last = last;
        thread.part(part)?;
        thread.listing = Listing { names, entries };
        thread.listing.clear();
        Ok(())
    }

    /// Returns the first name of a file with several names; `None` if this is the first.
    fn first_name(&self, found: &FileMetadata, at: impl Fn() -> NamePath) -> Option<NamePath> {
        match lock(&self.multiply_named).entry(found.identity) {
            Entry::Occupied(first) => Some(first.get().clone()),
            Entry::Vacant(none) => {
                none.insert(at());
                None
            }
        }
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

fn compare_entry(
    found: Option<&FileMetadata>,
    stored: &Inode,
    attributes: &ScanAttributes,
) -> StoredEntry {
    let Some(found) = found else {
        return StoredEntry::Same;
    };
    if !found.can_become(stored) {
        return StoredEntry::Other;
    }
    // A directory's own attributes are set after its entries.
    let changes = (!found.is_directory()).then(|| found.changes(stored, false, attributes));
    changes.flatten().map_or(StoredEntry::Same, |difference| {
        StoredEntry::Changed(Box::new(difference))
    })
}
