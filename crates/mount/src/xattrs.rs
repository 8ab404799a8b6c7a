//! Extended attributes, tags among them, and file system statistics.

use crate::attributes::{self, FsSpace};
use crate::files::{Answer, Files};
use crate::nodes::Node;
use esker_model::namespace::{Change, INODE_FLAGS, PROJECT_ID, SpaceBy, XattrMode, is_acl};
use esker_model::object::Principal;
use fuser::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CREATE: i32 = 1;
const REPLACE: i32 = 2;
const REMEMBERED: Duration = Duration::from_secs(1);

impl Files {
    /// Reads the value of an attribute.
    pub(crate) fn xattr(&self, node: &Arc<Node>, name: &[u8]) -> Answer<Vec<u8>> {
        if is_acl(name) {
            // The kernel asks before each check of a permission whose answer it does not know.
            let without = node.state().without_acls;
            if without.is_some_and(|when| when.elapsed() < self.options.timeout) {
                return Err(Errno::ENODATA);
            }
        } else if name.starts_with(b"system.") {
            return Err(Errno::EOPNOTSUPP);
        }
        let inode = self.stat(node)?;
        let found = inode.xattrs.into_iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value).ok_or(Errno::ENODATA)
    }

    /// Returns all names, each terminated by a zero byte.
    pub(crate) fn xattr_names(&self, principal: &Principal, node: &Arc<Node>) -> Answer<Vec<u8>> {
        let mut names = Vec::new();
        for (name, _) in self.stat(node)?.xattrs {
            // Attributes that only a scan reads have no names of the kernel.
            let is_scanned = [PROJECT_ID, INODE_FLAGS].contains(&&*name);
            if is_scanned || principal.uid != 0 && name.starts_with(b"trusted.") {
                continue;
            }
            names.extend_from_slice(&name);
            names.push(0);
        }
        Ok(names)
    }

    /// Sets an attribute, or removes it.
    pub(crate) fn set_xattr(
        &self,
        principal: &Principal,
        node: &Arc<Node>,
        name: &[u8],
        value: Option<&[u8]>,
        flags: i32,
    ) -> Answer<()> {
        let mode = match flags {
            CREATE => XattrMode::Create,
            REPLACE => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        self.change(
            Some(principal),
            Change::Xattr {
                path: node.handle(),
                name: name.to_vec(),
                value: value.map(<[u8]>::to_vec),
                mode,
            },
        )?;
        if is_acl(name) {
            node.note(&self.stat(node)?);
        }
        Ok(())
    }

    /// Returns the size and free space of the data folders together; without data folders, the size is that of the contents.
    pub(crate) fn statfs(&self) -> Answer<FsSpace> {
        let mut known = self.space.lock();
        if let Some((when, space)) = &*known
            && when.elapsed() < REMEMBERED
        {
            return Ok(*space);
        }
        let mut space = FsSpace {
            block_bytes: attributes::BLOCK_BYTES,
            ..FsSpace::default()
        };
        let block = u64::from(space.block_bytes);
        let mut seen = Vec::new();
        for path in self.folders.paths() {
            let Ok(there) = rustix::fs::statvfs(path) else {
                continue;
            };
            // Folders of one file system count its space once.
            if seen.contains(&there.f_fsid) {
                continue;
            }
            seen.push(there.f_fsid);
            let blocks = |n: u64| n.saturating_mul(there.f_frsize) / block;
            space.blocks += blocks(there.f_blocks);
            space.free += blocks(there.f_bfree);
            space.available += blocks(there.f_bavail);
        }
        let names = self.target.names();
        let sums = names.space(SpaceBy::Kind);
        let sums = sums.map_err(|e| attributes::errno(&e))?;
        space.files = sums
            .iter()
            .map(|s| s.usage.files + s.usage.directories)
            .sum();
        if seen.is_empty() {
            let bytes: u64 = sums.iter().map(|s| s.usage.bytes).sum();
            space.blocks = bytes.div_ceil(block);
        }
        *known = Some((Instant::now(), space));
        Ok(space)
    }
}
