//! Attributes of files change.

use super::open::Held;
use super::read::changed_by_entries;
use super::resolve::Reached;
use super::rows::Found;
use super::{NamesTxn, open, rows, space};
use crate::txn::Txn;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::record::{Dentry, DentryInode, Whereabouts};
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{
    Content, Errno, Handle, INLINE_BYTES_MAX, Inode, Kind, Name, NamePath, SetAttributes,
    XATTR_BYTES_MAX, XATTRS_BYTES_MAX, XattrMode, check_object, check_xattr_name, is_superuser,
};
use esker_model::object::Asker;
use esker_model::{Result, VertexId};

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const GROUP_EXECUTES: u32 = 0o0010;

/// Where an inode's attributes are written to.
pub(super) struct At {
    /// The directory whose sums have its size, if one has, and the name whose ending counts.
    sized: Option<(VertexId, Name)>,
    directory: VertexId,
    place: (u64, u8),
    name: Name,
    linked: bool,
    /// It was removed, and somebody has it open.
    gone: bool,
}

impl At {
    /// Whether it was removed.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }
}

impl Txn<'_, '_> {
    /// An inode, the root's too, and where it is written.
    pub(super) fn inode_at(
        &self,
        names: &NamesTxn<'_>,
        asker: Option<&Asker>,
        path: &NamePath,
        follow: bool,
    ) -> Result<(Inode, At)> {
        if let Some(handle) = path.handle() {
            return self.held_at(names, &handle);
        }
        let (parent, name, found) = match self.reach(names, asker, path, follow)? {
            Reached::Directory(directory) => {
                let Some(parent) = directory.parent.clone() else {
                    return self.root_at();
                };
                let Some((_, name)) = NamePath::parse(&directory.path)?.split() else {
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

    fn root_at(&self) -> Result<(Inode, At)> {
        let at = At {
            sized: None,
            directory: VertexId::default(),
            place: (0, 0),
            name: rows::root_name()?,
            linked: false,
            gone: false,
        };
        Ok((rows::root_inode(&*self.overlay)?, at))
    }

    /// An open file's.
    fn held_at(&self, names: &NamesTxn<'_>, handle: &Handle) -> Result<(Inode, At)> {
        match self.way(names, None).held(handle)? {
            Held::Root => self.root_at(),
            Held::Named(directory, name, found) => self.named_at(directory, name, &found),
            Held::Gone(inode) => {
                let at = At {
                    sized: None,
                    directory: handle.directory,
                    place: (0, 0),
                    name: handle.name.clone(),
                    linked: false,
                    gone: true,
                };
                Ok((*inode, at))
            }
        }
    }

    fn named_at(&self, directory: VertexId, name: Name, found: &Found) -> Result<(Inode, At)> {
        let inode = rows::inode(&*self.overlay, found.dentry.clone())?;
        let linked = matches!(found.dentry.inode, DentryInode::Elsewhere(_));
        let first = if linked {
            rows::whereabouts(&*self.overlay, inode.id)?
        } else {
            None
        };
        let first = first.and_then(|p| p.names.into_iter().next());
        let sized = match (first, inode.is_directory()) {
            (_, true) => (inode.id, name.clone()),
            (Some(first), _) => first,
            (None, _) => (directory, name.clone()),
        };
        let at = At {
            sized: Some(sized),
            directory,
            place: (found.hash, found.n),
            name,
            linked,
            gone: false,
        };
        Ok((inode, at))
    }

    /// A directory with the times that its entries give it: what is written keeps them.
    pub(super) fn with_entries(&self, names: &NamesTxn<'_>, inode: Inode) -> Result<Inode> {
        if !inode.is_directory() {
            return Ok(inode);
        }
        let changed = names.sum(self.overlay.store(), inode.id, Measure::Changed)?;
        Ok(changed_by_entries(inode, changed))
    }

    pub(super) fn put_inode(
        &mut self,
        names: &mut NamesTxn<'_>,
        at: At,
        before: &Inode,
        mut inode: Inode,
    ) -> Result<VertexId> {
        if at.gone {
            return self.put_gone(at, inode);
        }
        self.supersede(at.directory, &at.name, before);
        inode.version = self.version;
        if let Some((directory, name)) = &at.sized {
            let mut add = |counter: Counter, n: i64| names.note(counter, n);
            for (inode, sign) in [(before, -1), (&inode, 1)] {
                space::of_inode(inode, name, sign, &mut add);
                space::of_size(SpaceKey::Directory(*directory), inode, sign, &mut add);
            }
        }
        if before.is_directory()
            && (before.mode, before.uid, before.gid) != (inode.mode, inode.uid, inode.gid)
        {
            names.restructure();
        }
        let id = inode.id;
        if at.linked {
            let mut place = rows::whereabouts(&*self.overlay, id)?.unwrap_or_default();
            place.inode = Some(inode);
            self.put_whereabouts(id, &place);
            return Ok(id);
        }
        let dentry = Dentry {
            name: at.name,
            id,
            inode: DentryInode::Here(inode),
        };
        self.put_dentry(names, at.directory, at.place, &dentry);
        Ok(id)
    }

    /// What is left of a file that was removed. When that was stays what it was, and no states are kept behind it.
    fn put_gone(&mut self, at: At, inode: Inode) -> Result<VertexId> {
        let id = inode.id;
        let place = rows::whereabouts(&*self.overlay, id)?;
        let place = place.unwrap_or_else(|| Whereabouts {
            gone: true,
            departed: true,
            ..Whereabouts::at(at.directory, at.name)
        });
        self.put_whereabouts(
            id,
            &Whereabouts {
                inode: Some(inode),
                ..place
            },
        );
        Ok(id)
    }

    /// Bytes are written into content that is here.
    pub(super) fn write_inode(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        path: &NamePath,
        (offset, data): (Option<u64>, &[u8]),
    ) -> Result<VertexId> {
        if path.handle().is_some_and(|h| !h.write) {
            return Err(Errno::BadHandle.at(path).into());
        }
        let (before, at) = self.inode_at(names, asker, path, true)?;
        let mut inode = before.clone();
        if inode.is_directory() {
            return Err(Errno::IsDirectory.at(path).into());
        }
        if inode.kind() != Kind::File {
            return Err(Errno::Invalid.at(path).into());
        }
        open::demand_write(&inode, asker, path)?;
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
        drop_privileges(&mut inode, asker);
        let now = self.now_nanos();
        inode.mtime = now;
        inode.touch_change(now);
        self.put_inode(names, at, &before, inode)
    }

    pub(super) fn set_inode(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        (path, follow): (&NamePath, bool),
        set: &SetAttributes,
    ) -> Result<VertexId> {
        let (before, at) = self.inode_at(names, asker, path, follow)?;
        let present = self.with_entries(names, before.clone())?;
        let mut inode = present.clone();
        let now = self.now_nanos();
        let owner = asker.is_none_or(|a| a.uid == 0 || a.uid == i64::from(before.uid));
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
            open::demand_write(&inode, asker, path)?;
            resize(&mut inode, size, path)?;
            drop_privileges(&mut inode, asker);
            inode.mtime = now;
            changed = true;
        }
        if let Some(content) = &set.content {
            open::demand_write(&inode, asker, path)?;
            check_object(asker, &inode.content, content, &|| path.to_string())?;
            Self::set_content(&mut inode, content, path)?;
            drop_privileges(&mut inode, asker);
            inode.mtime = now;
            changed = true;
        }
        if let Some(blocks) = set.blocks {
            open::demand_write(&inode, asker, path)?;
            inode.blocks = blocks;
        }
        if set.uid.is_some() || set.gid.is_some() {
            change_owner(&mut inode, asker, set, owner, path)?;
            changed = true;
        }
        if let Some(mode) = set.mode {
            if !owner {
                return Err(Errno::NotPermitted.at(path).into());
            }
            inode.mode = inode.mode & Kind::MASK | mode & 0o7777;
            let stranger =
                asker.is_some_and(|a| a.uid != 0 && !a.gids.contains(&i64::from(inode.gid)));
            if stranger {
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

    pub(super) fn set_xattr(
        &mut self,
        names: &mut NamesTxn<'_>,
        asker: Option<&Asker>,
        path: &NamePath,
        name: &[u8],
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<VertexId> {
        if name.starts_with(TAG_PREFIX) {
            return self.set_tag(names, asker, (path, true), name, value, mode);
        }
        let (before, at) = self.inode_at(names, asker, path, true)?;
        check_xattr(&before, asker, name, path)?;
        let mut inode = self.with_entries(names, before.clone())?;
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

/// Content that is here is cut, or filled with zero bytes; where it would not fit, it is refused: whoever keeps content
/// elsewhere says where first.
fn resize(inode: &mut Inode, size: u64, path: &NamePath) -> Result<()> {
    if path.is_handle() && inode.content == Content::None && inode.size == 0 {
        // Whoever has it open is making its content.
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

/// Only the superuser gives files away; an owner may give one to a group that they are in (POSIX `chown`). Programs that run
/// as their owner do not go on doing so under another one.
fn change_owner(
    inode: &mut Inode,
    asker: Option<&Asker>,
    set: &SetAttributes,
    owner: bool,
    path: &NamePath,
) -> Result<()> {
    let (uid, gid) = (set.uid.unwrap_or(inode.uid), set.gid.unwrap_or(inode.gid));
    if let Some(asker) = asker.filter(|a| a.uid != 0) {
        let gives = set.uid.is_some_and(|uid| uid != inode.uid);
        let joins = set
            .gid
            .is_some_and(|gid| gid != inode.gid && !asker.gids.contains(&i64::from(gid)));
        if !owner || gives || joins {
            return Err(Errno::NotPermitted.at(path).into());
        }
    }
    (inode.uid, inode.gid) = (uid, gid);
    drop_privileges(inode, None);
    Ok(())
}

/// Programs that others have changed do not run as their owner any more; the superuser's changes are trusted.
fn drop_privileges(inode: &mut Inode, asker: Option<&Asker>) {
    let trusted = asker.is_some_and(|a| a.uid == 0);
    if inode.is_directory() || trusted {
        return;
    }
    inode.mode &= !SETUID;
    if inode.mode & GROUP_EXECUTES != 0 {
        inode.mode &= !SETGID;
    }
}

/// `user.…` is for files and directories of those who may write them, `trusted.…` and `security.…` for the superuser
/// (`xattr(7)`); those of a directory with the sticky bit are its owner's. `user.esker.…` are tags ([`super::vertices`]).
pub(super) fn check_xattr(
    inode: &Inode,
    asker: Option<&Asker>,
    name: &[u8],
    path: &NamePath,
) -> Result<()> {
    check_xattr_name(inode.kind(), asker, name, &|| path.to_string())?;
    if !name.starts_with(b"user.") {
        return Ok(());
    }
    let owner = is_superuser(asker) || asker.is_some_and(|a| a.uid == i64::from(inode.uid));
    let sticky = inode.is_directory() && inode.mode & STICKY != 0;
    if sticky && !owner {
        return Err(Errno::NotPermitted.at(path).into());
    }
    Ok(inode.demand(asker, 2, path.as_bytes())?)
}
