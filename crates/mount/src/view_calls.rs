//! Views: read-only files about the files of the mount, made from the database when a program opens them.
//!
//! ```text
//!  .esker/                        not listed in the root directory, and only there
//!    lineage/results/out.nc       the lineage of results/out.nc as text
//!    lineage.json/results/out.nc  … as JSON
//! ```
//!
//! Below the directory of a view the tree of the mount appears again, with the same owners and permissions without the right to write. The inode
//! numbers of views are below [`VIEW_NUMBERS`](crate::nodes::VIEW_NUMBERS); no file of the namespace has such a number.

use crate::attributes;
use crate::content::writes;
use crate::files::{Answer, Files, name};
use crate::nodes::{Node, ROOT};
use crate::views::{FILES, NAME, TOP, ViewEntry, ViewFile, ViewNode, view_of};
use esker_model::ErrorKind;
use esker_model::namespace::Kind;
use esker_model::object::Principal;
use fuser::{Errno, FileAttr, FileType};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

impl Files {
    /// Whether the root directory has the directory of views under this name, unless a file has it.
    pub(crate) fn names_views(&self, parent: u64, name: &OsStr) -> bool {
        parent == ROOT && name == NAME && !self.target.views().is_empty()
    }

    fn view_node(&self, number: u64) -> Answer<ViewNode> {
        if number == TOP {
            return Ok(ViewNode::Top);
        }
        if number < FILES {
            let view = usize::try_from(number - TOP - 1).map_err(|_| Errno::ESTALE)?;
            return Ok(ViewNode::View(view));
        }
        let views = self.views.0.lock();
        let file = views.files.get(&number).ok_or(Errno::ESTALE)?;
        Ok(ViewNode::File(file.view, Arc::clone(&file.node)))
    }

    /// Returns the attributes of the directory of all views.
    pub(crate) fn views_top(&self) -> Answer<FileAttr> {
        self.view_attributes(TOP)
    }

    /// Returns the attributes of a view, or of a file in one.
    pub(crate) fn view_attributes(&self, number: u64) -> Answer<FileAttr> {
        let node = self.viewed_file(number)?;
        Ok(view_of(number, self.attributes_of(&node)?))
    }

    /// Returns the file that a view is about; the root for the directories of all views.
    pub(crate) fn viewed_file(&self, number: u64) -> Answer<Arc<Node>> {
        match self.view_node(number)? {
            ViewNode::Top | ViewNode::View(_) => self.node(ROOT),
            ViewNode::File(_, node) => Ok(node),
        }
    }

    /// Looks up a name in a directory of views.
    pub(crate) fn look_up_view(&self, parent: u64, name_: &OsStr) -> Answer<FileAttr> {
        let (view, directory) = match self.view_node(parent)? {
            ViewNode::Top => {
                let views = self.target.views();
                let view = views.iter().position(|view| name_ == *view);
                return self.view_attributes(TOP + 1 + view.ok_or(Errno::ENOENT)? as u64);
            }
            ViewNode::View(view) => (view, self.node(ROOT)?),
            ViewNode::File(view, node) if node.is_directory() => (view, node),
            ViewNode::File(..) => return Err(Errno::ENOTDIR),
        };
        let (node, attributes) = self.look_up(&directory, &name(name_)?)?;
        self.register_view(view, node, attributes)
    }

    /// Registers a file in a view, and takes over one look-up of its node. Other files than regular ones and directories have no views.
    fn register_view(
        &self,
        view: usize,
        node: Arc<Node>,
        attributes: FileAttr,
    ) -> Answer<FileAttr> {
        if !matches!(node.kind, Kind::File | Kind::Directory) {
            self.nodes.forget(node.number, 1);
            return Err(Errno::ENOENT);
        }
        let mut guard = self.views.0.lock();
        let views = &mut *guard;
        if let Some(number) = views.numbers.get(&(view, node.id))
            && let Some(file) = views.files.get_mut(number)
        {
            file.lookups += 1;
            self.nodes.forget(node.number, 1);
            return Ok(view_of(*number, attributes));
        }
        let number = views.free_number();
        views.numbers.insert((view, node.id), number);
        let lookups = 1;
        views.files.insert(
            number,
            ViewFile {
                view,
                node,
                lookups,
            },
        );
        Ok(view_of(number, attributes))
    }

