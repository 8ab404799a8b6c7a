//! Names and attributes: looking up, creating, removing, moving files, and changing attributes.

use crate::attributes;
use crate::caller::MOUNT;
use crate::files::{Answer, Files};
use crate::nodes::Node;
use esker_model::namespace::{Change, Content, Inode, Kind, Name, NewFile, SetAttributes};
use esker_model::object::Principal;
use fuser::{Errno, FileAttr, RenameFlags, TimeOrNow};
use std::sync::Arc;
use std::time::SystemTime;

/// Attributes of a file to create.
pub(crate) struct NewNode {
    /// Mode with type bits.
    pub(crate) mode: u32,
    /// Bits that the file does not get unless its directory has a default access list.
    pub(crate) umask: u32,
    pub(crate) rdev: u64,
    pub(crate) content: Content,
}

/// Attributes that a program sets.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SetAttr {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
}

/// Meaning of a rename (`renameat2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenameMode {
    /// The file gets another path.
    Move {
        /// Whether to fail with `EEXIST` if the new path exists (`RENAME_NOREPLACE`).
        no_replace: bool,
        /// Whether to leave a whiteout at the old path (`RENAME_WHITEOUT`): the character device 0, which tells an
        /// overlay file system that the path does not exist.
        whiteout: bool,
    },
    /// Two files exchange their paths (`RENAME_EXCHANGE`).
    Exchange,
}

impl RenameMode {
    /// Returns the meaning of a call's flags; `None` if they contradict each other or are unknown.
    pub(crate) fn of_flags(flags: RenameFlags) -> Option<Self> {
        if flags == RenameFlags::RENAME_EXCHANGE {
            return Some(Self::Exchange);
        }
        let moves = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_WHITEOUT;
        (flags & !moves).is_empty().then(|| Self::Move {
            no_replace: flags.contains(RenameFlags::RENAME_NOREPLACE),
            whiteout: flags.contains(RenameFlags::RENAME_WHITEOUT),
        })
    }
}

/// Converts a time to set; a time that does not fit into the namespace is `EOVERFLOW`.
fn when(time: TimeOrNow) -> Answer<i64> {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    };
    attributes::nanos(time).ok_or(Errno::EOVERFLOW)
}

impl Files {
    /// Looks up a name in a directory.
    pub(crate) fn look_up(
        &self,
        directory: &Arc<Node>,
        name: &Name,
    ) -> Answer<(Arc<Node>, FileAttr)> {
        let _still = self.moving.read();
        let inode = self.stat_path(&self.entry(directory, name)?)?;
        Ok(self.register_node(directory, name, &inode))
    }

    /// Registers a file that is reported to the kernel; returns its node and attributes.
    pub(crate) fn register_node(
        &self,
        directory: &Arc<Node>,
        name: &Name,
        inode: &Inode,
    ) -> (Arc<Node>, FileAttr) {
        let node = self.nodes.remember(inode, directory, name);
        let attributes = self.attributes(&node, inode);
        (node, attributes)
    }

    /// Reads the attributes of a file.
    pub(crate) fn attributes_of(&self, node: &Arc<Node>) -> Answer<FileAttr> {
        let inode = self.stat(node)?;
        Ok(self.attributes(node, &inode))
    }

    /// Creates a file of any kind.
    pub(crate) fn make(
        &self,
        principal: &Principal,
        (uid, gid): (u32, u32),
        (directory, name): (&Arc<Node>, &Name),
        new: NewNode,
    ) -> Answer<Inode> {
        let _still = self.moving.read();
        let path = self.entry(directory, name)?;
        let NewNode {
            mode,
            umask,
            rdev,
            content,
        } = new;
        let make = NewFile {
            umask,
            rdev,
            content: content.clone(),
            ..NewFile::new(mode, uid, gid)
        };
        let done = self.change(Some(principal), Change::Create(path.clone(), make))?;
        if directory.state().inherits {
            // The group, the mode or the access list are inherited from the parent.
            return self.stat_path(&path);
        }
        let now = attributes::of_version(done.version);
        let size = match &content {
            Content::Symlink(target) => target.len() as u64,
            _ => 0,
        };
        Ok(Inode {
            id: done.id,
            version: done.version,
            mode: mode & !(umask & 0o777),
            uid,
            gid,
            links: if mode & Kind::MASK == Kind::Directory.bits() {
                2
            } else {
                1
            },
            size,
            blocks: 0,
            rdev,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            content,
            xattrs: Vec::new(),
            tracked: false,
        })
    }

