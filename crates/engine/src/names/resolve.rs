//! From a path to a row: symbolic links are followed, search permission is asked for in each directory on the way.

use super::directory::{Directories, Directory};
use super::rows::{self, Found, Rows};
use esker_model::namespace::record::DentryInode;
use esker_model::namespace::{
    Content, Errno, FileError, Inode, Name, NamePath, SYMLINKS_MAX, display, hash_of,
};
use esker_model::object::Asker;
use esker_model::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a resolution may use.
pub(crate) struct Way<'a, R: ?Sized> {
    pub(crate) rows: &'a R,
    pub(crate) asker: Option<&'a Asker>,
    /// Directories that are known; none where they would be of another moment.
    pub(crate) known: Option<&'a Directories>,
    /// Directories that only this change knows.
    pub(crate) local: &'a super::Local,
    /// Which names directories lack, for who holds the write lock.
    pub(crate) filters: Option<&'a super::Filters>,
    /// Of which epoch rows are that were read before this resolution, if some were.
    pub(crate) epoch: Option<u64>,
}

/// Where a path leads.
pub(crate) enum Reached {
    /// A directory that the path gives no name of its own: the root, or what `..` in a symbolic link leads to.
    Directory(Arc<Directory>),
    /// A name in a directory: an entry, or where one would lie.
    Entry(Arc<Directory>, Name, Result<Box<Found>, (u64, u8)>),
}

enum Part {
    Name(Name),
    Up,
}

/// The parts of a symbolic link's target, or of a path.
fn parts(bytes: &[u8]) -> Result<VecDeque<Part>, FileError> {
    let mut parts = VecDeque::new();
    for part in bytes.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => parts.push_back(Part::Up),
            name => parts.push_back(Part::Name(Name::new(name)?)),
        }
    }
    Ok(parts)
}

impl<R: Rows + ?Sized> Way<'_, R> {
    /// The directory that a path leads to, by what is known.
    fn known(&self, path: &[u8]) -> Option<Arc<Directory>> {
        let local = self.local.get(path);
        local.or_else(|| self.known.and_then(|known| known.get(path)))
    }

    /// The entry of a name, or where one would lie.
    fn find(&self, directory: &Directory, name: &Name) -> Result<Result<Box<Found>, (u64, u8)>> {
        let hash = hash_of(name);
        if self.filters.is_some_and(|f| f.lacks(directory.id, hash)) {
            return Ok(Err((hash, 0)));
        }
        Ok(rows::find_hashed(self.rows, directory.id, name, hash)?.map(Box::new))
    }

    fn epoch(&self) -> Option<u64> {
        self.epoch.or_else(|| self.known.map(Directories::epoch))
    }

    fn root(&self) -> Result<Arc<Directory>> {
        if let Some(root) = self.known(b"/") {
            return Ok(root);
        }
        let epoch = self.epoch();
        let root = Arc::new(Directory::root(rows::root_inode(self.rows)?));
        self.keep(&root, epoch);
        Ok(root)
    }

    fn keep(&self, directory: &Arc<Directory>, epoch: Option<u64>) {
        match (self.known, epoch) {
            (Some(known), Some(epoch)) => known.keep(directory, epoch),
            _ => self.local.keep(directory),
        }
    }

    /// Where a path leads. With `follow`, its last name is followed if it is a symbolic link.
    pub(crate) fn reach(&self, path: &NamePath, follow: bool) -> Result<Reached> {
        let Some((parent, name)) = path.split() else {
            if path.is_handle() {
                // It may have several names, or none: [`Way::held`].
                return Err(Errno::Invalid.at(path).into());
            }
            return Ok(Reached::Directory(self.root()?));
        };
        let refused = |e: Error| match e {
            Error::File(e) => Error::File(e.errno.at(path)),
            e => e,
        };
        if let Some(directory) = self.known(parent) {
            directory
                .demand_search(self.asker)
                .map_err(|e| refused(e.into()))?;
            let found = self.find(&directory, &name)?;
            let link = follow && found.as_ref().is_ok_and(|f| is_link(f));
            if !link {
                return Ok(Reached::Entry(directory, name, found));
            }
        }
        self.reach_by_parts(path, follow).map_err(refused)
    }

    fn reach_by_parts(&self, path: &NamePath, follow: bool) -> Result<Reached> {
        let mut left = parts(path.as_bytes())?;
        let mut directory = self.root()?;
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            let name = match part {
                Part::Up => {
                    directory.demand_search(self.asker)?;
                    directory = directory.parent.clone().unwrap_or(directory);
                    continue;
                }
                Part::Name(name) => name,
            };
            directory.demand_search(self.asker)?;
            let last = left.is_empty();
            if !last && let Some(next) = self.known(&directory.path_of(&name)) {
                directory = next;
                continue;
            }
            let epoch = self.epoch();
            let found = self.find(&directory, &name)?;
            let entry = match found {
                Ok(entry) if is_link(&entry) && (!last || follow) => {
                    links += 1;
                    if links > SYMLINKS_MAX {
                        return Err(Errno::Loop.at(path).into());
                    }
                    let target = target(rows::inode(self.rows, entry.dentry)?)?;
                    if target.first() == Some(&b'/') {
                        directory = self.root()?;
                    }
                    let mut further = parts(&target)?;
                    further.append(&mut left);
                    left = further;
                    continue;
                }
                found if last => return Ok(Reached::Entry(directory, name, found)),
                Ok(entry) => entry,
                Err(_) => return Err(Errno::NotFound.at(path).into()),
            };
            match entry.dentry.inode {
                DentryInode::Here(inode) if inode.is_directory() => {
                    directory = Arc::new(directory.child(&name, inode));
                    self.keep(&directory, epoch);
                }
                _ => return Err(Errno::NotDirectory.at(path).into()),
            }
        }
        Ok(Reached::Directory(directory))
    }

    /// The directory that a path names; symbolic links are followed.
    pub(crate) fn directory(&self, path: &NamePath) -> Result<Arc<Directory>> {
        if let Some(directory) = self.known(path.as_bytes()) {
            if let Some(parent) = &directory.parent {
                parent.demand_search(self.asker)?;
            }
            return Ok(directory);
        }
        if let Some(handle) = path.handle() {
            return self.held_directory(&handle, path);
        }
        let epoch = self.epoch();
        match self.reach(path, true)? {
            Reached::Directory(directory) => Ok(directory),
            Reached::Entry(parent, name, Ok(found)) => match found.dentry.inode {
                DentryInode::Here(inode) if inode.is_directory() => {
                    let directory = Arc::new(parent.child(&name, inode));
                    self.keep(&directory, epoch);
                    Ok(directory)
                }
                _ => Err(Errno::NotDirectory.at(path).into()),
            },
            Reached::Entry(_, _, Err(_)) => Err(Errno::NotFound.at(path).into()),
        }
    }
}

fn is_link(found: &Found) -> bool {
    rows::kind(&found.dentry) == esker_model::namespace::Kind::Symlink
}

fn target(inode: Inode) -> Result<Vec<u8>> {
    match inode.content {
        Content::Symlink(target) if !target.is_empty() => Ok(target),
        _ => Err(Errno::Invalid
            .at(format!(
                "a symbolic link leads nowhere ({})",
                display(&inode.id.0)
            ))
            .into()),
    }
}
