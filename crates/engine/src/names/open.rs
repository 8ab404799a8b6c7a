//! Open files: from a handle to the file's rows, wherever the file is now and even if it has no name any more.
//!
//! A handle contains the file's location at the time of opening. If the entry there still has the file's id, no more is needed.
//! Otherwise the file was moved or removed, and then it has a location record. For a removed file the record has its last state;
//! processes that have the file open change that record only.

use super::directory::Directory;
use super::inode_view::hide_unreadable;
use super::resolve::{Reached, Resolver, present};
use super::rows::{self, Found, NameRows, corrupt};
use esker_model::namespace::record::{DentryInode, InodeHistory, inode_history_prefix};
use esker_model::namespace::{
    Content, Errno, Handle, Inode, Kind, Name, NamePath, Open, OpenLookup, SEAL_BYTES, root,
};
use esker_model::object::Principal;
use esker_model::{Error, Result, VertexId};
use std::sync::Arc;

const READ: u32 = 4;
const WRITE: u32 = 2;
/// Maximum number of attempts to find a file that is being moved.
const TRIES: u32 = 64;

/// Location of an open file.
pub(super) enum OpenLocation {
    /// The root directory itself.
    Root,
    /// The entry of that name in a directory.
    Entry(VertexId, Name, Box<Found>),
    /// The file was removed; this is its last state.
    Gone(Box<Inode>),
}

/// Refuses to change content unless the handle, or else the mode, allows it.
pub(super) fn demand_write(
    inode: &Inode,
    principal: Option<&Principal>,
    path: &NamePath,
) -> Result<()> {
    match path.handle() {
        Some(handle) if handle.write => Ok(()),
        Some(_) => Err(Errno::BadHandle.at(path).into()),
        None => Ok(inode.demand(principal, WRITE, path.as_bytes())?),
    }
}

impl<R: NameRows + ?Sized> Resolver<'_, R> {
    /// Finds the present location of an open file.
    pub(super) fn locate_open(&self, handle: &Handle) -> Result<OpenLocation> {
        if handle.id == root() {
            return Ok(OpenLocation::Root);
        }
        let entry = |directory, name: &Name| -> Result<Option<OpenLocation>> {
            let found = rows::find(self.rows, directory, name)?;
            let found = found.ok().filter(|f| is_open_file(handle, f));
            Ok(found.map(|f| OpenLocation::Entry(directory, name.clone(), Box::new(f))))
        };
        for _ in 0..TRIES {
            if let Some(location) = entry(handle.directory, &handle.name)? {
                return Ok(location);
            }
            let place = rows::location_record(self.rows, handle.id)?;
            let Some(place) = place.filter(|p| p.deleted || !p.names.is_empty()) else {
                return self.last_state(handle);
            };
            if place.deleted {
                let inode = place.inode.filter(|i| has_birth_time_of(handle, i));
                let inode = inode.ok_or_else(|| stale(handle))?;
                return Ok(OpenLocation::Gone(Box::new(inode)));
            }
            for (directory, name) in &place.names {
                if let Some(location) = entry(*directory, name)? {
                    return Ok(location);
                }
            }
        }
        let moves = "an open file was moved while it was looked for; try again";
        Err(self.rows.torn(Error::Unavailable(moves.into())))
    }

    /// Returns the last state of a file without a location record: on a cluster, removal of many files writes only their past states.
    fn last_state(&self, handle: &Handle) -> Result<OpenLocation> {
        let mut last = None;
        self.rows
            .row(&inode_history_prefix(handle.id), &mut |row| {
                last = Some(InodeHistory::decode(handle.id, row).map_err(corrupt));
            })?;
        let last = last.transpose()?.map(|past| past.inode);
        let inode = last.filter(|i| has_birth_time_of(handle, i));
        let inode = inode.ok_or_else(|| stale(handle))?;
        Ok(OpenLocation::Gone(Box::new(Inode { links: 0, ..inode })))
    }

    /// Returns the inode of an open file, and whether the file has a name.
    pub(super) fn open_inode(&self, handle: &Handle) -> Result<(Inode, bool)> {
        Ok(match self.locate_open(handle)? {
            OpenLocation::Root => (rows::root_inode(self.rows)?, true),
            OpenLocation::Entry(_, _, found) => (rows::inode(self.rows, found.dentry)?, true),
            OpenLocation::Gone(inode) => (*inode, false),
        })
    }

    /// Returns an open directory. A removed one has no entries, and gets none.
    pub(super) fn open_directory(
        &self,
        handle: &Handle,
        path: &NamePath,
    ) -> Result<Arc<Directory>> {
        let inode = match self.locate_open(handle)? {
            OpenLocation::Root => rows::root_inode(self.rows)?,
            OpenLocation::Entry(_, _, found) => match found.dentry.inode {
                DentryInode::Inline(inode) => inode,
                DentryInode::Linked(_) => return Err(Errno::NotDirectory.at(path).into()),
            },
            OpenLocation::Gone(inode) if inode.is_directory() => {
                return Err(Errno::NotFound.at(path).into());
            }
            OpenLocation::Gone(inode) => *inode,
        };
        if !inode.is_directory() {
            return Err(Errno::NotDirectory.at(path).into());
        }
        Ok(Arc::new(Directory::detached(inode)))
    }
}

