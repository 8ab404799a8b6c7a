//! Extended attributes, tags among them, and how much room there is.

use crate::attributes;
use crate::files::{Answer, Files};
use crate::nodes::Node;
use esker_model::namespace::{Change, SpaceBy, XattrMode};
use esker_model::object::Asker;
use fuser::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CREATE: i32 = 1;
const REPLACE: i32 = 2;
const REMEMBERED: Duration = Duration::from_secs(1);

/// How much room there is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Space {
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    pub(crate) available: u64,
    pub(crate) files: u64,
    pub(crate) block_bytes: u32,
}

impl Files {
    /// The value of an attribute.
    pub(crate) fn xattr(&self, node: &Arc<Node>, name: &[u8]) -> Answer<Vec<u8>> {
        if name.starts_with(b"system.") {
            return Err(Errno::EOPNOTSUPP);
        }
        let inode = self.stat(node)?;
        let found = inode.xattrs.into_iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value).ok_or(Errno::ENODATA)
    }

    /// All names, each with a zero byte behind it.
    pub(crate) fn xattr_names(&self, asker: &Asker, node: &Arc<Node>) -> Answer<Vec<u8>> {
        let mut names = Vec::new();
        for (name, _) in self.stat(node)?.xattrs {
            if asker.uid != 0 && name.starts_with(b"trusted.") {
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
        asker: &Asker,
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
            Some(asker),
            Change::Xattr {
                path: node.handle(),
                name: name.to_vec(),
                value: value.map(<[u8]>::to_vec),
                mode,
            },
        )?;
        Ok(())
    }

    /// How much room there is: in the data folders together, or as far as one can tell none.
    pub(crate) fn room(&self) -> Answer<Space> {
        let mut known = self.space.lock();
        if let Some((when, space)) = &*known
            && when.elapsed() < REMEMBERED
        {
            return Ok(*space);
        }
        let mut space = Space {
            block_bytes: attributes::BLOCK_BYTES,
            ..Space::default()
        };
        let block = u64::from(space.block_bytes);
        let mut seen = Vec::new();
        for path in self.folders.paths() {
            let Ok(there) = rustix::fs::statvfs(path) else {
                continue;
            };
            // Folders of one file system have its room once.
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
