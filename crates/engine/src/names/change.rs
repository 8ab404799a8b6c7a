//! Changes of the namespace inside a commit: files are made here; the neighbours remove, rename and change them.

use super::NamesTxn;
use super::apart::Apart;
use super::directory::{Directory, Naming};
use super::resolve::{Reached, Way};
use super::rows::{self, Found};
use crate::txn::{Overlay, Txn};
use esker_model::namespace::record::{
    Dentry, DentryInode, Past, Whereabouts, child_key, claim_key, dentry_key, left_key, past_key,
    whereabouts_key,
};
use esker_model::namespace::{
    Change, Content, Done, Errno, INLINE_BYTES_MAX, Inode, Kind, Make, Name, NamePath,
    PATH_BYTES_MAX, check_made, id_at, id_within,
};
use esker_model::object::Asker;
use esker_model::{Error, Result, Version, VertexId};
use esker_store::Table;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Permission bits and the three above them.
const MODE_BITS: u32 = 0o7777;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// Something with a name, as a change finds it.
pub(super) struct Named {
    pub(super) parent: Arc<Directory>,
    pub(super) name: Name,
    pub(super) found: Box<Found>,
    pub(super) inode: Inode,
}

impl Named {
    /// Whether the inode's attributes lie in its place: it has, or had, several names.
    pub(super) fn linked(&self) -> bool {
        matches!(self.found.dentry.inode, DentryInode::Elsewhere(_))
    }
}

/// A version's time, in nanoseconds since 1970: no two are the same.
pub(super) fn nanos(version: Version) -> i64 {
    let millis = version.millis().cast_signed();
    let logical = i64::from((version.0 & 0xFFFF) as u16);
    millis.saturating_mul(1_000_000).saturating_add(logical)
}

impl Txn<'_, '_> {
    pub(super) fn change_name(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        change: &Change,
    ) -> Result<Done> {
        let id = match change {
            Change::Make(path, make) => self.make(names, asker, path, make)?,
            Change::Unlink(path) => self.unlink(names, asker, path)?,
            Change::Rmdir(path) => self.rmdir(names, asker, path)?,
            Change::Rename {
                from,
                to,
                no_replace,
            } => self.rename(names, asker, from, to, *no_replace)?,
            Change::Link { from, to } => self.link(names, asker, from, to)?,
            Change::Set { path, follow, set } => {
                self.set_inode(names, asker, (path, *follow), set)?
            }
            Change::Xattr {
                path,
                name,
                value,
                mode,
            } => self.set_xattr(names, asker, path, name, value.as_deref(), *mode)?,
            Change::Write { path, at, data } => {
                self.write_inode(names, asker, path, (*at, data))?
            }
            Change::Merge(subtree) => self.merge(names, asker, subtree)?,
        };
        Ok(Done {
            id,
            version: self.version,
        })
    }

    pub(super) fn now_nanos(&self) -> i64 {
        nanos(self.version)
    }