/// Whether an entry is that of the open file.
fn is_open_file(handle: &Handle, found: &Found) -> bool {
    let then = match &found.dentry.inode {
        DentryInode::Inline(inode) => has_birth_time_of(handle, inode),
        DentryInode::Linked(_) => true,
    };
    then && found.dentry.id == handle.id
}

/// Whether an inode is that of the open file. After a removed file is forgotten, a later file may get its id.
fn has_birth_time_of(handle: &Handle, inode: &Inode) -> bool {
    handle.born == 0 || inode.btime == handle.born
}

fn stale(handle: &Handle) -> Error {
    Errno::Stale.at(handle.path()).into()
}

/// Opens a path with the checks of Linux (`do_open`, `may_open`), in the same order.
pub(super) fn look<R: NameRows + ?Sized>(
    resolver: &Resolver<'_, R>,
    path: &NamePath,
    how: Open,
) -> Result<OpenLookup> {
    how.check(path)?;
    if let Some(handle) = path.handle() {
        return reopen(resolver, path, &handle, how);
    }
    let (directory, name, inode) = match resolver.reach(path, how.follows())? {
        Reached::Directory(directory) => {
            let inode = present(resolver.rows, &directory)?;
            let above = directory.parent.as_ref().map(|p| p.id);
            let name = match directory.name()? {
                Some(name) => name,
                None => rows::root_name()?,
            };
            (above.unwrap_or_default(), name, inode)
        }
        Reached::Entry(directory, name, Err(_)) if how.create => {
            let path = NamePath::parse_deep(&directory.path_of(&name))?;
            let directory = directory.id;
            return Ok(OpenLookup::Missing { directory, path });
        }
        Reached::Entry(_, _, Err(_)) => return Err(Errno::NotFound.at(path).into()),
        Reached::Entry(directory, name, Ok(found)) => (
            directory.id,
            name,
            rows::inode(resolver.rows, found.dentry)?,
        ),
    };
    let kind = inode.kind();
    let writes = how.write || how.truncate;
    if how.create && how.exclusive {
        return Err(Errno::Exists.at(path).into());
    }
    if how.directory && kind != Kind::Directory {
        return Err(Errno::NotDirectory.at(path).into());
    }
    if kind == Kind::Symlink {
        return Err(Errno::Loop.at(path).into());
    }
    if kind == Kind::Directory && (how.create || writes) {
        return Err(Errno::IsDirectory.at(path).into());
    }
    let needs = if how.read { READ } else { 0 } | if writes { WRITE } else { 0 };
    inode.demand(resolver.principal, needs, path.as_bytes())?;
    if !matches!(kind, Kind::File | Kind::Directory) {
        return Err(Errno::NoDevice.at(path).into());
    }
    let handle = Handle {
        id: inode.id,
        directory,
        name,
        born: inode.btime,
        read: how.read,
        write: how.write,
        seal: [0; SEAL_BYTES],
    };
    Ok(found(resolver, &handle, inode))
}

/// Opens a file by its id on behalf of the owner, who could change its mode anyway. So the creator of a file can open it,
/// regardless of its mode and its present location.
fn reopen<R: NameRows + ?Sized>(
    resolver: &Resolver<'_, R>,
    path: &NamePath,
    handle: &Handle,
    how: Open,
) -> Result<OpenLookup> {
    let (inode, _) = resolver.open_inode(handle)?;
    let owner = resolver
        .principal
        .is_none_or(|a| a.uid == 0 || a.uid == i64::from(inode.uid));
    if how.create || how.truncate {
        return Err(Errno::Invalid.at(path).into());
    }
    if inode.is_directory() && how.write {
        return Err(Errno::IsDirectory.at(path).into());
    }
    if !owner {
        return Err(Errno::Access.at(path).into());
    }
    let handle = Handle {
        born: inode.btime,
        read: how.read,
        write: how.write,
        seal: [0; SEAL_BYTES],
        ..handle.clone()
    };
    Ok(found(resolver, &handle, inode))
}

fn found<R: ?Sized>(resolver: &Resolver<'_, R>, handle: &Handle, inode: Inode) -> OpenLookup {
    let path = handle.path();
    let inode = hide_unreadable(resolver.principal, &path, inode);
    OpenLookup::Found(path, Box::new(inode))
}

/// Takes the inline content of a file that bytes can be written into.
pub(super) fn written(inode: &mut Inode, path: &NamePath) -> Result<Vec<u8>> {
    match std::mem::take(&mut inode.content) {
        Content::Inline(data) => Ok(data),
        Content::None if inode.size == 0 => Ok(Vec::new()),
        content => Err(esker_model::namespace::external_content_error(path, &content).into()),
    }
}
