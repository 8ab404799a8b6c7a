//! A file system of this machine, given the calls that Esker is given.

use super::Side;
use crate::bench::scratch::Scratch;
use anyhow::{Context as _, bail};
use clap::ValueEnum;
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags, Timespec, Timestamps};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// In memory: /dev/shm
    Tmpfs,
    /// With a journal, in a file on a loop device
    Ext4,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
        }
    }
}

/// Enough for 16 million empty files.
const EXT4_BYTES: u64 = 8 << 30;

/// A directory of it, and how to get rid of it.
pub(super) struct Disk {
    directory: OwnedFd,
    root: PathBuf,
    mounted: bool,
    image: Option<PathBuf>,
}

fn command(program: &str, args: &[&str]) -> anyhow::Result<()> {
    let done = Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("running {program}"))?;
    if !done.status.success() {
        bail!(
            "{program} {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(())
}

impl Disk {
    pub(super) fn make(kind: Kind, scratch: &Scratch) -> anyhow::Result<Self> {
        let (root, image) = match kind {
            Kind::Tmpfs => (
                PathBuf::from(format!("/dev/shm/esker-bench-{}", std::process::id())),
                None,
            ),
            Kind::Ext4 => (scratch.fresh("ext4")?, Some(scratch.fresh("ext4.image")?)),
        };
        std::fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
        if let Some(image) = &image {
            mount(image, &root)?;
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let files = root.join("files");
        std::fs::create_dir_all(&files)?;
        Ok(Self {
            directory: fs::open(&files, flags, Mode::empty())?,
            root,
            mounted: image.is_some(),
            image,
        })
    }
}

fn mount(image: &Path, root: &Path) -> anyhow::Result<()> {
    let file = std::fs::File::create(image)?;
    file.set_len(EXT4_BYTES)?;
    let (image, root) = (image.display().to_string(), root.display().to_string());
    // One inode for each 512 bytes: a directory of small files.
    command(
        "mkfs.ext4",
        &[
            "-q",
            "-F",
            "-i",
            "1024",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0",
            &image,
        ],
    )?;
    command("mount", &["-o", "loop,noatime", &image, &root])
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A mount that is left behind would keep the scratch folder.
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(&self.root).output();
        } else {
            let _ = std::fs::remove_dir_all(&self.root);
        }
        if let Some(image) = &self.image {
            let _ = std::fs::remove_file(image);
        }
    }
}

fn name(number: u64) -> String {
    format!("file.{number:08}")
}

impl Side for Disk {
    fn create(&self, numbers: Range<u64>, _batch: usize) -> anyhow::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        for number in numbers {
            drop(fs::openat(
                &self.directory,
                name(number),
                flags,
                Mode::from_raw_mode(0o644),
            )?);
        }
        Ok(())
    }

    fn stat(&self, number: u64) -> anyhow::Result<()> {
        fs::statat(&self.directory, name(number), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    fn chmod(&self, number: u64) -> anyhow::Result<()> {
        let mode = if number.is_multiple_of(2) {
            0o600
        } else {
            0o640
        };
        Ok(fs::chmodat(
            &self.directory,
            name(number),
            Mode::from_raw_mode(mode),
            AtFlags::empty(),
        )?)
    }

    fn utime(&self, number: u64) -> anyhow::Result<()> {
        let time = |nanos| Timespec {
            tv_sec: 1_750_000_000,
            tv_nsec: nanos,
        };
        let times = Timestamps {
            last_access: time(0),
            last_modification: time(number as _),
        };
        Ok(fs::utimensat(
            &self.directory,
            name(number),
            &times,
            AtFlags::empty(),
        )?)
    }

    /// What its loop device has read and written, once all that waits is written.
    fn traffic(&self) -> Option<(u64, u64)> {
        self.image.as_ref()?;
        fs::syncfs(&self.directory).ok()?;
        let device = fs::fstat(&self.directory).ok()?.st_dev;
        let (major, minor) = (fs::major(device), fs::minor(device));
        let stat = format!("/sys/dev/block/{major}:{minor}/stat");
        let stat = std::fs::read_to_string(stat).ok()?;
        let mut fields = stat.split_whitespace().map(str::parse::<u64>);
        // Fields 3 and 7: sectors of 512 bytes.
        let read = fields.nth(2)?.ok()?;
        let written = fields.nth(3)?.ok()?;
        Some((read * 512, written * 512))
    }

    fn list(&self) -> anyhow::Result<u64> {
        let mut seen = 0;
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                seen += 1;
            }
        }
        Ok(seen)
    }

    fn unlink(&self, number: u64) -> anyhow::Result<()> {
        Ok(fs::unlinkat(
            &self.directory,
            name(number),
            AtFlags::empty(),
        )?)
    }
}
