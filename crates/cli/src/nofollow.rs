//! Opening files component by component from the root without following links, so that concurrent renames cannot redirect the path.

use crate::file_attributes::{FileAt, NFS4_NAMES, nfs4_list};
use esker_model::namespace::{ACL_ACCESS, Acl, Nfs4Acl};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Flags for a folder that is only opened to reach its entries.
pub(crate) const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags for a folder that is listed.
const LISTED: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags for a file that is read; opening a pipe without a writer does not block.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// An opened file with its metadata and that of the folders above it, the root first. Where there is an access control list,
/// the bits of a mode are the permissions that all users of a class have.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) file: File,
    pub(crate) stat: Stat,
    pub(crate) above: Vec<Stat>,
}

/// Opens a regular file by an absolute path without links, `.` and `..`.
pub(crate) fn file(path: &Path) -> io::Result<OpenedFile> {
    at(path, |folder, name| file_at(folder, name))
}

/// Opens a folder for listing, by an absolute path without links, `.` and `..`.
pub(crate) fn folder(path: &Path) -> io::Result<OpenedFile> {
    at(path, |folder, name| folder_at(folder, name))
}

fn at(
    path: &Path,
    open: impl Fn(&OwnedFd, &OsStr) -> io::Result<(File, Stat)>,
) -> io::Result<OpenedFile> {
    let mut names: Vec<&OsStr> = path.iter().skip(1).collect();
    let last = names.pop().unwrap_or(OsStr::new("."));
    let mut folder = rustix::fs::open("/", FOLDER, Mode::empty())?;
    let mut above = vec![stat_of(&folder)?];
    for name in names {
        folder = rustix::fs::openat(&folder, name, FOLDER, Mode::empty())?;
        above.push(stat_of(&folder)?);
    }
    let (file, stat) = open(&folder, last)?;
    Ok(OpenedFile { file, stat, above })
}

/// Returns the metadata of an open file or folder. Where an access control list cannot be read, at most the owner keeps permissions.
fn stat_of(file: impl AsFd) -> io::Result<Stat> {
    let mut stat = rustix::fs::fstat(&file)?;
    let at = FileAt::Open(file.as_fd());
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    for name in NFS4_NAMES {
        let list = match at.get(name) {
            Ok(None) => continue,
            // Without names, entries of named users permit least.
            Ok(Some(value)) => nfs4_list(name, &value, &mut |_| None).unwrap_or_default(),
            Err(_) => Nfs4Acl::default(),
        };
        stat.st_mode &= !0o777 | list.common_mode(is_directory);
        return Ok(stat);
    }
    // A list with an empty mask is not consulted by the kernel.
    if stat.st_mode & 0o070 == 0 {
        return Ok(stat);
    }
    let list = match at.get(ACL_ACCESS) {
        Ok(Some(value)) => Acl::parse(&value).ok(),
        Ok(None) => return Ok(stat),
        Err(_) => None,
    };
    stat.st_mode &= match list {
        Some(Some(acl)) => !0o077 | common_mode(&acl),
        Some(None) => !0,
        None => !0o077,
    };
    Ok(stat)
}

/// Returns the permissions of the group and of others that each member of the class has, whichever entries of the list name them.
fn common_mode(acl: &Acl) -> u32 {
    let mask = acl.mask.unwrap_or(7);
    let all = |named: &[(u32, u8)]| named.iter().fold(7, |all, (_, p)| all & p & mask);
    let (users, groups) = (all(&acl.users), all(&acl.groups));
    u32::from(acl.group & mask & users) << 3 | u32::from(acl.other & users & groups)
}

/// Opens a regular file in an open folder.
pub(crate) fn file_at(folder: impl AsFd, name: &OsStr) -> io::Result<(File, Stat)> {
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    // Opening a device can have side effects, so the type is checked first.
    if !is_file(&rustix::fs::statat(
        &folder,
        name,
        AtFlags::SYMLINK_NOFOLLOW,
    )?) {
        return Err(no_file());
    }
    let file = rustix::fs::openat(&folder, name, READ, Mode::empty())?;
    let stat = stat_of(&file)?;
    if !is_file(&stat) {
        return Err(no_file());
    }
    Ok((File::from(file), stat))
}

/// Opens a subfolder of an open folder, for listing.
pub(crate) fn folder_at(folder: impl AsFd, name: &OsStr) -> io::Result<(File, Stat)> {
    let file = rustix::fs::openat(&folder, name, LISTED, Mode::empty())?;
    let stat = stat_of(&file)?;
    Ok((File::from(file), stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_class_has_what_all_of_its_users_have() {
        let acl = |users: &[(u32, u8)], group, groups: &[(u32, u8)], other| Acl {
            owner: 6,
            users: users.to_vec(),
            group,
            groups: groups.to_vec(),
            mask: Some(4),
            other,
        };
        for (list, expected) in [
            (acl(&[], 7, &[], 4), 0o044),
            (acl(&[], 0, &[(9, 7)], 4), 0o004),
            (acl(&[(9, 6)], 4, &[], 4), 0o044),
            (acl(&[(9, 0)], 4, &[], 4), 0),
            (acl(&[], 4, &[(9, 0)], 4), 0o040),
        ] {
            assert_eq!(common_mode(&list), expected, "{list:?}");
        }
    }

    #[test]
    fn the_mask_is_not_what_the_group_has() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap().join("f");
        std::fs::write(&at, "").unwrap();
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(file(&at).unwrap().stat.st_mode & 0o777, 0o640);
        let list = Acl {
            owner: 6,
            users: vec![(4_000_000_001, 4)],
            group: 0,
            groups: Vec::new(),
            mask: Some(4),
            other: 0,
        };
        let flags = rustix::fs::XattrFlags::empty();
        let name = "system.posix_acl_access";
        match rustix::fs::setxattr(&at, name, &list.encode(), flags) {
            // The file system of temporary files has no access control lists.
            Err(Errno::NOTSUP) => {}
            set => {
                set.unwrap();
                assert_eq!(file(&at).unwrap().stat.st_mode & 0o777, 0o600);
            }
        }
    }
}
