//! A mounted namespace: state shared by all calls.

use crate::attributes;
use crate::body::Pool;
use crate::caller::Groups;
use crate::content::Opened;
use crate::data::Folders;
use crate::list::Streams;
use crate::nodes::{Node, Nodes};
use crate::options::Options;
use crate::record::Recorder;
use crate::views::{Views, is_view};
use crate::write_journal::WriteJournal;
use esker_model::namespace::{
    AppliedChange, Change, Errno as FileErrno, Inode, Name, NamePath, Namespace, SetAttributes,
};
use esker_model::object::Principal;
use esker_model::{Error, Result, VertexId};
use fuser::{Errno, FileAttr, Notifier};
use parking_lot::{Mutex, RwLock};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A namespace that can be mounted.
pub trait Target: Send + Sync + 'static {
    /// Returns the namespace to mount.
    fn names(&self) -> &dyn Namespace;

    /// Makes all changes so far survive a power failure.
    fn persist(&self) -> Result<()>;

    /// Returns the names of the views of files that a mount shows below `.esker`; at most 60.
    fn views(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the content of a view of a file, as far as the principal may see it. `file` is the id of the file's vertex.
    ///
    /// # Errors
    /// An error of kind `Missing` if the database has nothing to tell about the file.
    fn view(&self, _view: &str, _principal: &Principal, file: VertexId) -> Result<Vec<u8>> {
        Err(Error::NoVertex {
            name: file.to_string(),
            hint: String::new(),
        })
    }
}

/// Result of a call of the kernel.
pub(crate) type Answer<T> = std::result::Result<T, Errno>;

/// State of a mounted namespace.
pub(crate) struct Files {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) options: Options,
    pub(crate) nodes: Nodes,
    pub(crate) groups: Groups,
    pub(crate) folders: Arc<Folders>,
    pub(crate) pool: Pool,
    /// Journal of the objects that may have unpublished writes.
    pub(crate) journal: WriteJournal,
    pub(crate) streams: Streams,
    pub(crate) views: Views,
    /// Whether the kernel reads and writes open files itself.
    pub(crate) passthrough: AtomicBool,
    /// Locked for writing while a directory is moved, so that no path is computed meanwhile.
    pub(crate) moving: RwLock<()>,
    /// Channel for invalidating the kernel's caches.
    pub(crate) notifier: OnceLock<Notifier>,
    /// Recorder of opened files, if requested.
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) space: Mutex<Option<(Instant, attributes::FsSpace)>>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Files {
    pub(crate) fn new(target: Arc<dyn Target>, options: Options, folders: Folders) -> Self {
        let folders = Arc::new(folders);
        Self {
            target,
            nodes: Nodes::new(),
            groups: Groups::default(),
            pool: Pool::new(Arc::clone(&folders)),
            journal: WriteJournal::new(Arc::clone(&folders)),
            folders,
            streams: Streams::default(),
            views: Views::default(),
            passthrough: AtomicBool::new(false),
            moving: RwLock::default(),
            notifier: OnceLock::new(),
            recorder: None,
            space: Mutex::default(),
            options,
        }
    }

    /// Returns the node with a number that the kernel got from this mount.
    pub(crate) fn node(&self, number: u64) -> Answer<Arc<Node>> {
        if is_view(number) {
            return Err(Errno::EROFS);
        }
        self.nodes.get(number).ok_or(Errno::ESTALE)
    }

    /// Reads a file's attributes, by its identity and not by a path.
    pub(crate) fn stat(&self, node: &Node) -> Answer<Inode> {
        self.target
            .names()
            .stat(None, &node.handle(), false)
            .map_err(|e| attributes::errno(&e))
    }

    /// Reads the attributes of the file at a path.
    pub(crate) fn stat_path(&self, path: &NamePath) -> Answer<Inode> {
        self.target
            .names()
            .stat(None, path, false)
            .map_err(|e| attributes::errno(&e))
    }

    /// Applies one change of the namespace.
    pub(crate) fn change(
        &self,
        principal: Option<&Principal>,
        change: Change,
    ) -> Answer<AppliedChange> {
        self.try_change(principal, change)
            .map_err(|e| attributes::errno(&e))
    }

    /// Applies one change and returns the full error if it fails.
    pub(crate) fn try_change(
        &self,
        principal: Option<&Principal>,
        change: Change,
    ) -> Result<AppliedChange> {
        let mut answers = self.target.names().change(principal, &[change])?;
        answers
            .pop()
            .unwrap_or_else(|| Err(Error::Undecided("a change got no answer".into())))
    }

    /// Applies several changes in one call; returns their results, or the first error.
    pub(crate) fn changes(
        &self,
        principal: &Principal,
        changes: &[Change],
    ) -> Result<Vec<AppliedChange>> {
        let answers = self.target.names().change(Some(principal), changes)?;
        answers.into_iter().collect()
    }

    /// Changes attributes of a file.
    pub(crate) fn set(
        &self,
        principal: Option<&Principal>,
        node: &Node,
        set: SetAttributes,
    ) -> Answer<AppliedChange> {
        self.change(
            principal,
            Change::Set {
                path: node.handle(),
                follow: false,
                set,
            },
        )
    }

    /// Returns the path of an entry. The caller must hold `moving`.
    pub(crate) fn entry(&self, directory: &Arc<Node>, name: &Name) -> Answer<NamePath> {
        let path = self.nodes.entry(directory, name);
        path.map_err(|e| attributes::errno(&e.into()))
    }

    /// Returns a file's attributes as programs see them, including writes that are not published yet.
    pub(crate) fn attributes(&self, node: &Node, inode: &Inode) -> FileAttr {
        let opened = node.opened();
        let body = opened.as_ref().and_then(Opened::body);
        let Some(body) = body.filter(|_| self.options.as_of.is_none()) else {
            node.note(inode);
            return attributes::of(node.number, inode);
        };
        // The lock keeps others from publishing, so that published and unpublished state match.
        let published = body.published.lock();
        let present = self.stat(node);
        let inode = present.as_ref().unwrap_or(inode);
        node.note(inode);
        let mut attributes = attributes::of(node.number, inode);
        if let Ok(stamp) = body.stamp()
            && stamp != published.stamp
        {
            attributes.size = stamp.size;
            attributes.blocks = stamp.blocks;
            if stamp.was_written_since(&published.stamp) {
                attributes.mtime = attributes::time(node.state().time_of_write(stamp.mtime));
                attributes.ctime = attributes.ctime.max(attributes.mtime);
            }
        }
        attributes
    }
}

/// Checks a name from the kernel.
pub(crate) fn name(name: &OsStr) -> Answer<Name> {
    Name::new(name.as_bytes()).map_err(|e| match e.errno {
        FileErrno::NameTooLong => Errno::ENAMETOOLONG,
        _ => Errno::EINVAL,
    })
}
