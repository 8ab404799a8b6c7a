//! Open files. An open file is identified by its inode and not by a path, so that it stays the same file when its names
//! change and after its last name was removed.
//!
//! Nothing keeps a list of open files. A handle contains the inode's id and where the inode was when it was opened;
//! the rows say where it is now (`docs/internals/namespace.md`, "Open files"). In calls about one file, a handle can
//! take the place of a path.

use super::{
    AppliedChange, Change, Content, Cookie, Entry, Errno, FileError, Inode, Name, NamePath,
    Namespace, NewFile, SetAttributes, XattrMode, display,
};
use crate::error::{Error, Result};
use crate::graph::Flow;
use crate::id::VertexId;
use crate::object::Principal;

/// Size of a seal, in bytes.
pub const SEAL_BYTES: usize = 16;
/// First byte of an encoded handle; no path begins with it.
const MARK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;
/// Size of the fixed part: mark, permitted operations, two ids, a time and a seal; the name follows.
const HEAD: usize = 2 + 16 + 16 + 8 + SEAL_BYTES;

/// A handle of an open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// Id of the file.
    pub id: VertexId,
    /// Directory that contained the file when it was opened.
    pub directory: VertexId,
    /// Name of the file in that directory.
    pub name: Name,
    /// Creation time of the file, because its id may be reused after a removed file was forgotten. 0 matches any time.
    pub born: i64,
    /// Whether the content, or the entries, may be read through the handle.
    pub read: bool,
    /// Whether the content may be written through the handle.
    pub write: bool,
    /// Authenticator by which the issuer recognises its handle, where clients are not trusted; else zero.
    pub seal: [u8; SEAL_BYTES],
}

impl Handle {
    /// Encodes the handle in the form of a path.
    pub fn path(&self) -> NamePath {
        let mut out = self.unsealed();
        let name = self.name.as_bytes();
        if let Some(place) = out.get_mut(HEAD - SEAL_BYTES..HEAD) {
            place.copy_from_slice(&self.seal);
        }
        out.extend_from_slice(name);
        NamePath::from_handle(out)
    }

    /// Returns the bytes that the seal authenticates: all but the seal itself.
    pub fn sealed_bytes(&self) -> Vec<u8> {
        let mut out = self.unsealed();
        out.extend_from_slice(self.name.as_bytes());
        out
    }

    fn unsealed(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + self.name.as_bytes().len());
        out.push(MARK);
        out.push(if self.read { READ } else { 0 } | if self.write { WRITE } else { 0 });
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.directory.0);
        out.extend_from_slice(&self.born.to_be_bytes());
        out.extend_from_slice(&[0; SEAL_BYTES]);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, name) = bytes.split_at_checked(HEAD)?;
        let (&[mark, flags], ids) = head.split_first_chunk()?;
        let (id, rest) = ids.split_first_chunk()?;
        let (directory, rest) = rest.split_first_chunk()?;
        let (born, seal) = rest.split_first_chunk()?;
        (mark == MARK && flags <= READ | WRITE).then_some(())?;
        Some(Self {
            id: VertexId(*id),
            directory: VertexId(*directory),
            name: Name::new(name).ok()?,
            born: i64::from_be_bytes(*born),
            read: flags & READ != 0,
            write: flags & WRITE != 0,
            seal: seal.try_into().ok()?,
        })
    }
}

impl NamePath {
    /// Decodes a path or a handle, for callers that may have opened files.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.first() != Some(&MARK) {
            return Self::parse_deep(bytes);
        }
        match Handle::decode(bytes) {
            Some(handle) => Ok(handle.path()),
            None => Err(Errno::BadHandle.at("what was sent as an open file is malformed")),
        }
    }

    /// Whether this is the path form of a handle.
    pub fn is_handle(&self) -> bool {
        self.as_bytes().first() == Some(&MARK)
    }

    /// Refuses the path form of a handle where a real path is required.
    pub fn demand_path(&self) -> Result<(), FileError> {
        if self.is_handle() {
            return Err(Errno::Invalid.at(self));
        }
        Ok(())
    }

    /// Decodes the handle, if this is one.
    pub fn handle(&self) -> Option<Handle> {
        self.is_handle().then(|| Handle::decode(self.as_bytes()))?
    }
}

/// Flags of an `open` call.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, as the kernel's"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Open {
    /// Open for reading (`O_RDONLY`, `O_RDWR`).
    pub read: bool,
    /// Open for writing (`O_WRONLY`, `O_RDWR`).
    pub write: bool,
    /// Create the file if it does not exist (`O_CREAT`).
    pub create: bool,
    /// Fail if the file exists (`O_EXCL`); only with `create`.
    pub exclusive: bool,
    /// Truncate the content (`O_TRUNC`); only with `write`.
    pub truncate: bool,
    /// Fail if the last name is a symbolic link (`O_NOFOLLOW`).
    pub no_follow: bool,
    /// Fail unless the path is a directory (`O_DIRECTORY`).
    pub directory: bool,
}

