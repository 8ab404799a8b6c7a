//! Mount points: what is mounted where, dead mounts whose process has ended, and unmounting.

use nix::mount::{MntFlags, umount2};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// File system type of this crate's mounts, behind `fuse.`.
pub(crate) const TYPE: &str = "esker";
const NOT_CONNECTED: i32 = 107;

/// A mount of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Path of the mount point.
    pub at: PathBuf,
    /// Type of the file system, such as `ext4` or `fuse.esker`.
    pub kind: String,
    /// Source of the mount, as it is listed.
    pub source: String,
}

impl Mount {
    /// Whether this crate made the mount.
    pub fn is_ours(&self) -> bool {
        self.kind == format!("fuse.{TYPE}")
    }
}

/// Lists all mounts that this process sees; a mount that covers another follows it.
pub fn mounts() -> io::Result<Vec<Mount>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|b| *b == b'\n').filter_map(parse).collect())
}

/// Parses one line of `mountinfo` (proc(5)).
fn parse(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|b| *b == b' ');
    let at = unescaped(words.nth(4)?);
    let mut behind = words.skip_while(|w| *w != b"-").skip(1);
    let (kind, source) = (behind.next()?, behind.next()?);
    Some(Mount {
        at: PathBuf::from(OsString::from_vec(at)),
        kind: String::from_utf8_lossy(kind).into_owned(),
        source: String::from_utf8_lossy(&unescaped(source)).into_owned(),
    })
}

/// Decodes the escapes of `mountinfo`: a backslash and three octal digits for blanks and the like.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let byte = digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        let Some(byte) = byte else {
            out.push(*first);
            rest = behind;
            continue;
        };
        out.push(byte);
        rest = behind.get(3..).unwrap_or_default();
    }
    out
}

/// Returns the topmost mount on exactly this path.
pub fn mount_at(path: &Path) -> io::Result<Option<Mount>> {
    Ok(mounts()?.into_iter().rfind(|mount| mount.at == path))
}

/// Returns the mount of this crate that contains a path, and the path inside it; `None` for any other path. The path
/// need not exist.
pub fn mount_of(path: &Path) -> io::Result<Option<(Mount, PathBuf)>> {
    let path = match path.canonicalize() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let path = std::path::absolute(path)?;
            match (path.parent(), path.file_name()) {
                (Some(above), Some(name)) => above.canonicalize()?.join(name),
                _ => path,
            }
        }
        found => found?,
    };
    let over = mounts()?.into_iter().filter(|m| path.starts_with(&m.at));
    // Takes the innermost mount, and of several on one mount point the topmost.
    let over = over.reduce(|a, b| {
        if b.at.components().count() < a.at.components().count() {
            a
        } else {
            b
        }
    });
    let Some(mount) = over.filter(Mount::is_ours) else {
        return Ok(None);
    };
    let rest = path.strip_prefix(&mount.at).unwrap_or(&path);
    let within = Path::new("/").join(rest);
    Ok(Some((mount, within)))
}

/// Resolves symbolic links, even of a dead mount, which does not answer.
fn plain(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(e) if e.raw_os_error() == Some(NOT_CONNECTED) => {
            let path = std::path::absolute(path)?;
            match (path.parent(), path.file_name()) {
                (Some(above), Some(name)) => Ok(above.canonicalize()?.join(name)),
                _ => Ok(path),
            }
        }
        found => found,
    }
}

/// Checks that a directory can be mounted on, and returns its path as the kernel names it.
pub(crate) fn demand_free(path: &Path) -> io::Result<PathBuf> {
    let told = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let at = plain(path).map_err(told)?;
    let there = mount_at(&at)?;
    match std::fs::metadata(&at) {
        Err(e) if e.raw_os_error() == Some(NOT_CONNECTED) => {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!(
                    "{}: what was mounted here is dead, its process has ended; run `esker umount {}` first",
                    at.display(),
                    at.display()
                ),
            ));
        }
        Err(e) => return Err(told(e)),
        Ok(meta) if !meta.is_dir() => {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{}: expected a directory to mount on", at.display()),
            ));
        }
        Ok(_) => {}
    }
    if let Some(mount) = there.filter(Mount::is_ours) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "{}: `{}` is mounted here already; run `esker umount {}` first, or choose another directory",
                at.display(),
                mount.source,
                at.display()
            ),
        ));
    }
    Ok(at)
}

