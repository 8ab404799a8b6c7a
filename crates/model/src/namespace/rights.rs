//! What a user may give a file besides its mode and owner: extended attributes, and the object that holds its content.

use super::tags::TAG_PREFIX;
use super::{Content, Errno, FileError, Kind, Make, XATTR_BYTES_MAX, XATTRS_BYTES_MAX, display};
use crate::object::Asker;

/// Longest name of an extended attribute, in bytes (`XATTR_NAME_MAX`).
const XATTR_NAME_BYTES_MAX: usize = 255;

/// Whether nothing is refused to whoever asks: user 0, or a caller that asks on nobody's behalf.
pub fn is_superuser(asker: Option<&Asker>) -> bool {
    asker.is_none_or(|a| a.uid == 0)
}

/// Refuses the name of an extended attribute that a file of that kind does not have, or that only the superuser may set
/// (`xattr(7)`: `user.…` is for files and directories, `trusted.…` and `security.…` are the superuser's).
pub fn check_xattr_name(
    kind: Kind,
    asker: Option<&Asker>,
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
    } else if is(b"trusted.") || is(b"security.") {
        is_superuser(asker)
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

/// Refuses what a file that is to be made may not have: too many or too large extended attributes; and, unless the superuser asks, attributes
/// that [`check_xattr_name`] refuses, tags (they are set afterwards), and a content that lies in an object.
pub fn check_made(
    asker: Option<&Asker>,
    kind: Kind,
    make: &Make,
    path: &dyn Fn() -> String,
) -> Result<(), FileError> {
    let total: usize = make.xattrs.iter().map(|(n, v)| n.len() + v.len()).sum();
    if total > XATTRS_BYTES_MAX || make.xattrs.iter().any(|(_, v)| v.len() > XATTR_BYTES_MAX) {
        return Err(Errno::NoSpace.at(path()));
    }
    if is_superuser(asker) {
        return Ok(());
    }
    check_object(asker, &Content::None, &make.content, path)?;
    for (name, _) in &make.xattrs {
        check_xattr_name(kind, asker, name, path)?;
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

/// Refuses a content that lies in an object which the file did not lead to before, unless the superuser asks.
///
/// Objects are files of the data folders of mounts, which open them with the rights of whoever mounted. So only the mount itself says which object a
/// file leads to: a user who could say it would read and write the content of any other file.
pub fn check_object(
    asker: Option<&Asker>,
    present: &Content,
    content: &Content,
    path: &dyn Fn() -> String,
) -> Result<(), FileError> {
    if matches!(content, Content::Object(_)) && content != present && !is_superuser(asker) {
        let why = format!(
            "{}: only a mount says which object holds its content",
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
        let user = Asker {
            uid: 7,
            gids: vec![7],
        };
        let at = || "/f".to_owned();
        let refused = |make: &Make| {
            let kind = Kind::of_mode(make.mode).unwrap();
            assert_eq!(check_made(None, kind, make, &at), Ok(()), "{make:?}");
            check_made(Some(&user), kind, make, &at).map_err(|e| e.errno)
        };
        let with = |mode, name: &[u8]| Make {
            xattrs: vec![(name.to_vec(), b"v".to_vec())],
            ..Make::new(mode, 7, 7)
        };
        let file = 0o10_0644;
        assert_eq!(refused(&with(file, b"user.a")), Ok(()));
        for (mode, name, errno) in [
            (file, &b"trusted.a"[..], Errno::NotPermitted),
            (file, b"security.capability", Errno::NotPermitted),
            (file, b"system.posix_acl_access", Errno::NotSupported),
            (file, b"user.esker.tag", Errno::Invalid),
            (file, b"user.", Errno::NotSupported),
            (0o12_0777, b"user.a", Errno::NotPermitted),
        ] {
            assert_eq!(refused(&with(mode, name)), Err(errno), "{}", display(name));
        }
        let object = Make {
            content: Content::Object(b"/data/07/07".to_vec()),
            ..Make::new(file, 7, 7)
        };
        assert_eq!(refused(&object), Err(Errno::NotPermitted));
        let large = Make {
            xattrs: vec![(b"user.a".to_vec(), vec![0; XATTRS_BYTES_MAX])],
            ..Make::new(file, 7, 7)
        };
        let root = check_made(None, Kind::File, &large, &at).map_err(|e| e.errno);
        assert_eq!(root, Err(Errno::NoSpace));
    }
}
