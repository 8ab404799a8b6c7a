//! Names and paths as bytes, as in the kernel.

use super::{DEEP_PATH_BYTES_MAX, Errno, FileError, NAME_BYTES_MAX, PATH_BYTES_MAX};
use std::fmt;

/// Name of a directory entry: 1 to 255 bytes without `/` and zero, and neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks and copies a name.
    pub fn new(bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > NAME_BYTES_MAX {
            return Err(Errno::NameTooLong.at(display(bytes)));
        }
        if bytes.is_empty()
            || bytes == b"."
            || bytes == b".."
            || bytes.iter().any(|b| *b == b'/' || *b == 0)
        {
            return Err(Errno::Invalid.at(format!("`{}` is not a name", display(bytes))));
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", display(&self.0))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(&self.0).fmt(f)
    }
}

/// Formats bytes for terminals and messages: bytes that are not UTF-8 and control characters as `\xHH`, a backslash
/// doubled.
pub fn display(bytes: &[u8]) -> impl fmt::Display + '_ {
    struct DisplayPath<'a>(&'a [u8]);
    impl fmt::Display for DisplayPath<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for chunk in self.0.utf8_chunks() {
                for c in chunk.valid().chars() {
                    match c {
                        '\\' => f.write_str("\\\\")?,
                        c if c.is_control() => {
                            let mut buffer = [0; 4];
                            for b in c.encode_utf8(&mut buffer).bytes() {
                                write!(f, "\\x{b:02x}")?;
                            }
                        }
                        c => fmt::Write::write_char(f, c)?,
                    }
                }
                for b in chunk.invalid() {
                    write!(f, "\\x{b:02x}")?;
                }
            }
            Ok(())
        }
    }
    DisplayPath(bytes)
}

/// Decodes the output of [`display`]; `None` for a text that it cannot produce, such as a single backslash.
pub fn parse_display(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        match rest {
            [b'\\', behind @ ..] => {
                out.push(b'\\');
                rest = behind;
            }
            [b'x', high, low, behind @ ..] => {
                let digit = |d: &u8| char::from(*d).to_digit(16);
                out.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = behind;
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Checks a vertex key that may name a file or a directory by its path. A key that begins with `/` must be a path in
/// the normal form that [`NamePath::parse`] returns: `.`, `..`, `//` and a `/` at the end would be a second spelling of
/// another file's path, and would lead a client that copies files by their keys to other folders. Any other key is not
/// a path and may be anything.
///
/// # Errors
/// Returns the expected form, as a sentence.
pub fn check_path_key(key: &str) -> Result<(), String> {
    if !key.starts_with('/') {
        return Ok(());
    }
    let shown = display(key.as_bytes());
    match NamePath::parse(key.as_bytes()) {
        Ok(path) if path.as_bytes() == key.as_bytes() => Ok(()),
        Ok(path) => Err(format!(
            "`{shown}` is not the plain form of a path: expected `{path}`, without `.`, `..`, `//` and a `/` at the end"
        )),
        Err(e) => Err(e.to_string()),
    }
}

/// An absolute path without `.`, `..`, repeated or trailing slashes; `/` is the root. In calls about one file, also the
/// path form of an open file's handle ([`super::Handle`]).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamePath(Box<[u8]>);

impl NamePath {
    /// Parses a path. `..` is resolved textually, as a shell's `cd` does; a path that leads above the root is refused.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileError> {
        Self::parse_bounded(bytes, PATH_BYTES_MAX)
    }

    /// Parses a path that a program has built from names, as that of a file deep in a tree: it may have up to
    /// [`DEEP_PATH_BYTES_MAX`] bytes.
    pub fn parse_deep(bytes: &[u8]) -> Result<Self, FileError> {
        Self::parse_bounded(bytes, DEEP_PATH_BYTES_MAX)
    }

    fn parse_bounded(bytes: &[u8], bytes_max: usize) -> Result<Self, FileError> {
        if bytes.len() > bytes_max {
            let shown: Vec<u8> = bytes.iter().copied().take(60).collect();
            return Err(Errno::NameTooLong.at(format!(
                "{}… ({} bytes)",
                display(&shown),
                bytes.len()
            )));
        }
        if bytes.first() != Some(&b'/') {
            return Err(Errno::Invalid.at(format!(
                "`{}` is not an absolute path: expected one that begins with /",
                display(bytes)
            )));
        }
        let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
        for part in bytes.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => match out.iter().rposition(|b| *b == b'/') {
                    Some(slash) => out.truncate(slash),
                    None => {
                        return Err(
                            Errno::Invalid.at(format!("`{}` leads above the root", display(bytes)))
                        );
                    }
                },
                name => {
                    Name::new(name)?;
                    out.push(b'/');
                    out.extend_from_slice(name);
                }
            }
        }
        if out.is_empty() {
            out.push(b'/');
        }
        Ok(Self(out.into()))
    }

    /// Wraps the encoded handle of an open file ([`super::Handle::path`]).
    pub(super) fn from_handle(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// Returns the root path.
    pub fn root() -> Self {
        Self((*b"/").into())
    }

    /// Returns the bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        &*self.0 == b"/"
    }

    /// Splits the path into its directory, as bytes, and its name; `None` for the root.
    pub fn split(&self) -> Option<(&[u8], Name)> {
        self.split_bytes()
            .map(|(parent, name)| (parent, Name(name.into())))
    }

    /// Splits the path into its directory and its name, both as bytes; `None` for the root.
    pub fn split_bytes(&self) -> Option<(&[u8], &[u8])> {
        if self.is_handle() {
            return None;
        }
        let slash = self.0.iter().rposition(|b| *b == b'/')?;
        let name = self.0.get(slash + 1..)?;
        let parent = self.0.get(..slash.max(1))?;
        (!name.is_empty()).then_some((parent, name))
    }

    /// Returns the path of its directory; the root's is the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        self.split()
            .map_or_else(Self::root, |(parent, _)| Self(parent.into()))
    }

    /// Iterates over the names on the path, from the root.
    pub fn names(&self) -> impl Iterator<Item = Name> + '_ {
        let bytes: &[u8] = if self.is_handle() { b"" } else { &self.0 };
        bytes
            .split(|b| *b == b'/')
            .filter(|n| !n.is_empty())
            .map(|n| Name(n.into()))
    }

    /// Returns the path of an entry of this directory.
    #[must_use]
    pub fn join(&self, name: &Name) -> Self {
        Self(join(&self.0, name.as_bytes()).into())
    }

    /// Whether this path is `other` or lies below it.
    pub fn within(&self, other: &Self) -> bool {
        if self.is_handle() {
            return self == other;
        }
        other.is_root()
            || self
                .0
                .strip_prefix(&*other.0)
                .is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
    }

    /// Resolves the `target` of a symbolic link at this path, relative to the directory of the link.
    pub fn follow(&self, target: &[u8]) -> Result<Self, FileError> {
        if target.first() == Some(&b'/') {
            return Self::parse(target);
        }
        Self::parse(&join(self.parent().as_bytes(), target))
    }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(if directory == b"/" { b"" } else { directory });
    path.push(b'/');
    path.extend_from_slice(name);
    path
}

