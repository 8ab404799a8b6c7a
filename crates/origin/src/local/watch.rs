//! Changes of requested paths, reported by inotify.
//!
//! A watch reports changes of a directory and its children. Each request watches the parent directory and all directories above
//! it, whose renames change the requested path. The number of watches is bounded: the oldest is replaced, and its paths are
//! reported as `Missed`.

use crate::request::Notification;
use esker_site_cache::entry::Wants;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Maximum number of watched directories. Each takes about 1 KiB of kernel memory.
const WATCHES_MAX: usize = 8192;
/// Notifications that may wait for the receiver; then the kernel's queue fills, which reports its overflow.
const WAITING_MAX: usize = 1024;
/// Time over which changes are coalesced: a file that is being written changes often.
const COALESCE_TIME: Duration = Duration::from_millis(10);

fn watch_flags() -> WatchFlags {
    WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MODIFY
        | WatchFlags::MOVE
        | WatchFlags::MOVE_SELF
        | WatchFlags::EXCL_UNLINK
        | WatchFlags::ONLYDIR
}

/// Paths with pending checks.
type Events = BTreeMap<Box<[u8]>, Check>;

/// The check that a path needs after some events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Read the path's attributes.
    Path,
    /// Report the subtree as missed and read the attributes: the directory is new, and paths below it may have been
    /// requested before.
    Subtree,
}

#[derive(Debug, Default)]
struct Watched {
    /// Watch descriptor of each path, and the turn of its last request.
    numbers: HashMap<Box<[u8]>, (i32, u64)>,
    /// Paths of each watch descriptor; a directory may be reached by several.
    paths: HashMap<i32, Vec<Box<[u8]>>>,
    /// Paths by the turn of their last request. A directory's turn is later than those of all paths below it.
    order: BTreeMap<u64, Box<[u8]>>,
    turn: u64,
    /// Replaced watches whose paths are to be reported as missed.
    given_up: Vec<Box<[u8]>>,
}

/// The watched directories of one origin.
#[derive(Debug)]
pub(super) struct Watch {
    fd: Arc<AsyncFd<OwnedFd>>,
    watched: Arc<Mutex<Watched>>,
    wake: Arc<tokio::sync::Notify>,
    most: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts watching the paths that are requested from now on.
pub(super) fn start(slot: &Mutex<Option<Watch>>) -> std::io::Result<mpsc::Receiver<Notification>> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(std::io::Error::other(
            "it needs a runtime that waits for events",
        ));
    }
    let (tell, changes) = mpsc::channel(WAITING_MAX);
    let watch = Watch::new(WATCHES_MAX)?;
    tokio::spawn(run(
        watch.fd.clone(),
        watch.watched.clone(),
        watch.wake.clone(),
        tell,
    ));
    *lock(slot) = Some(watch);
    Ok(changes)
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The reader of events sees that it has the last reference.
        self.wake.notify_one();
    }
}

impl Watch {
    fn new(most: usize) -> std::io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "an OwnedFd stays the one it is; the other way to make this is unsafe"
        )]
        let fd = AsyncFd::new(fd)?;
        Ok(Self {
            fd: Arc::new(fd),
            watched: Arc::default(),
            wake: Arc::default(),
            most,
        })
    }

    /// Watches the directories for a request: the directory itself if it is listed, and all above it.
    pub(super) fn add(&self, path: &[u8], wants: Wants) {
        let mut watched = lock(&self.watched);
        if wants == Wants::List {
            self.add_one(&mut watched, path);
        }
        let mut above = path;
        while let Some(at) = above.iter().rposition(|b| *b == b'/') {
            above = &above[..at];
            let directory: &[u8] = if above.is_empty() { b"/" } else { above };
            self.add_one(&mut watched, directory);
        }
    }

    fn add_one(&self, watched: &mut Watched, path: &[u8]) {
        watched.turn += 1;
        let turn = watched.turn;
        if let Some((_, last)) = watched.numbers.get_mut(path) {
            let before = std::mem::replace(last, turn);
            if let Some(path) = watched.order.remove(&before) {
                watched.order.insert(turn, path);
            }
            return;
        }
        let fd = self.fd.get_ref().as_fd();
        if watched.numbers.len() >= self.most {
            watched.give_up_oldest(fd);
            self.wake.notify_one();
        }
        let mut added = inotify::add_watch(fd, Path::new(OsStr::from_bytes(path)), watch_flags());
        if added == Err(Errno::NOSPC) {
            // The kernel's limit of watches per user is reached.
            watched.give_up_oldest(fd);
            self.wake.notify_one();
            added = inotify::add_watch(fd, Path::new(OsStr::from_bytes(path)), watch_flags());
        }
        // A file or an absent path is covered by the parent's watch.
        let Ok(number) = added else { return };
        watched.numbers.insert(path.into(), (number, turn));
        watched.paths.entry(number).or_default().push(path.into());
        watched.order.insert(turn, path.into());
    }
}

impl Watched {
    fn give_up_oldest(&mut self, fd: impl std::os::fd::AsFd) {
        if let Some(path) = self.order.first_key_value().map(|(_, path)| path.clone()) {
            self.forget(&path, fd);
            self.given_up.push(path);
        }
    }

