//! Data folders: storage of contents that are too large for the namespace.
//!
//! ```text
//!  DIR/
//!  ├─ ab/<id>      an object: the content of the file with that id, `ab` is its last byte
//!  ├─ new/         contents without an object name yet, where the file system has no unnamed files
//!  └─ open/        journals of the objects that processes may be writing ([`crate::write_journal`])
//! ```
//!
//! An inode contains the whole path of its object, so that folders can be added at any time and nothing moves.
//! Renaming a file does not touch its object.

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

/// Subfolder for contents that have no object name yet.
const NEW: &str = "new";
/// Subfolder for the journals of the objects that are being written.
const JOURNALS: &str = "open";

/// The data folders of a mount.
#[derive(Debug, Default)]
pub struct Folders {
    all: Vec<Folder>,
    next: AtomicU64,
}

/// A data folder.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Whether the file system creates files without a name (`O_TMPFILE`); cleared when it refuses.
    nameless: AtomicBool,
}

/// A file in a data folder to which no inode refers yet.
#[derive(Debug)]
pub struct PendingObject {
    /// The file, open for reading and writing.
    pub file: Arc<File>,
    folder: usize,
    /// Temporary name, if the file system has no unnamed files.
    name: Option<PathBuf>,
}

impl PendingObject {
    /// Returns the index of the folder that contains the file.
    pub fn folder(&self) -> usize {
        self.folder
    }
}

impl Drop for PendingObject {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}

impl Folders {
    /// Opens the folders, creating absent ones with access for this user alone.
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

    /// Whether the mount has no data folders.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Iterates over the paths of the folders.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().map(|f| f.path.as_path())
    }

    /// Iterates over the folders of the journals of objects that are being written.
    pub(crate) fn journals(&self) -> impl Iterator<Item = PathBuf> {
        self.paths().map(|path| path.join(JOURNALS))
    }

    /// Returns the index of the folder for a new content, chosen by its id.
    pub fn folder_of(&self, id: VertexId) -> usize {
        let [.., high, low] = id.0;
        usize::from(u16::from_be_bytes([high, low])) % self.all.len().max(1)
    }

    fn folder(&self, folder: usize) -> io::Result<&Folder> {
        let none = || io::Error::from_raw_os_error(27);
        self.all.get(folder).ok_or_else(none)
    }

    /// Creates a file for a content that has no object name yet.
    pub fn create_pending(&self, folder: usize) -> io::Result<PendingObject> {
        let place = self.folder(folder)?;
        let mode = Mode::from_raw_mode(0o600);
        if place.nameless.load(Ordering::Relaxed) {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            match rustix::fs::open(&place.path, flags, mode) {
                Ok(fd) => {
                    return Ok(PendingObject {
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
        Ok(PendingObject {
            file: Arc::new(fd.into()),
            folder,
            name: Some(name),
        })
    }

    /// Returns the path of a file's object in a folder.
    pub fn object(&self, folder: usize, id: VertexId) -> io::Result<PathBuf> {
        let place = self.folder(folder)?;
        Ok(place.path.join(relative(id)))
    }

    /// Finds the object of a file in any of the folders.
    pub fn find(&self, id: VertexId) -> Option<PathBuf> {
        let within = relative(id);
        let mut all = self.all.iter().map(|f| f.path.join(&within));
        all.find(|object| object.symlink_metadata().is_ok())
    }

    /// Gives a content its object name, replacing what was there (of a removed or incomplete file).
    pub fn link_object(&self, pending: &mut PendingObject, id: VertexId) -> io::Result<PathBuf> {
        let object = self.object(pending.folder, id)?;
        match self.link_at(pending, &object) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Some(above) = object.parent() {
                    std::fs::create_dir_all(above)?;
                }
                self.link_at(pending, &object)?;
            }
            done => done?,
        }
        pending.name = None;
        Ok(object)
    }

    fn link_at(&self, pending: &PendingObject, object: &Path) -> io::Result<()> {
        if let Some(name) = &pending.name {
            return std::fs::rename(name, object);
        }
        let link = |to: &Path| {
            let from = format!("/proc/self/fd/{}", pending.file.as_raw_fd());
            rustix::fs::linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)
        };
        match link(object) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::EXIST) => {
                let n = self.next.fetch_add(1, Ordering::Relaxed);
                let beside = object.with_extension(format!("{}-{n}", std::process::id()));
                link(&beside)?;
                std::fs::rename(&beside, object)?;
                // Renaming between two names of one file leaves both in place.
                let _ = std::fs::remove_file(&beside);
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Opens the object of the file with this id, by the path in its inode. Only the path that this mount would create
    /// for that file is opened: an inode may contain any path, even that of another user's content.
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

    /// Removes the object of the file with this id; its absence is not an error. Another file's object is not removed.
    pub fn remove(&self, path: &[u8], id: VertexId) -> io::Result<()> {
        let (folder, within) = self.within(path, id)?;
        match std::fs::remove_file(self.folder(folder)?.path.join(within)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Returns the index of the folder that contains the object of this file, and its path there.
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
            None => refused("is in none of the data folders of this mount"),
            Some((_, named)) if named != id => refused("is the object of another file"),
            Some((folder, _)) => Ok((folder, relative(id))),
        }
    }
}

/// Returns the path of an object relative to its folder.
pub(crate) fn relative(id: VertexId) -> PathBuf {
    let [.., last] = id.0;
    let name = u128::from_be_bytes(id.0);
    PathBuf::from(format!("{last:02x}/{name:032x}"))
}

/// Returns the id of the file whose object has this relative path, if it is an object's.
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
            let mut pending = folders.create_pending(1).unwrap();
            (&*pending.file).write_all(text.as_bytes()).unwrap();
            let path = folders.link_object(&mut pending, id).unwrap();
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
        let dropped = folders.create_pending(0).unwrap();
        drop(dropped);
        let mut pending = folders.create_pending(0).unwrap();
        let path = folders
            .link_object(&mut pending, VertexId([1; 16]))
            .unwrap();
        drop(pending);
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
        // A symbolic link in place of an object is refused.
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
        let mut pending = folders.create_pending(1).unwrap();
        let object = folders.link_object(&mut pending, other).unwrap();
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
        /// Objects' paths and ids determine each other; any other path is not an object.
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
