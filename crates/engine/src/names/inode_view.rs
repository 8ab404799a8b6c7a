//! An inode as a principal sees it: without what the principal may not read, and with what is derived from entries.

use esker_model::Version;
use esker_model::namespace::{Content, Inode, Kind, NamePath, is_acl};
use esker_model::object::Principal;

const READ: u32 = 4;

/// The time of a version, in nanoseconds since 1970; unique for each version.
pub(super) fn nanos(version: Version) -> i64 {
    let millis = version.millis().cast_signed();
    let logical = i64::from((version.0 & 0xFFFF) as u16);
    millis.saturating_mul(1_000_000).saturating_add(logical)
}

/// Whether a file's content may be read, according to its handle or else to its mode.
fn readable(inode: &Inode, principal: Option<&Principal>, path: &NamePath) -> bool {
    let granted = path.handle().map(|h| h.read);
    granted.unwrap_or_else(|| inode.allows(principal, READ))
}

/// Removes what the principal may not read. Access to content depends on the mode of opening, if the path is a handle; access to
/// attributes depends on present permissions, as in the kernel.
pub(super) fn hide_unreadable(
    principal: Option<&Principal>,
    path: &NamePath,
    mut inode: Inode,
) -> Inode {
    if !inode.allows(principal, READ) {
        // Access control lists are visible like the mode, which means nothing without them.
        inode.xattrs.retain(|(name, _)| is_acl(name));
    }
    if inode.kind() != Kind::Symlink && !readable(&inode, principal, path) {
        inode.content = Content::None;
    }
    if principal.is_some_and(|a| a.uid != 0) {
        inode
            .xattrs
            .retain(|(name, _)| !name.starts_with(b"trusted."));
    }
    inode
}

/// Sets a directory's link count and times, which are derived from its entries.
pub(super) fn with_sums(mut inode: Inode, directories: i64, changed: i64) -> Inode {
    let links = u32::try_from(directories.max(0).saturating_add(2));
    inode.links = links.unwrap_or(u32::MAX);
    changed_by_entries(inode, changed)
}

/// Sets a directory's times to that of its last change of entries, if it is newer than its inode.
pub(super) fn changed_by_entries(mut inode: Inode, changed: i64) -> Inode {
    if changed > nanos(inode.version) {
        inode.mtime = changed;
        inode.ctime = changed;
    }
    inode
}
