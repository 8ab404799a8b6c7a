//! Changes of the namespace inside a commit: this module creates files; its sibling modules remove, rename and change them.

use super::NamesTxn;
use super::directory::{Directory, Naming};
use super::inode_view::nanos;
use super::resolve::{Reached, Resolver};
use super::rows::{self, Found};
use crate::txn::{Overlay, Txn};
use esker_model::namespace::record::{
    Dentry, DentryInode, InodeHistory, LocationRecord, child_key, dentry_key, inode_history_key,
    location_key, path_named_key, removed_entry_key,
};
use esker_model::namespace::{
    ACL_NAMES, AppliedChange, Change, Content, Errno, INLINE_BYTES_MAX, Inode, Kind, Name,
    NamePath, NewFile, PATH_BYTES_MAX, check_new_file, id_at, id_within, is_acl,
};
use esker_model::object::Principal;
use esker_model::{Error, Result, Version, VertexId};
use esker_store::Table;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Permission bits, and the setuid, setgid and sticky bits.
const MODE_BITS: u32 = 0o7777;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// An entry as a change finds it.
pub(super) struct NamedEntry {
    pub(super) parent: Arc<Directory>,
    pub(super) name: Name,
    pub(super) found: Box<Found>,
    pub(super) inode: Inode,
}

impl NamedEntry {
    /// Whether the inode's attributes are in its location record: it has, or had, several names.
    pub(super) fn linked(&self) -> bool {
        matches!(self.found.dentry.inode, DentryInode::Linked(_))
    }
}

impl Txn<'_, '_> {
    pub(super) fn change_name(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        change: &Change,
    ) -> Result<AppliedChange> {
        let id = match change {
            Change::Create(path, make) => self.make(names, principal, path, make)?,
            Change::Unlink(path) => self.unlink(names, principal, path)?,
            Change::Rmdir(path) => self.rmdir(names, principal, path)?,
            Change::Rename {
                from,
                to,
                no_replace,
            } => self.rename(names, principal, from, to, *no_replace)?,
            Change::Exchange { from, to } => self.exchange(names, principal, from, to)?,
            Change::Link { from, to } => self.link(names, principal, from, to)?,
            Change::Set { path, follow, set } => {
                self.set_inode(names, principal, (path, *follow), set)?
            }
            Change::Xattr {
                path,
                name,
                value,
                mode,
            } => self.set_xattr(names, principal, path, name, value.as_deref(), *mode)?,
            Change::Write { path, at, data } => {
                self.write_inode(names, principal, path, (*at, data))?
            }
            Change::Merge(subtree) => self.merge(names, principal, subtree)?,
        };
        Ok(AppliedChange {
            id,
            version: self.version,
        })
    }

    pub(super) fn now_nanos(&self) -> i64 {
        nanos(self.version)
    }

