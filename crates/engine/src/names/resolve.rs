//! Path resolution: follows symbolic links and checks search permission on each directory of the path.

use super::directory::{Directories, Directory};
use super::rows::{self, Found, NameRows};
use esker_model::namespace::record::DentryInode;
use esker_model::namespace::{
    Content, Errno, FileError, Inode, Name, NamePath, PATH_BYTES_MAX, SYMLINKS_MAX, display,
    hash_of,
};
use esker_model::object::Principal;
use esker_model::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Context of a path resolution.
pub(crate) struct Resolver<'a, R: ?Sized> {
    pub(crate) rows: &'a R,
    pub(crate) principal: Option<&'a Principal>,
    /// The directory cache; `None` if it belongs to another state than `rows`.
    pub(crate) cached: Option<&'a Directories>,
    /// Directories read or made by this change only.
    pub(crate) local: &'a super::LocalDirectories,
    /// Filters of absent names, for the holder of the write lock.
    pub(crate) filters: Option<&'a super::Filters>,
    /// Epoch of rows that were read before this resolution, if any.
    pub(crate) epoch: Option<u64>,
}

/// Result of resolving a path.
pub(crate) enum Reached {
    /// A directory without a name in the path: the root, or the target of `..` in a symbolic link.
    Directory(Arc<Directory>),
    /// A name in a directory: its entry, or the hash and number that a new entry would get.
    Entry(Arc<Directory>, Name, Result<Box<Found>, (u64, u8)>),
}

enum PathPart {
    Name(Name),
    Up,
}

/// Splits a path or the target of a symbolic link into its parts.
fn parts(bytes: &[u8]) -> Result<VecDeque<PathPart>, FileError> {
    let mut parts = VecDeque::new();
    for part in bytes.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => parts.push_back(PathPart::Up),
            name => parts.push_back(PathPart::Name(Name::new(name)?)),
        }
    }
    Ok(parts)
}

impl<R: NameRows + ?Sized> Resolver<'_, R> {
    /// Returns the cached directory at a path.
    fn cached(&self, path: &[u8]) -> Option<Arc<Directory>> {
        if path.len() > PATH_BYTES_MAX {
            return None;
        }
        let local = self.local.get(path);
        local.or_else(|| self.cached.and_then(|cached| cached.get(path)))
    }

    /// Looks up a name; returns its entry, or the hash and number that a new entry would get.
    fn find(&self, directory: &Directory, name: &Name) -> Result<Result<Box<Found>, (u64, u8)>> {
        let hash = hash_of(name);
        if self.filters.is_some_and(|f| f.lacks(directory.id, hash)) {
            return Ok(Err((hash, 0)));
        }
        Ok(rows::find_hashed(self.rows, directory.id, name, hash)?.map(Box::new))
    }

    fn epoch(&self) -> Option<u64> {
        self.epoch.or_else(|| self.cached.map(Directories::epoch))
    }

    fn root(&self) -> Result<Arc<Directory>> {
        if let Some(root) = self.cached(b"/") {
            return Ok(root);
        }
        let epoch = self.epoch();
        let root = Arc::new(Directory::root(rows::root_inode(self.rows)?));
        self.keep(&root, epoch);
        Ok(root)
    }

    fn keep(&self, directory: &Arc<Directory>, epoch: Option<u64>) {
        match (self.cached, epoch) {
            (Some(cached), Some(epoch)) => cached.keep(directory, epoch),
            _ => self.local.keep(directory),
        }
    }

    /// Resolves a path. With `follow`, a symbolic link at its end is followed.
    pub(crate) fn reach(&self, path: &NamePath, follow: bool) -> Result<Reached> {
        let Some((parent, name)) = path.split() else {
            if path.is_handle() {
                // An open file may have several names, or none: see [`Resolver::held`].
                return Err(Errno::Invalid.at(path).into());
            }
            return Ok(Reached::Directory(self.root()?));
        };
        let refused = |e: Error| match e {
            Error::File(e) => Error::File(e.errno.at(path)),
            e => e,
        };
        if let Some(directory) = self.cached(parent) {
            directory
                .demand_search(self.principal)
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
                PathPart::Up => {
                    directory.demand_search(self.principal)?;
                    directory = directory.parent.clone().unwrap_or(directory);
                    continue;
                }
                PathPart::Name(name) => name,
            };
            directory.demand_search(self.principal)?;
            let last = left.is_empty();
            if !last
                && directory.short_path().is_some()
                && let Some(next) = self.cached(&directory.path_of(&name))
            {
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
                DentryInode::Inline(inode) if inode.is_directory() => {
                    directory = Arc::new(directory.child(&name, inode));
                    self.keep(&directory, epoch);
                }
                _ => return Err(Errno::NotDirectory.at(path).into()),
            }
        }
        Ok(Reached::Directory(directory))
    }

    /// Returns the directory at a path; symbolic links are followed.
    pub(crate) fn directory(&self, path: &NamePath) -> Result<Arc<Directory>> {
        if let Some(directory) = self.cached(path.as_bytes()) {
            if let Some(parent) = &directory.parent {
                // The error names the requested path, as for one that does not exist.
                let searched = parent.demand_search(self.principal);
                searched.map_err(|e| e.errno.at(path))?;
            }
            return Ok(directory);
        }
        if let Some(handle) = path.handle() {
            return self.open_directory(&handle, path);
        }
        let epoch = self.epoch();
        match self.reach(path, true)? {
            Reached::Directory(directory) => Ok(directory),
            Reached::Entry(parent, name, Ok(found)) => match found.dentry.inode {
                DentryInode::Inline(inode) if inode.is_directory() => {
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

/// Returns the present inode of a directory; the cache is accurate in permissions only.
pub(super) fn present(
    rows: &(impl NameRows + ?Sized),
    directory: &Arc<Directory>,
) -> Result<Inode> {
    let Some(parent) = &directory.parent else {
        return rows::root_inode(rows);
    };
    let Some(name) = directory.name()? else {
        return Ok(directory.inode.clone());
    };
    match rows::find(rows, parent.id, &name)? {
        Ok(found) => rows::inode(rows, found.dentry),
        Err(_) => Ok(directory.inode.clone()),
    }
}
