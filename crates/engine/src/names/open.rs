//! Open files: from what stands for one to its rows, wherever it is now and if it has no name any more.
//!
//! A handle says where the file was when it was opened. If the entry there is still its own, that is it: two ids are compared. If
//! not, it was moved or removed, and then it has whereabouts. A file that is gone is what they say it was last: whoever has it
//! open changes that, and nothing else.

use super::directory::Directory;
use super::read::present;
use super::resolve::{Reached, Way};
use super::rows::{self, Found, Rows, corrupt};
use esker_model::namespace::record::{DentryInode, Past, past_prefix};
use esker_model::namespace::{
    Content, Errno, Handle, Inode, Kind, Looked, Name, NamePath, Open, SEAL_BYTES, root,
};
use esker_model::object::Asker;
use esker_model::{Error, Result, VertexId};
use std::sync::Arc;

const READ: u32 = 4;
const WRITE: u32 = 2;
/// How often a file is looked for that moves meanwhile.
const TRIES: u32 = 64;
/// What is said of one that was not found: whoever reads rows of several moments looks again.
const MOVES: &str = "an open file was moved while it was looked for; try again";

/// Where an open file is.
pub(super) enum Held {
    /// It is the root directory.
    Root,
    /// The entry of that name in a directory.
    Named(VertexId, Name, Box<Found>),
    /// Nowhere: it was removed, and this is what it was last.
    Gone(Box<Inode>),
}

/// Whether a search ended because the file was moved meanwhile.
pub(super) fn moves(e: &Error) -> bool {
    matches!(e, Error::Unavailable(text) if text == MOVES)
}

/// Whether a file's content may be read: its handle says so, or its mode.
pub(super) fn readable(inode: &Inode, asker: Option<&Asker>, path: &NamePath) -> bool {
    let granted = path.handle().map(|h| h.read);
    granted.unwrap_or_else(|| inode.allows(asker, READ))
}

/// Refuses to change content where the handle does not let, or the mode.
pub(super) fn demand_write(inode: &Inode, asker: Option<&Asker>, path: &NamePath) -> Result<()> {
    match path.handle() {
        Some(handle) if handle.write => Ok(()),
        Some(_) => Err(Errno::BadHandle.at(path).into()),
        None => Ok(inode.demand(asker, WRITE, path.as_bytes())?),
    }
}

impl<R: Rows + ?Sized> Way<'_, R> {
    /// Where an open file is now.
    pub(super) fn held(&self, handle: &Handle) -> Result<Held> {
        if handle.id == root() {
            return Ok(Held::Root);
        }
        let entry = |directory, name: &Name| -> Result<Option<Held>> {
            let found = rows::find(self.rows, directory, name)?;
            let found = found.ok().filter(|f| is_it(handle, f));
            Ok(found.map(|f| Held::Named(directory, name.clone(), Box::new(f))))
        };
        for _ in 0..TRIES {
            if let Some(held) = entry(handle.directory, &handle.name)? {
                return Ok(held);
            }
            let place = rows::whereabouts(self.rows, handle.id)?;
            let Some(place) = place.filter(|p| p.gone || !p.names.is_empty()) else {
                return self.forgotten(handle);
            };
            if place.gone {
                let inode = place.inode.filter(|i| is_of_then(handle, i));
                let inode = inode.ok_or_else(|| stale(handle))?;
                return Ok(Held::Gone(Box::new(inode)));
            }
            for (directory, name) in &place.names {
                if let Some(held) = entry(*directory, name)? {
                    return Ok(held);
                }
            }
        }
        Err(Error::Unavailable(MOVES.into()))
    }

    /// A file of which no row says where it is: on a cluster nothing is written of many that are removed, but what they were.
    fn forgotten(&self, handle: &Handle) -> Result<Held> {
        let mut last = None;
        self.rows.row(&past_prefix(handle.id), &mut |row| {
            last = Some(Past::decode(handle.id, row).map_err(corrupt));
        })?;
        let last = last.transpose()?.map(|past| past.inode);
        let inode = last.filter(|i| is_of_then(handle, i));
        let inode = inode.ok_or_else(|| stale(handle))?;
        Ok(Held::Gone(Box::new(Inode { links: 0, ..inode })))
    }

    /// What an open file is, and whether it has a name.
    pub(super) fn held_inode(&self, handle: &Handle) -> Result<(Inode, bool)> {
        Ok(match self.held(handle)? {
            Held::Root => (rows::root_inode(self.rows)?, true),
            Held::Named(_, _, found) => (rows::inode(self.rows, found.dentry)?, true),
            Held::Gone(inode) => (*inode, false),
        })
    }

    /// An open directory. One that is gone has no entries, and gets none.
    pub(super) fn held_directory(
        &self,
        handle: &Handle,
        path: &NamePath,
    ) -> Result<Arc<Directory>> {
        let inode = match self.held(handle)? {
            Held::Root => rows::root_inode(self.rows)?,
            Held::Named(_, _, found) => match found.dentry.inode {
                DentryInode::Here(inode) => inode,
                DentryInode::Elsewhere(_) => return Err(Errno::NotDirectory.at(path).into()),
            },
            Held::Gone(inode) if inode.is_directory() => {
                return Err(Errno::NotFound.at(path).into());
            }
            Held::Gone(inode) => *inode,
        };
        if !inode.is_directory() {
            return Err(Errno::NotDirectory.at(path).into());
        }
        Ok(Arc::new(Directory::detached(inode)))
    }
}