    pub(super) fn resolver<'w>(
        &'w self,
        names: &'w NamesTxn<'_>,
        principal: Option<&'w Principal>,
    ) -> Resolver<'w, Overlay<'w>> {
        Resolver {
            rows: &*self.overlay,
            principal,
            cached: names.cached_directories(),
            local: &names.local,
            filters: Some(&*names.filters),
            epoch: names.source.epoch(),
        }
    }

    pub(super) fn reach(
        &self,
        names: &NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
        follow: bool,
    ) -> Result<Reached> {
        self.resolver(names, principal).reach(path, follow)
    }

    /// Returns the entry at a path, which must not be the root.
    pub(super) fn named(
        &self,
        names: &NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
        follow: bool,
    ) -> Result<NamedEntry> {
        match self.reach(names, principal, path, follow)? {
            Reached::Directory(_) => Err(Errno::Busy.at(path).into()),
            Reached::Entry(parent, name, found) => self.existing_entry((parent, name, found), path),
        }
    }

    /// Whether the principal may remove an entry from a directory: write and search permission and, if its sticky bit is set,
    /// ownership of the directory or the entry (POSIX.1-2017, `unlink`).
    pub(super) fn demand_removal(
        parent: &Directory,
        inode: &Inode,
        principal: Option<&Principal>,
        path: &NamePath,
    ) -> Result<()> {
        parent.inode.demand(principal, 3, path.as_bytes())?;
        let sticky = parent.inode.mode & STICKY != 0;
        let owns = |uid: u32| principal.is_none_or(|a| a.uid == 0 || a.uid == i64::from(uid));
        if sticky && !owns(inode.uid) && !owns(parent.inode.uid) {
            return Err(Errno::NotPermitted.at(path).into());
        }
        Ok(())
    }

    pub(super) fn put_dentry(
        &mut self,
        names: &mut NamesTxn<'_>,
        parent: VertexId,
        (hash, n): (u64, u8),
        dentry: &Dentry,
    ) {
        names.filters.add(parent, hash);
        if !names.source.is_whole() {
            names.put.push((parent, hash));
        }
        self.scratch.clear();
        dentry.encode(&mut self.scratch);
        self.overlay
            .put(Table::Names, dentry_key(parent, hash, n), &self.scratch);
    }

    /// Removes an entry. The numbers of names with the same hash stay contiguous.
    pub(super) fn remove_dentry(&mut self, parent: VertexId, found: &Found) -> Result<()> {
        let mut last = found.n;
        let mut moved = None;
        while let Some(n) = last.checked_add(1) {
            let row = self
                .overlay
                .get(Table::Names, &dentry_key(parent, found.hash, n))?;
            let Some(row) = row else { break };
            (last, moved) = (n, Some(row));
        }
        if let Some(row) = moved {
            self.overlay
                .put(Table::Names, dentry_key(parent, found.hash, found.n), row);
        }
        self.overlay
            .remove(Table::Names, dentry_key(parent, found.hash, last));
        Ok(())
    }

    pub(super) fn put_location_record(&mut self, id: VertexId, place: &LocationRecord) {
        self.scratch.clear();
        place.encode(&mut self.scratch);
        self.overlay
            .put(Table::Names, location_key(id), &self.scratch);
    }

    /// Stores the previous state of an inode, unless this commit wrote that state itself. The location record of an inode
    /// with several names must still have all of them.
    pub(super) fn supersede(
        &mut self,
        directory: VertexId,
        name: &Name,
        inode: &Inode,
    ) -> Result<()> {
        if inode.version == self.version || inode.version == Version::ZERO {
            return Ok(());
        }
        let mut others = Vec::new();
        if inode.links > 1 && !inode.is_directory() {
            let place = rows::location_record(&*self.overlay, inode.id)?;
            others = place.map(|place| place.names).unwrap_or_default();
            others.retain(|(d, n)| *d != directory || n != name);
        }
        self.scratch.clear();
        let past = InodeHistory {
            directory,
            name: name.clone(),
            inode: inode.clone(),
            others,
        };
        past.encode(&mut self.scratch);
        self.overlay.put(
            Table::Names,
            inode_history_key(inode.id, inode.version),
            &self.scratch,
        );
        Ok(())
    }

    /// Records that an entry leaves a directory: from now on an id derived from a path in it may be taken.
    pub(super) fn record_departure(
        &mut self,
        names: &NamesTxn<'_>,
        directory: &Directory,
        hash: u64,
    ) -> Result<()> {
        if !names.source.is_whole() {
            // Another engine may have the directory's own row.
            self.overlay
                .put(Table::Names, removed_entry_key(directory.id, hash), []);
            return Ok(());
        }
        if directory.departed.load(Ordering::Acquire) {
            return Ok(());
        }
        let place = rows::location_record(&*self.overlay, directory.id)?.unwrap_or_default();
        if !place.departed {
            let place = LocationRecord {
                departed: true,
                ..place
            };
            self.put_location_record(directory.id, &place);
        }
        directory.departed.store(true, Ordering::Release);
        Ok(())
    }

    /// Decides how files in a directory get their ids: if another directory owns the path, within this one.
    pub(super) fn naming(&mut self, names: &NamesTxn<'_>, directory: &Directory) -> Result<Naming> {
        if let Some(naming) = directory.naming.get() {
            return Ok(*naming);
        }
        let Some(path) = directory.short_path() else {
            return Ok(Naming::Within);
        };
        let whole = names.source.is_whole();
        if whole && rows::location_record(&*self.overlay, directory.id)?.is_some_and(|p| p.departed)
        {
            directory.departed.store(true, Ordering::Release);
        }
        let key = path_named_key(id_at(Kind::Directory, path));
        let owner = self.overlay.get(Table::Names, &key)?;
        let owner = owner.map(|id| VertexId(id.as_slice().try_into().unwrap_or_default()));
        let naming = match owner {
            None => {
                self.overlay.put(Table::Names, key, directory.id.0);
                Naming::Path
            }
            Some(owner) if owner == directory.id => Naming::Path,
            // Each file that left a directory has a location record if all rows are here. So the path of a removed
            // directory can be taken over once all files have left it.
            Some(owner)
                if whole
                    && rows::location_record(&*self.overlay, owner)?.is_none_or(|p| p.deleted) =>
            {
                self.overlay.put(Table::Names, key, directory.id.0);
                self.record_departure(names, directory, 0)?;
                Naming::Path
            }
            Some(_) => Naming::Within,
        };
        // On one engine of several, a new owner of a path is known only once this is committed.
        if whole || !self.overlay.wrote(Table::Names, &key) {
            let _ = directory.naming.set(naming);
        }
        Ok(naming)
    }

    /// Whether an entry of that hash has left a directory of a distributed namespace.
    pub(super) fn has_left(&self, directory: VertexId, hash: u64) -> Result<bool> {
        self.overlay.get_with(
            Table::Names,
            &removed_entry_key(directory, hash),
            &mut |_| {},
        )
    }

    /// Returns the id of a new file.
    fn new_id(
        &mut self,
        names: &NamesTxn<'_>,
        kind: Kind,
        parent: &Directory,
        (name, hash): (&Name, u64),
    ) -> Result<VertexId> {
        let within = |version: Version| {
            // The number of the change distinguishes files made in one commit.
            id_within(
                kind,
                parent.id,
                name,
                version.0 ^ names.salt.rotate_left(48),
            )
        };
        if self.naming(names, parent)? == Naming::Within {
            return Ok(within(self.version));
        }
        let id = parent.id_at(kind, name, hash);
        if !names.source.is_whole() && self.has_left(parent.id, hash)? {
            return Ok(within(self.version));
        }
        let may_be_taken = kind == Kind::Directory || parent.departed.load(Ordering::Acquire);
        let taken = may_be_taken && rows::location_record(&*self.overlay, id)?.is_some();
        Ok(if taken { within(self.version) } else { id })
    }

    pub(super) fn make(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
        make: &NewFile,
    ) -> Result<VertexId> {
        let Some(kind) = Kind::of_mode(make.mode) else {
            return Err(Errno::Invalid
                .at(format!(
                    "{path}: mode {:o} does not say what kind of file it is",
                    make.mode
                ))
                .into());
        };
        let (parent, name, place) = match self.reach(names, principal, path, false)? {
            Reached::Directory(_) | Reached::Entry(_, _, Ok(_)) => {
                return Err(Errno::Exists.at(path).into());
            }
            Reached::Entry(parent, name, Err(place)) => (parent, name, place),
        };
        parent.inode.demand(principal, 3, path.as_bytes())?;
        let shown = || path.to_string();
        let size = check_content(kind, &make.content, &shown)?;
        // An explicit time means that the file existed elsewhere before: it keeps its group and its permissions, and its
        // directory does not change now.
        let existed = make.times[2].is_some();
        let inherits = parent.inode.mode & SETGID != 0;
        let is_inherited = inherits && (!existed || make.gid == parent.inode.gid);
        check_owner(principal, make, is_inherited, &shown)?;
        check_new_file(principal, kind, make, &shown)?;
        let now = self.now_nanos();
        let id = self.new_id(names, kind, &parent, (&name, place.0))?;
        let mut inode = new_inode(id, kind, make, size, (self.version, now));
        set_new_acls(&mut inode, &shown)?;
        if existed || make.xattrs.iter().any(|(name, _)| is_acl(name)) {
            inode.inherit(None, make.umask);
        } else {
            inode.inherit(parent.inode.default_acl().as_ref(), make.umask);
        }
        if inherits && !existed {
            inode.gid = parent.inode.gid;
            if kind == Kind::Directory {
                inode.mode |= SETGID;
            }
        }
        names.note_file(parent.id, &name, &inode, 1);
        if !existed {
            names.note_changed(parent.id, now);
        }
        if kind == Kind::Directory {
            names.filters.begin(id);
            self.put_location_record(id, &LocationRecord::at(parent.id, name.clone()));
            self.overlay
                .put(Table::Names, child_key(parent.id, id), name.as_bytes());
        }
        let dentry = Dentry {
            name,
            id,
            inode: DentryInode::Inline(inode),
        };
        self.put_dentry(names, parent.id, place, &dentry);
        Ok(id)
    }
}

