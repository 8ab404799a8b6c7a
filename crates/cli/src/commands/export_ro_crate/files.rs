//! Files of a crate: the rules that select them, and their copying.
//!
//! The graph names the files, and every user with the right to write to the graph chooses their paths. So a path must be in plain form;
//! links on the way are followed only if they belong to root or this user; folders with secrets are excluded; and both the source and its
//! copy are opened component by component without following links, so that concurrent changes cannot redirect them.

use crate::nofollow::{self, FOLDER};
use esker_model::namespace::check_path_key;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Subfolder of the crate for its files.
const FILES: &str = "files";
/// Maximum number of links in a path.
const LINKS_MAX: u32 = 40;
const COPY_BYTES: usize = 128 << 10;

/// Rules that say which files may be copied into a crate.
pub(in crate::commands) struct Rules {
    /// Whether system files and files below dot-folders of home directories are allowed.
    from_anywhere: bool,
    /// Whether files of unknown size are allowed, although they may not be the files of the lineage.
    without_size: bool,
    home: Option<PathBuf>,
}

/// An open file that may be copied into a crate.
pub(in crate::commands) struct FileSource {
    file: File,
    /// Size of the file in bytes.
    pub(in crate::commands) size: u64,
}

impl FileSource {
    /// Returns the open file.
    pub(in crate::commands) fn into_file(self) -> File {
        self.file
    }
}

impl Rules {
    pub(in crate::commands) fn new(from_anywhere: bool, without_size: bool) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute());
        Self {
            from_anywhere,
            without_size,
            home: home.map(|home| home.canonicalize().unwrap_or(home)),
        }
    }

    /// Opens a file that the graph names, if it may be copied into a crate. `known` is its recorded size.
    ///
    /// # Errors
    /// Returns the reason why the file may not be copied.
    pub(in crate::commands) fn open(
        &self,
        path: &str,
        known: Option<i64>,
    ) -> Result<FileSource, String> {
        check_path_key(path)?;
        let real = real_path(Path::new(path))?;
        if !self.from_anywhere {
            self.check_location(&real)?;
        }
        let opened = nofollow::file(&real).map_err(|e| e.to_string())?;
        let file = opened.file;
        let size = u64::try_from(opened.stat.st_size).unwrap_or(0);
        match known {
            Some(known) if u64::try_from(known) != Ok(size) => Err(format!(
                "it has {size} bytes now, and had {known} when it was seen"
            )),
            None if !self.without_size => Err(
                "its size was never recorded, so it may not be the same file any more: --files-without-size includes it"
                    .into(),
            ),
            _ => Ok(FileSource { file, size }),
        }
    }

    fn check_location(&self, path: &Path) -> Result<(), String> {
        if let Some(folder) = esker_trace::SYSTEM.iter().find(|f| path.starts_with(f)) {
            return Err(format!(
                "it is a system file ({folder}): --files-from-anywhere includes it"
            ));
        }
        if self.is_hidden_in_a_home(path) {
            return Err(
                "it is in a home directory, at or below a name that begins with a dot, where keys \
                 and passwords are kept: --files-from-anywhere includes it"
                    .into(),
            );
        }
        Ok(())
    }

    fn is_hidden_in_a_home(&self, path: &Path) -> bool {
        let hidden = |below: &Path| {
            let first = below.components().next();
            first.is_some_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"."))
        };
        let own = self.home.as_deref().into_iter();
        let mut homes = own.chain([Path::new("/root")]);
        if homes.any(|home| path.strip_prefix(home).is_ok_and(hidden)) {
            return true;
        }
        // The first component is the user: `/home/USER/…`.
        let others = path.strip_prefix("/home").ok();
        let below = others.map(|below| below.components().skip(1).collect::<PathBuf>());
        below.as_deref().is_some_and(hidden)
    }
}

