//! Folders for checkpoint files: free space, and atomic creation of files.

use crate::folder::sync_folder;
use crate::modes;
use esker_model::{Error, Result};
use esker_store::segment::{Head, Kind};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Suffix of a file that is being written.
const DRAFT: &str = ".draft";

/// A checkpoint file as described by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileName {
    /// The head of the file, which its name repeats.
    pub(crate) head: Head,
}

impl FileName {
    /// File name: `STORE-GENERATION-FIRST-LAST.seg` or `.base`, all hexadecimal.
    pub(crate) fn text(&self) -> String {
        let Head {
            kind,
            store,
            generation,
            first,
            last,
        } = self.head;
        let end = match kind {
            Kind::Segment => "seg",
            Kind::Base => "base",
            Kind::Table => "table",
        };
        format!("{store:016x}-{generation:x}-{first:x}-{last:x}.{end}")
    }

    /// Parses a file name; `None` for other files.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (numbers, end) = text.split_once('.')?;
        let kind = match end {
            "seg" => Kind::Segment,
            "base" => Kind::Base,
            _ => return None,
        };
        let mut numbers = numbers.split('-').map(|n| u64::from_str_radix(n, 16).ok());
        let mut next = || numbers.next().flatten();
        let head = Head {
            kind,
            store: next()?,
            generation: next()?,
            first: next()?,
            last: next()?,
        };
        let name = Self { head };
        (name.text() == text).then_some(name)
    }
}

/// Checkpoint files of a store in a folder.
pub(crate) fn list(folder: &Path, store: u64) -> Result<Vec<FileName>> {
    let failed = |e| {
        Error::io(
            format!("reading the checkpoints in `{}`", folder.display()),
            e,
        )
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_str().and_then(FileName::parse);
        names.extend(name.filter(|n| n.head.store == store));
    }
    Ok(names)
}

/// Removes unfinished files of a writer that was killed.
pub(crate) fn clear_drafts(folder: &Path, store: u64) {
    let ours = format!("{store:016x}-");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&ours) && name.ends_with(DRAFT) {
            // A leftover file does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Bytes that unprivileged users can still write to the file system of a folder.
pub(crate) fn free(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Fails if no folder has enough space.
pub(crate) fn probe(folders: &[PathBuf], reserve: u64) -> Result<()> {
    let mut why = Vec::new();
    for folder in folders {
        match check(folder, reserve) {
            Ok(()) => return Ok(()),
            Err(folder_error) => why.push(folder_error),
        }
    }
    Err(nowhere(&why.join("; ")))
}

fn nowhere(why: &str) -> Error {
    Error::Unavailable(format!(
        "no storage accepts the checkpoint, so no more writes are accepted: {why}; free some \
         space, or add a folder to `checkpoint.to` and start the server again"
    ))
}

/// Fails if a folder has less than `needed` bytes free.
fn check(folder: &Path, needed: u64) -> Result<(), String> {
    let shown = folder.display();
    modes::create_private_all(folder).map_err(|e| format!("making `{shown}`: {e}"))?;
    let free = free(folder).map_err(|e| format!("asking how much is free in `{shown}`: {e}"))?;
    if free < needed {
        return Err(format!(
            "`{shown}` has {} MiB free, and {} MiB are needed, the reserve included",
            free >> 20,
            needed.div_ceil(1 << 20)
        ));
    }
    Ok(())
}

/// Chooses the folder for a file: the first one that has space and accepts the file.
pub(crate) struct StorageFolders<'a> {
    pub(crate) folders: &'a [PathBuf],
    pub(crate) reserve: u64,
    /// Callback before a folder gets a file.
    pub(crate) announce: &'a dyn Fn(&Path) -> Result<()>,
}

impl StorageFolders<'_> {
    /// Writes a file of about `about` bytes and returns its folder. `write` may be called several times, once per
    /// attempted folder.
    pub(crate) fn put(
        &self,
        name: &FileName,
        about: u64,
        write: &mut dyn FnMut(&mut File) -> Result<(), WriteError>,
    ) -> Result<PathBuf> {
        let mut why = String::new();
        for folder in self.folders {
            match self.put_in(folder, name, about, write) {
                Ok(()) => return Ok(folder.clone()),
                Err(WriteError::Failed(e)) => return Err(e),
                Err(WriteError::Folder(folder_error)) => {
                    if !why.is_empty() {
                        why.push_str("; ");
                    }
                    why.push_str(&folder_error);
                }
            }
        }
        Err(nowhere(&why))
    }
}