impl Open {
    /// Flags for opening a file read-only.
    pub const READ: Self = Self {
        read: true,
        write: false,
        create: false,
        exclusive: false,
        truncate: false,
        no_follow: false,
        directory: false,
    };
    /// Flags for opening a file write-only.
    pub const WRITE: Self = Self {
        read: false,
        write: true,
        ..Self::READ
    };
    /// Flags for opening a file for reading and writing.
    pub const BOTH: Self = Self {
        write: true,
        ..Self::READ
    };

    /// Encodes the flags as bits.
    pub fn bits(self) -> u8 {
        let all = [
            self.read,
            self.write,
            self.create,
            self.exclusive,
            self.truncate,
            self.no_follow,
            self.directory,
        ];
        let bit = |(i, on): (usize, bool)| u8::from(on) << i;
        all.into_iter().enumerate().map(bit).sum()
    }

    /// Decodes the flags from bits.
    pub fn of_bits(bits: u8) -> Option<Self> {
        let on = |bit: u8| bits & 1 << bit != 0;
        (bits >> 7 == 0).then(|| Self {
            read: on(0),
            write: on(1),
            create: on(2),
            exclusive: on(3),
            truncate: on(4),
            no_follow: on(5),
            directory: on(6),
        })
    }

    /// Whether a symbolic link as the last name is followed.
    pub fn follows(self) -> bool {
        !(self.no_follow || self.create && self.exclusive)
    }

    /// Refuses flags that contradict each other.
    pub fn check(self, path: &NamePath) -> Result<(), FileError> {
        let nothing = !self.read && !self.write;
        if nothing
            || self.create && self.directory
            || self.exclusive && !self.create
            || self.truncate && !self.write
        {
            return Err(Errno::Invalid.at(path));
        }
        Ok(())
    }
}

/// The result of [`super::Namespace::look`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenLookup {
    /// The file exists: the path form of its handle, and its attributes.
    Found(NamePath, Box<Inode>),
    /// The file does not exist and may be created.
    Missing {
        /// Directory that would contain the file.
        directory: VertexId,
        /// Path of the file, resolved through symbolic links.
        path: NamePath,
    },
}

/// An open file and the principal who opened it, whose rights count where POSIX checks them again (`fchmod`, `fchown`,
/// `fsetxattr`). Dropping it closes the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    path: NamePath,
    principal: Option<Principal>,
}

/// Largest number of attempts when others create or remove the file concurrently.
const TRIES: u32 = 64;

