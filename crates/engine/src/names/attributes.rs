//! Changes of the attributes and inline content of files.

use super::inode_view::changed_by_entries;
use super::open::OpenLocation;
use super::resolve::Reached;
use super::rows::Found;
use super::{NamesTxn, open, rows, space};
use crate::txn::Txn;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{Dentry, DentryInode, LocationRecord};
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{
    ACL_ACCESS, Content, Errno, Handle, INLINE_BYTES_MAX, Inode, Kind, Name, NamePath,
    SetAttributes, XATTR_BYTES_MAX, XATTRS_BYTES_MAX, XattrMode, check_object, check_xattr_name,
    is_acl, is_superuser,
};
use esker_model::object::Principal;
use esker_model::{Result, VertexId};

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const GROUP_EXECUTES: u32 = 0o0010;

/// Location at which an inode's attributes are stored.
pub(super) struct InodeLocation {
    /// The directory whose sums count the size, if any, and the name whose extension counts.
    sized: Option<(VertexId, Name)>,
    directory: VertexId,
    place: (u64, u8),
    name: Name,
    linked: bool,
    /// Whether the file was removed while a process has it open.
    deleted: bool,
}

impl InodeLocation {
    /// Whether the file was removed.
    pub(super) fn is_gone(&self) -> bool {
        self.deleted
    }
}

impl Txn<'_, '_> {
    /// Returns an inode, possibly that of the root, and where it is stored.
    pub(super) fn inode_at(
        &self,
        names: &NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
        follow: bool,
    ) -> Result<(Inode, InodeLocation)> {
        if let Some(handle) = path.handle() {
            return self.open_at(names, &handle);
        }
        let (parent, name, found) = match self.reach(names, principal, path, follow)? {
            Reached::Directory(directory) => {
                let Some(parent) = directory.parent.clone() else {
                    return self.root_at();
                };
                let Some(name) = directory.name()? else {
                    return Err(Errno::Invalid.at(path).into());
                };
                let found = rows::find(&*self.overlay, parent.id, &name)?.map(Box::new);
                (parent, name, found)
            }
            Reached::Entry(parent, name, found) => (parent, name, found),
        };
        let Ok(found) = found else {
            return Err(Errno::NotFound.at(path).into());
        };
        self.named_at(parent.id, name, &found)
    }

    fn root_at(&self) -> Result<(Inode, InodeLocation)> {
        let at = InodeLocation {
            sized: None,
            directory: VertexId::default(),
            place: (0, 0),
            name: rows::root_name()?,
            linked: false,
            deleted: false,
        };
        Ok((rows::root_inode(&*self.overlay)?, at))
    }

    /// Returns the inode of an open file and where it is stored.
    fn open_at(&self, names: &NamesTxn<'_>, handle: &Handle) -> Result<(Inode, InodeLocation)> {
        match self.resolver(names, None).locate_open(handle)? {
            OpenLocation::Root => self.root_at(),
            OpenLocation::Entry(directory, name, found) => self.named_at(directory, name, &found),
            OpenLocation::Gone(inode) => {
                let at = InodeLocation {
                    sized: None,
                    directory: handle.directory,
                    place: (0, 0),
                    name: handle.name.clone(),
                    linked: false,
                    deleted: true,
                };
                Ok((*inode, at))
            }
        }
    }

    fn named_at(
        &self,
        directory: VertexId,
        name: Name,
        found: &Found,
    ) -> Result<(Inode, InodeLocation)> {
        let inode = rows::inode(&*self.overlay, found.dentry.clone())?;
        let linked = matches!(found.dentry.inode, DentryInode::Linked(_));
        let first = if linked {
            rows::location_record(&*self.overlay, inode.id)?
        } else {
            None
        };
        let first = first.and_then(|p| p.names.into_iter().next());
        let sized = match (first, inode.is_directory()) {
            (_, true) => (inode.id, name.clone()),
            (Some(first), _) => first,
            (None, _) => (directory, name.clone()),
        };
        let at = InodeLocation {
            sized: Some(sized),
            directory,
            place: (found.hash, found.n),
            name,
            linked,
            deleted: false,
        };
        Ok((inode, at))
    }

