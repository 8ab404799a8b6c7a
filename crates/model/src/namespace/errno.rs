//! Errors of file operations, by their POSIX names.

use std::fmt;

/// Reason why a file operation is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Errno {
    /// `ENOENT`: no such file or directory.
    NotFound = 0,
    /// `EEXIST`: the path exists already.
    Exists = 1,
    /// `ENOTDIR`: a name on the path is not a directory.
    NotDirectory = 2,
    /// `EISDIR`: the path is a directory.
    IsDirectory = 3,
    /// `ENOTEMPTY`: the directory to remove is not empty.
    NotEmpty = 4,
    /// `EACCES`: the mode bits do not permit the operation.
    Access = 5,
    /// `EPERM`: only the owner, or the superuser, may do it.
    NotPermitted = 6,
    /// `ENAMETOOLONG`: a name over 255 bytes or a path over 4,096.
    NameTooLong = 7,
    /// `ELOOP`: the path leads through more than 40 symbolic links.
    Loop = 8,
    /// `EINVAL`: the request is invalid, such as moving a directory into itself.
    Invalid = 9,
    /// `EMLINK`: the file has the maximum number of names.
    TooManyLinks = 10,
    /// `EBUSY`: the root directory cannot be removed or renamed.
    Busy = 11,
    /// `ENODATA`: no such extended attribute.
    NoData = 12,
    /// `EFBIG`: the content exceeds the largest inline size.
    TooBig = 13,
    /// `ENOSPC`: no space is left for the request.
    NoSpace = 14,
    /// `EOPNOTSUPP`: the operation, or an extended attribute of that name, is not supported.
    NotSupported = 15,
    /// `EBADF`: the file is not open, or not open for this operation.
    BadHandle = 16,
    /// `ESTALE`: the open file is not known any more.
    Stale = 17,
    /// `EMFILE`: the maximum number of files is open.
    TooManyOpen = 18,
    /// `ENXIO`: only the kernel can open pipes, sockets and devices.
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

    /// Returns the name of the constant in C, such as `ENOENT`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the number of the error on Linux.
    pub fn number(self) -> i32 {
        self.row().1
    }

    /// Returns the error with that code (`as u8`).
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL
            .iter()
            .map(|(e, ..)| *e)
            .find(|e| *e as u8 == code)
    }

    /// Returns the error with that number on Linux.
    pub fn of_number(number: i32) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, _, n, _)| *n == number);
        found.map(|(e, ..)| *e)
    }

    /// Attaches the path to which the error applies.
    pub fn at(self, path: impl fmt::Display) -> FileError {
        FileError {
            errno: self,
            path: path.to_string(),
        }
    }
}

/// Formats the description in words.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().2)
    }
}

/// An [`Errno`] with the path to which it applies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {errno} ({})", errno.name())]
pub struct FileError {
    /// Reason of the refusal.
    pub errno: Errno,
    /// Path in printable form.
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
