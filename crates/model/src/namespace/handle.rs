//! Files that are open: known by what they are, not by a path, so that they stay the same files whatever they are called
//! meanwhile, and after their last name has gone.
//!
//! Nobody keeps a list of them. A handle says which inode it is and where that was when it was opened; where it is now is told
//! by the rows (`docs/internals/namespace.md`, "Open files"). It stands where a path can stand, in calls about one file.

use super::{
    Change, Content, Cookie, Done, Entry, Errno, FileError, Inode, Make, Name, NamePath, Namespace,
    SetAttributes, XattrMode, display,
};
use crate::error::{Error, Result};
use crate::graph::Flow;
use crate::id::VertexId;
use crate::object::Asker;

/// Bytes of a seal.
pub const SEAL_BYTES: usize = 16;
/// No path from the root begins so.
const MARK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;
/// Mark, what it lets through, two ids, a time and a seal; the name is what follows.
const HEAD: usize = 2 + 16 + 16 + 8 + SEAL_BYTES;

/// An open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// Which file.
    pub id: VertexId,
    /// The directory where it was when it was opened.
    pub directory: VertexId,
    /// Its name there then.
    pub name: Name,
    /// When the file was made: once all is forgotten of one that was removed, another may get its id. 0 is of any time.
    pub born: i64,
    /// Whether its content, or its entries, may be read through it.
    pub read: bool,
    /// Whether its content may be changed through it.
    pub write: bool,
    /// What shows to whoever gave it out that it is theirs, where the holder is not believed; else zero.
    pub seal: [u8; SEAL_BYTES],
}

impl Handle {
    /// As it stands in the place of a path.
    pub fn path(&self) -> NamePath {
        let mut out = self.unsealed();
        let name = self.name.as_bytes();
        if let Some(place) = out.get_mut(HEAD - SEAL_BYTES..HEAD) {
            place.copy_from_slice(&self.seal);
        }
        out.extend_from_slice(name);
        NamePath::held(out)
    }

    /// What a seal is made of: all but itself.
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

    fn of(bytes: &[u8]) -> Option<Self> {
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
    /// A path, or what stands for an open file: of those who may have opened files.
    pub fn received(bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.first() != Some(&MARK) {
            return Self::parse(bytes);
        }
        match Handle::of(bytes) {
            Some(handle) => Ok(handle.path()),
            None => Err(Errno::BadHandle.at("what was sent as an open file is none")),
        }
    }

    /// Whether it stands for an open file.
    pub fn is_handle(&self) -> bool {
        self.as_bytes().first() == Some(&MARK)
    }

    /// Refuses an open file where paths are made of it.
    pub fn demand_path(&self) -> Result<(), FileError> {
        if self.is_handle() {
            return Err(Errno::Invalid.at(self));
        }
        Ok(())
    }

    /// The open file that it stands for, if it does.
    pub fn handle(&self) -> Option<Handle> {
        self.is_handle().then(|| Handle::of(self.as_bytes()))?
    }
}

/// How a file is opened, as `open` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Open {
    /// To read (`O_RDONLY`, `O_RDWR`).
    pub read: bool,
    /// To write (`O_WRONLY`, `O_RDWR`).
    pub write: bool,
    /// It is made if there is none (`O_CREAT`).
    pub create: bool,
    /// It must not be there (`O_EXCL`); only with `create`.
    pub exclusive: bool,
    /// Its content goes (`O_TRUNC`); only with `write`.
    pub truncate: bool,
    /// A last name that is a symbolic link is refused (`O_NOFOLLOW`).
    pub no_follow: bool,
    /// It must be a directory (`O_DIRECTORY`).
    pub directory: bool,
}

impl Open {
    /// To read.
    pub const READ: Self = Self {
        read: true,
        write: false,
        create: false,
        exclusive: false,
        truncate: false,
        no_follow: false,
        directory: false,
    };
    /// To write.
    pub const WRITE: Self = Self {
        read: false,
        write: true,
        ..Self::READ
    };
    /// To read and to write.
    pub const BOTH: Self = Self {
        write: true,
        ..Self::READ
    };

    /// In bits, as it travels.
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

    /// Out of bits.
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

    /// Whether a last name that is a symbolic link leads on.
    pub fn follows(self) -> bool {
        !(self.no_follow || self.create && self.exclusive)
    }

    /// Refuses what makes no sense together.
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

/// What [`super::Namespace::look`] finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// The file, opened: a path that stands for it, and what it is.
    Found(NamePath, Box<Inode>),
    /// Nothing yet, where one is to be made.
    Missing {
        /// The directory that it would lie in.
        directory: VertexId,
        /// Its path, through no symbolic link.
        path: NamePath,
    },
}

/// An open file, with who opened it: their rights count where POSIX looks at them again (`fchmod`, `fchown`, `fsetxattr`). To close
/// it is to forget it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    path: NamePath,
    asker: Option<Asker>,
}

/// How often something is looked at again that others make or take away meanwhile.
const TRIES: u32 = 64;

