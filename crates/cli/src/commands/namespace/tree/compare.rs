//! Comparison of a file of this machine with its entry in the database.

use super::attributes::{ScanAttributes, ScannedAttributes};
use esker::Database;
use esker_model::namespace::{
    Change, Content, INODE_FLAGS, Inode, Kind, NamePath, Namespace as _, NewFile, PROJECT_ID,
    SetAttributes, XattrMode,
};
use esker_model::{NeverCancel, Result};
use rustix::fs::{self, AtFlags, Mode, OFlags, Stat, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno as Os;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Flags of inodes that `statx` reports, with the words by which filters find them.
const FLAGS: [(StatxAttributes, &str); 6] = [
    (StatxAttributes::APPEND, "append"),
    (StatxAttributes::COMPRESSED, "compressed"),
    (StatxAttributes::ENCRYPTED, "encrypted"),
    (StatxAttributes::IMMUTABLE, "immutable"),
    (StatxAttributes::NODUMP, "nodump"),
    (StatxAttributes::VERITY, "verity"),
];

/// Metadata of a file of this machine.
pub(super) struct FileMetadata {
    pub(super) mode: u32,
    pub(super) links: u32,
    /// Device and inode number; names with the same pair are one file.
    pub(super) identity: (u64, u64),
    uid: u32,
    gid: u32,
    size: u64,
    blocks: u64,
    rdev: u64,
    /// Times of access, content change, attribute change and creation, in nanoseconds since 1970.
    times: [Option<i64>; 4],
    pub(super) target: Option<Vec<u8>>,
    flags: StatxAttributes,
    /// Extended attributes to store, sorted by name; `None` if they were not read.
    attributes: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// Changes that make a file of the database equal to one of this machine.
pub(super) struct FileDifference {
    set: SetAttributes,
    put: Vec<(Vec<u8>, Vec<u8>)>,
    removed: Vec<Vec<u8>>,
}

impl FileDifference {
    /// Returns the changes in an order in which no state between them permits more than the states before and after: a list is set
    /// before the mode of a file, and removed after it. The times come last, because all other changes set them.
    pub(super) fn into_changes(self, path: &NamePath) -> Vec<Change> {
        let xattr = |name, value| Change::Xattr {
            path: path.clone(),
            name,
            value,
            mode: XattrMode::Any,
        };
        let set = |set| Change::Set {
            path: path.clone(),
            follow: false,
            set,
        };
        let times = SetAttributes {
            atime: self.set.atime,
            mtime: self.set.mtime,
            ctime: self.set.ctime,
            ..SetAttributes::default()
        };
        let again = (!self.removed.is_empty()).then(|| set(times));
        let put = self
            .put
            .into_iter()
            .map(|(name, value)| xattr(name, Some(value)));
        let removed = self.removed.into_iter().map(|name| xattr(name, None));
        put.chain([set(self.set)])
            .chain(removed)
            .chain(again)
            .collect()
    }
}

fn nanos(seconds: i64, nanos: u32) -> i64 {
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(nanos))
}

/// Reads the metadata of an entry of an open directory; for a symbolic link, of the link itself; for the empty name, of the
/// directory.
pub(super) fn stat_entry(directory: impl AsFd, name: &std::ffi::CStr) -> Result<FileMetadata, Os> {
    let directory = directory.as_fd();
    let own = if name.is_empty() {
        AtFlags::EMPTY_PATH
    } else {
        AtFlags::empty()
    };
    let flags = own | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let want = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let mut found = match fs::statx(directory, name, flags, want) {
        Ok(statx) => of_statx(&statx),
        // Kernels before 4.11 and some sandboxes lack `statx`.
        Err(Os::NOSYS) => of_stat(&fs::statat(
            directory,
            name,
            own | AtFlags::SYMLINK_NOFOLLOW,
        )?),
        Err(e) => return Err(e),
    };
    if Kind::of_mode(found.mode) == Some(Kind::Symlink) {
        found.target = Some(fs::readlinkat(directory, name, Vec::new())?.into_bytes());
    }
    Ok(found)
}

/// Reads the metadata of a file by its path.
pub(super) fn stat_path(path: &Path, reader: &ScanAttributes) -> std::io::Result<FileMetadata> {
    let file = open_place(path)?;
    let mut found = stat_entry(&file, c"")?;
    found.set_attributes(reader.read_open(found.kind(), file.as_fd()));
    Ok(found)
}

/// Returns the device and inode number of a directory.
pub(super) fn identity_of(path: &Path) -> std::io::Result<(u64, u64)> {
    Ok(stat_entry(open_place(path)?, c"")?.identity)
}

/// Opens a file as a place in the file system: for its metadata alone.
fn open_place(path: &Path) -> Result<OwnedFd, Os> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::open(path, flags, Mode::empty())
}

