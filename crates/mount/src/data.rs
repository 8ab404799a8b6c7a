//! Data folders: where contents lie that are too large for the namespace.
//!
//! ```text
//!  DIR/
//!  ├─ ab/<id>      an object: the content of the file of that id, `ab` the last byte of it
//!  └─ new/         contents on the way, where the file system has no files without a name
//! ```
//!
//! A file remembers the whole path of its object, so that folders can be added at any time and nothing moves. No rename of a file touches
//! its object.

use esker_model::VertexId;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where contents are made that have no place yet.
const NEW: &str = "new";

/// The folders of a mount.
#[derive(Debug, Default)]
pub struct Folders {
    all: Vec<Folder>,
    next: AtomicU64,
}

/// One of them.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The file system makes files without a name (`O_TMPFILE`), until it was seen that it does not.
    nameless: AtomicBool,
}

/// A file of a data folder that no inode has yet.
#[derive(Debug)]
pub struct Fresh {
    /// It, open to read and to write.
    pub file: Arc<File>,
    folder: usize,
    /// What it is called meanwhile, where it cannot be nameless.
    name: Option<PathBuf>,
}

impl Fresh {
    /// The folder in whose file system it lies.
    pub fn folder(&self) -> usize {
        self.folder
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}

impl Folders {
    /// Opens folders: they are made where they are not there, for this user alone.
    pub fn open(paths: &[PathBuf]) -> io::Result<Self> {
        let mut all = Vec::with_capacity(paths.len());
        for path in paths {
            let told = |e: io::Error| {
                io::Error::new(e.kind(), format!("data folder {}: {e}", path.display()))
            };
            let mut private = std::fs::DirBuilder::new();
            private.recursive(true).mode(0o700);
            private.create(path.join(NEW)).map_err(told)?;
            let path = path.canonicalize().map_err(told)?;
            all.push(Folder {
                path,
                nameless: AtomicBool::new(true),
            });
        }
        Ok(Self {
            all,
            next: AtomicU64::new(0),
        })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Their paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().map(|f| f.path.as_path())
    }

    /// The folder of a new content: they take turns by id.
    pub fn folder_of(&self, id: VertexId) -> usize {
        let [.., high, low] = id.0;
        usize::from(u16::from_be_bytes([high, low])) % self.all.len().max(1)
    }

    fn folder(&self, folder: usize) -> io::Result<&Folder> {
        let none = || io::Error::from_raw_os_error(27);
        self.all.get(folder).ok_or_else(none)
    }

    /// A file for a content that has no place yet.
    pub fn fresh(&self, folder: usize) -> io::Result<Fresh> {
        let place = self.folder(folder)?;
        let mode = Mode::from_raw_mode(0o600);
        if place.nameless.load(Ordering::Relaxed) {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            match rustix::fs::open(&place.path, flags, mode) {
                Ok(fd) => {
                    return Ok(Fresh {
                        file: Arc::new(fd.into()),
                        folder,
                        name: None,
                    });
                }
                Err(
                    rustix::io::Errno::OPNOTSUPP
                    | rustix::io::Errno::ISDIR
                    | rustix::io::Errno::NOENT
                    | rustix::io::Errno::INVAL,
                ) => place.nameless.store(false, Ordering::Relaxed),
                Err(e) => return Err(e.into()),
            }
        }
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{n}", std::process::id());
        let name = place.path.join(NEW).join(name);
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&name, flags, mode)?;
        Ok(Fresh {
            file: Arc::new(fd.into()),
            folder,
            name: Some(name),
        })
    }

    /// Where the object of a file lies, in that folder.
    pub fn object(&self, folder: usize, id: VertexId) -> io::Result<PathBuf> {
        let place = self.folder(folder)?;
        Ok(place.path.join(relative(id)))
    }

    /// The object of a file, if there is one in any of the folders.
    pub fn find(&self, id: VertexId) -> Option<PathBuf> {
        let within = relative(id);
        let mut all = self.all.iter().map(|f| f.path.join(&within));
        all.find(|object| object.symlink_metadata().is_ok())
    }

