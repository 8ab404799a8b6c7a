//! A folder of this machine as an origin: a parallel file system, say, or a mount that is slow to list.
//!
//! Links are seen as links. Changes are told by inotify for what was asked about, so that a cache above needs no
//! time-to-live. inotify tells what happens through this machine: what others do on a network's file system it does not see.

mod watch;

use crate::children::Children;
use crate::error::{Error, Result, shown};
use crate::place::Place;
use crate::question::{Found, Question, Told};
use crate::session::{Connect, Session};
use crate::unix;
use esker_site_cache::entry::{Attributes, Kind, Wants};
use futures_util::future::BoxFuture;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use watch::Watch;

/// Questions that may be open at once.
const WIDTH: usize = 256;
/// Threads that ask the kernel.
const THREADS: usize = 8;

/// Folders of this machine.
#[derive(Debug)]
pub struct Local {
    place: Place,
    watch: Arc<Mutex<Option<Watch>>>,
}

impl Local {
    /// All of them: paths begin at `/`.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            watch: Arc::default(),
        }
    }
}

impl Connect for Local {
    fn place(&self) -> &Place {
        &self.place
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        let folders = Folders {
            inner: Arc::new(Inner {
                origin: self.place.to_string().into(),
                watch: self.watch.clone(),
                queue: Mutex::default(),
            }),
        };
        Box::pin(std::future::ready(
            Ok(Arc::new(folders) as Arc<dyn Session>),
        ))
    }

    /// Of what is asked about from now on. There is one receiver: an earlier one ends.
    fn changes(&self) -> Option<mpsc::Receiver<Told>> {
        match watch::start(&self.watch) {
            Ok(changes) => Some(changes),
            Err(error) => {
                tracing::warn!(%error, "inotify does not work here: changes of files will be seen late");
                None
            }
        }
    }
}

type Asked = (Question, oneshot::Sender<Result<Found>>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Asked>,
    threads: usize,
}

struct Inner {
    origin: Box<str>,
    watch: Arc<Mutex<Option<Watch>>>,
    queue: Mutex<Queue>,
}

struct Folders {
    inner: Arc<Inner>,
}

impl Session for Folders {
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Found>> {
        Box::pin(async move {
            let (waiter, answer) = oneshot::channel();
            let starts = {
                let mut queue = self.inner.queue();
                queue.waiting.push_back((question, waiter));
                let starts = queue.threads < THREADS;
                queue.threads += usize::from(starts);
                starts
            };
            if starts {
                let inner = self.inner.clone();
                tokio::task::spawn_blocking(move || inner.work());
            }
            let gone = |_| {
                let why = "it was closed".into();
                let origin = self.inner.origin.clone();
                Err(Error::Broken { origin, why })
            };
            answer.await.unwrap_or_else(gone)
        })
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn about(&self) -> String {
        "this machine".into()
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers questions as long as there are any: one start of a thread serves many.
    fn work(&self) {
        loop {
            let mut queue = self.queue();
            let Some((question, waiter)) = queue.waiting.pop_front() else {
                queue.threads -= 1;
                return;
            };
            drop(queue);
            if waiter.is_closed() {
                continue;
            }
            // Whoever asked may have gone meanwhile.
            let _ = waiter.send(self.answer(&question));
        }
    }

    fn answer(&self, question: &Question) -> Result<Found> {
        let path = Path::new(OsStr::from_bytes(&question.path));
        if question.path.contains(&0) || !path.is_absolute() {
            return Err(Error::Named {
                what: shown(&question.path),
                why: "a path begins with / and has no zero bytes".into(),
            });
        }
        // Before the folder is read, so that no change lies in between.
        if let Some(watch) = &*self.watch.lock().unwrap_or_else(PoisonError::into_inner) {
            watch.add(&question.path, question.wants);
        }
        let found = match question.wants {
            Wants::Stat => stat(path),
            Wants::List => self.list(path)?,
        };
        match found {
            Ok(found) => Ok(found),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Found::Absent),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    fn failed(&self, errno: Errno) -> Error {
        let origin = self.origin.clone();
        let why = std::io::Error::from(errno).to_string().into();
        match errno {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR => {
                Error::Busy { origin, why }
            }
            // What file systems of networks say when their servers are away.
            Errno::STALE
            | Errno::TIMEDOUT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NOTCONN
            | Errno::IO => Error::Unreachable { origin, why },
            _ => Error::Denied { origin, why },
        }
    }

    /// The outer error is for whoever asks; the inner one may mean that nothing is there.
    fn list(&self, path: &Path) -> Result<Result<Found, Errno>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(CWD, path, flags | OFlags::NONBLOCK, Mode::empty());
        let folder = match opened {
            Ok(folder) => folder,
            // A file, a link, or a file where a folder should be on the way.
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(stat(path)),
            Err(errno) => return Ok(Err(errno)),
        };
        let read = || -> Result<_, Errno> { Ok((fstat(&folder)?, Dir::read_from(&folder)?)) };
        let (own, mut dir) = match read() {
            Ok(read) => read,
            Err(errno) => return Ok(Err(errno)),
        };
        let mut children = Children::default();
        while let Some(entry) = dir.read() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return Ok(Err(errno)),
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let attributes = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => attributes(&stat),
                // Gone since it was listed.
                Err(Errno::NOENT) => continue,
                // Its name is known, and no more of it.
                Err(_) => Attributes::of(Kind::Unknown),
            };
            let taken = children.push(name.to_bytes().into(), attributes);
            taken.map_err(|_| Error::Nonsense {
                origin: self.origin.clone(),
                why: "a directory with too many names".into(),
            })?;
        }
        Ok(Ok(children.finish(attributes(&own))))
    }
}

/// What is at a path; a link's own attributes, and where it leads.
fn stat(path: &Path) -> Result<Found, Errno> {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    let mut attributes = attributes(&stat);
    if attributes.kind == Kind::Link
        && let Ok(target) = readlinkat(CWD, path, Vec::new())
        && let Ok(target) = target.to_str()
    {
        unix::add(&mut attributes, "target", target);
    }
    Ok(Found::Present(attributes))
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the fields' types differ among machines"
)]
fn attributes(stat: &Stat) -> Attributes {
    let mode = u32::from(stat.st_mode);
    let seconds = stat.st_mtime as i64;
    Attributes {
        kind: unix::kind(mode),
        size: Some(stat.st_size as u64),
        modified: Some(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(stat.st_mtime_nsec as i64),
        ),
        mode: Some(mode & 0o7777),
        more: Some(unix::owner(stat.st_uid, stat.st_gid)),
    }
}
