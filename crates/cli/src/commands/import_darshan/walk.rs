//! Traversal of folders in the order of names, without a list of all files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Ends of the names of Darshan's logs.
const LOG_NAMES: [&str; 2] = [".darshan", ".darshan.gz"];

/// Files and folders that a traversal left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Folders that cannot be read, with the error.
    pub(super) problems: Vec<(PathBuf, io::Error)>,
    /// Number of files in folders whose names are not those of logs.
    pub(super) other_files: u64,
}

/// Calls `found` with each log: given paths unchanged, those in folders by their names, recursively. Skips hidden files in folders and links
/// to folders. Stops if `found` returns false.
pub(super) fn each_file(paths: &[PathBuf], found: &mut dyn FnMut(PathBuf) -> bool) -> LeftOut {
    let mut left_out = LeftOut::default();
    for path in paths {
        let go_on = if path.is_dir() {
            each_in_folder(path, found, &mut left_out)
        } else {
            found(path.clone())
        };
        if !go_on {
            break;
        }
    }
    left_out
}

fn each_in_folder(
    folder: &Path,
    found: &mut dyn FnMut(PathBuf) -> bool,
    left_out: &mut LeftOut,
) -> bool {
    let mut entries: Vec<(PathBuf, fs::FileType)> = Vec::new();
    let read = fs::read_dir(folder).and_then(|dir| {
        for entry in dir {
            let entry = entry?;
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                entries.push((entry.path(), entry.file_type()?));
            }
        }
        Ok(())
    });
    if let Err(error) = read {
        left_out.problems.push((folder.to_owned(), error));
    }
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in entries {
        let go_on = if kind.is_dir() {
            each_in_folder(&path, found, left_out)
        } else if kind.is_file() || (kind.is_symlink() && path.is_file()) {
            if is_named_as_log(&path) {
                found(path)
            } else {
                left_out.other_files += 1;
                true
            }
        } else {
            // Sockets, devices, and links to folders or to nothing are skipped.
            true
        };
        if !go_on {
            return false;
        }
    }
    true
}

fn is_named_as_log(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    LOG_NAMES.iter().any(|end| name.ends_with(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_in_order_for_logs() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b/2.darshan",
            "b/1.darshan",
            "a.darshan",
            "a.darshan.gz",
            "a.darshan.txt",
            "b/README",
            ".hidden.darshan",
            "c/.git/x.darshan",
        ] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).unwrap();
        let mut names = Vec::new();
        let left_out = each_file(&[dir.path().to_owned()], &mut |path| {
            names.push(path.strip_prefix(dir.path()).unwrap().display().to_string());
            true
        });
        assert_eq!((left_out.problems.len(), left_out.other_files), (0, 2));
        assert_eq!(
            names,
            ["a.darshan", "a.darshan.gz", "b/1.darshan", "b/2.darshan"]
        );
        // A file that is named itself is taken, whatever its name is.
        let named = dir.path().join("b/README");
        let mut taken = Vec::new();
        each_file(std::slice::from_ref(&named), &mut |path| {
            taken.push(path);
            true
        });
        assert_eq!(taken, [named]);
        let mut count = 0;
        each_file(&[dir.path().to_owned()], &mut |_| {
            count += 1;
            false
        });
        assert_eq!(count, 1);
    }
}
