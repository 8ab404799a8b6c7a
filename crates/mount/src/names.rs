//! Names: looked up, made, removed, moved; attributes.

use crate::attributes;
use crate::files::{Answer, Files, MOUNT};
use crate::nodes::Node;
use esker_model::namespace::{Change, Content, Inode, Kind, Make, Name, SetAttributes};
use esker_model::object::Asker;
use esker_model::version::Version;
use fuser::{Errno, FileAttr, TimeOrNow};
use std::sync::Arc;
use std::time::SystemTime;

/// What a file is to be made of.
pub(crate) struct New {
    /// With its type bits.
    pub(crate) mode: u32,
    pub(crate) rdev: u64,
    pub(crate) content: Content,
}

/// Attributes that a program sets.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
}

/// A version's time, in nanoseconds since 1970: what the namespace gives a file that is made at it.
fn nanos(version: Version) -> i64 {
    let millis = version.millis().cast_signed();
    let logical = i64::from((version.0 & 0xFFFF) as u16);
    millis.saturating_mul(1_000_000).saturating_add(logical)
}

fn when(time: TimeOrNow) -> i64 {
    match time {
        TimeOrNow::SpecificTime(time) => attributes::nanos(time),
        TimeOrNow::Now => attributes::nanos(SystemTime::now()),
    }
}

impl Files {
    /// What is under a name in a directory.
    pub(crate) fn look_up(
        &self,
        directory: &Arc<Node>,
        name: &Name,
    ) -> Answer<(Arc<Node>, FileAttr)> {
        let _still = self.moving.read();
        let inode = self.stat_path(&self.entry(directory, name)?)?;
        Ok(self.known(directory, name, &inode))
    }

    /// The kernel is told of a file.
    pub(crate) fn known(
        &self,
        directory: &Arc<Node>,
        name: &Name,
        inode: &Inode,
    ) -> (Arc<Node>, FileAttr) {
        let node = self.nodes.remember(inode, directory, name);
        let attributes = self.attributes(&node, inode);
        (node, attributes)
    }

    /// What a file is.
    pub(crate) fn attributes_of(&self, node: &Arc<Node>) -> Answer<FileAttr> {
        let inode = self.stat(node)?;
        Ok(self.attributes(node, &inode))
    }

