//! `MANIFEST`: the files that make up the checkpoint of a store, and the generation that may add to it.
//!
//! ```text
//!  esker checkpoint 1
//!  store 16 hex digits
//!  base 3 1200                    the base with all commits up to 1200, written in generation 3; absent without a base
//!  span 3 1201 1900               segments of generation 3 contain commits 1201 to 1900
//!  open 4 1901                    segments of generation 4 are valid from commit 1901 on
//!  folder /bb/esker/lab/server-2
//!  folder .                       the folder of the manifest itself, wherever it is moved or copied to
//!  closed                         nothing was lost; absent while the store is open
//! ```
//!
//! A segment has no line of its own, so the manifest changes only when the store is opened, when there is a new base, and
//! when another folder is about to get its first file. The process that opens the store writes its own generation into the
//! manifest, which makes later files of the process before invalid.

use super::storage;
use esker_model::{Error, Result};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const HEAD: &str = "esker checkpoint 1";
/// The manifest's own folder.
const HERE: &str = ".";

/// Commits of one opening of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) generation: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Contents of the manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Manifest {
    /// Number that identifies the store.
    pub(crate) store: u64,
    /// Generation and last commit of the base.
    pub(crate) base: Option<(u64, u64)>,
    pub(crate) spans: Vec<Span>,
    /// Generation and first commit of the current opening.
    pub(crate) open: (u64, u64),
    pub(crate) folders: BTreeSet<PathBuf>,
    pub(crate) closed: bool,
}

impl Manifest {
    /// Path of the manifest in the folder of a checkpoint.
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join("MANIFEST")
    }

    /// Reads the manifest; `None` if the file is absent.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = Self::path(folder);
        match std::fs::read_to_string(&path) {
            Ok(text) => match Self::parse(&text) {
                Ok(mut manifest) => {
                    if manifest.folders.remove(Path::new(HERE)) {
                        manifest.folders.insert(folder.to_path_buf());
                    }
                    Ok(Some(manifest))
                }
                Err(what) => Err(Error::Target(format!(
                    "`{}` is damaged, or of a newer Esker: {what}; put it back from a copy of the storage",
                    path.display()
                ))),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(format!("reading `{}`", path.display()), e)),
        }
    }

    /// Replaces the manifest atomically.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        storage::replace(&Self::path(folder), &self.text(folder))
    }

    fn text(&self, home: &Path) -> String {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let home = absolute(home);
        let mut text = format!("{HEAD}\nstore {:016x}\n", self.store);
        // Writing to a String cannot fail.
        if let Some((generation, last)) = self.base {
            let _ = writeln!(text, "base {generation} {last}");
        }
        for span in &self.spans {
            let _ = writeln!(
                text,
                "span {} {} {}",
                span.generation, span.first, span.last
            );
        }
        let _ = writeln!(text, "open {} {}", self.open.0, self.open.1);
        for folder in &self.folders {
            // The next process may have another working directory.
            let folder = absolute(folder);
            let folder = if folder == home {
                Path::new(HERE)
            } else {
                &folder
            };
            let _ = writeln!(text, "folder {}", folder.display());
        }
        if self.closed {
            text.push_str("closed\n");
        }
        text
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(format!("expected `{HEAD}` in its first line"));
        }
        let store = lines.next().and_then(|l| l.strip_prefix("store "));
        let store = store.and_then(|s| u64::from_str_radix(s, 16).ok());
        let mut manifest = Self {
            store: store.ok_or("expected `store` and a number in its second line")?,
            ..Self::default()
        };
        let mut opened = false;
        for line in lines {
            let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
            let numbers: Option<Vec<u64>> = rest.split(' ').map(|n| n.parse().ok()).collect();
            match (what, numbers.as_deref()) {
                ("folder", _) if !rest.is_empty() => {
                    manifest.folders.insert(rest.into());
                }
                ("closed", _) => manifest.closed = true,
                ("base", Some(&[generation, last])) => manifest.base = Some((generation, last)),
                ("span", Some(&[generation, first, last])) => manifest.spans.push(Span {
                    generation,
                    first,
                    last,
                }),
                ("open", Some(&[generation, first])) => {
                    manifest.open = (generation, first);
                    opened = true;
                }
                _ => {
                    return Err(format!(
                        "expected `base`, `span`, `open` or `folder`, got `{line}`"
                    ));
                }
            }
        }
        if !opened {
            return Err("expected a line `open GENERATION FIRST`".into());
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), None);
        let mut manifest = Manifest {
            store: 0xabc,
            open: (4, 1901),
            ..Manifest::default()
        };
        manifest.write(dir.path()).unwrap();
        assert_eq!(
            Manifest::read(dir.path()).unwrap().as_ref(),
            Some(&manifest)
        );
        manifest.base = Some((3, 1200));
        manifest.spans.push(Span {
            generation: 3,
            first: 1201,
            last: 1900,
        });
        manifest.folders.insert("/bb/a b".into());
        manifest.closed = true;
        manifest.write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), Some(manifest.clone()));
        // Its own folder is found after it was renamed.
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        std::fs::create_dir(&old).unwrap();
        manifest.folders.insert(old.clone());
        manifest.write(&old).unwrap();
        std::fs::rename(&old, &new).unwrap();
        let moved = Manifest::read(&new).unwrap().unwrap();
        let folders = [Path::new("/bb/a b").to_path_buf(), new];
        assert_eq!(moved.folders, folders.into());
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for (text, expected) in [
            ("", "in its first line"),
            ("esker checkpoint 1\nstore x\n", "in its second line"),
            ("esker checkpoint 1\nstore 1\nspan 1 2\n", "got `span 1 2`"),
            ("esker checkpoint 1\nstore 1\n", "a line `open"),
        ] {
            let why = Manifest::parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
