//! What is open of a file's content: a file underneath, or bytes of the namespace.
//!
//! Whoever opens a file to write gets a file of a data folder that has no name yet, with what small content there is. When it is
//! flushed, it is looked at: small content goes into the namespace, and the file back to the pool; large content gets its
//! place, and is an object from then on. So nothing is ever copied that is large, and nobody has to know before how large it becomes.

use crate::data::{Folders, Fresh};
use esker_model::VertexId;
use fuser::BackingId;
use parking_lot::Mutex;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// Idle files of one folder.
const IDLE_MAX: usize = 64;

/// A file underneath, of an open file.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) source: Mutex<Source>,
    /// The same file, without a lock.
    pub(crate) file: Arc<File>,
    /// As the kernel knows it, where it reads and writes it itself.
    pub(crate) backing: Mutex<Option<Arc<BackingId>>>,
    pub(crate) published: Mutex<Published>,
}

/// Where it comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// From the pool: nothing leads to it.
    Fresh(Fresh),
    /// Memory, where there are no data folders.
    Memory,
    /// An object, which its inode leads to.
    Object,
}

/// What the namespace says of the content, as far as this mount knows.
#[derive(Debug, Default, Clone)]
pub(crate) struct Published {
    /// Small content, if that is sure.
    pub(crate) content: Option<Vec<u8>>,
    /// Size and time of the last change, of the file underneath, when that was told.
    pub(crate) stamp: Stamp,
}

/// What tells that a file underneath was changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) mtime: i64,
}

impl Stamp {
    /// Whether something was written in between. The space that it takes says nothing of that: file systems find it when they like.
    pub(crate) const fn was_written_since(&self, before: &Self) -> bool {
        self.size != before.size || self.mtime != before.mtime
    }
}

impl Body {
    fn new(file: Arc<File>, source: Source, content: Option<Vec<u8>>) -> io::Result<Self> {
        let body = Self {
            source: Mutex::new(source),
            file,
            backing: Mutex::new(None),
            published: Mutex::default(),
        };
        let stamp = body.stamp()?;
        *body.published.lock() = Published { content, stamp };
        Ok(body)
    }

    /// What the file underneath is now.
    pub(crate) fn stamp(&self) -> io::Result<Stamp> {
        let meta = self.file.metadata()?;
        Ok(Stamp {
            size: meta.size(),
            blocks: meta.blocks(),
            mtime: meta
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(meta.mtime_nsec()),
        })
    }

    /// Whether it may grow beyond what the namespace takes.
    pub(crate) fn is_bounded(&self) -> bool {
        matches!(*self.source.lock(), Source::Memory)
    }

    /// All of a small content.
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

/// Files without content that wait to be used, by folder.
#[derive(Debug)]
pub(crate) struct Pool {
    folders: Arc<Folders>,
    idle: Vec<Mutex<Vec<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    fresh: Fresh,
    file: Arc<File>,
    backing: Option<Arc<BackingId>>,
}

impl Pool {
    pub(crate) fn new(folders: Arc<Folders>) -> Self {
        let idle = folders.paths().map(|_| Mutex::default()).collect();
        Self { folders, idle }
    }

    /// A file underneath for a content that is to be written.
    pub(crate) fn take(&self, id: VertexId, content: &[u8]) -> io::Result<Body> {
        let folder = self.folders.folder_of(id);
        let idle = self.idle.get(folder).and_then(|idle| idle.lock().pop());
        let body = match idle {
            Some(idle) => {
                let body = Body::new(idle.file, Source::Fresh(idle.fresh), None)?;
                *body.backing.lock() = idle.backing;
                body
            }
            None if self.folders.is_empty() => {
                let fd = rustix::fs::memfd_create("esker", MemfdFlags::CLOEXEC)?;
                Body::new(Arc::new(fd.into()), Source::Memory, None)?
            }
            None => {
                let fresh = self.folders.fresh(folder)?;
                let file = Arc::clone(&fresh.file);
                Body::new(file, Source::Fresh(fresh), None)?
            }
        };
        if !content.is_empty() {
            body.file.write_all_at(content, 0)?;
        }
        let stamp = body.stamp()?;
        *body.published.lock() = Published {
            content: Some(content.to_vec()),
            stamp,
        };
        Ok(body)
    }

    /// The object of the file of that id, opened.
    pub(crate) fn open(&self, path: &[u8], id: VertexId, write: bool) -> io::Result<Body> {
        let (file, _) = self.folders.open_object(path, id, write)?;
        Body::new(Arc::new(file), Source::Object, None)
    }

    /// A body that nobody uses any more.
    pub(crate) fn give_back(&self, body: Body) {
        let Body {
            source,
            file,
            backing,
            ..
        } = body;
        let Source::Fresh(fresh) = source.into_inner() else {
            return;
        };
        let Some(idle) = self.idle.get(fresh.folder()) else {
            return;
        };
        if idle.lock().len() >= IDLE_MAX {
            return;
        }
        let empty = match file.metadata() {
            Ok(meta) if meta.len() == 0 && meta.blocks() == 0 => true,
            Ok(_) => file.set_len(0).is_ok(),
            Err(_) => false,
        };
        if empty {
            let backing = backing.into_inner();
            idle.lock().push(Idle {
                fresh,
                file,
                backing,
            });
        }
    }
}
