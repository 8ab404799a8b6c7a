//! Open files: opening, reading, writing, and publishing what was written to the namespace.

use crate::attributes::{self, io_errno};
use crate::body::{Body, Published, Source, Stamp, read_at};
use crate::caller::MOUNT;
use crate::files::{Answer, Files};
use crate::mapping::may_be_used_elsewhere;
use crate::nodes::Node;
use esker_model::Error;
use esker_model::namespace::{Change, Content, Inode, Kind, SetAttributes};
use esker_model::object::Principal;
use fuser::{BackingId, Errno, FopenFlags};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A principal other than the superuser, where the writer is unknown.
const ANY_USER: Principal = Principal {
    uid: -1,
    gids: Vec::new(),
};
const SUID: u32 = 0o4000;
const SGID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o0010;

/// Open content of a file in this mount, shared by all who have it open.
#[derive(Debug)]
pub(crate) struct Opened {
    count: u64,
    pub(crate) content: OpenContent,
    /// Whether the kernel reads and writes the backing file itself, which applies to all who have the file open or to
    /// none.
    passthrough: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum OpenContent {
    /// Small content, read-only.
    Bytes(Arc<Vec<u8>>),
    /// A backing file.
    File(Arc<Body>),
}

/// Answer to an open, for the kernel.
pub(crate) struct Reply {
    pub(crate) flags: FopenFlags,
    pub(crate) backing: Option<Arc<BackingId>>,
}

/// Function that registers a backing file with the kernel.
pub(crate) type Register<'a> = &'a dyn Fn(&File) -> io::Result<BackingId>;

impl Opened {
    /// Returns the backing file, if there is one.
    pub(crate) fn body(&self) -> Option<Arc<Body>> {
        match &self.content {
            OpenContent::File(body) => Some(Arc::clone(body)),
            OpenContent::Bytes(_) => None,
        }
    }
}

/// Whether open flags permit writing.
pub(crate) fn writes(flags: i32) -> bool {
    let access = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::RWMODE;
    access != OFlags::RDONLY
}

/// Whether open flags permit reading.
pub(crate) fn reads(flags: i32) -> bool {
    let access = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::RWMODE;
    access != OFlags::WRONLY
}

/// Whether open flags truncate the content, which Linux permits for read-only opens too.
pub(crate) fn truncates(flags: i32) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()).contains(OFlags::TRUNC)
}

/// Whether open flags require that the file does not exist.
pub(crate) fn is_exclusive(flags: i32) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()).contains(OFlags::EXCL)
}

/// Returns the mode without the privileges that a write by this principal clears; `None` if the mode has no such privileges.
fn without_privileges(inode: &Inode, principal: &Principal) -> Option<u32> {
    if principal.uid == 0 || inode.kind() != Kind::File {
        return None;
    }
    let mut taken = inode.mode & SUID;
    let stranger = *principal != ANY_USER && !principal.gids.contains(&i64::from(inode.gid));
    if inode.mode & GROUP_EXECUTES != 0 || stranger {
        taken |= inode.mode & SGID;
    }
    (taken != 0).then_some(inode.mode & 0o7777 & !taken)
}

impl Files {
    /// Opens a file for the kernel.
    pub(crate) fn open(
        &self,
        principal: &Principal,
        node: &Arc<Node>,
        flags: i32,
        register: Register<'_>,
    ) -> Answer<Reply> {
        let mut opened = node.opened();
        let inode = self.present(node, opened.is_some())?;
        self.open_as(principal, node, &mut opened, &inode, flags, register)
    }

    /// Opens a file whose attributes are known.
    pub(crate) fn open_as(
        &self,
        principal: &Principal,
        node: &Arc<Node>,
        opened: &mut Option<Opened>,
        inode: &Inode,
        flags: i32,
        register: Register<'_>,
    ) -> Answer<Reply> {
        let changes = writes(flags) || truncates(flags);
        let told = node.state().reported == Some(inode.version);
        if !told {
            self.invalidate_attributes(node);
        }
        node.note(inode);
        match opened.as_mut() {
            None => {
                let content = self.begin(node, inode, changes)?;
                *opened = Some(Opened {
                    count: 0,
                    content,
                    passthrough: false,
                });
            }
            Some(now) => self.refresh(node, now, inode, changes)?,
        }
        let Some(now) = opened.as_mut() else {
            return Err(Errno::EIO);
        };
        if changes && let OpenContent::File(body) = &now.content {
            self.begin_writes(node, body);
        }
        if truncates(flags)
            && let OpenContent::File(body) = &now.content
            && let Err(e) = self.empty(principal, node, body)
        {
            self.end(node, opened);
            return Err(e);
        }
        Ok(self.opened(node, inode, now, flags, register))
    }