/// Checks the access control lists that a new file gets from its creator, and sets its mode by them.
pub(super) fn set_new_acls(inode: &mut Inode, path: &dyn Fn() -> String) -> Result<()> {
    for name in ACL_NAMES {
        let found = inode.xattrs.iter().find(|(n, _)| n == name);
        if let Some(value) = found.map(|(_, value)| value.clone()) {
            inode.set_acl(name, Some(&value), true, path)?;
        }
    }
    Ok(())
}

/// Builds the inode of a new file; `size` is that of its content if the content determines it.
pub(super) fn new_inode(
    id: VertexId,
    kind: Kind,
    make: &NewFile,
    size: Option<u64>,
    (version, now): (Version, i64),
) -> Inode {
    let [atime, mtime, ctime, btime] = make.times.map(|t| t.unwrap_or(now));
    Inode {
        id,
        version,
        mode: kind.bits() | make.mode & MODE_BITS,
        uid: make.uid,
        gid: make.gid,
        links: if kind == Kind::Directory { 2 } else { 1 },
        size: size.unwrap_or(make.size),
        blocks: make.blocks,
        rdev: make.rdev,
        atime,
        mtime,
        ctime,
        btime,
        content: make.content.clone(),
        xattrs: make.xattrs.clone(),
        tracked: false,
    }
}