/// Adds advice to the error of a failed mount.
pub(crate) fn explain(error: &io::Error, at: &Path) -> io::Error {
    let said = error.to_string();
    let hint = match error.kind() {
        // The helper program has explained its error.
        _ if error.raw_os_error().is_none() => "",
        io::ErrorKind::NotFound => {
            "; is there /dev/fuse, and for users other than root `fusermount3` (package fuse3)?"
        }
        io::ErrorKind::PermissionDenied => {
            "; users other than root need `fusermount3` (package fuse3), and for --allow-other a line \
             `user_allow_other` in /etc/fuse.conf"
        }
        _ => "",
    };
    io::Error::new(
        error.kind(),
        format!("cannot mount on {}: {}{hint}", at.display(), said.trim()),
    )
}

/// Mode of an unmount operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmountMode {
    /// Fails while programs use the mount.
    Plain,
    /// Hides the mount at once and ends it when nobody uses it any more.
    Detach,
    /// Detaches the mount and aborts calls under way: for mounts that do not respond.
    Force,
}

/// Unmounts a path, even a dead mount.
pub fn unmount(path: &Path, how: UnmountMode) -> io::Result<()> {
    let at = plain(path)?;
    let told = |e: io::Error| {
        let hint = match e.kind() {
            io::ErrorKind::ResourceBusy => {
                ": programs have files or directories of it open; end them, or detach it (`esker umount --lazy`)"
            }
            _ => "",
        };
        io::Error::new(e.kind(), format!("{}: {e}{hint}", at.display()))
    };
    let mount = mount_at(&at)?;
    let Some(mount) = mount else {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{}: nothing is mounted here", at.display()),
        ));
    };
    if !mount.is_ours() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{}: what is mounted here ({}) is not an Esker mount; use umount",
                at.display(),
                mount.kind
            ),
        ));
    }
    let nofollow = MntFlags::UMOUNT_NOFOLLOW;
    if how == UnmountMode::Force {
        // The mount may still be busy, but calls that wait for it no longer are.
        let _ = umount2(&at, MntFlags::MNT_FORCE | nofollow);
        if mount_at(&at)?.as_ref() != Some(&mount) {
            return Ok(());
        }
    }
    let flags = match how {
        UnmountMode::Plain => nofollow,
        UnmountMode::Detach | UnmountMode::Force => MntFlags::MNT_DETACH | nofollow,
    };
    match umount2(&at, flags) {
        Ok(()) => Ok(()),
        Err(nix::errno::Errno::EPERM) => with_helper(&at, how != UnmountMode::Plain).map_err(told),
        Err(e) => Err(told(e.into())),
    }
}

/// Unmounts by the helper program, which may unmount a user's own mounts.
fn with_helper(at: &Path, detach: bool) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg("-u");
    if detach {
        command.arg("-z");
    }
    let out = command.arg(at).stdin(Stdio::null()).output()?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let kind = if said.contains("busy") {
        io::ErrorKind::ResourceBusy
    } else {
        io::ErrorKind::Other
    };
    Err(io::Error::new(kind, said.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_mounts() {
        let line =
            br"36 35 98:0 /mnt1 /a\040b rw,noatime master:1 shared:2 - fuse.esker esker://h:1 rw";
        let mount = parse(line).unwrap();
        assert_eq!(mount.at, Path::new("/a b"));
        assert_eq!(mount.source, "esker://h:1");
        assert!(mount.is_ours());
        assert!(mounts().unwrap().iter().any(|m| m.at == Path::new("/")));
    }

    #[test]
    fn nothing_there_is_told() {
        let empty = tempfile::tempdir().unwrap();
        let told = unmount(empty.path(), UnmountMode::Plain)
            .unwrap_err()
            .to_string();
        assert!(told.ends_with("nothing is mounted here"), "{told}");
        let told = unmount(Path::new("/proc"), UnmountMode::Plain)
            .unwrap_err()
            .to_string();
        assert!(told.contains("not an Esker mount"), "{told}");
        let file = empty.path().join("f");
        std::fs::write(&file, "").unwrap();
        let told = demand_free(&file).unwrap_err().to_string();
        assert!(told.contains("expected a directory"), "{told}");
    }

    proptest! {
        /// Any line is a mount or none, and does not panic.
        #[test]
        fn any_line(line in any::<Vec<u8>>()) {
            let _ = parse(&line);
            prop_assert!(unescaped(&line).len() <= line.len());
        }
    }
}