/// Reads the metadata of an open directory.
pub(super) fn stat_open(
    directory: impl AsFd,
    reader: &ScanAttributes,
) -> std::io::Result<FileMetadata> {
    let mut found = stat_entry(&directory, c"")?;
    found.set_attributes(reader.read_open(found.kind(), directory.as_fd()));
    Ok(found)
}

fn of_statx(s: &Statx) -> FileMetadata {
    let time = |t: &fs::StatxTimestamp| Some(nanos(t.tv_sec, t.tv_nsec));
    let device = |major: u32, minor: u32| fs::makedev(major, minor);
    let born = StatxFlags::from_bits_retain(s.stx_mask).contains(StatxFlags::BTIME);
    FileMetadata {
        mode: u32::from(s.stx_mode),
        links: s.stx_nlink,
        identity: (device(s.stx_dev_major, s.stx_dev_minor), s.stx_ino),
        uid: s.stx_uid,
        gid: s.stx_gid,
        size: s.stx_size,
        blocks: s.stx_blocks,
        rdev: device(s.stx_rdev_major, s.stx_rdev_minor),
        times: [
            time(&s.stx_atime),
            time(&s.stx_mtime),
            time(&s.stx_ctime),
            if born {
                time(&s.stx_btime)
            } else {
                time(&s.stx_ctime)
            },
        ],
        target: None,
        flags: s.stx_attributes & s.stx_attributes_mask,
        attributes: None,
    }
}

#[expect(
    clippy::unnecessary_cast,
    reason = "these types differ between machines"
)]
fn of_stat(s: &Stat) -> FileMetadata {
    let time = |seconds: i64, n: u64| Some(nanos(seconds, n as u32));
    let ctime = time(s.st_ctime as i64, s.st_ctime_nsec as u64);
    FileMetadata {
        mode: s.st_mode,
        links: s.st_nlink as u32,
        identity: (s.st_dev as u64, s.st_ino as u64),
        uid: s.st_uid,
        gid: s.st_gid,
        size: s.st_size as u64,
        blocks: s.st_blocks as u64,
        rdev: s.st_rdev as u64,
        times: [
            time(s.st_atime as i64, s.st_atime_nsec as u64),
            time(s.st_mtime as i64, s.st_mtime_nsec as u64),
            ctime,
            ctime,
        ],
        target: None,
        flags: StatxAttributes::empty(),
        attributes: None,
    }
}

impl FileMetadata {
    /// Returns the metadata for a directory that does not exist on this machine.
    pub(super) fn directory() -> Self {
        Self {
            mode: Kind::Directory.bits() | 0o755,
            links: 2,
            identity: (0, 0),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            size: 0,
            blocks: 0,
            rdev: 0,
            times: [None; 4],
            target: None,
            flags: StatxAttributes::empty(),
            attributes: None,
        }
    }

    /// Adds the extended attributes of the file. One of which it is not known who may use it is nobody's.
    pub(super) fn set_attributes(&mut self, found: ScannedAttributes) {
        if found.attributes.unknown_access.is_some() {
            self.mode &= !0o777;
        }
        let mut values = found.attributes.values;
        let flags = FLAGS.iter().filter(|(flag, _)| self.flags.contains(*flag));
        let flags: Vec<&str> = flags.map(|(_, word)| *word).collect();
        if !flags.is_empty() {
            values.push((INODE_FLAGS.to_vec(), flags.join(" ").into_bytes()));
        }
        if let Some(project) = found.project.filter(|project| *project != 0) {
            values.push((PROJECT_ID.to_vec(), project.to_string().into_bytes()));
        }
        values.sort_unstable();
        self.attributes = Some(values);
    }

    /// Returns the size of the extended attributes in bytes.
    pub(super) fn attribute_bytes(&self) -> usize {
        let all = self.attributes.iter().flatten();
        all.map(|(name, value)| name.len() + value.len()).sum()
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::of_mode(self.mode).unwrap_or(Kind::File)
    }

    pub(super) fn is_directory(&self) -> bool {
        self.mode & Kind::MASK == Kind::Directory.bits()
    }

    /// Returns the attributes for creating the file.
    pub(super) fn into_new_file(self) -> NewFile {
        NewFile {
            mode: self.mode,
            umask: 0,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            blocks: self.blocks,
            rdev: self.rdev,
            times: self.times,
            content: self.target.map_or(Content::None, Content::Symlink),
            xattrs: self.attributes.unwrap_or_default(),
        }
    }

    /// Whether the database's file can be changed to this one by attributes alone.
    pub(super) fn can_become(&self, inode: &Inode) -> bool {
        let target = match &inode.content {
            Content::Symlink(target) => Some(target),
            _ => None,
        };
        inode.mode & Kind::MASK == self.mode & Kind::MASK
            && self.target.as_ref() == target
            && inode.rdev == self.rdev
    }

