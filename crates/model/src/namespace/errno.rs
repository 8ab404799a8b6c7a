//! What file systems refuse, by the names that POSIX gives.

use std::fmt;

/// Why something about files cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Errno {
    /// `ENOENT`: there is no such file or directory.
    NotFound = 0,
    /// `EEXIST`: there is one.
    Exists = 1,
    /// `ENOTDIR`: something on the way is no directory.
    NotDirectory = 2,
    /// `EISDIR`: it is a directory.
    IsDirectory = 3,
    /// `ENOTEMPTY`: a directory that is to go holds something.
    NotEmpty = 4,
    /// `EACCES`: the mode bits do not let this person do it.
    Access = 5,
    /// `EPERM`: only the owner, or the superuser, may do it.
    NotPermitted = 6,
    /// `ENAMETOOLONG`: a name over 255 bytes or a path over 4,096.
    NameTooLong = 7,
    /// `ELOOP`: more than 40 symbolic links on the way.
    Loop = 8,
    /// `EINVAL`: it makes no sense, as moving a directory into itself.
    Invalid = 9,
    /// `EMLINK`: a file has all the names it may have.
    TooManyLinks = 10,
    /// `EBUSY`: the root directory stays.
    Busy = 11,
    /// `ENODATA`: there is no such extended attribute.
    NoData = 12,
    /// `EFBIG`: the content is more than is kept here.
    TooBig = 13,
    /// `ENOSPC`: no room for what is asked.
    NoSpace = 14,
    /// `EOPNOTSUPP`: extended attributes of that name are not kept here.
    NotSupported = 15,
    /// `EBADF`: it is not open, or not for this.
    BadHandle = 16,
    /// `ESTALE`: nothing is known any more of the file that was open.
    Stale = 17,
    /// `EMFILE`: as many files are open as may be.
    TooManyOpen = 18,
    /// `ENXIO`: pipes, sockets and devices are the kernel's to open.
    NoDevice = 19,
}

impl Errno {
    const ALL: [(Self, &'static str, i32, &'static str); 20] = [
        (Self::NotFound, "ENOENT", 2, "no such file or directory"),
        (Self::Exists, "EEXIST", 17, "it exists already"),
        (Self::NotDirectory, "ENOTDIR", 20, "not a directory"),
        (Self::IsDirectory, "EISDIR", 21, "it is a directory"),
        (
            Self::NotEmpty,
            "ENOTEMPTY",
            39,
            "the directory is not empty",
        ),
        (Self::Access, "EACCES", 13, "permission denied"),
        (
            Self::NotPermitted,
            "EPERM",
            1,
            "only the owner or user 0 may do this",
        ),
        (
            Self::NameTooLong,
            "ENAMETOOLONG",
            36,
            "the name is longer than 255 bytes, or the path than 4,096",
        ),
        (
            Self::Loop,
            "ELOOP",
            40,
            "more than 40 symbolic links on the way",
        ),
        (Self::Invalid, "EINVAL", 22, "invalid argument"),
        (
            Self::TooManyLinks,
            "EMLINK",
            31,
            "the file has as many names as one may have",
        ),
        (
            Self::Busy,
            "EBUSY",
            16,
            "the root directory cannot be removed or renamed",
        ),
        (Self::NoData, "ENODATA", 61, "no such extended attribute"),
        (
            Self::TooBig,
            "EFBIG",
            27,
            "more content than is kept in a dentry",
        ),
        (Self::NoSpace, "ENOSPC", 28, "no space left"),
        (Self::NotSupported, "EOPNOTSUPP", 95, "not supported"),
        (Self::BadHandle, "EBADF", 9, "it is not open for this"),
        (
            Self::Stale,
            "ESTALE",
            116,
            "nothing is known any more of the file that was open",
        ),
        (
            Self::TooManyOpen,
            "EMFILE",
            24,
            "as many files are open as may be: close some",
        ),
        (
            Self::NoDevice,
            "ENXIO",
            6,
            "pipes, sockets and devices are opened by the kernel alone",
        ),
    ];

    fn row(self) -> (&'static str, i32, &'static str) {
        let found = Self::ALL.iter().find(|(e, ..)| *e == self);
        found.map_or(
            ("EIO", 5, "input/output error"),
            |(_, name, number, text)| (*name, *number, *text),
        )
    }

    /// As C programs write it.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its number on Linux.
    pub fn number(self) -> i32 {
        self.row().1
    }

    /// The one of that code (`as u8`).
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL
            .iter()
            .map(|(e, ..)| *e)
            .find(|e| *e as u8 == code)
    }

    /// The one of that number on Linux.
    pub fn of_number(number: i32) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, _, n, _)| *n == number);
        found.map(|(e, ..)| *e)
    }

    /// With what it is about.
    pub fn at(self, path: impl fmt::Display) -> FileError {
        FileError {
            errno: self,
            path: path.to_string(),
        }
    }
}

/// In words.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().2)
    }
}

/// A refusal, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {errno} ({})", errno.name())]
pub struct FileError {
    /// Why.
    pub errno: Errno,
    /// The path, as a person reads it.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_row_of_its_own() {
        for (i, (errno, name, number, _)) in Errno::ALL.iter().enumerate() {
            assert_eq!(
                (*errno as usize, Errno::of_code(i as u8)),
                (i, Some(*errno))
            );
            assert_eq!((errno.name(), errno.number()), (*name, *number));
            assert_eq!(Errno::of_number(*number), Some(*errno));
        }
        assert_eq!(Errno::of_code(200), None);
        assert_eq!(
            Errno::NotFound.at("/a").to_string(),
            "/a: no such file or directory (ENOENT)"
        );
    }
}
