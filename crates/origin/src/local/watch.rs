//! Changes of what was asked about, by inotify.
//!
//! A watch tells of a directory and of what stands in it. So for each question the directory around it is watched, and all
//! directories above, whose renames change paths that nobody asked about by that name. Their number is bounded: the oldest
//! watch is given up for a new one, and that is told.

use crate::question::Told;
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

/// Directories that are watched at most. Each takes about 1 KiB of the kernel's memory.
const WATCHES_MAX: usize = 8192;
/// Changes that wait for whoever is told; then the kernel's queue fills, and says so when it overflows.
const WAITING_MAX: usize = 1024;
/// A file that is being written tells often: changes within this time are told once.
const GATHERED: Duration = Duration::from_millis(10);

fn wanted() -> WatchFlags {
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

/// What happened to which paths.
type Events = BTreeMap<Box<[u8]>, What>;

/// What is known of a path after some events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// It changed, or it is gone; the file system knows.
    Look,
    /// As well as that, it is new, and what is below may have been asked about before.
    Below,
}

#[derive(Debug, Default)]
struct Watched {
    /// The kernel's number of each, and when it was asked about last.
    numbers: HashMap<Box<[u8]>, (i32, u64)>,
    /// One directory may be reached by more than one path.
    paths: HashMap<i32, Vec<Box<[u8]>>>,
    /// By when they were asked about last. A directory's own turn comes after that of all below it.
    order: BTreeMap<u64, Box<[u8]>>,
    turn: u64,
    /// Watches that were given up and are to be told of.
    given_up: Vec<Box<[u8]>>,
}

/// Directories that are watched.
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

/// Begins to watch what is asked about from now on.
pub(super) fn start(slot: &Mutex<Option<Watch>>) -> std::io::Result<mpsc::Receiver<Told>> {
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
        // Whoever waits for events sees that it is the last to know of them.
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

    /// Watches what a question is about: the directory itself if it is listed, and those above it.
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
        let mut added = inotify::add_watch(fd, Path::new(OsStr::from_bytes(path)), wanted());
        if added == Err(Errno::NOSPC) {
            // All that the kernel gives to one user are in use.
            watched.give_up_oldest(fd);
            self.wake.notify_one();
            added = inotify::add_watch(fd, Path::new(OsStr::from_bytes(path)), wanted());
        }
        // What is no directory, or is not there, is told of by the one above it.
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
                // It may be gone already, with its directory.
                let _ = inotify::remove_watch(fd, number);
            }
        }
    }

    /// What was renamed or deleted is watched under a name that is not its own any more, and so is all below it.
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

    /// What one event says, of each path that its directory has. False if events were lost.
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
                told.entry(path).or_insert(What::Look);
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
                told.insert(child, What::Below);
            } else {
                told.entry(child).or_insert(What::Look);
            }
            if events.intersects(leaves | comes) {
                // Its own time changed.
                told.entry(path).or_insert(What::Look);
            }
        }
        true
    }
}

async fn run(
    fd: Arc<AsyncFd<OwnedFd>>,
    watched: Arc<Mutex<Watched>>,
    wake: Arc<tokio::sync::Notify>,
    tell: mpsc::Sender<Told>,
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
        // Nobody asks any more.
        if Arc::strong_count(&watched) == 1 {
            return;
        }
        sleep(GATHERED).await;
        let (told, lost);
        (told, lost, more) = gather(&fd, &watched);
        if lost && tell.send(Told::Missed(b"/"[..].into())).await.is_err() {
            return;
        }
        let given_up = std::mem::take(&mut lock(&watched).given_up);
        for path in given_up {
            if tell.send(Told::Missed(path)).await.is_err() {
                return;
            }
        }
        for (path, what) in told {
            if what == What::Below && tell.send(Told::Missed(path.clone())).await.is_err() {
                return;
            }
            if let Some(news) = look(&path)
                && tell.send(news).await.is_err()
            {
                return;
            }
        }
    }
}

/// Events that wait, each path once; whether some were lost; and whether there are more of them.
fn gather(fd: &AsyncFd<OwnedFd>, watched: &Mutex<Watched>) -> (Events, bool, bool) {
    let mut told = Events::new();
    let mut lost = false;
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut reader = Reader::new(fd.get_ref(), &mut buffer);
    let mut watched = lock(watched);
    // No more than that at once: a flood must not keep those waiting that ask.
    while told.len() < WAITING_MAX || !reader.is_buffer_empty() {
        match reader.next() {
            Ok(event) => lost |= !watched.note(&event, fd.get_ref(), &mut told),
            Err(Errno::INTR) => {}
            Err(_) => return (told, lost, false),
        }
    }
    (told, lost, true)
}

/// What is at a path by now.
fn look(path: &[u8]) -> Option<Told> {
    match super::stat(Path::new(OsStr::from_bytes(path))) {
        Ok(crate::Found::Present(attributes)) => Some(Told::Changed(path.into(), attributes)),
        Err(Errno::NOENT | Errno::NOTDIR) => Some(Told::Deleted(path.into())),
        Ok(_) => None,
        Err(_) => Some(Told::Missed(path.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The oldest watch is given up, never a directory above one that stays: its rename would not be told of.
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
