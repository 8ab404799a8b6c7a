//! Files that decide who may do what: read only where nobody else could have written them.

use esker_model::{Error, Result};
use std::fs::{File, Metadata};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

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

/// Why others could have written it, if so.
fn loose(what: &str, path: &Path, m: &Metadata, owner: u32) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    if ![own, 0, owner].contains(&m.uid()) {
        return Some(format!(
            "{what} `{}` belongs to user {}, not to user {own}, who runs this: it is not read",
            path.display(),
            m.uid()
        ));
    }
    (m.mode() & 0o022 != 0).then(|| {
        format!(
            "{what} `{}` can be written by others (mode {:o}): it is not read; run `chmod go-w {}`",
            path.display(),
            m.mode() & 0o7777,
            path.display()
        )
    })
}

/// Reads a file that nobody but this user or root can have written. `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<(Stamp, String)>> {
    let failed = |e| Error::io(format!("reading `{}`", path.display()), e);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::Target(format!("`{}` is no file", path.display())));
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let around = std::fs::metadata(folder).map_err(failed)?;
    // Whoever owns the folder of a database may serve it by another user's process.
    let owner = around.uid();
    let why = loose("the file", path, &metadata, owner)
        .or_else(|| loose("the folder", folder, &around, owner));
    if let Some(why) = why {
        return Err(Error::Target(why));
    }
    if metadata.len() > BYTES_MAX {
        return Err(Error::Limit {
            what: format!("the size in bytes of `{}`", path.display()),
            got: metadata.len(),
            limit: BYTES_MAX,
        });
    }
    let mut bytes = Vec::new();
    let mut limited = std::io::Read::by_ref(&mut file).take(BYTES_MAX);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    // What is no text gives no rights; lines that are text do.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some((Stamp::from(&metadata), text)))
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