    /// Sets the times of a directory that are derived from its entries, so that a write keeps them.
    pub(super) fn with_entries(names: &NamesTxn<'_>, inode: Inode) -> Result<Inode> {
        if !inode.is_directory() {
            return Ok(inode);
        }
        let changed = names.sum(inode.id, Measure::Changed)?;
        Ok(changed_by_entries(inode, changed))
    }

    pub(super) fn put_inode(
        &mut self,
        names: &mut NamesTxn<'_>,
        at: InodeLocation,
        before: &Inode,
        mut inode: Inode,
    ) -> Result<VertexId> {
        if at.deleted {
            return self.put_gone(at, inode);
        }
        self.supersede(at.directory, &at.name, before)?;
        inode.version = self.version;
        if let Some((directory, name)) = &at.sized
            && !space::counts_equal(before, &inode)
        {
            let mut add = |counter: Counter, n: i64| names.note(counter, n);
            for (inode, sign) in [(before, -1), (&inode, 1)] {
                space::count_inode(inode, name, sign, &mut add);
                space::count_size(SpaceKey::Directory(*directory), inode, sign, &mut add);
            }
        }
        if before.is_directory()
            && ((before.mode, before.uid, before.gid) != (inode.mode, inode.uid, inode.gid)
                || !before.has_acls_of(&inode))
        {
            names.invalidate_cache();
        }
        let id = inode.id;
        if at.linked {
            let mut place = rows::location_record(&*self.overlay, id)?.unwrap_or_default();
            place.inode = Some(inode);
            self.put_location_record(id, &place);
            return Ok(id);
        }
        let dentry = Dentry {
            name: at.name,
            id,
            inode: DentryInode::Inline(inode),
        };
        self.put_dentry(names, at.directory, at.place, &dentry);
        Ok(id)
    }

    /// Stores the state of a removed file that is still open. Its time of removal stays, and no past states are stored.
    fn put_gone(&mut self, at: InodeLocation, inode: Inode) -> Result<VertexId> {
        let id = inode.id;
        let place = rows::location_record(&*self.overlay, id)?;
        let place = place.unwrap_or_else(|| LocationRecord {
            deleted: true,
            departed: true,
            ..LocationRecord::at(at.directory, at.name)
        });
        self.put_location_record(
            id,
            &LocationRecord {
                inode: Some(inode),
                ..place
            },
        );
        Ok(id)
    }

    /// Writes bytes into inline content.
    pub(super) fn write_inode(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
        (offset, data): (Option<u64>, &[u8]),
    ) -> Result<VertexId> {
        if path.handle().is_some_and(|h| !h.write) {
            return Err(Errno::BadHandle.at(path).into());
        }
        let (before, at) = self.inode_at(names, principal, path, true)?;
        let mut inode = before.clone();
        if inode.is_directory() {
            return Err(Errno::IsDirectory.at(path).into());
        }
        if inode.kind() != Kind::File {
            return Err(Errno::Invalid.at(path).into());
        }
        open::demand_write(&inode, principal, path)?;
        if data.is_empty() {
            return Ok(inode.id);
        }
        let mut content = open::written(&mut inode, path)?;
        let begin = offset.unwrap_or(content.len() as u64);
        let end = begin.saturating_add(data.len() as u64);
        let end = usize::try_from(end).ok().filter(|n| *n <= INLINE_BYTES_MAX);
        let end = end.ok_or_else(|| Errno::TooBig.at(path))?;
        content.resize(content.len().max(end), 0);
        if let Some(place) = content.get_mut(end - data.len()..end) {
            place.copy_from_slice(data);
        }
        inode.size = content.len() as u64;
        inode.content = Content::Inline(content);
        drop_privileges(&mut inode, principal);
        let now = self.now_nanos();
        inode.mtime = now;
        inode.touch_change(now);
        self.put_inode(names, at, &before, inode)
    }