    /// Gives a content its place; what was there before (of a file that is gone, or was never finished) goes.
    pub fn settle(&self, fresh: &mut Fresh, id: VertexId) -> io::Result<PathBuf> {
        let object = self.object(fresh.folder, id)?;
        match self.settle_at(fresh, &object) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Some(above) = object.parent() {
                    std::fs::create_dir_all(above)?;
                }
                self.settle_at(fresh, &object)?;
            }
            done => done?,
        }
        fresh.name = None;
        Ok(object)
    }

    fn settle_at(&self, fresh: &Fresh, object: &Path) -> io::Result<()> {
        if let Some(name) = &fresh.name {
            return std::fs::rename(name, object);
        }
        let link = |to: &Path| {
            let from = format!("/proc/self/fd/{}", fresh.file.as_raw_fd());
            rustix::fs::linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)
        };
        match link(object) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::EXIST) => {
                let n = self.next.fetch_add(1, Ordering::Relaxed);
                let beside = object.with_extension(format!("{}-{n}", std::process::id()));
                link(&beside)?;
                std::fs::rename(&beside, object)?;
                // Two names of one file are left both as they are.
                let _ = std::fs::remove_file(&beside);
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Opens the object of the file of that id, by the path that its inode has. Only the path that this mount would have made for that file is
    /// opened: an inode may say anything, also where the content of another user's file lies.
    pub fn open_object(&self, path: &[u8], id: VertexId, write: bool) -> io::Result<(File, usize)> {
        let (folder, within) = self.within(path, id)?;
        let place = self.folder(folder)?;
        let directory = rustix::fs::open(
            &place.path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let limits = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd = rustix::fs::openat2(&directory, &within, flags, Mode::empty(), limits)?;
        Ok((fd.into(), folder))
    }

    /// Removes the object of the file of that id; that there is none is no failure. Another file's object is not removed.
    pub fn remove(&self, path: &[u8], id: VertexId) -> io::Result<()> {
        let (folder, within) = self.within(path, id)?;
        match std::fs::remove_file(self.folder(folder)?.path.join(within)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// The folder that the object of the file of that id lies in, and its path there.
    fn within(&self, path: &[u8], id: VertexId) -> io::Result<(usize, PathBuf)> {
        let path = Path::new(OsStr::from_bytes(path));
        let found = self.all.iter().enumerate().find_map(|(i, folder)| {
            let rest = path.strip_prefix(&folder.path).ok()?;
            id_of(rest).map(|named| (i, named))
        });
        let refused = |why: &str| {
            let why = format!("{} {why}", path.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        };
        match found {
            None => refused("lies in none of the data folders of this mount"),
            Some((_, named)) if named != id => refused("is the object of another file"),
            Some((folder, _)) => Ok((folder, relative(id))),
        }
    }
}

/// Where an object lies below its folder.
pub(crate) fn relative(id: VertexId) -> PathBuf {
    let [.., last] = id.0;
    let name = u128::from_be_bytes(id.0);
    PathBuf::from(format!("{last:02x}/{name:032x}"))
}

/// Whose object it is that lies there below its folder, if it is one.
pub(crate) fn id_of(relative_path: &Path) -> Option<VertexId> {
    let name = relative_path.file_name()?.as_bytes();
    if name.len() != 32 {
        return None;
    }
    let mut id = [0; 16];
    for (byte, digits) in id.iter_mut().zip(name.chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    let id = VertexId(id);
    (relative(id) == relative_path).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};

    fn folders(n: usize) -> (tempfile::TempDir, Folders) {
        let scratch = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..n).map(|i| scratch.path().join(i.to_string())).collect();
        let folders = Folders::open(&paths).unwrap();
        (scratch, folders)
    }

    #[test]
    fn a_content_gets_its_place_and_is_found_there() {
        let (_scratch, folders) = folders(2);
        let id = VertexId([7; 16]);
        for text in ["first", "second"] {
            let mut fresh = folders.fresh(1).unwrap();
            (&*fresh.file).write_all(text.as_bytes()).unwrap();
            let path = folders.settle(&mut fresh, id).unwrap();
            let (mut file, folder) = folders
                .open_object(path.as_os_str().as_bytes(), id, false)
                .unwrap();
            let mut read = String::new();
            file.read_to_string(&mut read).unwrap();
            assert_eq!((read.as_str(), folder), (text, 1));
        }
        let path = folders.object(1, id).unwrap();
        folders.remove(path.as_os_str().as_bytes(), id).unwrap();
        folders.remove(path.as_os_str().as_bytes(), id).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn where_no_file_is_nameless_it_is_the_same() {
        let (scratch, folders) = folders(1);
        folders.all[0].nameless.store(false, Ordering::Relaxed);
        let dropped = folders.fresh(0).unwrap();
        drop(dropped);
        let mut fresh = folders.fresh(0).unwrap();
        let path = folders.settle(&mut fresh, VertexId([1; 16])).unwrap();
        drop(fresh);
        assert!(path.exists());
        let left = std::fs::read_dir(scratch.path().join("0/new")).unwrap();
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn an_inode_cannot_lead_elsewhere() {
        let (scratch, folders) = folders(1);
        let root = scratch.path().canonicalize().unwrap().join("0");
        for path in [
            "/etc/passwd".to_owned(),
            format!("{}/../secret", root.display()),
            format!("{}/07/{}", root.display(), "0".repeat(32)),
            format!("{}/{}", root.display(), "0".repeat(32)),
        ] {
            let id = VertexId([0; 16]);
            let refused = folders.open_object(path.as_bytes(), id, false).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{path}");
        }
        // A link in the place of an object is none.
        let id = VertexId([0; 16]);
        let object = folders.object(0, id).unwrap();
        std::fs::create_dir_all(object.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &object).unwrap();
        folders
            .open_object(object.as_os_str().as_bytes(), id, false)
            .unwrap_err();
    }

    #[test]
    fn an_inode_cannot_lead_to_the_object_of_another_file() {
        let (_scratch, folders) = folders(2);
        let (own, other) = (VertexId([1; 16]), VertexId([2; 16]));
        let mut fresh = folders.fresh(1).unwrap();
        let object = folders.settle(&mut fresh, other).unwrap();
        let path = object.as_os_str().as_bytes();
        for write in [false, true] {
            let refused = folders.open_object(path, own, write).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
        let refused = folders.remove(path, own).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(object.exists());
        folders.open_object(path, other, true).unwrap();
    }

    proptest! {
        /// Objects' paths and ids tell each other; nothing else is an object.
        #[test]
        fn paths_and_ids(id in any::<[u8; 16]>(), other in any::<Vec<u8>>()) {
            prop_assert_eq!(id_of(&relative(VertexId(id))), Some(VertexId(id)));
            let path = Path::new(OsStr::from_bytes(&other));
            if let Some(id) = id_of(path) {
                prop_assert_eq!(relative(id), path);
            }
        }
    }
}