impl OpenFile {
    /// Opens what is at a path. With `how.create`, a file is made of `make` if there is nothing.
    pub fn open(
        names: &(impl Namespace + ?Sized),
        asker: Option<&Asker>,
        path: &NamePath,
        how: Open,
        make: Option<&Make>,
    ) -> Result<(Self, Inode)> {
        how.check(path)?;
        let opened = |path| Self {
            path,
            asker: asker.cloned(),
        };
        let mut how = how;
        for _ in 0..TRIES {
            let (directory, place) = match names.look(asker, path, how)? {
                Looked::Found(path, inode) if !how.truncate => return Ok((opened(path), *inode)),
                Looked::Found(path, _) => {
                    let file = opened(path);
                    file.truncate(names, 0)?;
                    let inode = file.stat(names)?;
                    return Ok((file, inode));
                }
                Looked::Missing { directory, path } => (directory, path),
            };
            let (Some(make), Some((_, name))) = (make, place.split()) else {
                return Err(Errno::Invalid.at(path).into());
            };
            let id = match one(names.change(asker, &[Change::Make(place, make.clone())])?) {
                Ok(done) => done.id,
                // Somebody else was faster.
                Err(Error::File(e)) if e.errno == Errno::Exists && !how.exclusive => continue,
                Err(e) => return Err(e),
            };
            // Whoever makes a file opens it, whatever its mode says.
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
            match names.look(asker, &handle.path(), how) {
                Ok(Looked::Found(path, inode)) => return Ok((opened(path), *inode)),
                // Its directory was another one than it had been a moment before: it is opened as others are.
                Err(Error::File(e)) if e.errno == Errno::Stale => {}
                Ok(Looked::Missing { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Err(Error::Unavailable(format!(
            "{path} kept coming and going; it was not opened, try again"
        )))
    }

    /// What stands for it in the place of a path.
    pub fn path(&self) -> &NamePath {
        &self.path
    }

    /// Its attributes (`fstat`); with content, if it is open to read. Of a file without a name, `links` is 0.
    pub fn stat(&self, names: &(impl Namespace + ?Sized)) -> Result<Inode> {
        names.stat(self.asker.as_ref(), &self.path, false)
    }

    /// So much of its content from an offset on, as far as there is any (`pread`). Content that lies in another file system is
    /// to be read there: `EOPNOTSUPP`.
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
            content => return Err(elsewhere(&self.path, &content).into()),
        };
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(data.len());
        let until = from.saturating_add(length).min(data.len());
        Ok(data.get(from..until).unwrap_or_default().to_vec())
    }

    /// Writes bytes at an offset, or behind the last one (`O_APPEND`): at the end that it has when that is done.
    pub fn write(
        &self,
        names: &(impl Namespace + ?Sized),
        at: Option<u64>,
        data: &[u8],
    ) -> Result<Done> {
        self.change(
            names,
            Change::Write {
                path: self.path.clone(),
                at,
                data: data.to_vec(),
            },
        )
    }

    /// Cuts its content, or fills it with zero bytes (`ftruncate`).
    pub fn truncate(&self, names: &(impl Namespace + ?Sized), size: u64) -> Result<Done> {
        let size = Some(size);
        let set = SetAttributes {
            size,
            ..SetAttributes::default()
        };
        self.set(names, set)
    }

    /// Changes attributes (`fchmod`, `fchown`, `futimens`).
    pub fn set(&self, names: &(impl Namespace + ?Sized), set: SetAttributes) -> Result<Done> {
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
    ) -> Result<Done> {
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

    /// Entries of an open directory, as [`Namespace::list`] tells them.
    pub fn list(
        &self,
        names: &(impl Namespace + ?Sized),
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        names.list(self.asker.as_ref(), &self.path, after, sink)
    }

    fn change(&self, names: &(impl Namespace + ?Sized), change: Change) -> Result<Done> {
        one(names.change(self.asker.as_ref(), &[change])?)
    }
}

/// What is said of content that is not here, by those who are to read or write it.
pub fn elsewhere(path: &NamePath, content: &Content) -> FileError {
    let place = match content {
        Content::Object(object) => format!(
            "its content lies in `{}` of the file system below: read and write it there",
            display(object)
        ),
        _ => "its content is not in this namespace: read and write it where the file was indexed"
            .to_owned(),
    };
    Errno::NotSupported.at(format!("{path}: {place}"))
}

fn one(mut answers: Vec<Result<Done>>) -> Result<Done> {
    answers.pop().unwrap_or_else(|| {
        Err(Error::Unavailable(
            "a change was not answered; look whether it was made".into(),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        Handle {
            // With slashes and zeros in it.
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
        assert_eq!(NamePath::received(path.as_bytes()).unwrap(), path);
        assert!(NamePath::parse(path.as_bytes()).is_err());
        assert_eq!(path.to_string(), "open file `a.h5`");
        assert_eq!(
            (path.split(), path.names().count(), path.is_root()),
            (None, 0, false)
        );
        assert!(!path.within(&NamePath::root()) && NamePath::root().handle().is_none());
        for end in 0..=HEAD {
            let part = path.as_bytes().get(..end).unwrap();
            assert!(NamePath::received(part).is_err(), "{end}");
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