/// Reason why a file was not written.
pub(crate) enum WriteError {
    /// This folder does not accept the file; another one may.
    Folder(String),
    /// No folder would accept the file.
    Failed(Error),
}

impl StorageFolders<'_> {
    fn put_in(
        &self,
        folder: &Path,
        name: &FileName,
        about: u64,
        write: &mut dyn FnMut(&mut File) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let shown = folder.display();
        let folder_error =
            |doing: &str, e: io::Error| WriteError::Folder(format!("{doing} `{shown}`: {e}"));
        check(folder, about.saturating_add(self.reserve)).map_err(WriteError::Folder)?;
        (self.announce)(folder).map_err(WriteError::Failed)?;
        // A segment and a base may be written at once.
        let path = folder.join(name.text());
        let draft = folder.join(format!("{}{DRAFT}", name.text()));
        let written = (|| {
            let mut file = File::create(&draft).map_err(|e| folder_error("writing in", e))?;
            write(&mut file)?;
            file.sync_all().map_err(|e| folder_error("writing in", e))?;
            std::fs::rename(&draft, &path).map_err(|e| folder_error("writing in", e))?;
            sync_folder(folder).map_err(|e| folder_error("writing in", e))
        })();
        if written.is_err() {
            // The draft may have filled the storage.
            let _ = std::fs::remove_file(&draft);
        }
        written
    }
}

/// Writes bytes; a failure lets the caller try the next folder.
pub(crate) fn write_all(file: &mut File, bytes: &[u8]) -> Result<(), WriteError> {
    file.write_all(bytes)
        .map_err(|e| WriteError::Folder(format!("writing a checkpoint: {e}")))
}

/// Replaces a small file atomically.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let failed = |e| Error::io(format!("writing `{}`", path.display()), e);
    let draft = path.with_extension("new");
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let written = (|| {
        modes::create_private_all(folder)?;
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, path)?;
        sync_folder(folder)
    })();
    written.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(first: u64, last: u64) -> FileName {
        let kind = if first == 0 {
            Kind::Base
        } else {
            Kind::Segment
        };
        FileName {
            head: Head {
                kind,
                store: 7,
                generation: 3,
                first,
                last,
            },
        }
    }

    #[test]
    fn names_say_what_is_in_a_file() {
        for name in [name(0, 99), name(100, 4096)] {
            assert_eq!(FileName::parse(&name.text()), Some(name));
        }
        for other in [
            "draft",
            "MANIFEST",
            "1-2-3.seg",
            "0000000000000007-3-064-1000.seg",
        ] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_folder_with_space_gets_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let folders = [dir.path().join("fast"), dir.path().join("slow")];
        let put = |reserve, write: &mut dyn FnMut(&mut File) -> Result<(), WriteError>| {
            let storage = StorageFolders {
                folders: &folders,
                reserve,
                announce: &|_| Ok(()),
            };
            storage.put(&name(1, 2), 10, write)
        };
        let mut write = |file: &mut File| write_all(file, b"whole");
        assert_eq!(put(0, &mut write).unwrap(), folders[0]);
        // A folder that becomes full during the write keeps no file.
        let mut times = 0;
        let mut full_first = |file: &mut File| {
            times += 1;
            write_all(file, b"half")?;
            match times {
                1 => Err(WriteError::Folder("no space left".into())),
                _ => Ok(()),
            }
        };
        std::fs::remove_dir_all(&folders[0]).unwrap();
        assert_eq!(put(0, &mut full_first).unwrap(), folders[1]);
        assert_eq!(std::fs::read_dir(&folders[0]).unwrap().count(), 0);
        assert_eq!(list(&folders[1], 7).unwrap(), [name(1, 2)]);
        assert_eq!(list(&folders[1], 8).unwrap(), []);
        let why = put(u64::MAX - 10, &mut write).unwrap_err().to_string();
        assert!(why.contains("MiB free") && why.contains("slow"), "{why}");
    }
}
