//! The sides: each a directory to work in, some of them mounted by a separate process.

use super::args::MountBenchArgs;
use crate::scratch::Scratch;
use anyhow::Context as _;
use esker::OpenOptions;
use esker_mount::{UnmountMode, mount_point};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Usual mount point of a tmpfs.
const SHARED_MEMORY: &str = "/dev/shm";
const PATIENCE: Duration = Duration::from_secs(30);

/// The kinds of sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideKind {
    Null,
    Esker,
    /// A mount with `--record`.
    Recorded,
    Tmpfs,
    Folder,
}

impl SideKind {
    pub(super) const ALL: [Self; 5] = [
        Self::Null,
        Self::Esker,
        Self::Recorded,
        Self::Tmpfs,
        Self::Folder,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "null FUSE",
            Self::Esker => "esker",
            Self::Recorded => "esker --record",
            Self::Tmpfs => "tmpfs",
            Self::Folder => "the folder underneath",
        }
    }

    pub(super) fn is_mounted(self) -> bool {
        matches!(self, Self::Null | Self::Esker | Self::Recorded)
    }

    pub(super) fn has_contents(self) -> bool {
        matches!(self, Self::Esker | Self::Recorded | Self::Folder)
    }
}

/// For how long the kernel caches names and attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caching {
    /// For the time that a mount has by default.
    Usual,
    /// For no time: each call reaches the mount.
    Never,
    /// For longer than the measurement.
    Always,
}

impl Caching {
    pub(super) const ALL: [Self; 3] = [Self::Usual, Self::Never, Self::Always];

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &[],
            Self::Never => &["--attr-timeout", "0s"],
            Self::Always => &["--attr-timeout", "1h"],
        }
    }
}

/// One side, ready for use.
pub(super) struct Side {
    pub(super) path: PathBuf,
    mounted: Option<(PathBuf, Child)>,
    /// Folder outside the scratch folder to be removed afterwards.
    outside: Option<PathBuf>,
}

impl Side {
    pub(super) fn make(
        kind: SideKind,
        caching: Caching,
        args: &MountBenchArgs,
        scratch: &Scratch,
    ) -> anyhow::Result<Option<Self>> {
        let plain = |path: PathBuf, outside| {
            std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
            anyhow::Ok(Some(Self {
                path,
                mounted: None,
                outside,
            }))
        };
        match kind {
            SideKind::Folder => plain(scratch.cleared_path("plain")?, None),
            SideKind::Tmpfs => {
                let there = mount_point::mount_at(Path::new(SHARED_MEMORY))?;
                if there.is_none_or(|m| m.kind != "tmpfs") {
                    return Ok(None);
                }
                let path =
                    Path::new(SHARED_MEMORY).join(format!("esker-bench-{}", std::process::id()));
                plain(path.clone(), Some(path))
            }
            SideKind::Recorded if !args.record => Ok(None),
            SideKind::Null | SideKind::Esker | SideKind::Recorded => {
                Self::mounted(kind, caching, args, scratch).map(Some)
            }
        }
    }

    fn mounted(
        kind: SideKind,
        caching: Caching,
        args: &MountBenchArgs,
        scratch: &Scratch,
    ) -> anyhow::Result<Self> {
        let at = scratch.cleared_path(match kind {
            SideKind::Null => "null",
            SideKind::Recorded => "recorded",
            _ => "mounted",
        })?;
        std::fs::create_dir_all(&at)?;
        let at = at.canonicalize()?;
        let target =
            if let (Some(target), SideKind::Esker | SideKind::Recorded) = (&args.target, kind) {
                target.clone()
            } else {
                let folder = scratch.cleared_path("database")?.display().to_string();
                if kind != SideKind::Null {
                    OpenOptions::new().create(true).open(&folder)?.close()?;
                }
                folder
            };
        let mut command = Command::new(esker_terminal::program::installed("esker")?);
        command
            .args(["--quiet", "mount", &target])
            .arg(&at)
            .arg("--threads")
            .arg(args.threads.to_string())
            .args(caching.options())
            .stdin(Stdio::null());
        if kind == SideKind::Null {
            command.arg("--null");
        } else {
            command.arg("--data").arg(scratch.cleared_path("data")?);
        }
        if kind == SideKind::Recorded {
            command.arg("--record");
        }
        let child = command.spawn().context("starting a mount")?;
        let mut side = Self {
            path: at.clone(),
            mounted: Some((at.clone(), child)),
            outside: None,
        };
        side.wait()?;
        if args.target.is_some() && kind != SideKind::Null {
            side.path = at.join("esker-bench-mount");
            std::fs::create_dir_all(&side.path)?;
        }
        Ok(side)
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let Some((at, child)) = &mut self.mounted else {
            return Ok(());
        };
        let since = Instant::now();
        while !matches!(mount_point::mount_at(at)?, Some(mount) if mount.is_ours()) {
            if let Some(status) = child.try_wait()? {
                anyhow::bail!("the mount ended at once ({status})");
            }
            if since.elapsed() > PATIENCE {
                anyhow::bail!("{} was not mounted in time", at.display());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // The first request is not measured.
        std::fs::metadata(at)?;
        Ok(())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some((at, child)) = &mut self.mounted {
            if mount_point::unmount(at, UnmountMode::Plain).is_err() {
                let _ = mount_point::unmount(at, UnmountMode::Force);
            }
            let _ = child.wait();
        }
        if let Some(outside) = &self.outside {
            let _ = std::fs::remove_dir_all(outside);
        }
    }
}