    /// Registers an entry of a listing with its attributes.
    pub(crate) fn register_view_entry(&self, entry: &ViewEntry<'_>) -> Answer<FileAttr> {
        match entry {
            ViewEntry::Dot(ROOT) => self.attributes_of(&self.node(ROOT)?),
            ViewEntry::Dot(number) | ViewEntry::View(number) => self.view_attributes(*number),
            ViewEntry::File(view, directory, entry) => {
                let (node, attributes) = self.register_node(directory, &entry.name, &entry.inode);
                self.register_view(*view, node, attributes)
            }
        }
    }

    /// Subtracts look-ups that the kernel has forgotten.
    pub(crate) fn forget_view(&self, number: u64, times: u64) {
        let mut guard = self.views.0.lock();
        let views = &mut *guard;
        let Some(file) = views.files.get_mut(&number) else {
            return;
        };
        file.lookups = file.lookups.saturating_sub(times);
        if file.lookups == 0
            && let Some(file) = views.files.remove(&number)
        {
            views.numbers.remove(&(file.view, file.node.id));
            self.nodes.forget(file.node.number, 1);
        }
    }

    /// Makes the content of a file in a view, as the principal may see it; returns a handle.
    pub(crate) fn open_view(&self, principal: &Principal, number: u64, flags: i32) -> Answer<u64> {
        if writes(flags) {
            return Err(Errno::EROFS);
        }
        let ViewNode::File(view, node) = self.view_node(number)? else {
            return Err(Errno::EISDIR);
        };
        let view = self.target.views().get(view).ok_or(Errno::ESTALE)?;
        let text = self
            .target
            .view(view, principal, node.id)
            .map_err(|e| match e.kind() {
                // The file exists, but the database has nothing to tell about it.
                ErrorKind::Missing => Errno::ENODATA,
                _ => attributes::errno(&e),
            })?;
        let mut views = self.views.0.lock();
        views.last_handle += 1;
        let handle = views.last_handle;
        views.open.insert(handle, text.into());
        Ok(handle)
    }

    /// Reads from an open file of a view.
    pub(crate) fn read_view(&self, handle: u64, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let text = self
            .views
            .0
            .lock()
            .open
            .get(&handle)
            .cloned()
            .ok_or(Errno::EBADF)?;
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(text.len());
        let until = from.saturating_add(size as usize).min(text.len());
        Ok(text.get(from..until).unwrap_or_default().to_vec())
    }

    /// Closes a file of a view.
    pub(crate) fn close_view(&self, handle: u64) {
        self.views.0.lock().open.remove(&handle);
    }

    /// Passes the entries of a directory of views behind a position to `add`, each with its own position, until `add` returns true.
    pub(crate) fn list_view(
        &self,
        (number, handle): (u64, u64),
        offset: u64,
        add: &mut dyn FnMut(u64, &OsStr, &ViewEntry<'_>) -> bool,
    ) -> Answer<()> {
        let node = self.view_node(number)?;
        let above = match &node {
            ViewNode::Top => ROOT,
            ViewNode::View(_) => TOP,
            ViewNode::File(..) => number,
        };
        for (position, (dot, number)) in (1..).zip([(".", number), ("..", above)]) {
            if position > offset && add(position, OsStr::new(dot), &ViewEntry::Dot(number)) {
                return Ok(());
            }
        }
        let (view, directory) = match node {
            ViewNode::Top => {
                for (i, view) in (0..).zip(self.target.views()) {
                    let entry = ViewEntry::View(TOP + 1 + i);
                    if 3 + i > offset && add(3 + i, OsStr::new(view), &entry) {
                        break;
                    }
                }
                return Ok(());
            }
            ViewNode::View(view) => (view, self.node(ROOT)?),
            ViewNode::File(view, node) => (view, node),
        };
        let stream = self.streams.get(handle)?;
        let stream = &mut *stream.lock();
        self.list(&directory, stream, offset.max(2), &mut |position, entry| {
            let has_view = matches!(entry.inode.kind(), Kind::File | Kind::Directory);
            let file = ViewEntry::File(view, &directory, entry);
            if has_view && add(position, OsStr::from_bytes(entry.name.as_bytes()), &file) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    }

    /// Returns the inode number and kind of an entry, for a listing without attributes.
    pub(crate) fn view_entry_number(&self, entry: &ViewEntry<'_>) -> (u64, FileType) {
        match entry {
            ViewEntry::Dot(number) | ViewEntry::View(number) => (*number, FileType::Directory),
            ViewEntry::File(view, _, entry) => {
                let views = self.views.0.lock();
                let known = views.numbers.get(&(*view, entry.inode.id)).copied();
                let number = known.unwrap_or_else(|| self.nodes.number_of(entry.inode.id));
                (number, attributes::kind(entry.inode.kind()))
            }
        }
    }
}