    fn forget(&mut self, path: &[u8], fd: impl std::os::fd::AsFd) {
        let Some((number, turn)) = self.numbers.remove(path) else {
            return;
        };
        self.order.remove(&turn);
        if let Some(paths) = self.paths.get_mut(&number) {
            paths.retain(|p| **p != *path);
            if paths.is_empty() {
                self.paths.remove(&number);
                // The kernel may have removed it with its directory.
                let _ = inotify::remove_watch(fd, number);
            }
        }
    }

    /// A renamed or deleted directory is watched under an outdated path, as is everything below it.
    fn forget_below(&mut self, path: &[u8], fd: impl std::os::fd::AsFd) {
        let below = |p: &[u8]| {
            p.strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let gone: Vec<_> = self.numbers.keys().filter(|p| below(p)).cloned().collect();
        for path in gone {
            self.forget(&path, fd.as_fd());
        }
    }

    /// Adds the checks for one event, for each path of its directory. Returns false if events were lost.
    fn note(
        &mut self,
        event: &inotify::Event<'_>,
        fd: impl std::os::fd::AsFd,
        told: &mut Events,
    ) -> bool {
        let events = event.events();
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return false;
        }
        let Some(paths) = self.paths.get(&event.wd()).cloned() else {
            return true;
        };
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        let leaves = ReadFlags::DELETE | ReadFlags::MOVED_FROM;
        let comes = ReadFlags::CREATE | ReadFlags::MOVED_TO;
        for path in paths {
            let Some(name) = event.file_name() else {
                if events.intersects(gone | ReadFlags::IGNORED) {
                    self.forget_below(&path, fd.as_fd());
                }
                told.entry(path).or_insert(Check::Path);
                continue;
            };
            let child = [
                &path[..],
                if &*path == b"/" { b"" } else { b"/" },
                name.to_bytes(),
            ];
            let child: Box<[u8]> = child.concat().into();
            let directory = events.contains(ReadFlags::ISDIR);
            if directory && events.intersects(leaves) {
                self.forget_below(&child, fd.as_fd());
            }
            if directory && events.intersects(comes) {
                told.insert(child, Check::Subtree);
            } else {
                told.entry(child).or_insert(Check::Path);
            }
            if events.intersects(leaves | comes) {
                // The directory's modification time changed.
                told.entry(path).or_insert(Check::Path);
            }
        }
        true
    }
}

async fn run(
    fd: Arc<AsyncFd<OwnedFd>>,
    watched: Arc<Mutex<Watched>>,
    wake: Arc<tokio::sync::Notify>,
    tell: mpsc::Sender<Notification>,
) {
    let mut more = false;
    loop {
        if !more {
            tokio::select! {
                () = tell.closed() => return,
                () = wake.notified() => {}
                ready = fd.readable() => match ready {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => return,
                },
            }
        }
        // No requests will follow.
        if Arc::strong_count(&watched) == 1 {
            return;
        }
        sleep(COALESCE_TIME).await;
        let (told, lost);
        (told, lost, more) = gather(&fd, &watched);
        if lost
            && tell
                .send(Notification::Missed(b"/"[..].into()))
                .await
                .is_err()
        {
            return;
        }
        let given_up = std::mem::take(&mut lock(&watched).given_up);
        for path in given_up {
            if tell.send(Notification::Missed(path)).await.is_err() {
                return;
            }
        }
        for (path, what) in told {
            if what == Check::Subtree
                && tell.send(Notification::Missed(path.clone())).await.is_err()
            {
                return;
            }
            if let Some(news) = read_state(&path)
                && tell.send(news).await.is_err()
            {
                return;
            }
        }
    }
}

/// Reads pending events; returns the checks, whether events were lost, and whether more are pending.
fn gather(fd: &AsyncFd<OwnedFd>, watched: &Mutex<Watched>) -> (Events, bool, bool) {
    let mut told = Events::new();
    let mut lost = false;
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut reader = Reader::new(fd.get_ref(), &mut buffer);
    let mut watched = lock(watched);
    // Bounded, so that a flood of events does not delay requests.
    while told.len() < WAITING_MAX || !reader.is_buffer_empty() {
        match reader.next() {
            Ok(event) => lost |= !watched.note(&event, fd.get_ref(), &mut told),
            Err(Errno::INTR) => {}
            Err(_) => return (told, lost, false),
        }
    }
    (told, lost, true)
}

/// Reads the current state of a path as a notification.
fn read_state(path: &[u8]) -> Option<Notification> {
    match super::stat(Path::new(OsStr::from_bytes(path))) {
        Ok(crate::PathMetadata::Present(attributes)) => {
            Some(Notification::Changed(path.into(), attributes))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Some(Notification::Deleted(path.into())),
        Ok(_) => None,
        Err(_) => Some(Notification::Missed(path.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The oldest watch is replaced, but never a directory above a watched one, whose rename would be missed.
    #[tokio::test]
    async fn watches_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let depth = dir.path().components().count();
        let watch = Watch::new(depth + 2).unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().as_bytes().to_vec();
        for name in ["a", "b", "c", "d"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            watch.add(&path(name), Wants::List);
        }
        let watched = lock(&watch.watched);
        assert_eq!(watched.numbers.len(), depth + 2);
        assert_eq!(watched.order.len(), depth + 2);
        assert_eq!(watched.paths.len(), depth + 2);
        let given_up: Vec<Vec<u8>> = watched.given_up.iter().map(|p| p.to_vec()).collect();
        assert_eq!(given_up, [path("a"), path("b")]);
    }
}
