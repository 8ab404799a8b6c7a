//! The mount's files without the kernel, for programs that link a library.
//!
//! Locations of content, publishing and backing files are the mount's own code ([`crate::content`], [`crate::data`]):
//! a file that is written here can be read through any mount of the target, and the other way round. Paths are looked
//! up in one call, not name by name as the kernel does.

mod failure;
mod file;
mod stat;

pub use failure::Failure;
pub use file::{Flags, OpenFile};
pub use stat::{FsStats, Stat};

use crate::data::Folders;
use crate::files::{Files, Target};
use crate::options::Options;
use esker_model::VertexId;
use esker_model::graph::Flow;
use esker_model::namespace::{
    AppliedChange, Change, Content, Cookie, Entry, Handle, Inode, Name, NamePath, Namespace, Open,
    SEAL_BYTES, SetAttributes, XattrMode, root,
};
use esker_model::object::Principal;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const ENODATA: i32 = 61;

/// Result of a direct call.
pub type Result<T> = std::result::Result<T, Failure>;

/// A namespace with its data folders, used by this process.
#[derive(Debug)]
pub struct Direct {
    pub(crate) files: Files,
    /// Held while appending to a file.
    appending: Mutex<()>,
}

impl Direct {
    /// Opens the data folders. Only options about the storage of contents are used.
    pub fn open(target: Arc<dyn Target>, options: Options) -> io::Result<Arc<Self>> {
        let invalid = |e: String| io::Error::new(io::ErrorKind::InvalidInput, e);
        options.check().map_err(|e| invalid(e.to_string()))?;
        let folders = Folders::open(&options.data)?;
        Ok(Arc::new(Self {
            files: Files::new(target, options, folders),
            appending: Mutex::default(),
        }))
    }

    /// Returns the largest size of content stored in the namespace, in bytes.
    pub fn inline_bytes(&self) -> usize {
        self.files.options.inline_bytes
    }

    fn names(&self) -> &dyn Namespace {
        self.files.target.names()
    }

    /// Reads the attributes of the file at a path, including unpublished writes of this process.
    pub fn stat(&self, principal: &Principal, path: &NamePath, follow: bool) -> Result<Stat> {
        let inode = self.names().stat(Some(principal), path, follow)?;
        Ok(self.stat_of(&inode))
    }

    /// Whether the principal may access the file at a path: bits 4, 2 and 1 for reading, writing and executing.
    pub fn may_access(&self, principal: &Principal, path: &NamePath, bits: u32) -> Result<bool> {
        let inode = self.names().stat(Some(principal), path, true)?;
        Ok(inode.allows(Some(principal), bits))
    }

    fn stat_of(&self, inode: &Inode) -> Stat {
        match self.files.nodes.find(inode.id) {
            Some(node) => Stat::of_attributes(&self.files.attributes(&node, inode), inode.mode),
            None => Stat::of_inode(self.files.nodes.number_of(inode.id), inode),
        }
    }

    /// Applies one change of a name, of attributes, or of extended attributes. Removing a file's last name removes its
    /// object.
    pub fn change(&self, principal: &Principal, change: &Change) -> Result<AppliedChange> {
        let mut answers = self.change_many(principal, std::slice::from_ref(change))?;
        let unanswered = || Err(Failure::new(5, "a change got no answer"));
        answers.pop().unwrap_or_else(unanswered)
    }

    /// Applies changes in order and commits all that succeed in one commit. The results are in the order of the
    /// changes.
    pub fn change_many(
        &self,
        principal: &Principal,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        // A file replaced by a rename loses a name.
        let over: Vec<Option<VertexId>> = changes.iter().map(|c| self.replaced(c)).collect();
        let answers = self.names().change(Some(principal), changes)?;
        let answered = changes.iter().zip(over).zip(answers);
        let seen = |((change, over), answer): (
            (&Change, Option<VertexId>),
            esker_model::Result<AppliedChange>,
        )| {
            let done = answer?;
            match change {
                Change::Unlink(_) | Change::Rmdir(_) => self.name_removed(done.id),
                Change::Rename { .. } => {
                    if let Some(over) = over.filter(|id| *id != done.id) {
                        self.name_removed(over);
                    }
                }
                _ => {}
            }
            Ok(done)
        };
        Ok(answered.map(seen).collect())
    }

    fn replaced(&self, change: &Change) -> Option<VertexId> {
        let Change::Rename {
            to,
            no_replace: false,
            ..
        } = change
        else {
            return None;
        };
        if self.files.folders.is_empty() {
            return None;
        }
        self.names()
            .stat(None, to, false)
            .ok()
            .map(|inode| inode.id)
    }