/// Whether an entry is that of the open file.
fn is_it(handle: &Handle, found: &Found) -> bool {
    let then = match &found.dentry.inode {
        DentryInode::Here(inode) => is_of_then(handle, inode),
        DentryInode::Elsewhere(_) => true,
    };
    then && found.dentry.id == handle.id
}

/// Once nothing is known any more of a file that was removed, another may get its id: it was made later.
fn is_of_then(handle: &Handle, inode: &Inode) -> bool {
    handle.born == 0 || inode.btime == handle.born
}

fn stale(handle: &Handle) -> Error {
    Errno::Stale.at(handle.path()).into()
}

/// What is found where someone opens a path: as Linux does it (`do_open`, `may_open`), also as to what is refused first.
pub(super) fn look<R: Rows>(way: &Way<'_, R>, path: &NamePath, how: Open) -> Result<Looked> {
    how.check(path)?;
    if let Some(handle) = path.handle() {
        return again(way, path, &handle, how);
    }
    let (directory, name, inode) = match way.reach(path, how.follows())? {
        Reached::Directory(directory) => {
            let inode = present(way.rows, &directory)?;
            let above = directory.parent.as_ref().map(|p| p.id);
            let name = match NamePath::parse(&directory.path)?.split() {
                Some((_, name)) => name,
                None => rows::root_name()?,
            };
            (above.unwrap_or_default(), name, inode)
        }
        Reached::Entry(directory, name, Err(_)) if how.create => {
            let path = NamePath::parse(&directory.path_of(&name))?;
            let directory = directory.id;
            return Ok(Looked::Missing { directory, path });
        }
        Reached::Entry(_, _, Err(_)) => return Err(Errno::NotFound.at(path).into()),
        Reached::Entry(directory, name, Ok(found)) => {
            (directory.id, name, rows::inode(way.rows, found.dentry)?)
        }
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
    inode.demand(way.asker, needs, path.as_bytes())?;
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
    Ok(found(way, &handle, inode))
}

/// A file that is known by its id, opened by whoever owns it: they could change its mode. So who has just made it opens it, whatever
/// its mode says and wherever it is by now.
fn again<R: Rows>(way: &Way<'_, R>, path: &NamePath, handle: &Handle, how: Open) -> Result<Looked> {
    let (inode, _) = way.held_inode(handle)?;
    let owner = way
        .asker
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
    Ok(found(way, &handle, inode))
}

fn found<R>(way: &Way<'_, R>, handle: &Handle, inode: Inode) -> Looked {
    let path = handle.path();
    let inode = super::read::hidden(way.asker, &path, inode);
    Looked::Found(path, Box::new(inode))
}

/// Content that bytes can be written into; what there is of it.
pub(super) fn written(inode: &mut Inode, path: &NamePath) -> Result<Vec<u8>> {
    match std::mem::take(&mut inode.content) {
        Content::Inline(data) => Ok(data),
        Content::None if inode.size == 0 => Ok(Vec::new()),
        content => Err(esker_model::namespace::elsewhere(path, &content).into()),
    }
}
