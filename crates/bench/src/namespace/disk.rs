//! A file system of this machine, with the same calls as Esker.

use super::FileSide;
use super::mdtest::Tree;
use crate::scratch::Scratch;
use anyhow::{Context as _, bail};
use clap::ValueEnum;
use rustix::fs::{self, Advice, AtFlags, Dir, Mode, OFlags, Timespec, Timestamps};
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kinds of file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FileSystemKind {
    /// In memory: /dev/shm
    Tmpfs,
    /// With a journal, in a file on a loop device
    Ext4,
}

impl FileSystemKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
        }
    }
}

/// Enough for 16 million empty files.
const EXT4_BYTES: u64 = 8 << 30;

/// A directory in the file system, with the resources to be released.
pub(super) struct Disk {
    /// `None` only while the file system is being remounted.
    directory: Option<OwnedFd>,
    root: PathBuf,
    image: Option<PathBuf>,
    /// Bytes read and written before the last remount.
    before: (u64, u64),
}

/// Writes and drops the cached pages of all files in a folder, so that they are read from disk again.
pub(super) fn drop_pages(folder: &Path) -> anyhow::Result<()> {
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?
    {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            drop_pages(&entry.path())?;
        } else if kind.is_file() {
            drop_pages_of(&entry.path())?;
        }
    }
    Ok(())
}

fn drop_pages_of(file: &Path) -> anyhow::Result<()> {
    let file = std::fs::File::open(file).with_context(|| format!("opening {}", file.display()))?;
    file.sync_data()?;
    fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
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
    pub(super) fn make(kind: FileSystemKind, scratch: &Scratch) -> anyhow::Result<Self> {
        let (root, image) = match kind {
            FileSystemKind::Tmpfs => (
                PathBuf::from(format!("/dev/shm/esker-bench-{}", std::process::id())),
                None,
            ),
            FileSystemKind::Ext4 => (
                scratch.cleared_path("ext4")?,
                Some(scratch.cleared_path("ext4.image")?),
            ),
        };
        std::fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
        if let Some(image) = &image {
            format(image)?;
            mount(image, &root)?;
        }
        std::fs::create_dir_all(root.join("files"))?;
        let mut disk = Self {
            directory: None,
            root,
            image,
            before: (0, 0),
        };
        disk.enter()?;
        Ok(disk)
    }

    fn enter(&mut self) -> anyhow::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let files = fs::open(self.root.join("files"), flags, Mode::empty())?;
        self.directory = Some(files);
        Ok(())
    }

    fn directory(&self) -> anyhow::Result<&OwnedFd> {
        let directory = self.directory.as_ref();
        directory.with_context(|| format!("{} could not be mounted again", self.root.display()))
    }

    /// Bytes that the loop device has read and written since it was mounted, after a sync.
    fn counted(&self) -> Option<(u64, u64)> {
        self.image.as_ref()?;
        let directory = self.directory.as_ref()?;
        fs::syncfs(directory).ok()?;
        let device = fs::fstat(directory).ok()?.st_dev;
        let (major, minor) = (fs::major(device), fs::minor(device));
        let stat = format!("/sys/dev/block/{major}:{minor}/stat");
        let stat = std::fs::read_to_string(stat).ok()?;
        let mut fields = stat.split_whitespace().map(str::parse::<u64>);
        // Fields 3 and 7: sectors of 512 bytes.
        let read = fields.nth(2)?.ok()?;
        let written = fields.nth(3)?.ok()?;
        Some((read * 512, written * 512))
    }
}

fn format(image: &Path) -> anyhow::Result<()> {
    let file = std::fs::File::create(image)?;
    file.set_len(EXT4_BYTES)?;
    let image = image.display().to_string();
    // One inode per 512 bytes, for a directory of small files.
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
    )
}

fn mount(image: &Path, root: &Path) -> anyhow::Result<()> {
    let (image, root) = (image.display().to_string(), root.display().to_string());
    command("mount", &["-o", "loop,noatime", &image, &root])
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A mount left behind would prevent removing the scratch folder.
        self.directory = None;
        if self.image.is_some() {
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

impl FileSide for Disk {
    fn create(&self, numbers: Range<u64>, _batch: usize) -> anyhow::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        for number in numbers {
            drop(fs::openat(
                self.directory()?,
                name(number),
                flags,
                Mode::from_raw_mode(0o644),
            )?);
        }
        Ok(())
    }

    fn stat(&self, number: u64) -> anyhow::Result<()> {
        fs::statat(self.directory()?, name(number), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    fn chmod(&self, number: u64) -> anyhow::Result<()> {
        let mode = if number.is_multiple_of(2) {
            0o600
        } else {
            0o640
        };
        Ok(fs::chmodat(
            self.directory()?,
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
            self.directory()?,
            name(number),
            &times,
            AtFlags::empty(),
        )?)
    }

    fn traffic(&self) -> Option<(u64, u64)> {
        let (read, written) = self.counted()?;
        Some((
            self.before.0.wrapping_add(read),
            self.before.1.wrapping_add(written),
        ))
    }

    fn forget(&mut self) -> anyhow::Result<()> {
        let Some(image) = self.image.clone() else {
            return Ok(());
        };
        let before = self.traffic();
        self.directory = None;
        command("umount", &[&self.root.display().to_string()])?;
        drop_pages_of(&image)?;
        mount(&image, &self.root)?;
        self.enter()?;
        // The loop device may change, and its counters with it.
        let now = self.counted();
        if let (Some(before), Some(now)) = (before, now) {
            let rest = |before: u64, now: u64| before.wrapping_sub(now);
            self.before = (rest(before.0, now.0), rest(before.1, now.1));
        }
        Ok(())
    }

    fn list(&self) -> anyhow::Result<u64> {
        let mut seen = 0;
        for entry in Dir::read_from(self.directory()?)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                fs::statat(self.directory()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
                seen += 1;
            }
        }
        Ok(seen)
    }

    fn unlink(&self, number: u64) -> anyhow::Result<()> {
        Ok(fs::unlinkat(
            self.directory()?,
            name(number),
            AtFlags::empty(),
        )?)
    }
}

impl Tree for Disk {
    fn mkdir(&self, path: &str) -> anyhow::Result<()> {
        Ok(fs::mkdirat(
            self.directory()?,
            path,
            Mode::from_raw_mode(0o755),
        )?)
    }

    fn rmdir(&self, path: &str) -> anyhow::Result<()> {
        Ok(fs::unlinkat(self.directory()?, path, AtFlags::REMOVEDIR)?)
    }

    fn write(&self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = fs::openat(self.directory()?, path, flags, mode)?;
        if !content.is_empty() {
            std::fs::File::from(file).write_all(content)?;
        }
        Ok(())
    }

    fn stat_path(&self, path: &str) -> anyhow::Result<()> {
        fs::statat(self.directory()?, path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    fn read(&self, path: &str) -> anyhow::Result<usize> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = fs::openat(self.directory()?, path, flags, Mode::empty())?;
        let mut content = Vec::new();
        Ok(std::fs::File::from(file).read_to_end(&mut content)?)
    }

    fn remove(&self, path: &str) -> anyhow::Result<()> {
        Ok(fs::unlinkat(self.directory()?, path, AtFlags::empty())?)
    }
}
