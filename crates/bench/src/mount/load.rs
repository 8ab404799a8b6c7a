//! The operations on each side: empty files created, stat'ed and removed, as by mdtest; one large file written and read.

use super::args::MountBenchArgs;
use super::side::{Caching, SideKind};
use anyhow::Context as _;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

const PIECE: usize = 1 << 20;

/// Operations on empty files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Create,
    Stat,
    Remove,
}

impl Phase {
    pub(super) const ALL: [Self; 3] = [Self::Create, Self::Stat, Self::Remove];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Remove => "remove",
        }
    }

    /// Names of the cases that a rate belongs to. With the usual time of caching, a stat measures how much of that time has passed;
    /// other file systems have one rate for both cases of a mount.
    pub(super) fn names(self, kind: SideKind, caching: Caching) -> &'static [&'static str] {
        match (self, caching) {
            (Self::Create, Caching::Usual) => &["create"],
            (Self::Remove, Caching::Usual) => &["remove"],
            (Self::Stat, Caching::Usual) if !kind.is_mounted() => {
                &["stat, not cached", "stat, cached"]
            }
            (Self::Stat, Caching::Never) => &["stat, not cached"],
            (Self::Stat, Caching::Always) => &["stat, cached"],
            _ => &[],
        }
    }

    fn one(self, path: &Path) -> std::io::Result<()> {
        match self {
            Self::Create => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).open(path).map(drop)
            }
            Self::Stat => fs::metadata(path).map(drop),
            Self::Remove => fs::remove_file(path),
        }
    }
}

/// Returns the rate of all ranks together, in files per second.
pub(super) fn names(
    phase: Phase,
    one: bool,
    at: &Path,
    args: &MountBenchArgs,
) -> anyhow::Result<f64> {
    let ranks = u32::from(args.ranks);
    let each = (args.files / ranks).max(1);
    let directory = |rank: u32| -> PathBuf {
        if one {
            at.join("one")
        } else {
            at.join(format!("unique-{rank}"))
        }
    };
    if phase == Phase::Create {
        for rank in 0..ranks {
            fs::create_dir_all(directory(rank)).context("making a directory to measure in")?;
        }
    }
    let began = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                // Files are stat'ed by a rank that has not created them: the neighbour.
                let whose = if phase == Phase::Stat {
                    (rank + 1) % ranks
                } else {
                    rank
                };
                let directory = directory(whose);
                scope.spawn(move || {
                    (0..each)
                        .try_for_each(|n| phase.one(&directory.join(format!("file.{whose}.{n}"))))
                })
            })
            .collect();
        for thread in threads {
            let done = thread.join();
            let done = done.unwrap_or_else(|_| Err(std::io::Error::other("a rank failed")));
            done.with_context(|| format!("{} in {}", phase.name(), at.display()))?;
        }
        anyhow::Ok(())
    })?;
    let seconds = began.elapsed().as_secs_f64();
    if phase == Phase::Remove {
        for rank in 0..if one { 1 } else { ranks } {
            fs::remove_dir(directory(rank)).context("removing what was measured in")?;
        }
    }
    Ok(f64::from(each * ranks) / seconds)
}

/// Returns rates in MiB per second: written, overwritten, and read. Data is not synced to disk, on either side.
pub(super) fn contents(at: &Path, size: u64) -> anyhow::Result<Vec<(String, f64)>> {
    let path = at.join("large");
    let pieces = (size / PIECE as u64).max(1);
    let data = vec![b'x'; PIECE];
    let mut measured = Vec::new();
    for what in ["write a large file", "write it again"] {
        let began = Instant::now();
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        for _ in 0..pieces {
            file.write_all(&data)?;
        }
        drop(file);
        measured.push((
            what.to_owned(),
            pieces as f64 / began.elapsed().as_secs_f64(),
        ));
    }
    let mut buffer = vec![0; PIECE];
    let began = Instant::now();
    let mut file = File::open(&path)?;
    while file.read(&mut buffer)? > 0 {}
    measured.push((
        "read a large file".to_owned(),
        pieces as f64 / began.elapsed().as_secs_f64(),
    ));
    drop(file);
    fs::remove_file(&path)?;
    Ok(measured)
}
