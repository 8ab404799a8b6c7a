//! Content of open files: a backing file, or bytes of the namespace.
//!
//! A file that is opened for writing gets an unnamed file of a data folder, filled with its small content. At each
//! flush its size decides: small content is stored in the namespace, and the file returns to the pool at the end; large
//! content gets an object name and stays an object. So large content is never copied, and the final size need not be
//! known in advance.

use crate::data::{Folders, PendingObject};
use esker_model::VertexId;
use fuser::BackingId;
use parking_lot::Mutex;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest number of idle files of one folder.
const IDLE_MAX: usize = 64;

/// The backing file of an open file.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) source: Mutex<Source>,
    /// The backing file, accessible without a lock.
    pub(crate) file: Arc<File>,
    /// Registration with the kernel, if the kernel reads and writes the file itself.
    pub(crate) backing: Mutex<Option<Arc<BackingId>>>,
    pub(crate) published: Mutex<Published>,
    /// Whether programs got the backing file itself, and so may have mapped it into memory.
    exposed: AtomicBool,
}

/// Origin of a backing file.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file from the pool, to which no inode refers.
    Pending(PendingObject),
    /// A file in memory, if there are no data folders.
    Memory,
    /// An object, to which the inode refers.
    Object,
}

/// Published state of the content, as far as this mount knows it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Published {
    /// Small content, if it is known.
    pub(crate) content: Option<Vec<u8>>,
    /// Size and modification time of the backing file when it was published.
    pub(crate) stamp: Stamp,
}

/// State of a backing file, by which changes are detected.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) mtime: i64,
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self {
            size: meta.size(),
            blocks: meta.blocks(),
            mtime: meta
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(meta.mtime_nsec()),
        })
    }

    /// Whether the file was written in between. Allocated blocks do not count: file systems allocate them at any time.
    pub(crate) const fn was_written_since(&self, before: &Self) -> bool {
        self.size != before.size || self.mtime != before.mtime
    }
}

impl Body {
    fn new(file: Arc<File>, source: Source, published: Published) -> Self {
        Self {
            source: Mutex::new(source),
            file,
            backing: Mutex::new(None),
            published: Mutex::new(published),
            exposed: AtomicBool::new(false),
        }
    }

    /// Reads the present state of the backing file.
    pub(crate) fn stamp(&self) -> io::Result<Stamp> {
        Stamp::of(&self.file)
    }

    /// Records that a program gets the backing file itself.
    pub(crate) fn expose(&self) {
        self.exposed.store(true, Ordering::Relaxed);
    }

    /// Whether a program has got the backing file itself, and may have mapped it into memory.
    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed.load(Ordering::Relaxed)
    }

    /// Whether the file must not exceed the inline size.
    pub(crate) fn is_bounded(&self) -> bool {
        matches!(*self.source.lock(), Source::Memory)
    }

    /// Reads the whole of a small content.
    pub(crate) fn small(&self, size: u64) -> io::Result<Vec<u8>> {
        let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
        let n = read_at(&self.file, &mut content, 0)?;
        content.truncate(n);
        Ok(content)
    }
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|r| !r.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Pool of empty files for reuse, by folder.
#[derive(Debug)]
pub(crate) struct Pool {
    folders: Arc<Folders>,
    idle: Vec<Mutex<Vec<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    pending: PendingObject,
    file: Arc<File>,
    backing: Option<Arc<BackingId>>,
    /// State of the file, which nobody else has open.
    stamp: Stamp,
}

impl Pool {
    pub(crate) fn new(folders: Arc<Folders>) -> Self {
        let idle = folders.paths().map(|_| Mutex::default()).collect();
        Self { folders, idle }
    }

    /// Returns a backing file for a content to be written.
    pub(crate) fn take(&self, id: VertexId, content: &[u8]) -> io::Result<Body> {
        let folder = self.folders.folder_of(id);
        let idle = self.idle.get(folder).and_then(|idle| idle.lock().pop());
        let (file, source, backing, stamp) = match idle {
            Some(idle) => {
                let source = Source::Pending(idle.pending);
                (idle.file, source, idle.backing, Some(idle.stamp))
            }
            None if self.folders.is_empty() => {
                let fd = rustix::fs::memfd_create("esker", MemfdFlags::CLOEXEC)?;
                (Arc::new(fd.into()), Source::Memory, None, None)
            }
            None => {
                let pending = self.folders.create_pending(folder)?;
                let file = Arc::clone(&pending.file);
                (file, Source::Pending(pending), None, None)
            }
        };
        if !content.is_empty() {
            file.write_all_at(content, 0)?;
        }
        let stamp = match stamp.filter(|_| content.is_empty()) {
            Some(stamp) => stamp,
            None => Stamp::of(&file)?,
        };
        let content = Some(content.to_vec());
        let body = Body::new(file, source, Published { content, stamp });
        *body.backing.lock() = backing;
        Ok(body)
    }

    /// Opens the object of a file.
    pub(crate) fn open(&self, path: &[u8], id: VertexId, write: bool) -> io::Result<Body> {
        let (file, _) = self.folders.open_object(path, id, write)?;
        let stamp = Stamp::of(&file)?;
        let content = None;
        let published = Published { content, stamp };
        Ok(Body::new(Arc::new(file), Source::Object, published))
    }

    /// Returns an unused backing file to the pool.
    pub(crate) fn recycle(&self, body: Body) {
        let Body {
            source,
            file,
            backing,
            ..
        } = body;
        let Source::Pending(pending) = source.into_inner() else {
            return;
        };
        let Some(idle) = self.idle.get(pending.folder()) else {
            return;
        };
        if idle.lock().len() >= IDLE_MAX {
            return;
        }
        let emptied = |stamp: Stamp| {
            if stamp.size == 0 && stamp.blocks == 0 {
                return Ok(stamp);
            }
            file.set_len(0)?;
            Stamp::of(&file)
        };
        if let Ok(stamp) = Stamp::of(&file).and_then(emptied) {
            let backing = backing.into_inner();
            idle.lock().push(Idle {
                pending,
                file,
                backing,
                stamp,
            });
        }
    }
}
