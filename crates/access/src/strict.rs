//! Detects whether other users can replace a database's folder (sshd's `StrictModes`).
//!
//! A user with write access to a folder may rename its entries even if other users own them; unless the sticky bit is set, as in `/tmp`.

use crate::peer::is_mapped;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A folder on the way to a path in which other users may rename entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakness {
    /// Path of the folder.
    pub folder: PathBuf,
    /// Users who may rename its entries.
    pub by: By,
}

/// Users who may rename entries of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The group of the folder, or all users, as its mode says.
    Mode(u32),
    /// The owner of the folder, who is neither root, nor the user of this process, nor the owner of the database.
    Owner(u32),
    /// Unknown, because the folder cannot be examined.
    Unknown,
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        match self.by {
            By::Mode(mode) => write!(
                f,
                "the folder `{folder}` can be written by others (mode {:o}), who can replace what \
                 is in it; run `chmod go-w {folder}`, or `chmod +t {folder}`",
                mode & 0o7777
            ),
            By::Owner(user) => write!(
                f,
                "the folder `{folder}` belongs to user {user}, who can replace what is in it"
            ),
            By::Unknown => write!(
                f,
                "the folder `{folder}` cannot be inspected: whether others can write in it is not known"
            ),
        }
    }
}

/// Returns the folders on the way to a path, including the path itself if it is a folder, in which other users may rename entries;
/// the outermost last. Empty if the path does not exist.
pub fn strict_modes(path: &Path) -> Vec<Weakness> {
    let Ok(whole) = std::fs::canonicalize(path) else {
        return Vec::new();
    };
    let owner = std::fs::metadata(&whole).ok().map(|m| m.uid());
    let own = rustix::process::geteuid().as_raw();
    let trusted = |user: u32| user == own || user == 0 || Some(user) == owner;
    let mut all = Vec::new();
    for folder in whole.ancestors() {
        let by = match std::fs::metadata(folder) {
            Ok(m) if !m.is_dir() => continue,
            Ok(m) if m.mode() & 0o022 != 0 && m.mode() & 0o1000 == 0 => By::Mode(m.mode()),
            // A user without an id here, such as root in some containers, is ignored.
            Ok(m) if !trusted(m.uid()) && is_mapped(m.uid()) => By::Owner(m.uid()),
            Ok(_) => continue,
            Err(_) => By::Unknown,
        };
        let folder = folder.to_path_buf();
        all.push(Weakness { folder, by });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn users_who_can_replace_a_folder_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (group, lab) = (dir.path().join("abc"), dir.path().join("abc/lab"));
        std::fs::create_dir_all(&lab).unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let within = |path: &Path| -> Vec<Weakness> {
            let all = strict_modes(path).into_iter();
            all.filter(|w| w.folder.starts_with(dir.path())).collect()
        };
        assert_eq!(within(&lab), []);
        // A project folder, as on many machines.
        mode(&group, 0o2775);
        let found = within(&lab);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].folder, group.canonicalize().unwrap());
        let said = found[0].to_string();
        assert!(said.contains("written by others (mode 2775)"), "{said}");
        // The path may contain a symbolic link.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&lab, &link).unwrap();
        assert_eq!(within(&link), found);
        mode(&group, 0o3775);
        assert_eq!(within(&lab), []);
        mode(&lab, 0o777);
        assert_eq!(within(&lab).len(), 1);
        mode(&lab, 0o700);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&group, Some(1002), None).unwrap();
            assert_eq!(within(&lab)[0].by, By::Owner(1002));
            std::os::unix::fs::chown(&lab, Some(1002), None).unwrap();
            assert_eq!(within(&lab), []);
        }
        assert_eq!(strict_modes(&dir.path().join("none")), []);
    }
}
