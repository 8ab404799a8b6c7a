//! Rules for what a user may give a file besides its mode and owner: extended attributes, and the object that has its
//! content.
//!
//! The attributes `system.esker.…` have what a scan reads besides: the project of a file, and its flags.

use super::tags::TAG_PREFIX;
use super::{
    Content, Errno, FileError, Kind, NewFile, XATTR_BYTES_MAX, XATTRS_BYTES_MAX, display, is_acl,
};
use crate::object::Principal;

/// Longest name of an extended attribute, in bytes (`XATTR_NAME_MAX`).
const XATTR_NAME_BYTES_MAX: usize = 255;

/// Name of the extended attribute with the number of a file's project, in decimal digits.
pub const PROJECT_ID: &[u8] = b"system.esker.project";
/// Name of the extended attribute with the flags of an inode: words, separated by spaces.
pub const INODE_FLAGS: &[u8] = b"system.esker.flags";

/// Whether the principal may do everything: user 0, or `None`, the owner of the database.
pub fn is_superuser(principal: Option<&Principal>) -> bool {
    principal.is_none_or(|a| a.uid == 0)
}

/// Refuses the name of an extended attribute that files of that kind do not have, or that only the superuser may set
/// (`xattr(7)`: `user.…` is for files and directories, `trusted.…` and `security.…` are the superuser's). Access control
/// lists are the only attributes `system.…`.
pub fn check_xattr_name(
    kind: Kind,
    principal: Option<&Principal>,
    name: &[u8],
    path: &dyn Fn() -> String,
) -> Result<(), FileError> {
    if name.len() > XATTR_NAME_BYTES_MAX || name.contains(&0) {
        let why = format!("{}: `{}` names no attribute", path(), display(name));
        return Err(Errno::Invalid.at(why));
    }
    let is = |prefix: &[u8]| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty())
    };
    let allowed = if is(b"user.") {
        matches!(kind, Kind::File | Kind::Directory)
    } else if is_acl(name) && kind != Kind::Symlink {
        // Only of their own files: the caller knows the owner.
        true
    } else if is(b"trusted.") || is(b"security.") || [PROJECT_ID, INODE_FLAGS].contains(&name) {
        is_superuser(principal)
    } else {
        let why = format!("{}: attribute `{}`", path(), display(name));
        return Err(Errno::NotSupported.at(why));
    };
    if allowed {
        Ok(())
    } else {
        Err(Errno::NotPermitted.at(path()))
    }
}

/// Refuses attributes that a new file may not have: too many or too large extended attributes and, unless the superuser
/// asks, names that [`check_xattr_name`] refuses, tags (they are set after creation), and content in an object.
pub fn check_new_file(
    principal: Option<&Principal>,
    kind: Kind,
    make: &NewFile,
    path: &dyn Fn() -> String,
) -> Result<(), FileError> {
    let total: usize = make.xattrs.iter().map(|(n, v)| n.len() + v.len()).sum();
    if total > XATTRS_BYTES_MAX || make.xattrs.iter().any(|(_, v)| v.len() > XATTR_BYTES_MAX) {
        return Err(Errno::NoSpace.at(path()));
    }
    if is_superuser(principal) {
        return Ok(());
    }
    check_object(principal, &Content::None, &make.content, path)?;
    for (name, _) in &make.xattrs {
        check_xattr_name(kind, principal, name, path)?;
        if name.starts_with(TAG_PREFIX) {
            let why = format!(
                "{}: tag `{}` of a file that is not made yet",
                path(),
                display(name)
            );
            return Err(Errno::Invalid.at(why));
        }
    }
    Ok(())
}

/// Refuses content in an object that the file did not refer to before, unless the superuser asks.
///
/// Objects are files in the data folders of mounts, which open them with the rights of the user who mounted. So only
/// the mount itself may say which object a file refers to: otherwise a user could read and write the content of any
/// other file.
pub fn check_object(
    principal: Option<&Principal>,
    present: &Content,
    content: &Content,
    path: &dyn Fn() -> String,
) -> Result<(), FileError> {
    if matches!(content, Content::Object(_)) && content != present && !is_superuser(principal) {
        let why = format!(
            "{}: only a mount sets which object holds its content",
            path()
        );
        return Err(Errno::NotPermitted.at(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_superuser_gives_is_refused_to_others() {
        let user = Principal {
            uid: 7,
            gids: vec![7],
        };
        let at = || "/f".to_owned();
        let refused = |make: &NewFile| {
            let kind = Kind::of_mode(make.mode).unwrap();
            assert_eq!(check_new_file(None, kind, make, &at), Ok(()), "{make:?}");
            check_new_file(Some(&user), kind, make, &at).map_err(|e| e.errno)
        };
        let with = |mode, name: &[u8]| NewFile {
            xattrs: vec![(name.to_vec(), b"v".to_vec())],
            ..NewFile::new(mode, 7, 7)
        };
        let file = 0o10_0644;
        assert_eq!(refused(&with(file, b"user.a")), Ok(()));
        assert_eq!(refused(&with(file, b"system.posix_acl_access")), Ok(()));
        for (mode, name, errno) in [
            (file, &b"trusted.a"[..], Errno::NotPermitted),
            (file, b"security.capability", Errno::NotPermitted),
            (file, b"system.other", Errno::NotSupported),
            (0o12_0777, b"system.posix_acl_access", Errno::NotSupported),
            (file, b"user.esker.tag", Errno::Invalid),
            (file, b"user.", Errno::NotSupported),
            (0o12_0777, b"user.a", Errno::NotPermitted),
        ] {
            assert_eq!(refused(&with(mode, name)), Err(errno), "{}", display(name));
        }
        let object = NewFile {
            content: Content::Object(b"/data/07/07".to_vec()),
            ..NewFile::new(file, 7, 7)
        };
        assert_eq!(refused(&object), Err(Errno::NotPermitted));
        let large = NewFile {
            xattrs: vec![(b"user.a".to_vec(), vec![0; XATTRS_BYTES_MAX])],
            ..NewFile::new(file, 7, 7)
        };
        let root = check_new_file(None, Kind::File, &large, &at).map_err(|e| e.errno);
        assert_eq!(root, Err(Errno::NoSpace));
    }
}
