//! A mounted namespace: what all calls share.

use crate::attributes;
use crate::body::Pool;
use crate::content::Opened;
use crate::data::Folders;
use crate::list::Streams;
use crate::nodes::{Node, Nodes};
use crate::options::Options;
use crate::record::Recorder;
use crate::who::Groups;
use esker_model::namespace::{
    Change, Done, Errno as FileErrno, Inode, Name, NamePath, Namespace, SetAttributes,
};
use esker_model::object::Asker;
use esker_model::{Error, Result};
use fuser::{Errno, FileAttr, Notifier};
use parking_lot::{Mutex, RwLock};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What is mounted.
pub trait Target: Send + Sync + 'static {
    /// Its namespace.
    fn names(&self) -> &dyn Namespace;

    /// Makes everything that was changed survive a power failure.
    fn persist(&self) -> Result<()>;
}

/// Who tells the namespace what somebody did who was let: their rights were looked at before, and are not taken from the file now.
pub(crate) const MOUNT: Asker = Asker {
    uid: 0,
    gids: Vec::new(),
};

/// What a call answers.
pub(crate) type Answer<T> = std::result::Result<T, Errno>;

/// A mounted namespace.
pub(crate) struct Files {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) options: Options,
    pub(crate) nodes: Nodes,
    pub(crate) groups: Groups,
    pub(crate) folders: Arc<Folders>,
    pub(crate) pool: Pool,
    pub(crate) streams: Streams,
    /// Whether the kernel reads and writes open files itself.
    pub(crate) passthrough: AtomicBool,
    /// Taken to write while a directory is moved, so that no path is made meanwhile.
    pub(crate) moving: RwLock<()>,
    /// To tell the kernel what it remembers wrongly.
    pub(crate) notifier: OnceLock<Notifier>,
    /// Tells the graph who has which file open.
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) space: Mutex<Option<(Instant, crate::xattrs::Space)>>,
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
            folders,
            streams: Streams::default(),
            passthrough: AtomicBool::new(false),
            moving: RwLock::default(),
            notifier: OnceLock::new(),
            recorder: None,
            space: Mutex::default(),
            options,
        }
    }

    /// The file of a number that the kernel has from here.
    pub(crate) fn node(&self, number: u64) -> Answer<Arc<Node>> {
        self.nodes.get(number).ok_or(Errno::ESTALE)
    }

    /// What a file is, by what it is and not by where.
    pub(crate) fn stat(&self, node: &Node) -> Answer<Inode> {
        self.target
            .names()
            .stat(None, &node.handle(), false)
            .map_err(|e| attributes::errno(&e))
    }

    /// What is at a path.
    pub(crate) fn stat_path(&self, path: &NamePath) -> Answer<Inode> {
        self.target
            .names()
            .stat(None, path, false)
            .map_err(|e| attributes::errno(&e))
    }

    /// One change.
    pub(crate) fn change(&self, asker: Option<&Asker>, change: Change) -> Answer<Done> {
        self.try_change(asker, change)
            .map_err(|e| attributes::errno(&e))
    }

    /// The same, with what it says if it fails.
    pub(crate) fn try_change(&self, asker: Option<&Asker>, change: Change) -> Result<Done> {
        let mut answers = self.target.names().change(asker, &[change])?;
        answers
            .pop()
            .unwrap_or_else(|| Err(Error::Unavailable("a change was not answered".into())))
    }

    /// Several, of which all are made or the first that is not is told.
    pub(crate) fn changes(&self, changes: &[Change]) -> Result<Option<Done>> {
        let mut last = None;
        for answer in self.target.names().change(Some(&MOUNT), changes)? {
            last = Some(answer?);
        }
        Ok(last)
    }

    /// Changes attributes of a file.
    pub(crate) fn set(
        &self,
        asker: Option<&Asker>,
        node: &Node,
        set: SetAttributes,
    ) -> Answer<Done> {
        self.change(
            asker,
            Change::Set {
                path: node.handle(),
                follow: false,
                set,
            },
        )
    }

    /// The path of an entry. Whoever uses it holds `moving`.
    pub(crate) fn entry(&self, directory: &Arc<Node>, name: &Name) -> Answer<NamePath> {
        let path = self.nodes.entry(directory, name);
        path.map_err(|e| attributes::errno(&e.into()))
    }

    /// A file's attributes as programs see them: what was written and not told yet counts.
    pub(crate) fn attributes(&self, node: &Node, inode: &Inode) -> FileAttr {
        let opened = node.opened();
        let Some(body) = opened.as_ref().and_then(Opened::body) else {
            node.note(inode);
            return attributes::of(node.number, inode);
        };
        // Nothing is told meanwhile: what is known and what is not belong together.
        let published = body.published.lock();
        let present = self.stat(node);
        let inode = present.as_ref().unwrap_or(inode);
        node.note(inode);
        let mut attributes = attributes::of(node.number, inode);
        if let Ok(stamp) = body.stamp()
            && stamp != published.stamp
        {
            attributes.size = stamp.size;
            attributes.blocks = stamp.blocks.max(stamp.size.div_ceil(512));
            if stamp.was_written_since(&published.stamp) {
                attributes.mtime = attributes::time(stamp.mtime);
                attributes.ctime = attributes.ctime.max(attributes.mtime);
            }
        }
        attributes
    }
}

/// A name that the kernel says.
pub(crate) fn name(name: &OsStr) -> Answer<Name> {
    Name::new(name.as_bytes()).map_err(|e| match e.errno {
        FileErrno::NameTooLong => Errno::ENAMETOOLONG,
        _ => Errno::EINVAL,
    })
}
