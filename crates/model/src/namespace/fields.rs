//! Fields of files for filters.

use super::{Content, Inode, NamePath, display};
use crate::filter::Fields;
use crate::value::Value;
use std::borrow::Cow;

/// Field names that filters of files may use.
pub const FIELD_NAMES: [&str; 20] = [
    "path",
    "name",
    "type",
    "kind",
    "mode",
    "links",
    "uid",
    "owner",
    "gid",
    "size",
    "blocks",
    "allocated",
    "atime",
    "mtime",
    "modified",
    "ctime",
    "btime",
    "created",
    "depth",
    "target",
];

/// A file at a path, as filters see it.
#[derive(Debug, Clone, Copy)]
pub struct FileFields<'a> {
    /// Path of the file.
    pub path: &'a NamePath,
    /// Attributes of the file.
    pub inode: &'a Inode,
}

impl Fields for FileFields<'_> {
    fn field(&self, name: &str) -> Option<Cow<'_, Value>> {
        let text = |bytes: &[u8]| Value::String(display(bytes).to_string());
        let number = |n: u64| Value::I64(n.cast_signed());
        let inode = self.inode;
        Some(Cow::Owned(match name {
            "path" => text(self.path.as_bytes()),
            "name" => Value::String(
                self.path
                    .split()
                    .map_or_else(|| "/".to_owned(), |(_, n)| n.to_string()),
            ),
            "type" | "kind" => Value::String(inode.kind().name().to_owned()),
            "mode" => number(u64::from(inode.mode & 0o7777)),
            "links" => number(u64::from(inode.links)),
            "uid" | "owner" => number(u64::from(inode.uid)),
            "gid" => number(u64::from(inode.gid)),
            "size" => number(inode.size),
            "blocks" => number(inode.blocks),
            "allocated" => number(inode.blocks.saturating_mul(512)),
            "atime" => Value::Timestamp(inode.atime),
            "mtime" | "modified" => Value::Timestamp(inode.mtime),
            "ctime" => Value::Timestamp(inode.ctime),
            "btime" | "created" => Value::Timestamp(inode.btime),
            "depth" => number(self.path.names().count() as u64),
            "target" => match &inode.content {
                Content::Symlink(target) => text(target),
                _ => return None,
            },
            _ => return None,
        }))
    }
}
