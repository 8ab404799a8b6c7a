//! The FUSE handler: shared parts of the kernel's calls (creating, opening and listing files), and the start of a
//! mount.

use crate::attributes;
use crate::content::{Register, Reply, is_exclusive, reads, writes};
use crate::data::Folders;
use crate::files::{Answer, Files, Target, name};
use crate::fuse::GENERATION;
use crate::mount_point;
use crate::names::NewNode;
use crate::nodes::Node;
use crate::options::Options;
use crate::record::Recorder;
use crate::session::{Mounted, begin};
use crate::views::{ViewEntry, is_view};
use crate::write_journal;
use fuser::{
    Errno, FileHandle, INodeNo, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyXattr, Request,
};
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Mounts a namespace on a directory. Returns once it is mounted.
pub fn mount(target: Arc<dyn Target>, at: &Path, options: Options) -> io::Result<Mounted> {
    mount_recorded(target, at, options, None)
}

/// Mounts a namespace on a directory and records which process opens which file.
pub fn mount_recorded(
    target: Arc<dyn Target>,
    at: &Path,
    options: Options,
    recorder: Option<Arc<Recorder>>,
) -> io::Result<Mounted> {
    let invalid = |e: String| io::Error::new(io::ErrorKind::InvalidInput, e);
    options.check().map_err(|e| invalid(e.to_string()))?;
    let at = mount_point::demand_free(at)?;
    let folders = Folders::open(&options.data)?;
    if let Some(inside) = folders.paths().find(|p| p.starts_with(&at)) {
        return Err(invalid(format!(
            "data folder {} is below {}, where the mount would hide it: choose another one",
            inside.display(),
            at.display()
        )));
    }
    if !options.is_read_only() {
        let recovered = write_journal::recover(target.names(), &folders, true);
        recovered.map_err(|e| io::Error::other(e.to_string()))?;
    }
    raise_open_files();
    let files = Arc::new(Files {
        recorder,
        ..Files::new(target, options, folders)
    });
    let handler = FuseHandler(Arc::clone(&files));
    begin(handler, &at, &files.options, |notifier| {
        let _ = files.notifier.set(notifier);
    })
}

/// Raises the limit on open files, because each open file has a backing file.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the kernel refuses, the limit stays.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Handler of the FUSE library's calls.
pub(crate) struct FuseHandler(pub(crate) Arc<Files>);

impl FuseHandler {
    pub(crate) fn entry(&self, reply: ReplyEntry, made: Answer<fuser::FileAttr>) {
        match made {
            Ok(attributes) => reply.entry(&self.0.options.timeout, &attributes, GENERATION),
            Err(e) => reply.error(e),
        }
    }

    /// Returns the file handle for the kernel: the lowest bit says whether the file is open for writing, the others are
    /// its number in the recorder.
    pub(crate) fn handle(
        &self,
        request: &Request,
        node: &Arc<Node>,
        flags: i32,
        new: bool,
    ) -> FileHandle {
        let write = writes(flags);
        let recorded = self.0.recorder.as_ref().map_or(0, |recorder| {
            // A new file can be read only after it was written, so opening it does not count as a read.
            let how = (reads(flags) && !new, write);
            let path = self.0.nodes.file(node).ok();
            let path = path.and_then(|p| String::from_utf8(p.as_bytes().to_vec()).ok());
            recorder.opened((request.pid(), request.uid()), (node.id, path), how)
        });
        FileHandle(recorded << 1 | u64::from(write))
    }

    pub(crate) fn make(
        &self,
        request: &Request,
        (parent, name_): (INodeNo, &OsStr),
        new: NewNode,
    ) -> Answer<fuser::FileAttr> {
        let (directory, name) = (self.0.node(parent.0)?, name(name_)?);
        let principal = self.0.groups.principal(request);
        let owner = (request.uid(), request.gid());
        let inode = self.0.make(&principal, owner, (&directory, &name), new)?;
        Ok(self.0.register_node(&directory, &name, &inode).1)
    }
    /// Creates a file and opens it.
    pub(crate) fn create_and_open(
        &self,
        request: &Request,
        (parent, name_): (INodeNo, &OsStr),
        (new, flags): (NewNode, i32),
        register: Register<'_>,
    ) -> Answer<(fuser::FileAttr, FileHandle, Reply)> {
        let files = &self.0;
        let (directory, name) = (files.node(parent.0)?, name(name_)?);
        let principal = files.groups.principal(request);
        let owner = (request.uid(), request.gid());
        let inode = match files.make(&principal, owner, (&directory, &name), new) {
            // Another client created the file first: the kernel looks it up again and opens it like any file.
            Err(e) if e.code() == Errno::EEXIST.code() && !is_exclusive(flags) => {
                return Err(Errno::ESTALE);
            }
            made => made?,
        };
        let (node, attributes) = files.register_node(&directory, &name, &inode);
        match files.open_new(&node, &inode, flags, register) {
            Ok(opened) => {
                let handle = self.handle(request, &node, flags, true);
                Ok((attributes, handle, opened))
            }
            Err(e) => {
                files.nodes.forget(node.number, 1);
                Err(e)
            }
        }
    }

