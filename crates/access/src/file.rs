//! Files that grant rights: read only if no other user can have written them.
//!
//! A server opens the folder of such files once ([`Folder::open`]). A user with write access to a parent of the folder can replace it
//! with another folder; files are therefore read and written relative to the open descriptor.

use esker_model::{Error, Result};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use std::fs::{File, Metadata};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Maximum size of a file, in bytes.
pub(crate) const BYTES_MAX: u64 = 4 << 20;

/// Flag that opens a path without reading it.
#[cfg(target_os = "linux")]
const LOOK_ONLY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOK_ONLY: OFlags = OFlags::RDONLY;

/// Metadata that tells two states of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Result of looking up a name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileStatus {
    /// No such file.
    Absent,
    /// The state of the file and the mode of its folder.
    Present(Stamp, u32),
    /// The lookup failed.
    Unknown(std::io::ErrorKind),
}

impl Stamp {
    fn from(m: &Metadata) -> Self {
        Self {
            device: m.dev(),
            inode: m.ino(),
            bytes: m.size(),
            modified: (m.mtime(), m.mtime_nsec()),
            changed: (m.ctime(), m.ctime_nsec()),
        }
    }
}

/// Whether other users can replace files of the folder. The sticky bit (`/tmp`) prevents that.
fn is_open(folder: &Metadata) -> bool {
    folder.mode() & 0o022 != 0 && folder.mode() & 0o1000 == 0
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// An open folder; later changes of its path have no effect.
#[derive(Debug)]
pub struct Folder {
    file: File,
    path: PathBuf,
    /// Owner at the time of opening.
    owner: u32,
}

/// Location of rights files: a path that is opened per call, or a folder that is already open.
pub trait RightsFolder {
    /// Returns the open folder.
    fn open_folder(&self) -> Result<Arc<Folder>>;
}

impl RightsFolder for Path {
    fn open_folder(&self) -> Result<Arc<Folder>> {
        Folder::open(self).map(Arc::new)
    }
}

impl RightsFolder for PathBuf {
    fn open_folder(&self) -> Result<Arc<Folder>> {
        self.as_path().open_folder()
    }
}

impl RightsFolder for Arc<Folder> {
    fn open_folder(&self) -> Result<Arc<Folder>> {
        Ok(Self::clone(self))
    }
}

impl Folder {
    /// Opens the folder at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        Self::at(path).map_err(|e| Error::io(format!("opening `{}`", path.display()), e))
    }

    fn at(path: &Path) -> std::io::Result<Self> {
        let flags = LOOK_ONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let owner = file.metadata()?.uid();
        Ok(Self {
            file,
            path: path.to_path_buf(),
            owner,
        })
    }

    /// Opens the folder of a file; `None` if the folder does not exist. Files in it may belong to this process's user, to root and, if
    /// given, to `owner`.
    pub(crate) fn containing(path: &Path, owner: Option<u32>) -> std::io::Result<Option<Self>> {
        match Self::at(folder_of(path)) {
            Ok(mut folder) => {
                folder.owner = owner.unwrap_or(0);
                Ok(Some(folder))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns the path at the time of opening.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the owner at the time of opening.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether the path now leads to another folder, or to none.
    pub fn is_replaced(&self) -> bool {
        let place = |m: Metadata| (m.dev(), m.ino());
        let own = self.file.metadata().map(place).ok();
        let by_path = std::fs::metadata(&self.path).map(place);
        match by_path {
            Ok(found) => Some(found) != own,
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether files of `user` are trusted: this process's user, root, and the owner of the folder when it was opened (the owner of a
    /// database may let another user's process serve it).
    fn trusts(&self, user: u32) -> bool {
        let own = rustix::process::geteuid().as_raw();
        user == own || user == 0 || (user == self.owner && crate::peer::is_mapped(user))
    }

    /// Looks up a name without reading the file.
    pub(crate) fn find(&self, name: &str) -> FileStatus {
        let flags = LOOK_ONLY | OFlags::CLOEXEC;
        let look = || {
            let file = File::from(openat(&self.file, name, flags, Mode::empty())?);
            let stamp = Stamp::from(&file.metadata()?);
            Ok((stamp, self.file.metadata()?.mode()))
        };
        match look() {
            Ok((stamp, mode)) => FileStatus::Present(stamp, mode),
            Err(e) => match std::io::Error::kind(&e) {
                std::io::ErrorKind::NotFound => FileStatus::Absent,
                kind => FileStatus::Unknown(kind),
            },
        }
    }

    /// Opens a file; `None` if it does not exist. It must be a regular file of a trusted user.
    fn open_file(&self, name: &str) -> Result<Option<(File, Metadata, Metadata)>> {
        let path = self.path_of(name);
        let failed = |e| Error::io(format!("reading `{}`", path.display()), e);
        // `NONBLOCK`: opening a FIFO does not wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(&self.file, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(e) => return Err(failed(e.into())),
        };
        let metadata = file.metadata().map_err(failed)?;
        let around = self.file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Error::Target(format!("`{}` is not a file", path.display())));
        }
        if metadata.len() > BYTES_MAX {
            return Err(Error::Limit {
                what: format!("the size in bytes of `{}`", path.display()),
                got: metadata.len(),
                limit: BYTES_MAX,
            });
        }
        if !self.trusts(metadata.uid()) {
            return Err(Error::Target(format!(
                "the file `{}` belongs to user {}, not to user {}, who runs this: it is not read",
                path.display(),
                metadata.uid(),
                rustix::process::geteuid().as_raw(),
            )));
        }
        Ok(Some((file, metadata, around)))
    }

    /// Reads a file that only its owner or root can have written; `None` if it does not exist.
    pub(crate) fn read(&self, name: &str) -> Result<Option<(Stamp, String)>> {
        let Some((mut file, metadata, around)) = self.open_file(name)? else {
            return Ok(None);
        };
        let loose = |what: &str, path: &Path, mode: u32| {
            Err(Error::Target(format!(
                "{what} `{}` can be written by others (mode {:o}): it is not read; run `chmod go-w {}`",
                path.display(),
                mode & 0o7777,
                path.display()
            )))
        };
        let path = self.path_of(name);
        if metadata.mode() & 0o022 != 0 {
            return loose("the file", &path, metadata.mode());
        }
        if is_open(&around) {
            return loose("the folder", &self.path, around.mode());
        }
        Ok(Some((Stamp::from(&metadata), text(&path, &mut file)?)))
    }

    /// Replaces a file atomically: readers see the old or the new one.
    pub(crate) fn replace(&self, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let beside = format!("{name}.new.{}", std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let write = || -> std::io::Result<()> {
            let made = openat(&self.file, &beside, flags, Mode::from_raw_mode(mode))?;
            let mut file = File::from(made);
            file.write_all(bytes)?;
            file.sync_all()?;
            Ok(renameat(&self.file, &beside, &self.file, name)?)
        };
        write().map_err(|e| {
            let _ = unlinkat(&self.file, &beside, AtFlags::empty());
            Error::io(format!("writing `{}`", self.path_of(name).display()), e)
        })
    }

    /// Locks the folder, so that one process at a time changes its files.
    pub fn lock(&self) -> Result<File> {
        let failed = |e| Error::io(format!("locking `{}`", self.path.display()), e);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = openat(&self.file, ".", flags, Mode::empty());
        let file = file.map(File::from).map_err(|e| failed(e.into()))?;
        file.lock().map_err(failed)?;
        Ok(file)
    }
}

fn text(path: &Path, file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    let read = file.take(BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|e| Error::io(format!("reading `{}`", path.display()), e))?;
    // Invalid UTF-8 is replaced: such lines grant no rights, the others do.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens the folder of a file and returns it with the file's name.
fn split(path: &Path) -> Result<Option<(Folder, String)>> {
    let failed = |e| Error::io(format!("reading `{}`", path.display()), e);
    let name = path.file_name().unwrap_or_default();
    let name = name.to_str().ok_or_else(|| {
        failed(std::io::Error::new(
            std::io::ErrorKind::InvalidFilename,
            "the file's name is not UTF-8: rename it",
        ))
    })?;
    match Folder::at(folder_of(path)) {
        Ok(folder) => Ok(Some((folder, name.to_owned()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(e)),
    }
}

/// Reads a file that only its owner or root can have written; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<(Stamp, String)>> {
    match split(path)? {
        Some((folder, name)) => folder.read(&name),
        None => Ok(None),
    }
}

/// Replaces a file atomically: readers see the old or the new one.
pub fn replace(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    match split(path)? {
        Some((folder, name)) => folder.replace(&name, mode, bytes),
        None => Err(Error::io(
            format!("writing `{}`", path.display()),
            std::io::ErrorKind::NotFound.into(),
        )),
    }
}

/// Reads a file that only its owner can read; `None` if it does not exist.
pub fn read_secret(path: &Path) -> Result<Option<Zeroizing<String>>> {
    let Some((folder, name)) = split(path)? else {
        return Ok(None);
    };
    let Some((mut file, metadata, _)) = folder.open_file(&name)? else {
        return Ok(None);
    };
    if metadata.mode() & 0o077 != 0 {
        return Err(Error::Target(format!(
            "`{}` holds a key, and others can read it (mode {:o}): it is not used; run `chmod 600 {}`",
            path.display(),
            metadata.mode() & 0o7777,
            path.display()
        )));
    }
    Ok(Some(Zeroizing::new(text(path, &mut file)?)))
}

/// Creates a file; fails if it exists.
pub(crate) fn create(path: &Path, mode: u32, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Creates a folder with mode 0700 unless it exists.
pub fn own_folder(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|e| Error::io(format!("making the folder `{}`", path.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_others_can_write_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        assert!(read(&path).unwrap().is_none());
        let folder = Folder::open(dir.path()).unwrap();
        folder.replace("keys", 0o600, b"one").unwrap();
        assert_eq!(read(&path).unwrap().unwrap().1, "one");
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&path, 0o620);
        let refused = read(&path).unwrap_err().to_string();
        assert!(
            refused.contains("written by others (mode 620)"),
            "{refused}"
        );
        mode(&path, 0o644);
        assert!(read(&path).is_ok());
        mode(dir.path(), 0o777);
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("the folder"), "{refused}");
        // A private key only has to be unreadable for others; write access to its folder does not matter.
        assert!(read_secret(&path).is_err());
        mode(&path, 0o600);
        assert_eq!(&*read_secret(&path).unwrap().unwrap(), "one");
        mode(dir.path(), 0o1777);
        assert!(read(&path).is_ok());
    }

    #[test]
    fn a_file_is_replaced_whole_and_seen_as_another() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        assert_eq!(folder.find("keys"), FileStatus::Absent);
        folder.replace("keys", 0o600, b"one").unwrap();
        let before = folder.find("keys");
        folder.replace("keys", 0o600, b"two").unwrap();
        assert_ne!(folder.find("keys"), before);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// A user with write access to the parent replaces an open folder by one of their own.
    #[test]
    fn a_folder_in_the_place_of_another_is_not_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab");
        std::fs::create_dir(&path).unwrap();
        let folder = Folder::open(&path).unwrap();
        folder.replace("keys", 0o600, b"own").unwrap();
        assert!(!folder.is_replaced());
        std::fs::rename(&path, dir.path().join("x")).unwrap();
        assert!(folder.is_replaced());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("keys"), "other").unwrap();
        assert!(folder.is_replaced());
        assert_eq!(folder.read("keys").unwrap().unwrap().1, "own");
        folder.replace("keys", 0o600, b"new").unwrap();
        assert_eq!(std::fs::read(path.join("keys")).unwrap(), b"other");
        assert_eq!(folder.read("keys").unwrap().unwrap().1, "new");
    }

    /// Opening a FIFO does not block.
    #[test]
    fn a_fifo_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mode = Mode::from_raw_mode(0o600);
        let path = dir.path().join("keys");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("is not a file"), "{refused}");
    }
}
