//! Files that decide who may do what: read only where nobody else could have written them.
//!
//! A server opens the folder of such files once ([`Folder::open`]). Whoever may write in a parent of the folder can put another folder
//! in its place; files are read and written by the descriptor, so that the other folder is not looked at.

use esker_model::{Error, Result};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use std::fs::{File, Metadata};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Bytes that such a file may have.
pub(crate) const BYTES_MAX: u64 = 4 << 20;

/// Opens without reading.
#[cfg(target_os = "linux")]
const LOOK_ONLY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOK_ONLY: OFlags = OFlags::RDONLY;

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What was found at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is no such file.
    Absent,
    /// A file in that state, in a folder of that mode.
    Present(Stamp, u32),
    /// The system did not say.
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

/// Whether others can put another file in the place of one in that folder. Where the sticky bit is set (`/tmp`), they cannot.
fn is_open(folder: &Metadata) -> bool {
    folder.mode() & 0o022 != 0 && folder.mode() & 0o1000 == 0
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// A folder that was opened once: what happens to its path does not matter from then on.
#[derive(Debug)]
pub struct Folder {
    file: File,
    path: PathBuf,
    /// Whose it was then.
    owner: u32,
}

/// Where files of rights lie: a path that is opened now, or a folder that was opened before.
pub trait Within {
    /// The open folder.
    fn opened(&self) -> Result<Arc<Folder>>;
}

impl Within for Path {
    fn opened(&self) -> Result<Arc<Folder>> {
        Folder::open(self).map(Arc::new)
    }
}

impl Within for PathBuf {
    fn opened(&self) -> Result<Arc<Folder>> {
        self.as_path().opened()
    }
}

impl Within for Arc<Folder> {
    fn opened(&self) -> Result<Arc<Folder>> {
        Ok(Self::clone(self))
    }
}

impl Folder {
    /// Opens a folder.
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

    /// Opens the folder of a file: `None` if there is none. Of the two users who may own what is in it, this process's own and
    /// root, there is a third if `owner` says so.
    pub(crate) fn around(path: &Path, owner: Option<u32>) -> std::io::Result<Option<Self>> {
        match Self::at(folder_of(path)) {
            Ok(mut folder) => {
                folder.owner = owner.unwrap_or(0);
                Ok(Some(folder))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Its path when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose it was when it was opened.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether its path leads to another folder by now, or to none.
    pub fn is_replaced(&self) -> bool {
        let place = |m: Metadata| (m.dev(), m.ino());
        let own = self.file.metadata().map(place).ok();
        let by_path = std::fs::metadata(&self.path).map(place);
        match by_path {
            Ok(found) => Some(found) != own,
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        }
    }

    fn shown(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether that user may decide: who runs this process, root, and who owned the folder (the owner of a database may let
    /// another user's process serve it).
    fn trusts(&self, user: u32) -> bool {
        let own = rustix::process::geteuid().as_raw();
        user == own || user == 0 || (user == self.owner && crate::peer::is_mapped(user))
    }

    /// What lies at a name.
    pub(crate) fn find(&self, name: &str) -> Found {
        let flags = LOOK_ONLY | OFlags::CLOEXEC;
        let look = || {
            let file = File::from(openat(&self.file, name, flags, Mode::empty())?);
            let stamp = Stamp::from(&file.metadata()?);
            Ok((stamp, self.file.metadata()?.mode()))
        };
        match look() {
            Ok((stamp, mode)) => Found::Present(stamp, mode),
            Err(e) => match std::io::Error::kind(&e) {
                std::io::ErrorKind::NotFound => Found::Absent,
                kind => Found::Unknown(kind),
            },
        }
    }

    /// Opens a file: `None` if there is none. It must be one, and of a user who may decide.
    fn open_file(&self, name: &str) -> Result<Option<(File, Metadata, Metadata)>> {
        let path = self.shown(name);
        let failed = |e| Error::io(format!("reading `{}`", path.display()), e);
        // A FIFO is not waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(&self.file, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(e) => return Err(failed(e.into())),
        };
        let metadata = file.metadata().map_err(failed)?;
        let around = self.file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Error::Target(format!("`{}` is no file", path.display())));
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

    /// Reads a file that nobody but its owner or root can have written. `None` if there is none.
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
        let path = self.shown(name);
        if metadata.mode() & 0o022 != 0 {
            return loose("the file", &path, metadata.mode());
        }
        if is_open(&around) {
            return loose("the folder", &self.path, around.mode());
        }
        Ok(Some((Stamp::from(&metadata), text(&path, &mut file)?)))
    }

    /// Puts a file there whole: whoever reads sees the old one or the new one.
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
            Error::io(format!("writing `{}`", self.shown(name).display()), e)
        })
    }

    /// Held while files are changed: one process after the other.
    pub(crate) fn lock(&self) -> Result<File> {
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
    // What is no text gives no rights; lines that are text do.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The folder of a file as it is now, and the file's name.
fn split(path: &Path) -> Result<Option<(Folder, String)>> {
    let failed = |e| Error::io(format!("reading `{}`", path.display()), e);
    let name = path.file_name().unwrap_or_default();
    let name = name.to_str().ok_or_else(|| {
        failed(std::io::Error::new(
            std::io::ErrorKind::InvalidFilename,
            "the name is no text",
        ))
    })?;
    match Folder::at(folder_of(path)) {
        Ok(folder) => Ok(Some((folder, name.to_owned()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(e)),
    }
}

/// Reads a file that nobody but its owner or root can have written. `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<(Stamp, String)>> {
    match split(path)? {
        Some((folder, name)) => folder.read(&name),
        None => Ok(None),
    }
}

/// Puts a file there whole: whoever reads sees the old one or the new one.
pub(crate) fn replace(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    match split(path)? {
        Some((folder, name)) => folder.replace(&name, mode, bytes),
        None => Err(Error::io(
            format!("writing `{}`", path.display()),
            std::io::ErrorKind::NotFound.into(),
        )),
    }
}

/// Reads a file that nobody but its owner can read. `None` if there is none.
pub(crate) fn read_secret(path: &Path) -> Result<Option<Zeroizing<String>>> {
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

/// Makes a file that must not be there.
pub(crate) fn create(path: &Path, mode: u32, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes a folder that only its owner may go into, if it is not there.
pub(crate) fn own_folder(path: &Path) -> Result<()> {
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
        // A key is nobody else's to read; who may write beside it does not matter.
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
        assert_eq!(folder.find("keys"), Found::Absent);
        folder.replace("keys", 0o600, b"one").unwrap();
        let before = folder.find("keys");
        folder.replace("keys", 0o600, b"two").unwrap();
        assert_ne!(folder.find("keys"), before);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// Whoever may write in the parent puts a folder of their own in the place of one that is open.
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

    /// Nobody waits for a pipe that somebody put there.
    #[test]
    fn a_fifo_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mode = Mode::from_raw_mode(0o600);
        let path = dir.path().join("keys");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("is no file"), "{refused}");
    }
}
