//! The scratch folder of a benchmark.

use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// A scratch folder, removed on drop unless it is to be kept.
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

    /// Returns a path inside the folder after removing everything at it.
    pub(crate) fn cleared_path(&self, name: &str) -> anyhow::Result<PathBuf> {
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
            // A folder that cannot be removed stays visible at its path.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