    /// Lists the names of a directory behind a position.
    pub(crate) fn list_names(
        &self,
        (ino, fh): (INodeNo, FileHandle),
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Answer<()> {
        if is_view(ino.0) {
            return self
                .0
                .list_view((ino.0, fh.0), offset, &mut |position, name, entry| {
                    let (number, kind) = self.0.view_entry_number(entry);
                    reply.add(INodeNo(number), position, kind, name)
                });
        }
        let node = self.0.node(ino.0)?;
        let dots = [(".", node.number), ("..", node.parent_number())];
        for (place, (dot, number)) in (1..).zip(dots) {
            let directory = fuser::FileType::Directory;
            if place > offset && reply.add(INodeNo(number), place, directory, dot) {
                return Ok(());
            }
        }
        let stream = self.0.streams.get(fh.0)?;
        let stream = &mut *stream.lock();
        self.0
            .list(&node, stream, offset.max(2), &mut |place, entry| {
                let number = self.0.nodes.number_of(entry.inode.id);
                let kind = attributes::kind(entry.inode.kind());
                let name = OsStr::from_bytes(entry.name.as_bytes());
                if reply.add(INodeNo(number), place, kind, name) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
    }

    /// Lists the entries of a directory behind a position, with their attributes.
    pub(crate) fn list_with_attributes(
        &self,
        (ino, fh): (INodeNo, FileHandle),
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Answer<()> {
        let timeout = self.0.options.timeout;
        if is_view(ino.0) {
            return self.list_views_with_attributes((ino, fh), offset, reply);
        }
        let node = self.0.node(ino.0)?;
        if offset < 2 {
            let own = self.0.attributes_of(&node)?;
            let above = fuser::FileAttr {
                ino: INodeNo(node.parent_number()),
                ..own
            };
            for (place, (dot, attributes)) in (1..).zip([(".", own), ("..", above)]) {
                // The kernel does not count look-ups of `.` and `..`.
                if place > offset
                    && reply.add(
                        attributes.ino,
                        place,
                        dot,
                        &timeout,
                        &attributes,
                        GENERATION,
                    )
                {
                    return Ok(());
                }
            }
        }
        let stream = self.0.streams.get(fh.0)?;
        let stream = &mut *stream.lock();
        self.0
            .list(&node, stream, offset.max(2), &mut |place, entry| {
                let (known, attributes) = self.0.register_node(&node, &entry.name, &entry.inode);
                let name = OsStr::from_bytes(entry.name.as_bytes());
                let number = INodeNo(known.number);
                if reply.add(number, place, name, &timeout, &attributes, GENERATION) {
                    self.0.nodes.forget(known.number, 1);
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
    }
}

impl FuseHandler {
    /// Lists the entries of a directory of views behind a position, with their attributes.
    fn list_views_with_attributes(
        &self,
        (ino, fh): (INodeNo, FileHandle),
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Answer<()> {
        let timeout = self.0.options.timeout;
        self.0
            .list_view((ino.0, fh.0), offset, &mut |position, name, entry| {
                // A file that was removed meanwhile is left out.
                let Ok(attributes) = self.0.register_view_entry(entry) else {
                    return false;
                };
                let number = attributes.ino;
                let full = reply.add(number, position, name, &timeout, &attributes, GENERATION);
                if full && matches!(entry, ViewEntry::File(..)) {
                    self.0.forget_view(number.0, 1);
                }
                full
            })
    }
}

pub(crate) fn reply_empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

pub(crate) fn reply_sized(reply: ReplyXattr, size: u32, answer: Answer<Vec<u8>>) {
    match answer {
        Ok(data) if size == 0 => reply.size(data.len() as u32),
        Ok(data) if data.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(data) => reply.data(&data),
        Err(e) => reply.error(e),
    }
}