    /// Returns the attributes to change; none if only the access time differs, because a scan changes it. A directory that lost an entry
    /// always gets its times.
    pub(super) fn changes(
        &self,
        inode: &Inode,
        removed: bool,
        reader: &ScanAttributes,
    ) -> Option<FileDifference> {
        let (put, taken) = self.attribute_changes(inode, reader);
        let set = self.changes_of_inode(inode, removed || !put.is_empty() || !taken.is_empty())?;
        Some(FileDifference {
            set,
            put,
            removed: taken,
        })
    }

    /// Returns the extended attributes to set, and those to remove: only such as a scan reads.
    fn attribute_changes(
        &self,
        inode: &Inode,
        reader: &ScanAttributes,
    ) -> (Vec<(Vec<u8>, Vec<u8>)>, Vec<Vec<u8>>) {
        let Some(found) = &self.attributes else {
            return (Vec::new(), Vec::new());
        };
        let new = found.iter().filter(|entry| !inode.xattrs.contains(entry));
        let is_gone = |name: &Vec<u8>| !found.iter().any(|(n, _)| n == name);
        let stored = inode.xattrs.iter().map(|(name, _)| name);
        let gone = stored.filter(|name| is_gone(name) && reader.stores(name));
        (new.cloned().collect(), gone.cloned().collect())
    }

    fn changes_of_inode(&self, inode: &Inode, demanded: bool) -> Option<SetAttributes> {
        let differ = |a: Option<i64>, b: i64| a.is_some_and(|a| a != b);
        let [atime, mtime, ctime, _] = self.times;
        let directory = self.is_directory();
        let same = (self.mode, self.uid, self.gid, self.blocks)
            == (inode.mode, inode.uid, inode.gid, inode.blocks)
            && (directory || self.size == inode.size)
            && !differ(mtime, inode.mtime)
            && !differ(ctime, inode.ctime);
        if same && !demanded {
            return None;
        }
        let sized = !directory && self.target.is_none() && self.size != inode.size;
        // A change of size or owner clears the setuid bit, unless the mode is set again.
        let drops = sized || (self.uid, self.gid) != (inode.uid, inode.gid);
        Some(SetAttributes {
            mode: ((self.mode != inode.mode || drops) && self.target.is_none())
                .then_some(self.mode & 0o7777),
            uid: (self.uid != inode.uid).then_some(self.uid),
            gid: (self.gid != inode.gid).then_some(self.gid),
            size: sized.then_some(self.size),
            blocks: (self.blocks != inode.blocks).then_some(self.blocks),
            atime,
            mtime,
            ctime,
            content: None,
        })
    }
}

/// Appends the changes that remove a path and everything below it.
pub(super) fn removal(database: &Database, path: &NamePath, out: &mut Vec<Change>) -> Result<()> {
    let mut directories = Vec::new();
    database.walk(None, path, &NeverCancel, &mut |path, inode| {
        if inode.is_directory() {
            directories.push(path.clone());
        } else {
            out.push(Change::Unlink(path.clone()));
        }
        ControlFlow::Continue(())
    })?;
    out.extend(directories.into_iter().rev().map(Change::Rmdir));
    Ok(())
}

/// Returns the changes of a file's own attributes, for a directory after those of its entries; none if it cannot be read any more.
pub(super) fn own_changes(
    database: &Database,
    found: std::io::Result<FileMetadata>,
    path: &NamePath,
    removed: bool,
    reader: &ScanAttributes,
) -> Vec<Change> {
    let changes = || {
        let inode = database.stat(None, path, false).ok()?;
        found.ok()?.changes(&inode, removed, reader)
    };
    changes().map_or_else(Vec::new, |difference| difference.into_changes(path))
}

/// Returns the changes that make `to` and `from` names of one file, unless they are, and whether `from` is the one that changes: the
/// file that the graph knows is kept, since its tags and edges would go with it.
pub(super) fn link(
    database: &Database,
    from: NamePath,
    to: NamePath,
) -> Result<(Vec<Change>, bool)> {
    let mut changes = Vec::new();
    let Ok(there) = database.stat(None, &to, false) else {
        changes.push(Change::Link { from, to });
        return Ok((changes, false));
    };
    let first = database.stat(None, &from, false).ok();
    if first.as_ref().is_some_and(|first| first.id == there.id) {
        return Ok((changes, false));
    }
    let keeps_second = there.tracked && first.is_some_and(|first| !first.tracked);
    let (kept, changed) = if keeps_second { (to, from) } else { (from, to) };
    removal(database, &changed, &mut changes)?;
    changes.push(Change::Link {
        from: kept,
        to: changed,
    });
    Ok((changes, keeps_second))
}
