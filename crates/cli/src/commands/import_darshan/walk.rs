//! Traversal of folders in the order of names, without a list of all files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Calls `found` with each file: given paths unchanged, folders recursively. Skips hidden files in folders and links to folders. Stops if
/// `found` returns false. Returns the errors of reading.
pub(super) fn each_file(
    paths: &[PathBuf],
    found: &mut dyn FnMut(PathBuf) -> bool,
) -> Vec<(PathBuf, io::Error)> {
    let mut problems = Vec::new();
    for path in paths {
        let go_on = if path.is_dir() {
            each_in_folder(path, found, &mut problems)
        } else {
            found(path.clone())
        };
        if !go_on {
            break;
        }
    }
    problems
}

fn each_in_folder(
    folder: &Path,
    found: &mut dyn FnMut(PathBuf) -> bool,
    problems: &mut Vec<(PathBuf, io::Error)>,
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
        problems.push((folder.to_owned(), error));
    }
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in entries {
        let go_on = if kind.is_dir() {
            each_in_folder(&path, found, problems)
        } else if kind.is_file() || (kind.is_symlink() && path.is_file()) {
            found(path)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_in_order_and_hidden_files_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b/2.darshan",
            "b/1.darshan",
            "a.darshan",
            ".hidden",
            "c/.git/x",
        ] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).unwrap();
        let mut names = Vec::new();
        let problems = each_file(&[dir.path().to_owned()], &mut |path| {
            names.push(path.strip_prefix(dir.path()).unwrap().display().to_string());
            true
        });
        assert!(problems.is_empty());
        assert_eq!(names, ["a.darshan", "b/1.darshan", "b/2.darshan"]);
        let mut count = 0;
        each_file(&[dir.path().to_owned()], &mut |_| {
            count += 1;
            false
        });
        assert_eq!(count, 1);
    }
}