impl fmt::Debug for NamePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl fmt::Display for NamePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(handle) = self.handle() {
            return write!(f, "open file `{}`", handle.name);
        }
        display(&self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> NamePath {
        NamePath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn keys_that_begin_as_paths_are_plain_paths() {
        for good in ["/", "/a", "/a/..b", "s3://bucket/../x", "a//b", "."] {
            assert_eq!(check_path_key(good), Ok(()), "{good}");
        }
        for bad in ["/a/../b", "/a/./b", "//a", "/a//b", "/a/", "/..", "/a/.."] {
            assert!(check_path_key(bad).is_err(), "{bad}");
        }
        let why = check_path_key("/a/../b").unwrap_err();
        assert!(why.contains("expected `/b`"), "{why}");
    }

    #[test]
    fn paths_are_made_plain() {
        for (given, plain) in [
            ("/", "/"),
            ("//a//b/", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/a/..", "/"),
            ("/..a", "/..a"),
        ] {
            assert_eq!(path(given).to_string(), plain);
        }
        for (bad, errno) in [
            ("a/b", Errno::Invalid),
            ("", Errno::Invalid),
            ("/..", Errno::Invalid),
            ("/a\0b", Errno::Invalid),
        ] {
            assert_eq!(
                NamePath::parse(bad.as_bytes()).unwrap_err().errno,
                errno,
                "{bad:?}"
            );
        }
    }

    #[test]
    fn lengths_end_where_linux_ends() {
        let name = |n: usize| [b"/".as_slice(), &vec![b'x'; n]].concat();
        assert!(NamePath::parse(&name(255)).is_ok());
        assert_eq!(
            NamePath::parse(&name(256)).unwrap_err().errno,
            Errno::NameTooLong
        );
        let long = |n: usize| b"/x".iter().copied().cycle().take(n).collect::<Vec<u8>>();
        assert!(NamePath::parse(&long(4_096)).is_ok());
        assert_eq!(
            NamePath::parse(&long(4_097)).unwrap_err().errno,
            Errno::NameTooLong
        );
    }

    #[test]
    fn parents_names_and_links() {
        let p = path("/a/b");
        assert_eq!(
            (p.parent(), p.parent().parent().parent()),
            (path("/a"), NamePath::root())
        );
        assert_eq!(
            p.names().map(|n| n.to_string()).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(
            p.split().map(|(d, n)| (d.to_vec(), n.to_string())),
            Some((b"/a".to_vec(), "b".into()))
        );
        assert_eq!(path("/a").split().unwrap().0, b"/");
        assert_eq!(NamePath::root().split(), None);
        assert!(p.within(&path("/a")) && p.within(&p) && p.within(&NamePath::root()));
        assert!(!path("/ab").within(&path("/a")));
        assert_eq!(p.follow(b"../c").unwrap(), path("/c"));
        assert_eq!(p.follow(b"/x").unwrap(), path("/x"));
        assert_eq!(NamePath::root().join(&Name::new(b"x").unwrap()), path("/x"));
    }

    #[test]
    fn whatever_bytes_are_shown_on_one_line() {
        assert_eq!(
            display(b"a\nb\xff\\\x1b[1m").to_string(),
            "a\\x0ab\\xff\\\\\\x1b[1m"
        );
    }
}
