//! Files that go into a crate: which ones may, and how they are copied.
//!
//! Which files those are, the graph says, and whoever may write to the graph chooses their paths. So a path counts only in its plain form; links
//! on the way are followed only if they are root's or this user's; folders where secrets lie are left out; and both the source and its copy are
//! opened name by name, without following links, so that nothing that changes meanwhile leads elsewhere.

use crate::nofollow::{self, FOLDER};
use esker_model::namespace::check_path_key;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// The folder of the crate that its files lie in.
const FILES: &str = "files";
/// More links on the way than a sound path has.
const LINKS_MAX: u32 = 40;
const COPY_BYTES: usize = 128 << 10;

/// Which files may go into a crate.
pub(super) struct Rules {
    /// Also those of the system, and below folders of homes whose names begin with a dot.
    from_anywhere: bool,
    /// Also those whose size is not known: nothing says that they are the ones that the lineage is about.
    without_size: bool,
    home: Option<PathBuf>,
}

/// A file that may go into a crate, opened.
pub(super) struct Source {
    file: File,
    /// Its bytes.
    pub(super) size: u64,
}

impl Rules {
    pub(super) fn new(from_anywhere: bool, without_size: bool) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute());
        Self {
            from_anywhere,
            without_size,
            home: home.map(|home| home.canonicalize().unwrap_or(home)),
        }
    }

    /// Opens a file that the graph names, if it may go into a crate. `known`: its size, as far as it was seen.
    ///
    /// # Errors
    /// Why it may not.
    pub(super) fn open(&self, path: &str, known: Option<i64>) -> Result<Source, String> {
        check_path_key(path)?;
        let real = real_path(Path::new(path))?;
        if !self.from_anywhere {
            self.check_place(&real)?;
        }
        let opened = nofollow::file(&real).map_err(|e| e.to_string())?;
        let file = opened.file;
        let size = u64::try_from(opened.stat.st_size).unwrap_or(0);
        match known {
            Some(known) if u64::try_from(known) != Ok(size) => Err(format!(
                "it has {size} bytes now, and had {known} when it was seen"
            )),
            None if !self.without_size => Err(
                "its size was never recorded, so that nothing says that it is the file of that time: --files-without-size takes it"
                    .into(),
            ),
            _ => Ok(Source { file, size }),
        }
    }

    fn check_place(&self, path: &Path) -> Result<(), String> {
        if let Some(folder) = esker_trace::SYSTEM.iter().find(|f| path.starts_with(f)) {
            return Err(format!(
                "it is one of the system's ({folder}): --files-from-anywhere takes it"
            ));
        }
        if self.is_hidden_in_a_home(path) {
            return Err(
                "it lies in a home, in or behind a name that begins with a dot, where keys and passwords are kept: \
                 --files-from-anywhere takes it"
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
        // `/home/USER/…`.
        let others = path.strip_prefix("/home").ok();
        let below = others.map(|below| below.components().skip(1).collect::<PathBuf>());
        below.as_deref().is_some_and(hidden)
    }
}

/// The path without links, of which only those are followed that are root's or this user's.
fn real_path(path: &Path) -> Result<PathBuf, String> {
    let names = |path: &Path| -> Vec<OsString> {
        let names = path.components().rev();
        names.map(|name| name.as_os_str().to_owned()).collect()
    };
    let user = rustix::process::geteuid().as_raw();
    // The next one last.
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

/// A crate that is being made: a folder of this process's own making.
pub(super) struct Crate(OwnedFd);

impl Crate {
    /// Makes the folder, which must not be there.
    pub(super) fn make(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir(folder)?;
        let folder = rustix::fs::open(folder, FOLDER, Mode::empty())?;
        Ok(Self(folder))
    }

    /// Makes a file below the folder, and folders on the way; nothing there is followed or replaced.
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

    /// Copies a file that lies at `path`: where it is in the crate. A file that grows meanwhile is cut where it ended.
    ///
    /// # Errors
    /// Why it could not be, or that it has become smaller.
    pub(super) fn copy(&self, path: &str, source: &Source) -> Result<String, String> {
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
            assert!(rules.check_place(Path::new(path)).is_err(), "{path}");
        }
        for path in [
            "/users/ada/work/.snakemake/x",
            "/home/eve/data",
            "/home/.snapshots/x",
            "/scratch/.tmp/x",
            "/etcetera/x",
        ] {
            assert_eq!(rules.check_place(Path::new(path)), Ok(()), "{path}");
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