    pub(super) fn way<'w>(
        &'w self,
        names: &'w NamesTxn<'_>,
        asker: Option<&'w Asker>,
    ) -> Way<'w, Overlay<'w>> {
        Way {
            rows: &*self.overlay,
            asker,
            known: names.known(),
            local: &names.local,
            filters: Some(&*names.filters),
            epoch: names.apart.and_then(Apart::epoch),
        }
    }

    pub(super) fn reach(
        &self,
        names: &NamesTxn<'_>,
        asker: Option<&Asker>,
        path: &NamePath,
        follow: bool,
    ) -> Result<Reached> {
        self.way(names, asker).reach(path, follow)
    }

    /// What is at a path, which is not the root.
    pub(super) fn named(
        &self,
        names: &NamesTxn<'_>,
        asker: Option<&Asker>,
        path: &NamePath,
        follow: bool,
    ) -> Result<Named> {
        match self.reach(names, asker, path, follow)? {
            Reached::Directory(_) => Err(Errno::Busy.at(path).into()),
            Reached::Entry(_, _, Err(_)) => Err(Errno::NotFound.at(path).into()),
            Reached::Entry(parent, name, Ok(found)) => {
                let inode = rows::inode(&*self.overlay, found.dentry.clone())?;
                Ok(Named {
                    parent,
                    name,
                    found,
                    inode,
                })
            }
        }
    }

    /// Whether someone may take an entry out of a directory: they may write and search it and, where its sticky bit is set,
    /// own it or the entry (POSIX.1-2017, `unlink`).
    pub(super) fn demand_removal(
        parent: &Directory,
        inode: &Inode,
        asker: Option<&Asker>,
        path: &NamePath,
    ) -> Result<()> {
        parent.inode.demand(asker, 3, path.as_bytes())?;
        let sticky = parent.inode.mode & STICKY != 0;
        let owns = |uid: u32| asker.is_none_or(|a| a.uid == 0 || a.uid == i64::from(uid));
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
        if let Some(apart) = names.apart {
            apart.note_put(parent, hash);
        }
        self.scratch.clear();
        dentry.encode(&mut self.scratch);
        self.overlay
            .put(Table::Names, dentry_key(parent, hash, n), &self.scratch);
    }

    /// Takes an entry out. Names of the same hash stay without gaps.
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

    pub(super) fn put_whereabouts(&mut self, id: VertexId, place: &Whereabouts) {
        self.scratch.clear();
        place.encode(&mut self.scratch);
        self.overlay
            .put(Table::Names, whereabouts_key(id), &self.scratch);
    }

    /// Keeps what an inode was, unless this very commit made it so.
    pub(super) fn supersede(&mut self, directory: VertexId, name: &Name, inode: &Inode) {
        if inode.version == self.version || inode.version == Version::ZERO {
            return;
        }
        self.scratch.clear();
        let past = Past {
            directory,
            name: name.clone(),
            inode: inode.clone(),
        };
        past.encode(&mut self.scratch);
        self.overlay.put(
            Table::Names,
            past_key(inode.id, inode.version),
            &self.scratch,
        );
    }

    /// Something leaves a directory: from now on an id made from a path in it may be taken.
    pub(super) fn depart(
        &mut self,
        names: &NamesTxn<'_>,
        directory: &Directory,
        hash: u64,
    ) -> Result<()> {
        if names.apart.is_some() {
            // The directory's own row is elsewhere.
            self.overlay
                .put(Table::Names, left_key(directory.id, hash), []);
            return Ok(());
        }
        if directory.departed.load(Ordering::Acquire) {
            return Ok(());
        }
        let place = rows::whereabouts(&*self.overlay, directory.id)?.unwrap_or_default();
        if !place.departed {
            let place = Whereabouts {
                departed: true,
                ..place
            };
            self.put_whereabouts(directory.id, &place);
        }
        directory.departed.store(true, Ordering::Release);
        Ok(())
    }

    /// How files in a directory get their ids.
    pub(super) fn naming(&mut self, names: &NamesTxn<'_>, directory: &Directory) -> Result<Naming> {
        if let Some(naming) = directory.naming.get() {
            return Ok(*naming);
        }
        if names.apart.is_some() {
            return self.naming_apart(directory);
        }
        let place = rows::whereabouts(&*self.overlay, directory.id)?;
        if place.is_some_and(|p| p.departed) {
            directory.departed.store(true, Ordering::Release);
        }
        let key = claim_key(id_at(Kind::Directory, &directory.path));
        let mut owner = None;
        self.overlay
            .get_with(Table::Names, &key, &mut |row| owner = Some(row.to_vec()))?;
        let naming = match owner {
            Some(owner) if owner == directory.id.0 => Naming::Path,
            Some(owner) => {
                let owner = VertexId(owner.as_slice().try_into().unwrap_or_default());
                let gone = rows::whereabouts(&*self.overlay, owner)?.is_none_or(|p| p.gone);
                if gone {
                    // All that was in it has left it, and each such file has a place.
                    self.overlay.put(Table::Names, key, directory.id.0);
                    self.depart(names, directory, 0)?;
                    Naming::Path
                } else {
                    Naming::Within
                }
            }
            None => {
                self.overlay.put(Table::Names, key, directory.id.0);
                Naming::Path
            }
        };
        let _ = directory.naming.set(naming);
        Ok(naming)
    }

    /// The same where a directory's rows are spread: who finds its path claimed names files within itself.
    fn naming_apart(&mut self, directory: &Directory) -> Result<Naming> {
        let key = claim_key(id_at(Kind::Directory, &directory.path));
        let mut owner = None;
        self.overlay
            .get_with(Table::Names, &key, &mut |row| owner = Some(row.to_vec()))?;
        let Some(owner) = owner else {
            // It counts once it is committed.
            self.overlay.put(Table::Names, key, directory.id.0);
            return Ok(Naming::Path);
        };
        let naming = if owner == directory.id.0 {
            Naming::Path
        } else {
            Naming::Within
        };
        if !self.overlay.wrote(Table::Names, &key) {
            let _ = directory.naming.set(naming);
        }
        Ok(naming)
    }

    /// Whether an entry of that hash has left a directory, where rows are spread.
    pub(super) fn has_left(&self, directory: VertexId, hash: u64) -> Result<bool> {
        self.overlay
            .get_with(Table::Names, &left_key(directory, hash), &mut |_| {})
    }

    /// The id of a file that is made.
    fn new_id(
        &mut self,
        names: &NamesTxn<'_>,
        kind: Kind,
        parent: &Directory,
        (name, hash): (&Name, u64),
    ) -> Result<VertexId> {
        let within = |version: Version| {
            // Of what one commit makes, the number of the change tells.
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
        if names.apart.is_some() && self.has_left(parent.id, hash)? {
            return Ok(within(self.version));
        }
        let may_be_taken = kind == Kind::Directory || parent.departed.load(Ordering::Acquire);
        let taken = may_be_taken && rows::whereabouts(&*self.overlay, id)?.is_some();
        Ok(if taken { within(self.version) } else { id })
    }

    pub(super) fn make(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        path: &NamePath,
        make: &Make,
    ) -> Result<VertexId> {
        let Some(kind) = Kind::of_mode(make.mode) else {
            return Err(Errno::Invalid
                .at(format!("{path}: mode {:o} says no kind of file", make.mode))
                .into());
        };
        let (parent, name, place) = match self.reach(names, asker, path, false)? {
            Reached::Directory(_) | Reached::Entry(_, _, Ok(_)) => {
                return Err(Errno::Exists.at(path).into());
            }
            Reached::Entry(parent, name, Err(place)) => (parent, name, place),
        };
        parent.inode.demand(asker, 3, path.as_bytes())?;
        let shown = || path.to_string();
        let size = check_content(kind, &make.content, &shown)?;
        let inherits = parent.inode.mode & SETGID != 0;
        check_owner(asker, make, inherits, &shown)?;
        check_made(asker, kind, make, &shown)?;
        let now = self.now_nanos();
        let id = self.new_id(names, kind, &parent, (&name, place.0))?;
        let mut inode = new_inode(id, kind, make, size, (self.version, now));
        if inherits {
            inode.gid = parent.inode.gid;
            if kind == Kind::Directory {
                inode.mode |= SETGID;
            }
        }
        names.note_file(parent.id, &name, &inode, 1);
        if make.times[2].is_none() {
            // Else it has been there before, elsewhere: nothing changes now.
            names.note_changed(parent.id, now);
        }
        if kind == Kind::Directory {
            names.filters.begin(id);
            self.put_whereabouts(id, &Whereabouts::at(parent.id, name.clone()));
            self.overlay
                .put(Table::Names, child_key(parent.id, id), name.as_bytes());
        }
        let dentry = Dentry {
            name,
            id,
            inode: DentryInode::Here(inode),
        };
        self.put_dentry(names, parent.id, place, &dentry);
        Ok(id)
    }
}

/// What a new file is, with the size of its content if that says it.
pub(super) fn new_inode(
    id: VertexId,
    kind: Kind,
    make: &Make,
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

/// Refuses content that a file of that kind does not have; its size, if it has any.
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

/// Who owns what someone makes: they themselves; its group is one of theirs, or the directory's where it is inherited.
pub(super) fn check_owner(
    asker: Option<&Asker>,
    make: &Make,
    inherited: bool,
    path: &dyn Fn() -> String,
) -> Result<()> {
    if let Some(asker) = asker
        && asker.uid != 0
        && (i64::from(make.uid) != asker.uid
            || !inherited && !asker.gids.contains(&i64::from(make.gid)))
    {
        return Err(Errno::NotPermitted.at(path()).into());
    }
    Ok(())
}