    pub(super) fn set_inode(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        (path, follow): (&NamePath, bool),
        set: &SetAttributes,
    ) -> Result<VertexId> {
        let (before, at) = self.inode_at(names, principal, path, follow)?;
        let present = Self::with_entries(names, before.clone())?;
        let mut inode = present.clone();
        let now = self.now_nanos();
        let owner = principal.is_none_or(|a| a.uid == 0 || a.uid == i64::from(before.uid));
        let mut changed = false;
        if let Some(size) = set.size {
            if path.handle().is_some_and(|h| !h.write) {
                return Err(Errno::Invalid.at(path).into());
            }
            if inode.is_directory() {
                return Err(Errno::IsDirectory.at(path).into());
            }
            if inode.kind() != Kind::File {
                return Err(Errno::Invalid.at(path).into());
            }
            open::demand_write(&inode, principal, path)?;
            resize(&mut inode, size, path)?;
            drop_privileges(&mut inode, principal);
            inode.mtime = now;
            changed = true;
        }
        if let Some(content) = &set.content {
            open::demand_write(&inode, principal, path)?;
            check_object(principal, &inode.content, content, &|| path.to_string())?;
            Self::set_content(&mut inode, content, path)?;
            drop_privileges(&mut inode, principal);
            inode.mtime = now;
            changed = true;
        }
        if let Some(blocks) = set.blocks {
            open::demand_write(&inode, principal, path)?;
            inode.blocks = blocks;
        }
        if set.uid.is_some() || set.gid.is_some() {
            change_owner(&mut inode, principal, set, owner, path)?;
            changed = true;
        }
        if let Some(mode) = set.mode {
            if !owner {
                return Err(Errno::NotPermitted.at(path).into());
            }
            inode.set_permissions(mode);
            // A copy of a file elsewhere, which has its time of change, gets the list of that file.
            if set.ctime.is_none() {
                inode.discard_nfs4_acl();
            }
            if is_stranger(&inode, principal) {
                inode.mode &= !SETGID;
            }
            changed = true;
        }
        if set.atime.is_some() || set.mtime.is_some() || set.ctime.is_some() {
            if !owner {
                return Err(Errno::NotPermitted.at(path).into());
            }
            inode.atime = set.atime.unwrap_or(inode.atime);
            inode.mtime = set.mtime.unwrap_or(inode.mtime);
            changed = true;
        }
        if changed {
            inode.ctime = set.ctime.unwrap_or(inode.ctime.max(now));
        }
        if inode == present {
            return Ok(inode.id);
        }
        self.put_inode(names, at, &before, inode)
    }

    fn set_content(inode: &mut Inode, content: &Content, path: &NamePath) -> Result<()> {
        if inode.kind() != Kind::File {
            return Err(Errno::Invalid.at(path).into());
        }
        match content {
            Content::Inline(data) if data.len() > INLINE_BYTES_MAX => {
                return Err(Errno::TooBig.at(path).into());
            }
            Content::Inline(data) => inode.size = data.len() as u64,
            Content::None => inode.size = 0,
            Content::Object(_) => {}
            Content::Symlink(_) => return Err(Errno::Invalid.at(path).into()),
        }
        inode.content = content.clone();
        Ok(())
    }