    /// Opens a file that was just created.
    pub(crate) fn open_new(
        &self,
        node: &Arc<Node>,
        inode: &Inode,
        flags: i32,
        register: Register<'_>,
    ) -> Answer<Reply> {
        let mut opened = node.opened();
        if opened.is_none() {
            let content = self.begin(node, inode, writes(flags))?;
            *opened = Some(Opened {
                count: 0,
                content,
                passthrough: false,
            });
        }
        match opened.as_mut() {
            Some(now) => Ok(self.opened(node, inode, now, flags, register)),
            None => Err(Errno::EIO),
        }
    }

    /// Reads the attributes of a file to open. If its name now means another file, returns `ESTALE`, so that the kernel
    /// looks the name up again.
    fn present(&self, node: &Arc<Node>, is_open: bool) -> Answer<Inode> {
        let _still = self.moving.read();
        if let Ok(path) = self.nodes.file(node)
            && let Ok(inode) = self.stat_path(&path)
            && inode.id == node.id
        {
            return Ok(inode);
        }
        if !is_open {
            return Err(Errno::ESTALE);
        }
        self.stat(node)
    }

    /// Loads the content of a file that nobody has open.
    fn begin(&self, node: &Node, inode: &Inode, write: bool) -> Answer<OpenContent> {
        let small: &[u8] = match &inode.content {
            Content::Inline(content) => content,
            Content::None if inode.size == 0 => &[],
            // A past content that another one has replaced.
            Content::Object(path) if path.is_empty() => return Err(Errno::ESTALE),
            Content::Object(path) => {
                let body = self.pool.open(path, node.id, !self.options.is_read_only());
                return match body {
                    Ok(body) => {
                        self.demand_past(&body, Some(inode.size))?;
                        Ok(OpenContent::File(Arc::new(body)))
                    }
                    Err(e)
                        if self.options.as_of.is_some() && e.kind() == io::ErrorKind::NotFound =>
                    {
                        Err(Errno::ESTALE)
                    }
                    Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(Errno::EOPNOTSUPP),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Errno::EIO),
                    Err(e) => Err(io_errno(&e)),
                };
            }
            Content::None | Content::Symlink(_) => return Err(Errno::EOPNOTSUPP),
        };
        if !write {
            return Ok(OpenContent::Bytes(Arc::new(small.to_vec())));
        }
        let body = self.pool.take(node.id, small);
        Ok(OpenContent::File(Arc::new(body.map_err(|e| io_errno(&e))?)))
    }

    /// Updates content that is open already with what others have written meanwhile, unless there are unpublished
    /// writes here.
    fn refresh(&self, node: &Node, opened: &mut Opened, inode: &Inode, write: bool) -> Answer<()> {
        let body = match &opened.content {
            OpenContent::Bytes(_) => {
                opened.content = match self.begin(node, inode, write) {
                    // A reader of a file without a name keeps its content.
                    Err(_) if inode.links == 0 && !write => return Ok(()),
                    content => content?,
                };
                return Ok(());
            }
            OpenContent::File(body) => body,
        };
        if matches!(*body.source.lock(), Source::Object) || inode.links == 0 {
            return Ok(());
        }
        let mut published = body.published.lock();
        let failed = |e: io::Error| io_errno(&e);
        let stamp = body.stamp().map_err(failed)?;
        if stamp.was_written_since(&published.stamp) {
            return Ok(());
        }
        match &inode.content {
            Content::Inline(content) if published.content.as_ref() != Some(content) => {
                body.file.set_len(content.len() as u64).map_err(failed)?;
                body.file.write_all_at(content, 0).map_err(failed)?;
                published.content = Some(content.clone());
            }
            Content::Object(path) => {
                let (object, _) = self
                    .folders
                    .open_object(path, node.id, false)
                    .map_err(failed)?;
                copy(&object, &body.file).map_err(failed)?;
                published.content = None;
            }
            _ => return Ok(()),
        }
        published.stamp = body.stamp().map_err(failed)?;
        Ok(())
    }

    /// Truncates the content to zero (`O_TRUNC`).
    fn empty(&self, principal: &Principal, node: &Node, body: &Body) -> Answer<()> {
        body.file.set_len(0).map_err(|e| io_errno(&e))?;
        let size = Some(0);
        let done = self.set(
            Some(principal),
            node,
            SetAttributes {
                size,
                ..SetAttributes::default()
            },
        )?;
        node.state().reported = Some(done.version);
        let stamp = body.stamp().map_err(|e| io_errno(&e))?;
        *body.published.lock() = Published {
            content: Some(Vec::new()),
            stamp,
        };
        Ok(())
    }

    /// Counts one more open and builds the answer for the kernel.
    fn opened(
        &self,
        node: &Node,
        inode: &Inode,
        opened: &mut Opened,
        flags: i32,
        register: Register<'_>,
    ) -> Reply {
        let (read, write) = (reads(flags), writes(flags));
        let mut backing = None;
        let may = opened.count == 0 && self.passthrough.load(Ordering::Relaxed);
        if (may || opened.passthrough)
            && let OpenContent::File(body) = &opened.content
            // The kernel does not clear privileges with passthrough, so that each write must come to this process.
            && (opened.passthrough || inode.mode & (SUID | SGID) == 0)
        {
            backing = self.backing(body, register);
            if read && backing.is_some() {
                body.expose();
            }
        }
        opened.count += 1;
        opened.passthrough = backing.is_some();
        let mut flags = FopenFlags::empty();
        // A recorder must see each close.
        if !write && self.recorder.is_none() {
            flags |= FopenFlags::FOPEN_NOFLUSH;
        }
        let mut state = node.state();
        if write {
            state.cached = None;
        } else if backing.is_none() && matches!(opened.content, OpenContent::Bytes(_)) {
            if state.cached == Some(inode.version) {
                flags |= FopenFlags::FOPEN_KEEP_CACHE;
            }
            state.cached = Some(inode.version);
        }
        Reply { flags, backing }
    }

    /// Registers a backing file with the kernel. If the kernel refuses, passthrough is switched off.
    fn backing(&self, body: &Body, register: Register<'_>) -> Option<Arc<BackingId>> {
        if matches!(*body.source.lock(), Source::Memory) {
            return None;
        }
        let mut backing = body.backing.lock();
        if backing.is_none() {
            match register(&body.file) {
                Ok(id) => *backing = Some(Arc::new(id)),
                Err(_) => self.passthrough.store(false, Ordering::Relaxed),
            }
        }
        backing.clone()
    }

    pub(crate) fn check_size_limit(&self, body: &Body, size: u64) -> Answer<()> {
        if size > self.options.inline_bytes as u64 && body.is_bounded() {
            return Err(Errno::EFBIG);
        }
        Ok(())
    }

    pub(crate) fn drop_privileges(&self, principal: &Principal, node: &Node) -> Answer<()> {
        let inode = self.stat(node)?;
        let Some(mode) = without_privileges(&inode, principal) else {
            return Ok(());
        };
        let mode = Some(mode);
        self.set(
            None,
            node,
            SetAttributes {
                mode,
                ..SetAttributes::default()
            },
        )?;
        self.invalidate_attributes(node);
        Ok(())
    }

    /// Tells the kernel that the attributes in its cache are old. Reading them again waits for nothing, not even for the answer
    /// to the present call.
    fn invalidate_attributes(&self, node: &Node) {
        if let Some(notifier) = self.notifier.get() {
            let _ = notifier.inval_inode(fuser::INodeNo(node.number), -1, 0);
        }
    }

    /// Truncates the content, or extends it with zero bytes.
    pub(crate) fn truncate(
        &self,
        principal: &Principal,
        node: &Arc<Node>,
        size: u64,
    ) -> Answer<()> {
        let failed = |e: io::Error| io_errno(&e);
        let mut opened = node.opened();
        let inode = self.stat(node)?;
        let inline = matches!(inode.content, Content::Inline(_) | Content::None);
        let body = opened.as_ref().and_then(Opened::body);
        if body.is_none() && inline && size <= self.options.inline_bytes as u64 {
            if matches!(inode.content, Content::None) && inode.size != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            let set = SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
            self.set(Some(principal), node, set)?;
            if let Some(now) = opened.as_mut() {
                let inode = self.stat(node)?;
                self.refresh(node, now, &inode, false)?;
            }
            return Ok(());
        }
        let (body, ours) = match body {
            Some(body) => (body, false),
            None => match self.begin(node, &inode, true)? {
                OpenContent::File(body) => (body, true),
                OpenContent::Bytes(_) => return Err(Errno::EIO),
            },
        };
        self.check_size_limit(&body, size)?;
        self.begin_writes(node, &body);
        body.file.set_len(size).map_err(failed)?;
        *body.published.lock() = Published::default();
        let done = self.publish(node, &body, false);
        if ours {
            self.release_body(node, body);
        }
        done?;
        self.drop_privileges(principal, node)
    }

    /// Publishes what was written to the namespace: small content itself, of large content its location and size.
    pub(crate) fn publish(&self, node: &Node, body: &Body, sync: bool) -> Answer<()> {
        self.publish_as(node, body, sync, false)
    }

    /// Publishes what was written; with `as_object` a small content becomes an object, too.
    fn publish_as(&self, node: &Node, body: &Body, sync: bool, as_object: bool) -> Answer<()> {
        let failed = |e: io::Error| io_errno(&e);
        if node.state().unlinked {
            return Ok(());
        }
        let mut published = body.published.lock();
        let stamp = body.stamp().map_err(failed)?;
        let written = stamp.was_written_since(&published.stamp);
        if written && node.state().privileged && body.backing.lock().is_some() {
            // The file was opened before it got privileges, so the kernel has not reported who wrote.
            self.drop_privileges(&ANY_USER, node)?;
        }
        let mut source = body.source.lock();
        // Times that were set stay until the next write.
        let time = written.then(|| node.state().time_of_write(stamp.mtime));
        let times = SetAttributes {
            mtime: time,
            ctime: time,
            ..SetAttributes::default()
        };
        if let Source::Pending(pending) = &mut *source
            && (as_object || stamp.size > self.options.inline_bytes as u64)
        {
            if !written && !as_object {
                return Ok(());
            }
            // A client that removed the file elsewhere will not remove an object created now.
            if self.stat(node)?.links == 0 {
                node.state().unlinked = true;
                return Ok(());
            }
            if sync {
                body.file.sync_data().map_err(failed)?;
            }
            // The kernel may continue to write it.
            self.journal.begin(node.id, &node.handle());
            let object = self.folders.link_object(pending, node.id).map_err(failed)?;
            if sync {
                sync_directory(&object).map_err(failed)?;
            }
            self.publish_object(node, &object, stamp, times)?;
            *source = Source::Object;
        } else if matches!(*source, Source::Object) {
            if stamp != published.stamp {
                // The size is published with the write even if it is the same.
                let set = SetAttributes {
                    size: written.then_some(stamp.size),
                    blocks: Some(stamp.blocks),
                    ..times
                };
                let told = self.set(Some(&MOUNT), node, set)?.version;
                node.state().reported = Some(told);
            }
            if sync {
                body.file.sync_data().map_err(failed)?;
            }
        } else {
            let content = body.small(stamp.size).map_err(failed)?;
            let same = published.content.as_ref() == Some(&content);
            if same && !written {
                return Ok(());
            }
            let set = SetAttributes {
                content: (!same).then(|| Content::Inline(content.clone())),
                ..times
            };
            let told = self.set(Some(&MOUNT), node, set)?.version;
            node.state().reported = Some(told);
            published.content = Some(content);
        }
        published.stamp = stamp;
        if written && body.is_exposed() {
            // The kernel does not notice that a write to a mapping changes the times.
            self.invalidate_attributes(node);
        }
        Ok(())
    }

    /// Makes an inode refer to its object.
    fn publish_object(
        &self,
        node: &Node,
        object: &Path,
        stamp: Stamp,
        times: SetAttributes,
    ) -> Answer<()> {
        let path = object.as_os_str().as_bytes();
        let set = |set| Change::Set {
            path: node.handle(),
            follow: false,
            set,
        };
        let leads = SetAttributes {
            content: Some(Content::Object(path.to_vec())),
            ..SetAttributes::default()
        };
        let sized = SetAttributes {
            size: Some(stamp.size),
            blocks: Some(stamp.blocks),
            ..times
        };
        match self.changes(&MOUNT, &[set(leads), set(sized)]) {
            Ok(done) => {
                let mut state = node.state();
                state.object = Some(path.into());
                if let Some(done) = done.last() {
                    state.reported = Some(done.version);
                }
                Ok(())
            }
            Err(e) => {
                // A refused change was not applied. Whether an unanswered one was is unknown: the object stays, and at
                // worst is an orphan.
                if matches!(e, Error::File(_)) {
                    let _ = self.folders.remove(path, node.id);
                }
                Err(attributes::errno(&e))
            }
        }
    }

    /// Publishes writes when a descriptor is closed.
    pub(crate) fn flush(&self, node: &Node) -> Answer<()> {
        match node.body() {
            Ok(body) => self.publish(node, &body, false),
            Err(_) => Ok(()),
        }
    }

    /// Makes what was written survive a power failure.
    pub(crate) fn sync(&self, node: &Node) -> Answer<()> {
        if let Ok(body) = node.body() {
            self.publish(node, &body, true)?;
        }
        self.target.persist().map_err(|e| attributes::errno(&e))
    }

    /// Closes the file for one who had it open.
    pub(crate) fn release(&self, node: &Node, write: bool) {
        let mut opened = node.opened();
        let body = opened.as_ref().and_then(Opened::body);
        if write && let Some(body) = body {
            // Writes to memory-mapped pages come after the last flush. Nobody waits for an error here.
            let _ = self.publish(node, &body, false);
        }
        self.end(node, &mut opened);
    }

    fn end(&self, node: &Node, opened: &mut Option<Opened>) {
        let Some(now) = opened.as_mut() else { return };
        now.count = now.count.saturating_sub(1);
        if now.count > 0 {
            return;
        }
        if let Some(Opened {
            content: OpenContent::File(body),
            ..
        }) = opened.take()
        {
            self.release_body(node, body);
        }
    }

    /// Records that an object may be written from now on.
    fn begin_writes(&self, node: &Node, body: &Body) {
        if matches!(*body.source.lock(), Source::Object) {
            self.journal.begin(node.id, &node.handle());
        }
    }

    /// Closes a body that nobody has open. If its last writes could not be published, the journal keeps it for the next mount.
    ///
    /// A program may have mapped the body before it closed the file. Then the body becomes an object, to which the program
    /// continues to write, and never the body of another file.
    fn release_body(&self, node: &Node, body: Arc<Body>) {
        let pending = matches!(*body.source.lock(), Source::Pending(_));
        let mapped = pending && body.is_exposed() && may_be_used_elsewhere(&body.file);
        if mapped {
            // No program waits for an error here.
            let _ = self.publish_as(node, &body, false, true);
        }
        let published = || body.stamp().is_ok_and(|s| s == body.published.lock().stamp);
        if matches!(*body.source.lock(), Source::Object) && (node.state().unlinked || published()) {
            self.journal.end(node.id);
        }
        if let Ok(body) = Arc::try_unwrap(body)
            && !mapped
        {
            self.pool.recycle(body);
        }
    }
}

/// Copies the whole content of one file to another.
fn copy(from: &File, to: &File) -> io::Result<()> {
    to.set_len(0)?;
    let mut buffer = vec![0; 1 << 16];
    let mut at = 0;
    loop {
        let n = read_at(from, &mut buffer, at)?;
        if n == 0 {
            return Ok(());
        }
        to.write_all_at(buffer.get(..n).unwrap_or_default(), at)?;
        at += n as u64;
    }
}

/// Syncs the directories on the object's path.
fn sync_directory(object: &Path) -> io::Result<()> {
    let Some(directory) = object.parent() else {
        return Ok(());
    };
    File::open(directory)?.sync_all()?;
    match directory.parent() {
        Some(above) => File::open(above)?.sync_all(),
        None => Ok(()),
    }
}