    /// Handles the loss of a file's name. With the last one its object is removed; open descriptors keep the content.
    fn name_removed(&self, id: VertexId) {
        let node = self.files.nodes.find(id);
        let object = self.files.folders.find(id);
        if node.is_none() && object.is_none() {
            return;
        }
        let Ok(inode) = self.names().stat(None, &by_id(id), false) else {
            return;
        };
        if let Some(node) = node {
            let mut state = node.state();
            state.links = inode.links;
            state.unlinked = inode.links == 0;
        }
        if inode.links == 0
            && let Content::Object(object) = &inode.content
        {
            // An object that cannot be removed now is an orphan, which a check finds.
            let _ = self.files.folders.remove(object, id);
        }
    }

    /// Reads the target of a symbolic link.
    pub fn read_link(&self, principal: &Principal, path: &NamePath) -> Result<Vec<u8>> {
        match self.names().stat(Some(principal), path, false)?.content {
            Content::Symlink(target) => Ok(target),
            _ => Err(Failure::new(EINVAL, path)),
        }
    }

    /// Changes attributes of the file at a path.
    pub fn set(
        &self,
        principal: &Principal,
        path: &NamePath,
        follow: bool,
        set: SetAttributes,
    ) -> Result<()> {
        let path = path.clone();
        self.change(principal, &Change::Set { path, follow, set })?;
        Ok(())
    }

    /// Truncates the content, or extends it with zero bytes.
    pub fn truncate(
        self: &Arc<Self>,
        principal: &Principal,
        path: &NamePath,
        size: u64,
    ) -> Result<()> {
        let flags = Flags {
            write: true,
            ..Flags::default()
        };
        let file = OpenFile::open(self, principal, path, flags, 0)?;
        file.truncate(size)?;
        file.close()
    }

    /// Reads an extended attribute.
    pub fn xattr(
        &self,
        principal: &Principal,
        path: &NamePath,
        follow: bool,
        name: &[u8],
    ) -> Result<Vec<u8>> {
        let inode = self.names().stat(Some(principal), path, follow)?;
        let found = inode.xattrs.into_iter().find(|(n, _)| n == name);
        let shown = String::from_utf8_lossy(name);
        let none = || Failure::new(ENODATA, format_args!("{path}, attribute `{shown}`"));
        found.map(|(_, value)| value).ok_or_else(none)
    }

    /// Returns the names of all extended attributes, each terminated by a zero byte.
    pub fn xattr_names(
        &self,
        principal: &Principal,
        path: &NamePath,
        follow: bool,
    ) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        for (name, _) in self.names().stat(Some(principal), path, follow)?.xattrs {
            if principal.uid == 0 || !name.starts_with(b"trusted.") {
                names.extend_from_slice(&name);
                names.push(0);
            }
        }
        Ok(names)
    }

    /// Sets an extended attribute, or removes it (`None`).
    pub fn set_xattr(
        &self,
        principal: &Principal,
        (path, follow): (&NamePath, bool),
        (name, value): (&[u8], Option<&[u8]>),
        mode: XattrMode,
    ) -> Result<()> {
        let mut path = path.clone();
        if follow
            && matches!(
                self.names().stat(Some(principal), &path, false)?.content,
                Content::Symlink(_)
            )
        {
            // The change itself does not follow symbolic links.
            match self.names().resolve_open(None, &path, Open::READ)? {
                esker_model::namespace::OpenLookup::Found(held, _) => path = held,
                esker_model::namespace::OpenLookup::Missing { .. } => {
                    return Err(Failure::new(ENOENT, &path));
                }
            }
        }
        let (name, value) = (name.to_vec(), value.map(<[u8]>::to_vec));
        self.change(
            principal,
            &Change::Xattr {
                path,
                name,
                value,
                mode,
            },
        )?;
        Ok(())
    }

    /// Lists the entries of a directory behind a cookie, each with its own cookie and its attributes.
    pub fn list(
        &self,
        principal: &Principal,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, &Name, Stat) -> Flow,
    ) -> Result<()> {
        let each =
            &mut |cookie, entry: Entry| sink(cookie, &entry.name, self.stat_of(&entry.inode));
        Ok(self.names().list(Some(principal), path, after, each)?)
    }

    /// Returns the size and the free space of the data folders.
    pub fn statfs(&self) -> Result<FsStats> {
        self.files
            .statfs()
            .map(FsStats::of)
            .map_err(Failure::at("how much room there is"))
    }

    /// Makes all published changes survive a power failure.
    pub fn persist(&self) -> Result<()> {
        Ok(self.files.target.persist()?)
    }
}

/// Returns the path form of a handle for a file of which only the id is known.
fn by_id(id: VertexId) -> NamePath {
    let Ok(name) = Name::new(b"?") else {
        return NamePath::root();
    };
    Handle {
        id,
        directory: root(),
        name,
        born: 0,
        read: true,
        write: true,
        seal: [0; SEAL_BYTES],
    }
    .path()
}
