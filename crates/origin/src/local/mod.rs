//! A folder of this machine as an origin, for example a parallel file system or a mount that is slow to list.
//!
//! Links are reported as links. inotify reports changes of requested paths, so a cache needs no time-to-live. inotify sees only
//! changes made through this machine, not those of other clients of a network file system.

mod watch;

use crate::children::Children;
use crate::error::{Error, Result, printable};
use crate::origin_url::OriginUrl;
use crate::request::{MetadataRequest, Notification, PathMetadata};
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

/// Maximum number of requests in flight.
const WIDTH: usize = 256;
/// Maximum number of threads that make system calls.
const THREADS: usize = 8;

/// The file system of this machine as an origin.
#[derive(Debug)]
pub struct Local {
    origin_url: OriginUrl,
    watch: Arc<Mutex<Option<Watch>>>,
}

impl Local {
    /// Creates the origin; paths begin at `/`.
    pub fn new(origin_url: OriginUrl) -> Self {
        Self {
            origin_url,
            watch: Arc::default(),
        }
    }
}

impl Connect for Local {
    fn origin_url(&self) -> &OriginUrl {
        &self.origin_url
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        let folders = LocalSession {
            inner: Arc::new(LocalClient {
                origin: self.origin_url.to_string().into(),
                watch: self.watch.clone(),
                queue: Mutex::default(),
            }),
        };
        Box::pin(std::future::ready(
            Ok(Arc::new(folders) as Arc<dyn Session>),
        ))
    }

    /// Starts notifications for paths requested from now on. There is one receiver: an earlier one is closed.
    fn changes(&self) -> Option<mpsc::Receiver<Notification>> {
        match watch::start(&self.watch) {
            Ok(changes) => Some(changes),
            Err(error) => {
                tracing::warn!(%error, "inotify does not work here: changes of files will be seen late");
                None
            }
        }
    }
}

type QueuedRequest = (MetadataRequest, oneshot::Sender<Result<PathMetadata>>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<QueuedRequest>,
    threads: usize,
}

struct LocalClient {
    origin: Box<str>,
    watch: Arc<Mutex<Option<Watch>>>,
    queue: Mutex<Queue>,
}

struct LocalSession {
    inner: Arc<LocalClient>,
}

impl Session for LocalSession {
    fn request(&self, request: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>> {
        Box::pin(async move {
            let (waiter, answer) = oneshot::channel();
            let starts = {
                let mut queue = self.inner.queue();
                queue.waiting.push_back((request, waiter));
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

impl LocalClient {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers queued requests until none are left, so that one thread start serves many.
    fn work(&self) {
        loop {
            let mut queue = self.queue();
            let Some((request, waiter)) = queue.waiting.pop_front() else {
                queue.threads -= 1;
                return;
            };
            drop(queue);
            if waiter.is_closed() {
                continue;
            }
            // The caller may be gone.
            let _ = waiter.send(self.answer(&request));
        }
    }

    fn answer(&self, request: &MetadataRequest) -> Result<PathMetadata> {
        let path = Path::new(OsStr::from_bytes(&request.path));
        if request.path.contains(&0) || !path.is_absolute() {
            return Err(Error::InvalidName {
                what: printable(&request.path),
                why: "a path begins with / and has no zero bytes".into(),
            });
        }
        // Watched before the folder is read, so that no change is missed.
        if let Some(watch) = &*self.watch.lock().unwrap_or_else(PoisonError::into_inner) {
            watch.add(&request.path, request.wants);
        }
        let found = match request.wants {
            Wants::Stat => stat(path),
            Wants::List => self.list(path)?,
        };
        match found {
            Ok(found) => Ok(found),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(PathMetadata::Absent),
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
            // Errors of network file systems whose servers are unreachable.
            Errno::STALE
            | Errno::TIMEDOUT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NOTCONN
            | Errno::IO => Error::Unreachable { origin, why },
            _ => Error::Denied { origin, why },
        }
    }

    /// Lists a directory. The outer error is for the caller; the inner one may mean that the path does not exist.
    fn list(&self, path: &Path) -> Result<Result<PathMetadata, Errno>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(CWD, path, flags | OFlags::NONBLOCK, Mode::empty());
        let folder = match opened {
            Ok(folder) => folder,
            // A file, a link, or a file in place of a parent directory.
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
                // Deleted after it was listed.
                Err(Errno::NOENT) => continue,
                // Only the name is known.
                Err(_) => Attributes::of(Kind::Unknown),
            };
            let taken = children.push(name.to_bytes().into(), attributes);
            taken.map_err(|_| Error::Protocol {
                origin: self.origin.clone(),
                why: "a directory with too many names".into(),
            })?;
        }
        Ok(Ok(children.finish(attributes(&own))))
    }
}

/// Returns the attributes at a path; a link's own attributes with its target.
fn stat(path: &Path) -> Result<PathMetadata, Errno> {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    let mut attributes = attributes(&stat);
    if attributes.kind == Kind::Link
        && let Ok(target) = readlinkat(CWD, path, Vec::new())
        && let Ok(target) = target.to_str()
    {
        unix::add(&mut attributes, "target", target);
    }
    Ok(PathMetadata::Present(attributes))
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