    /// Removes a name of a file; removing the last one removes its object.
    pub(crate) fn unlink(
        &self,
        principal: &Principal,
        directory: &Arc<Node>,
        name: &Name,
    ) -> Answer<()> {
        let _still = self.moving.read();
        let path = self.entry(directory, name)?;
        let done = self.change(Some(principal), Change::Unlink(path))?;
        if let Some(node) = self.nodes.find(done.id) {
            self.name_removed(&node, directory, name);
        }
        Ok(())
    }

    /// Updates a file that has lost a name.
    fn name_removed(&self, node: &Arc<Node>, directory: &Arc<Node>, name: &Name) {
        let mut state = node.state();
        state.links = state.links.saturating_sub(1);
        state.unlinked = state.links == 0;
        state.remove_name(directory, name);
        let object = state.object.clone();
        drop(state);
        if let Some(object) = object {
            self.remove_object(node, &object);
        }
    }

    /// Removes an object if its file has no name. Open descriptors keep the content.
    fn remove_object(&self, node: &Node, object: &[u8]) {
        let Ok(inode) = self.stat(node) else { return };
        let mut state = node.state();
        state.links = inode.links;
        state.unlinked = inode.links == 0;
        drop(state);
        if inode.links == 0 {
            // An object that cannot be removed now is an orphan, which a check finds.
            let _ = self.folders.remove(object, node.id);
        }
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(
        &self,
        principal: &Principal,
        directory: &Arc<Node>,
        name: &Name,
    ) -> Answer<()> {
        let _still = self.moving.read();
        let path = self.entry(directory, name)?;
        let done = self.change(Some(principal), Change::Rmdir(path))?;
        if let Some(node) = self.nodes.find(done.id) {
            node.state().unlinked = true;
        }
        Ok(())
    }

    /// Moves a file or directory, or exchanges two of them.
    pub(crate) fn rename(
        &self,
        principal: &Principal,
        from: (&Arc<Node>, &Name),
        to: (&Arc<Node>, &Name),
        mode: RenameMode,
    ) -> Answer<()> {
        let still = self.moving.read();
        let is_directory = |(directory, name): (&Arc<Node>, &Name)| -> Answer<bool> {
            let inode = self.stat_path(&self.entry(directory, name)?)?;
            Ok(inode.is_directory())
        };
        let moves_directory =
            is_directory(from)? || mode == RenameMode::Exchange && is_directory(to)?;
        if !moves_directory {
            return self.rename_now(principal, from, to, mode);
        }
        drop(still);
        let _alone = self.moving.write();
        self.rename_now(principal, from, to, mode)?;
        self.nodes.moved();
        Ok(())
    }

    fn rename_now(
        &self,
        principal: &Principal,
        from: (&Arc<Node>, &Name),
        to: (&Arc<Node>, &Name),
        mode: RenameMode,
    ) -> Answer<()> {
        match mode {
            RenameMode::Exchange => self.exchange(principal, from, to),
            RenameMode::Move {
                no_replace,
                whiteout,
            } => self.move_now(principal, from, to, (no_replace, whiteout)),
        }
    }

    fn exchange(
        &self,
        principal: &Principal,
        (from, name): (&Arc<Node>, &Name),
        (to, new_name): (&Arc<Node>, &Name),
    ) -> Answer<()> {
        let (source, target) = (self.entry(from, name)?, self.entry(to, new_name)?);
        let other = self.stat_path(&target)?;
        let change = Change::Exchange {
            from: source,
            to: target,
        };
        let done = self.change(Some(principal), change)?;
        if other.id == done.id {
            return Ok(());
        }
        if let Some(node) = self.nodes.find(done.id) {
            node.state().rename((from, name), (to, new_name));
        }
        if let Some(node) = self.nodes.find(other.id) {
            node.state().rename((to, new_name), (from, name));
        }
        Ok(())
    }

    fn move_now(
        &self,
        principal: &Principal,
        (from, name): (&Arc<Node>, &Name),
        (to, new_name): (&Arc<Node>, &Name),
        (no_replace, whiteout): (bool, bool),
    ) -> Answer<()> {
        let (source, target) = (self.entry(from, name)?, self.entry(to, new_name)?);
        let replaced = if no_replace {
            None
        } else {
            self.stat_path(&target).ok()
        };
        let mut changes = vec![Change::Rename {
            from: source.clone(),
            to: target,
            no_replace,
        }];
        if whiteout {
            let id = |id: Option<&i64>| id.and_then(|id| u32::try_from(*id).ok()).unwrap_or(0);
            let (uid, gid) = (id(Some(&principal.uid)), id(principal.gids.first()));
            let make = NewFile::new(Kind::CharDevice.bits(), uid, gid);
            changes.push(Change::Create(source, make));
        }
        let done = self
            .changes(principal, &changes)
            .map_err(|e| attributes::errno(&e))?;
        let Some(done) = done.first() else {
            return Err(Errno::EIO);
        };
        if let Some(replaced) = replaced
            && replaced.id != done.id
        {
            match self.nodes.find(replaced.id) {
                Some(node) => {
                    node.note(&replaced);
                    self.name_removed(&node, to, new_name);
                }
                None => self.remove_unregistered_object(&replaced),
            }
        }
        if let Some(node) = self.nodes.find(done.id) {
            node.state().rename((from, name), (to, new_name));
        }
        Ok(())
    }

    /// Removes the object of a file that has lost its last name and that the kernel does not know.
    fn remove_unregistered_object(&self, inode: &Inode) {
        if inode.links == 1
            && let Content::Object(object) = &inode.content
        {
            let _ = self.folders.remove(object, inode.id);
        }
    }

    /// Gives a file another name (hard link).
    pub(crate) fn link(
        &self,
        principal: &Principal,
        node: &Arc<Node>,
        directory: &Arc<Node>,
        name: &Name,
    ) -> Answer<(Arc<Node>, FileAttr)> {
        let _still = self.moving.read();
        let from = self.nodes.file(node);
        let from = from.map_err(|e| attributes::errno(&e.into()))?;
        let to = self.entry(directory, name)?;
        let change = Change::Link {
            from,
            to: to.clone(),
        };
        self.change(Some(principal), change)?;
        let inode = self.stat_path(&to)?;
        Ok(self.register_node(directory, name, &inode))
    }

    /// Changes attributes, and truncates if a size is given.
    pub(crate) fn set_attributes(
        &self,
        principal: &Principal,
        node: &Arc<Node>,
        requested: SetAttr,
    ) -> Answer<FileAttr> {
        let (atime, mtime) = (requested.atime.map(when), requested.mtime.map(when));
        let (atime, mtime) = (atime.transpose()?, mtime.transpose()?);
        if let Some(size) = requested.size {
            self.truncate(principal, node, size)?;
        }
        if atime.is_some() || mtime.is_some() {
            // Earlier writes are published first, so that their time does not replace the one that is set.
            self.flush(node)?;
        }
        let owned = requested.mode.is_some() || requested.uid.is_some() || requested.gid.is_some();
        if owned {
            let set = SetAttributes {
                mode: requested.mode.map(|m| m & 0o7777),
                uid: requested.uid,
                gid: requested.gid,
                ..SetAttributes::default()
            };
            self.set(Some(principal), node, set)?;
        }
        if atime.is_some() || mtime.is_some() {
            let set = SetAttributes {
                atime,
                mtime,
                ..SetAttributes::default()
            };
            // The kernel has checked the rights: a user who may write a file may also set its times to now.
            self.set(Some(&MOUNT), node, set)?;
        }
        self.attributes_of(node)
    }

    /// Reads the target of a symbolic link.
    pub(crate) fn read_link(&self, node: &Arc<Node>) -> Answer<Vec<u8>> {
        match self.stat(node)?.content {
            Content::Symlink(target) => Ok(target),
            _ => Err(Errno::EINVAL),
        }
    }
}
