//! Files that decide who may do what: read only where nobody else could have written them.

use esker_model::{Error, Result};
use std::fs::{File, Metadata};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use zeroize::Zeroizing;

/// Bytes that such a file may have.
pub(crate) const BYTES_MAX: u64 = 4 << 20;

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|m| Self::from(&m))
    }

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

/// Opens a file: `None` if there is none. It must be one, and of a user who may decide: this one, root, or who owns the
/// folder (the owner of a database may let another user's process serve it).
fn open(path: &Path) -> Result<Option<(File, Metadata, Metadata)>> {
    let failed = |e| Error::io(format!("reading `{}`", path.display()), e);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let metadata = file.metadata().map_err(failed)?;
    let around = std::fs::metadata(folder_of(path)).map_err(failed)?;
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
    let own = rustix::process::geteuid().as_raw();
    if ![own, 0, around.uid()].contains(&metadata.uid()) {
        return Err(Error::Target(format!(
            "the file `{}` belongs to user {}, not to user {own}, who runs this: it is not read",
            path.display(),
            metadata.uid()
        )));
    }
    Ok(Some((file, metadata, around)))
}

fn text(path: &Path, file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    let read = file.take(BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|e| Error::io(format!("reading `{}`", path.display()), e))?;
    // What is no text gives no rights; lines that are text do.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a file that nobody but its owner or root can have written. `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<(Stamp, String)>> {
    let Some((mut file, metadata, around)) = open(path)? else {
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
    if metadata.mode() & 0o022 != 0 {
        return loose("the file", path, metadata.mode());
    }
    if is_open(&around) {
        return loose("the folder", folder_of(path), around.mode());
    }
    Ok(Some((Stamp::from(&metadata), text(path, &mut file)?)))
}

/// Reads a file that nobody but its owner can read. `None` if there is none.
pub(crate) fn read_secret(path: &Path) -> Result<Option<Zeroizing<String>>> {
    let Some((mut file, metadata, _)) = open(path)? else {
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

/// Puts a file there whole: whoever reads sees the old one or the new one.
pub(crate) fn replace(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    let failed = |e| Error::io(format!("writing `{}`", path.display()), e);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new.{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = create(&beside, mode, bytes).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|e| {
        let _ = std::fs::remove_file(&beside);
        failed(e)
    })
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
        replace(&path, 0o600, b"one").unwrap();
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
        let path = dir.path().join("keys");
        replace(&path, 0o600, b"one").unwrap();
        let before = Stamp::of(&path).unwrap();
        replace(&path, 0o600, b"two").unwrap();
        assert_ne!(Stamp::of(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