/// Refuses content that a file of that kind cannot have; returns the size of the content, if it has any.
pub(super) fn check_content(
    kind: Kind,
    content: &Content,
    path: &dyn Fn() -> String,
) -> Result<Option<u64>, Error> {
    match (kind, content) {
        (Kind::Symlink, Content::Symlink(target)) if target.is_empty() => {
            Err(Errno::NotFound.at(path()).into())
        }
        (Kind::Symlink, Content::Symlink(target))
            if target.len() >= PATH_BYTES_MAX || target.contains(&0) =>
        {
            Err(Errno::NameTooLong.at(path()).into())
        }
        (Kind::Symlink, Content::Symlink(target)) => Ok(Some(target.len() as u64)),
        (Kind::File, Content::Inline(data)) if data.len() > INLINE_BYTES_MAX => {
            Err(Errno::TooBig.at(path()).into())
        }
        (Kind::File, Content::Inline(data)) => Ok(Some(data.len() as u64)),
        (Kind::File, Content::Object(_) | Content::None) => Ok(None),
        (Kind::Symlink, _) | (_, Content::Symlink(_) | Content::Inline(_) | Content::Object(_)) => {
            Err(Errno::Invalid
                .at(format!(
                    "{}: a {} does not have such content",
                    path(),
                    kind.name()
                ))
                .into())
        }
        (_, Content::None) => Ok(None),
    }
}

/// Checks the owner of a new file: the principal; its group must be one of the principal's, or the directory's if inherited.
pub(super) fn check_owner(
    principal: Option<&Principal>,
    make: &NewFile,
    inherited: bool,
    path: &dyn Fn() -> String,
) -> Result<()> {
    if let Some(principal) = principal
        && principal.uid != 0
        && (i64::from(make.uid) != principal.uid
            || !inherited && !principal.gids.contains(&i64::from(make.gid)))
    {
        return Err(Errno::NotPermitted.at(path()).into());
    }
    Ok(())
}
