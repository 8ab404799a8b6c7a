//! The same files without the kernel: for a program that links a library in the place of a mount.
//!
//! What lies where, when it is told and what is a body is the mount's own code ([`crate::content`], [`crate::data`]): a file that is
//! written here is read through any mount of the target, and the other way round. Only names are not asked for one by one, as the
//! kernel does: a path is one question.

mod failure;
mod file;
mod stat;

pub use failure::Failure;
pub use file::{Flags, OpenFile};
pub use stat::{Room, Stat};

use crate::data::Folders;
use crate::files::{Files, Target};
use crate::options::Options;
use esker_model::VertexId;
use esker_model::graph::Flow;
use esker_model::namespace::{
    Change, Content, Cookie, Done, Entry, Handle, Inode, Name, NamePath, Namespace, Open,
    SEAL_BYTES, SetAttributes, XattrMode, root,
};
use esker_model::object::Asker;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const ENODATA: i32 = 61;

/// What a call answers.
pub type Result<T> = std::result::Result<T, Failure>;

/// A namespace with its data folders, used by this process.
#[derive(Debug)]
pub struct Direct {
    pub(crate) files: Files,
    /// Held by who writes behind the last byte.
    appending: Mutex<()>,
}

impl Direct {
    /// Opens the data folders. Of the options those count that say where contents lie.
    pub fn open(target: Arc<dyn Target>, options: Options) -> io::Result<Arc<Self>> {
        let invalid = |e: String| io::Error::new(io::ErrorKind::InvalidInput, e);
        options.check().map_err(|e| invalid(e.to_string()))?;
        let folders = Folders::open(&options.data)?;
        Ok(Arc::new(Self {
            files: Files::new(target, options, folders),
            appending: Mutex::default(),
        }))
    }

    /// Contents up to this size lie in the namespace, in bytes.
    pub fn inline_bytes(&self) -> usize {
        self.files.options.inline_bytes
    }

    fn names(&self) -> &dyn Namespace {
        self.files.target.names()
    }

    /// What is at a path. What was written here and not told yet counts.
    pub fn stat(&self, asker: &Asker, path: &NamePath, follow: bool) -> Result<Stat> {
        let inode = self.names().stat(Some(asker), path, follow)?;
        Ok(self.stat_of(&inode))
    }

    fn stat_of(&self, inode: &Inode) -> Stat {
        match self.files.nodes.find(inode.id) {
            Some(node) => Stat::of_attributes(&self.files.attributes(&node, inode), inode.mode),
            None => Stat::of_inode(self.files.nodes.number_of(inode.id), inode),
        }
    }

    /// One change of a name, of attributes, or of extended attributes. With the last name of a file its object goes.
    pub fn change(&self, asker: &Asker, change: &Change) -> Result<Done> {
        let mut answers = self.change_many(asker, std::slice::from_ref(change))?;
        let unanswered = || Err(Failure::new(5, "a change was not answered"));
        answers.pop().unwrap_or_else(unanswered)
    }