    /// Sets or removes an access control list. Like `chmod`, this is for the owner, and takes the set-group-id bit from an owner
    /// who is not in the group.
    fn set_acl(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<VertexId> {
        let (before, at) = self.inode_at(names, principal, path, true)?;
        let present = Self::with_entries(names, before.clone())?;
        let mut inode = present.clone();
        let owner =
            is_superuser(principal) || principal.is_some_and(|a| a.uid == i64::from(before.uid));
        inode.set_acl(name, value, owner, &|| path.to_string())?;
        if name == ACL_ACCESS && is_stranger(&inode, principal) {
            inode.mode &= !SETGID;
        }
        if inode.xattrs == present.xattrs && inode.mode == present.mode && value.is_none() {
            return Ok(inode.id);
        }
        inode.touch_change(self.now_nanos());
        self.put_inode(names, at, &before, inode)
    }

    pub(super) fn set_xattr(
        &mut self,
        names: &mut NamesTxn<'_>,
        principal: Option<&Principal>,
        path: &NamePath,
        name: &[u8],
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<VertexId> {
        if name.starts_with(TAG_PREFIX) {
            return self.set_tag(names, principal, (path, true), name, value, mode);
        }
        if is_acl(name) {
            return self.set_acl(names, principal, path, name, value);
        }
        let (before, at) = self.inode_at(names, principal, path, true)?;
        check_xattr(&before, principal, name, path)?;
        let mut inode = Self::with_entries(names, before.clone())?;
        let found = inode
            .xattrs
            .binary_search_by(|(n, _)| n.as_slice().cmp(name));
        match (found, value) {
            (Err(_), None) => return Err(Errno::NoData.at(path).into()),
            (Err(_), Some(_)) if mode == XattrMode::Replace => {
                return Err(Errno::NoData.at(path).into());
            }
            (Ok(_), Some(_)) if mode == XattrMode::Create => {
                return Err(Errno::Exists.at(path).into());
            }
            (Ok(i), None) => {
                inode.xattrs.remove(i);
            }
            (Ok(i), Some(value)) => {
                if let Some(entry) = inode.xattrs.get_mut(i) {
                    entry.1 = value.to_vec();
                }
            }
            (Err(i), Some(value)) => inode.xattrs.insert(i, (name.to_vec(), value.to_vec())),
        }
        let total: usize = inode.xattrs.iter().map(|(n, v)| n.len() + v.len()).sum();
        if total > XATTRS_BYTES_MAX || value.is_some_and(|v| v.len() > XATTR_BYTES_MAX) {
            return Err(Errno::NoSpace.at(path).into());
        }
        inode.touch_change(self.now_nanos());
        self.put_inode(names, at, &before, inode)
    }
}

/// Whether the principal is neither the superuser nor in the file's group.
fn is_stranger(inode: &Inode, principal: Option<&Principal>) -> bool {
    principal.is_some_and(|a| a.uid != 0 && !a.gids.contains(&i64::from(inode.gid)))
}

/// Truncates inline content or extends it with zero bytes; refuses sizes beyond the limit: a client that stores content elsewhere
/// must first set its location.
fn resize(inode: &mut Inode, size: u64, path: &NamePath) -> Result<()> {
    if path.is_handle() && inode.content == Content::None && inode.size == 0 {
        // A process that has the file open creates its content.
        inode.content = Content::Inline(Vec::new());
    }
    match &mut inode.content {
        Content::Inline(data) => {
            let length = usize::try_from(size)
                .ok()
                .filter(|n| *n <= INLINE_BYTES_MAX);
            data.resize(length.ok_or_else(|| Errno::TooBig.at(path))?, 0);
        }
        Content::None | Content::Object(_) | Content::Symlink(_) => {}
    }
    inode.size = size;
    Ok(())
}

/// Only the superuser may change the owner; an owner may set a group of which they are a member (POSIX `chown`). The setuid and
/// setgid bits are cleared.
fn change_owner(
    inode: &mut Inode,
    principal: Option<&Principal>,
    set: &SetAttributes,
    owner: bool,
    path: &NamePath,
) -> Result<()> {
    let (uid, gid) = (set.uid.unwrap_or(inode.uid), set.gid.unwrap_or(inode.gid));
    if let Some(principal) = principal.filter(|a| a.uid != 0) {
        let gives = set.uid.is_some_and(|uid| uid != inode.uid);
        let joins = set
            .gid
            .is_some_and(|gid| gid != inode.gid && !principal.gids.contains(&i64::from(gid)));
        if !owner || gives || joins {
            return Err(Errno::NotPermitted.at(path).into());
        }
    }
    (inode.uid, inode.gid) = (uid, gid);
    drop_privileges(inode, None);
    Ok(())
}

/// Clears setuid and setgid bits after a change of content, except for changes by the superuser.
fn drop_privileges(inode: &mut Inode, principal: Option<&Principal>) {
    let trusted = principal.is_some_and(|a| a.uid == 0);
    if inode.is_directory() || trusted {
        return;
    }
    inode.mode &= !SETUID;
    if inode.mode & GROUP_EXECUTES != 0 {
        inode.mode &= !SETGID;
    }
}

/// Checks that the principal may set an attribute: `user.…` requires write permission on a file or directory, `trusted.…` and
/// `security.…` the superuser (`xattr(7)`); on a directory with the sticky bit, the owner. `user.esker.…` are tags ([`super::vertices`]).
pub(super) fn check_xattr(
    inode: &Inode,
    principal: Option<&Principal>,
    name: &[u8],
    path: &NamePath,
) -> Result<()> {
    check_xattr_name(inode.kind(), principal, name, &|| path.to_string())?;
    if !name.starts_with(b"user.") {
        return Ok(());
    }
    let owner = is_superuser(principal) || principal.is_some_and(|a| a.uid == i64::from(inode.uid));
    let sticky = inode.is_directory() && inode.mode & STICKY != 0;
    if sticky && !owner {
        return Err(Errno::NotPermitted.at(path).into());
    }
    Ok(inode.demand(principal, 2, path.as_bytes())?)
}