/// Resolves the links of a path; only links of root and this user are followed.
fn real_path(path: &Path) -> Result<PathBuf, String> {
    let names = |path: &Path| -> Vec<OsString> {
        let names = path.components().rev();
        names.map(|name| name.as_os_str().to_owned()).collect()
    };
    let user = rustix::process::geteuid().as_raw();
    // The next component is the last of the list.
    let mut left = names(path);
    let mut done = PathBuf::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        match Path::new(&name).components().next() {
            Some(Component::ParentDir) => {
                done.pop();
                continue;
            }
            Some(Component::Normal(_)) => {}
            Some(Component::RootDir) => {
                done = PathBuf::from("/");
                continue;
            }
            _ => continue,
        }
        let next = done.join(&name);
        let told = |e: io::Error| format!("{}: {e}", next.display());
        let metadata = next.symlink_metadata().map_err(told)?;
        if !metadata.is_symlink() {
            done = next;
            continue;
        }
        links += 1;
        if metadata.uid() != 0 && metadata.uid() != user {
            return Err(format!(
                "{} is a symbolic link of user {}: only links of yours and of root's are followed",
                next.display(),
                metadata.uid()
            ));
        }
        if links > LINKS_MAX {
            return Err("there are too many symbolic links on the way".into());
        }
        left.extend(names(&next.read_link().map_err(told)?));
    }
    Ok(done)
}

/// An unfinished crate: a folder that this process has created.
pub(super) struct Crate(OwnedFd);

impl Crate {
    /// Creates the folder, which must not exist.
    pub(super) fn make(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir(folder)?;
        let folder = rustix::fs::open(folder, FOLDER, Mode::empty())?;
        Ok(Self(folder))
    }

    /// Creates a file below the folder, with its parent folders; existing links are not followed and existing files not replaced.
    pub(super) fn file(&self, place: &str) -> io::Result<File> {
        let (folders, last) = place.rsplit_once('/').unwrap_or(("", place));
        let mut folder = rustix::io::dup(&self.0)?;
        for name in folders.split('/').filter(|name| !name.is_empty()) {
            match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
            folder = rustix::fs::openat(&folder, name, FOLDER, Mode::empty())?;
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, last, flags, Mode::from_raw_mode(0o666))?;
        Ok(File::from(file))
    }

    /// Copies a file from `path` and returns its place in the crate. A file that grows during the copy is cut at its former size.
    ///
    /// # Errors
    /// Returns an error if the copy fails or the file has become smaller.
    pub(super) fn copy(&self, path: &str, source: &FileSource) -> Result<String, String> {
        let place = format!("{FILES}{path}");
        let told = |e: io::Error| format!("copying it to {place}: {e}");
        let mut target = self.file(&place).map_err(told)?;
        let mut from = (&source.file).take(source.size);
        let mut buffer = vec![0; COPY_BYTES];
        let mut copied = 0_u64;
        loop {
            let read = from.read(&mut buffer).map_err(told)?;
            if read == 0 {
                break;
            }
            let bytes = buffer.get(..read).unwrap_or_default();
            target.write_all(bytes).map_err(told)?;
            copied += read as u64;
        }
        if copied == source.size {
            Ok(place)
        } else {
            Err("it became smaller while it was copied".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(home: &str) -> Rules {
        Rules {
            from_anywhere: false,
            without_size: false,
            home: Some(home.into()),
        }
    }

    #[test]
    fn what_is_hidden_in_a_home_and_the_system_is_left_out() {
        let rules = rules("/users/ada");
        for path in [
            "/users/ada/.ssh/id_ed25519",
            "/users/ada/.netrc",
            "/root/.config/x",
            "/home/eve/.bashrc",
            "/etc/shadow",
            "/proc/1/environ",
        ] {
            assert!(rules.check_location(Path::new(path)).is_err(), "{path}");
        }
        for path in [
            "/users/ada/work/.snakemake/x",
            "/home/eve/data",
            "/home/.snapshots/x",
            "/scratch/.tmp/x",
            "/etcetera/x",
        ] {
            assert_eq!(rules.check_location(Path::new(path)), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_crate_is_written_below_its_folder_only() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("crate");
        let made = Crate::make(&folder).unwrap();
        assert!(
            Crate::make(&folder).is_err(),
            "one that is there is not taken"
        );
        std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", folder.join("files")).unwrap();
        assert!(made.file("files/x").is_err());
        assert!(made.file("y/z").is_ok());
        assert!(made.file("y/z").is_err(), "nothing is replaced");
        assert!(made.file("y/z/a").is_err());
        assert_eq!(
            std::fs::read_dir(dir.path().join("elsewhere"))
                .unwrap()
                .count(),
            0
        );
    }
}
