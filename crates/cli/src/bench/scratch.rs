//! The folder that a benchmark works in.

use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// Removed when dropped, unless it is to be kept.
pub(crate) struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    pub(crate) fn make(directory: &Path, keep: bool) -> anyhow::Result<Self> {
        let path = directory.join(format!("esker-bench-{}", std::process::id()));
        std::fs::create_dir(&path)
            .with_context(|| format!("making the scratch folder {}", path.display()))?;
        Ok(Self { path, keep })
    }

    /// A path inside that does not exist: what lay there is removed.
    pub(crate) fn fresh(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join(name);
        match std::fs::remove_dir_all(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(e).with_context(|| format!("clearing {}", path.display()))
            }
            _ => Ok(path),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is plain to see where it lies.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