    /// Several, one after the other, all that succeed in one commit. The answers are in their order.
    pub fn change_many(&self, asker: &Asker, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        // What a rename is made over loses a name.
        let over: Vec<Option<VertexId>> = changes.iter().map(|c| self.replaced(c)).collect();
        let answers = self.names().change(Some(asker), changes)?;
        let answered = changes.iter().zip(over).zip(answers);
        let seen =
            |((change, over), answer): ((&Change, Option<VertexId>), esker_model::Result<Done>)| {
                let done = answer?;
                match change {
                    Change::Unlink(_) | Change::Rmdir(_) => self.lost_name(done.id),
                    Change::Rename { .. } => {
                        if let Some(over) = over.filter(|id| *id != done.id) {
                            self.lost_name(over);
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

    /// A file has lost a name. With the last one its object goes; whoever has it open keeps it.
    fn lost_name(&self, id: VertexId) {
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
            state.gone = inode.links == 0;
        }
        if inode.links == 0
            && let Content::Object(object) = &inode.content
        {
            // What cannot be removed now is an orphan, which a check finds.
            let _ = self.files.folders.remove(object, id);
        }
    }

    /// What a symbolic link says.
    pub fn read_link(&self, asker: &Asker, path: &NamePath) -> Result<Vec<u8>> {
        match self.names().stat(Some(asker), path, false)?.content {
            Content::Symlink(target) => Ok(target),
            _ => Err(Failure::new(EINVAL, path)),
        }
    }

    /// Changes attributes of what is at a path.
    pub fn set(
        &self,
        asker: &Asker,
        path: &NamePath,
        follow: bool,
        set: SetAttributes,
    ) -> Result<()> {
        let path = path.clone();
        self.change(asker, &Change::Set { path, follow, set })?;
        Ok(())
    }

    /// Cuts a content, or fills it with zero bytes.
    pub fn truncate(self: &Arc<Self>, asker: &Asker, path: &NamePath, size: u64) -> Result<()> {
        let flags = Flags {
            write: true,
            ..Flags::default()
        };
        let file = OpenFile::open(self, asker, path, flags, 0)?;
        file.truncate(size)?;
        file.close()
    }

    /// The value of an extended attribute.
    pub fn xattr(
        &self,
        asker: &Asker,
        path: &NamePath,
        follow: bool,
        name: &[u8],
    ) -> Result<Vec<u8>> {
        let inode = self.names().stat(Some(asker), path, follow)?;
        let found = inode.xattrs.into_iter().find(|(n, _)| n == name);
        let shown = String::from_utf8_lossy(name);
        let none = || Failure::new(ENODATA, format_args!("{path}, attribute `{shown}`"));
        found.map(|(_, value)| value).ok_or_else(none)
    }

    /// The names of all extended attributes, each with a zero byte behind it.
    pub fn xattr_names(&self, asker: &Asker, path: &NamePath, follow: bool) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        for (name, _) in self.names().stat(Some(asker), path, follow)?.xattrs {
            if asker.uid == 0 || !name.starts_with(b"trusted.") {
                names.extend_from_slice(&name);
                names.push(0);
            }
        }
        Ok(names)
    }

    /// Sets an extended attribute, or removes it (`None`).
    pub fn set_xattr(
        &self,
        asker: &Asker,
        (path, follow): (&NamePath, bool),
        (name, value): (&[u8], Option<&[u8]>),
        mode: XattrMode,
    ) -> Result<()> {
        let mut path = path.clone();
        if follow
            && matches!(
                self.names().stat(Some(asker), &path, false)?.content,
                Content::Symlink(_)
            )
        {
            // The change itself follows nothing.
            match self.names().look(None, &path, Open::READ)? {
                esker_model::namespace::Looked::Found(held, _) => path = held,
                esker_model::namespace::Looked::Missing { .. } => {
                    return Err(Failure::new(ENOENT, &path));
                }
            }
        }
        let (name, value) = (name.to_vec(), value.map(<[u8]>::to_vec));
        self.change(
            asker,
            &Change::Xattr {
                path,
                name,
                value,
                mode,
            },
        )?;
        Ok(())
    }

    /// Entries of a directory behind a place, each with its own place and what it is.
    pub fn list(
        &self,
        asker: &Asker,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, &Name, Stat) -> Flow,
    ) -> Result<()> {
        let each =
            &mut |cookie, entry: Entry| sink(cookie, &entry.name, self.stat_of(&entry.inode));
        Ok(self.names().list(Some(asker), path, after, each)?)
    }

    /// How much room there is.
    pub fn room(&self) -> Result<Room> {
        self.files
            .room()
            .map(Room::of)
            .map_err(Failure::at("how much room there is"))
    }

    /// All that was told survives a power failure.
    pub fn persist(&self) -> Result<()> {
        Ok(self.files.target.persist()?)
    }
}

/// What stands for a file of which nothing is known but what it is.
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