impl OpenFile {
    /// Opens a path. With `how.create`, creates the file with the attributes `make` if it does not exist.
    pub fn open(
        names: &(impl Namespace + ?Sized),
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
        make: Option<&NewFile>,
    ) -> Result<(Self, Inode)> {
        how.check(path)?;
        let opened = |path| Self {
            path,
            principal: principal.cloned(),
        };
        let mut how = how;
        for _ in 0..TRIES {
            let (directory, place) = match names.resolve_open(principal, path, how)? {
                OpenLookup::Found(path, inode) if !how.truncate => {
                    return Ok((opened(path), *inode));
                }
                OpenLookup::Found(path, _) => {
                    let file = opened(path);
                    file.truncate(names, 0)?;
                    let inode = file.stat(names)?;
                    return Ok((file, inode));
                }
                OpenLookup::Missing { directory, path } => (directory, path),
            };
            let (Some(make), Some((_, name))) = (make, place.split()) else {
                return Err(Errno::Invalid.at(path).into());
            };
            let id = match one(names.change(principal, &[Change::Create(place, make.clone())])?) {
                Ok(done) => done.id,
                // Another client created the file first.
                Err(Error::File(e)) if e.errno == Errno::Exists && !how.exclusive => continue,
                Err(e) => return Err(e),
            };
            // The creator of a file may open it whatever its mode is.
            how = Open {
                create: false,
                exclusive: false,
                truncate: false,
                ..how
            };
            let handle = Handle {
                id,
                directory,
                name,
                born: 0,
                read: how.read,
                write: how.write,
                seal: [0; SEAL_BYTES],
            };
            match names.resolve_open(principal, &handle.path(), how) {
                Ok(OpenLookup::Found(path, inode)) => return Ok((opened(path), *inode)),
                // The file was created in another directory than the look-up found: it is opened like an existing file.
                Err(Error::File(e)) if e.errno == Errno::Stale => {}
                Ok(OpenLookup::Missing { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Err(Error::Busy(format!(
            "{path} was created and deleted again and again; it was not opened, try again"
        )))
    }

    /// Returns the path form of the handle.
    pub fn path(&self) -> &NamePath {
        &self.path
    }

    /// Reads the attributes (`fstat`), with content if the file is open for reading. `links` is 0 for a file without a
    /// name.
    pub fn stat(&self, names: &(impl Namespace + ?Sized)) -> Result<Inode> {
        names.stat(self.principal.as_ref(), &self.path, false)
    }

    /// Reads at most `length` bytes of the content from an offset (`pread`). Content stored in another file system must
    /// be read there: `EOPNOTSUPP`.
    pub fn read(
        &self,
        names: &(impl Namespace + ?Sized),
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>> {
        let readable = self.path.handle().is_some_and(|h| h.read);
        if !readable {
            return Err(Errno::BadHandle.at(&self.path).into());
        }
        let inode = self.stat(names)?;
        if inode.is_directory() {
            return Err(Errno::IsDirectory.at(&self.path).into());
        }
        let data = match inode.content {
            Content::Inline(data) => data,
            Content::None if inode.size == 0 => Vec::new(),
            content => return Err(external_content_error(&self.path, &content).into()),
        };
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(data.len());
        let until = from.saturating_add(length).min(data.len());
        Ok(data.get(from..until).unwrap_or_default().to_vec())
    }

    /// Writes bytes at an offset, or appends them (`O_APPEND`) at the end that the file has when the change is applied.
    pub fn write(
        &self,
        names: &(impl Namespace + ?Sized),
        at: Option<u64>,
        data: &[u8],
    ) -> Result<AppliedChange> {
        self.change(
            names,
            Change::Write {
                path: self.path.clone(),
                at,
                data: data.to_vec(),
            },
        )
    }

    /// Truncates the content, or extends it with zero bytes (`ftruncate`).
    pub fn truncate(&self, names: &(impl Namespace + ?Sized), size: u64) -> Result<AppliedChange> {
        let size = Some(size);
        let set = SetAttributes {
            size,
            ..SetAttributes::default()
        };
        self.set(names, set)
    }

    /// Changes attributes (`fchmod`, `fchown`, `futimens`).
    pub fn set(
        &self,
        names: &(impl Namespace + ?Sized),
        set: SetAttributes,
    ) -> Result<AppliedChange> {
        let (path, follow) = (self.path.clone(), false);
        self.change(names, Change::Set { path, follow, set })
    }

    /// Sets an extended attribute, or removes it (`fsetxattr`, `fremovexattr`).
    pub fn set_xattr(
        &self,
        names: &(impl Namespace + ?Sized),
        name: &[u8],
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<AppliedChange> {
        self.change(
            names,
            Change::Xattr {
                path: self.path.clone(),
                name: name.to_vec(),
                value: value.map(<[u8]>::to_vec),
                mode,
            },
        )
    }

    /// Lists the entries of an open directory, as [`Namespace::list`] does.
    pub fn list(
        &self,
        names: &(impl Namespace + ?Sized),
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        names.list(self.principal.as_ref(), &self.path, after, sink)
    }

    fn change(&self, names: &(impl Namespace + ?Sized), change: Change) -> Result<AppliedChange> {
        one(names.change(self.principal.as_ref(), &[change])?)
    }
}

/// Builds the error for reading or writing content that is stored outside of the namespace.
pub fn external_content_error(path: &NamePath, content: &Content) -> FileError {
    let place = match content {
        Content::Object(object) => format!(
            "its content is in `{}` of the file system below: read and write it there",
            display(object)
        ),
        _ => "its content is not in this namespace: read and write it where the file was indexed"
            .to_owned(),
    };
    Errno::NotSupported.at(format!("{path}: {place}"))
}

fn one(mut answers: Vec<Result<AppliedChange>>) -> Result<AppliedChange> {
    answers.pop().unwrap_or_else(|| {
        Err(Error::Undecided(
            "a change got no answer; check whether it was made".into(),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        Handle {
            // The ids contain slashes and zeros.
            id: VertexId([b'/'; 16]),
            directory: VertexId([0; 16]),
            name: Name::new(b"a.h5").unwrap(),
            born: -5,
            read: true,
            write: false,
            seal: [7; SEAL_BYTES],
        }
    }

    #[test]
    fn a_handle_is_no_path_from_the_root() {
        let path = handle().path();
        assert_eq!(path.handle(), Some(handle()));
        assert_eq!(NamePath::from_wire(path.as_bytes()).unwrap(), path);
        assert!(NamePath::parse(path.as_bytes()).is_err());
        assert_eq!(path.to_string(), "open file `a.h5`");
        assert_eq!(
            (path.split(), path.names().count(), path.is_root()),
            (None, 0, false)
        );
        assert!(!path.within(&NamePath::root()) && NamePath::root().handle().is_none());
        for end in 0..=HEAD {
            let part = path.as_bytes().get(..end).unwrap();
            assert!(NamePath::from_wire(part).is_err(), "{end}");
        }
        let seal = |h: &Handle| Handle {
            seal: [1; SEAL_BYTES],
            ..h.clone()
        };
        assert_eq!(seal(&handle()).sealed_bytes(), handle().sealed_bytes());
    }

    #[test]
    fn ways_of_opening_come_back() {
        for bits in 0..=u8::MAX {
            let how = Open::of_bits(bits);
            assert_eq!(how.map(Open::bits), (bits < 128).then_some(bits));
        }
        let at = NamePath::root();
        assert!(Open::BOTH.check(&at).is_ok() && Open::default().check(&at).is_err());
        let alone = Open {
            exclusive: true,
            ..Open::WRITE
        };
        assert!(alone.check(&at).is_err());
        let cut = Open {
            truncate: true,
            ..Open::READ
        };
        assert!(cut.check(&at).is_err());
    }
}