    /// Makes a file of any kind.
    pub(crate) fn make(
        &self,
        asker: &Asker,
        (uid, gid): (u32, u32),
        (directory, name): (&Arc<Node>, &Name),
        new: New,
    ) -> Answer<Inode> {
        let _still = self.moving.read();
        let path = self.entry(directory, name)?;
        let New {
            mode,
            rdev,
            content,
        } = new;
        let make = Make {
            rdev,
            content: content.clone(),
            ..Make::new(mode, uid, gid)
        };
        let done = self.change(Some(asker), Change::Make(path.clone(), make))?;
        if directory.state().inherits {
            // Its group, and of a directory its mode, come from above.
            return self.stat_path(&path);
        }
        let now = nanos(done.version);
        let size = match &content {
            Content::Symlink(target) => target.len() as u64,
            _ => 0,
        };
        Ok(Inode {
            id: done.id,
            version: done.version,
            mode,
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

    /// Removes a name of a file; with the last one its object goes.
    pub(crate) fn unlink(&self, asker: &Asker, directory: &Arc<Node>, name: &Name) -> Answer<()> {
        let _still = self.moving.read();
        let path = self.entry(directory, name)?;
        let done = self.change(Some(asker), Change::Unlink(path))?;
        if let Some(node) = self.nodes.find(done.id) {
            self.lost_name(&node, directory, name);
        }
        Ok(())
    }

    /// A file has lost a name.
    fn lost_name(&self, node: &Arc<Node>, directory: &Arc<Node>, name: &Name) {
        let mut state = node.state();
        state.links = state.links.saturating_sub(1);
        state.gone = state.links == 0;
        state.remove_name(directory, name);
        let object = state.object.clone();
        drop(state);
        if let Some(object) = object {
            self.remove_object(node, &object);
        }
    }

    /// Removes an object, if its file has no name. Whoever has it open keeps it so.
    fn remove_object(&self, node: &Node, object: &[u8]) {
        let Ok(inode) = self.stat(node) else { return };
        let mut state = node.state();
        state.links = inode.links;
        state.gone = inode.links == 0;
        drop(state);
        if inode.links == 0 {
            // What cannot be removed now is an orphan, which a check finds.
            let _ = self.folders.remove(object, node.id);
        }
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, asker: &Asker, directory: &Arc<Node>, name: &Name) -> Answer<()> {
        let _still = self.moving.read();
        let path = self.entry(directory, name)?;
        let done = self.change(Some(asker), Change::Rmdir(path))?;
        if let Some(node) = self.nodes.find(done.id) {
            node.state().gone = true;
        }
        Ok(())
    }

    /// Moves a file or directory, over what is there.
    pub(crate) fn rename(
        &self,
        asker: &Asker,
        (from, name): (&Arc<Node>, &Name),
        (to, new_name): (&Arc<Node>, &Name),
        no_replace: bool,
    ) -> Answer<()> {
        let still = self.moving.read();
        let moved = self.stat_path(&self.entry(from, name)?)?;
        if !moved.is_directory() {
            return self.rename_now(asker, (from, name), (to, new_name), no_replace);
        }
        drop(still);
        let _alone = self.moving.write();
        self.rename_now(asker, (from, name), (to, new_name), no_replace)?;
        self.nodes.moved();
        Ok(())
    }

    fn rename_now(
        &self,
        asker: &Asker,
        (from, name): (&Arc<Node>, &Name),
        (to, new_name): (&Arc<Node>, &Name),
        no_replace: bool,
    ) -> Answer<()> {
        let (source, target) = (self.entry(from, name)?, self.entry(to, new_name)?);
        let replaced = if no_replace {
            None
        } else {
            self.stat_path(&target).ok()
        };
        let change = Change::Rename {
            from: source,
            to: target,
            no_replace,
        };
        let done = self.change(Some(asker), change)?;
        if let Some(replaced) = replaced
            && replaced.id != done.id
        {
            match self.nodes.find(replaced.id) {
                Some(node) => {
                    node.note(&replaced);
                    self.lost_name(&node, to, new_name);
                }
                None => self.lost_unknown(&replaced),
            }
        }
        if let Some(node) = self.nodes.find(done.id) {
            node.state().rename((from, name), (to, new_name));
        }
        Ok(())
    }

    /// A file that the kernel does not know has lost its name.
    fn lost_unknown(&self, inode: &Inode) {
        if inode.links == 1
            && let Content::Object(object) = &inode.content
        {
            let _ = self.folders.remove(object, inode.id);
        }
    }

    /// Gives a file another name.
    pub(crate) fn link(
        &self,
        asker: &Asker,
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
        self.change(Some(asker), change)?;
        let inode = self.stat_path(&to)?;
        Ok(self.known(directory, name, &inode))
    }

    /// Changes attributes.
    pub(crate) fn set_attributes(
        &self,
        asker: &Asker,
        node: &Arc<Node>,
        wanted: Wanted,
    ) -> Answer<FileAttr> {
        if let Some(size) = wanted.size {
            self.truncate(asker, node, size)?;
        }
        if wanted.atime.is_some() || wanted.mtime.is_some() {
            // What was written before has its time before.
            self.flush(node)?;
        }
        let owned = wanted.mode.is_some() || wanted.uid.is_some() || wanted.gid.is_some();
        if owned {
            let set = SetAttributes {
                mode: wanted.mode.map(|m| m & 0o7777),
                uid: wanted.uid,
                gid: wanted.gid,
                ..SetAttributes::default()
            };
            self.set(Some(asker), node, set)?;
        }
        if wanted.atime.is_some() || wanted.mtime.is_some() {
            let set = SetAttributes {
                atime: wanted.atime.map(when),
                mtime: wanted.mtime.map(when),
                ..SetAttributes::default()
            };
            // The kernel has looked whether they may: who may write a file may say that it is of now.
            self.set(Some(&MOUNT), node, set)?;
        }
        self.attributes_of(node)
    }

    /// What a symbolic link says.
    pub(crate) fn read_link(&self, node: &Arc<Node>) -> Answer<Vec<u8>> {
        match self.stat(node)?.content {
            Content::Symlink(target) => Ok(target),
            _ => Err(Errno::EINVAL),
        }
    }
}
