//! A database, with the same calls as the file systems.

use super::mdtest::Tree;
use super::{FileSide, NamespaceBench, all, disk};
use esker::{Database, OpenOptions};
use esker_model::namespace::{
    Change, Content, Kind, Name, NamePath, Namespace as _, NewFile, SetAttributes,
};
use esker_model::{Error, Result};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;

/// A time in 2025, in nanoseconds since 1970.
const TIME: i64 = 1_750_000_000_000_000_000;

/// A database with one directory.
pub(super) struct Files {
    /// `None` only while the database is being reopened.
    database: Option<Database>,
    folder: PathBuf,
    options: OpenOptions,
    directory: NamePath,
}

impl Files {
    pub(super) fn make(bench: &NamespaceBench<'_>) -> anyhow::Result<Self> {
        let folder = bench.scratch.cleared_path("esker")?;
        let options = bench
            .context
            .open_options()
            .engine(bench.args.engine.into());
        let database = Database::init(&folder.to_string_lossy(), &options)?;
        let directory = NamePath::parse(b"/files").map_err(Error::from)?;
        let make = NewFile::new(Kind::Directory.bits() | 0o755, 0, 0);
        all(database.change(None, &[Change::Create(directory.clone(), make)])?)?;
        Ok(Self {
            database: Some(database),
            folder,
            options,
            directory,
        })
    }

    pub(super) fn close(self) -> anyhow::Result<()> {
        Ok(self.database.map_or(Ok(()), Database::close)?)
    }

    fn database(&self) -> Result<&Database> {
        let closed = || Error::Unavailable("the database could not be opened again".into());
        self.database.as_ref().ok_or_else(closed)
    }

    fn path_below(&self, path: &str) -> Result<NamePath> {
        let whole = [self.directory.as_bytes(), b"/", path.as_bytes()].concat();
        Ok(NamePath::parse(&whole)?)
    }

    fn change(&self, change: Change) -> anyhow::Result<()> {
        Ok(all(self.database()?.change(None, &[change])?)?)
    }

    fn path(&self, number: u64) -> Result<NamePath> {
        Ok(self
            .directory
            .join(&Name::new(format!("file.{number:08}").as_bytes())?))
    }
}

impl FileSide for Files {
    fn create(&self, numbers: Range<u64>, batch: usize) -> anyhow::Result<()> {
        let make = NewFile::new(Kind::File.bits() | 0o644, 1000, 1000);
        let mut changes = Vec::with_capacity(batch);
        let end = numbers.end;
        for number in numbers {
            changes.push(Change::Create(self.path(number)?, make.clone()));
            if changes.len() == batch || number + 1 == end {
                all(self.database()?.change(None, &changes)?)?;
                changes.clear();
            }
        }
        Ok(())
    }

    fn stat(&self, number: u64) -> anyhow::Result<()> {
        self.database()?.stat(None, &self.path(number)?, false)?;
        Ok(())
    }

    fn chmod(&self, number: u64) -> anyhow::Result<()> {
        let mode = if number.is_multiple_of(2) {
            0o600
        } else {
            0o640
        };
        let set = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let path = self.path(number)?;
        self.change(Change::Set {
            path,
            follow: false,
            set,
        })
    }

    fn utime(&self, number: u64) -> anyhow::Result<()> {
        let set = SetAttributes {
            atime: Some(TIME),
            mtime: Some(TIME + number.cast_signed()),
            ..SetAttributes::default()
        };
        let path = self.path(number)?;
        self.change(Change::Set {
            path,
            follow: false,
            set,
        })
    }

    fn traffic(&self) -> Option<(u64, u64)> {
        let io = std::fs::read_to_string("/proc/self/io").ok()?;
        let of = |name: &str| {
            io.lines()
                .find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
        };
        Some((of("read_bytes:")?, of("write_bytes:")?))
    }

    fn list(&self) -> anyhow::Result<u64> {
        let mut seen = 0;
        self.database()?
            .list(None, &self.directory, None, &mut |_, _| {
                seen += 1;
                ControlFlow::Continue(())
            })?;
        Ok(seen)
    }

    fn unlink(&self, number: u64) -> anyhow::Result<()> {
        let path = self.path(number)?;
        self.change(Change::Unlink(path))
    }

    fn forget(&mut self) -> anyhow::Result<()> {
        if let Some(database) = self.database.take() {
            database.close()?;
        }
        disk::drop_pages(&self.folder)?;
        let database = self.options.open(&self.folder.to_string_lossy())?;
        self.database = Some(database);
        Ok(())
    }
}

impl Tree for Files {
    fn mkdir(&self, path: &str) -> anyhow::Result<()> {
        let make = NewFile::new(Kind::Directory.bits() | 0o755, 1000, 1000);
        self.change(Change::Create(self.path_below(path)?, make))
    }

    fn rmdir(&self, path: &str) -> anyhow::Result<()> {
        self.change(Change::Rmdir(self.path_below(path)?))
    }

    fn write(&self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        let mut make = NewFile::new(Kind::File.bits() | 0o644, 1000, 1000);
        if !content.is_empty() {
            make.content = Content::Inline(content.to_vec());
        }
        self.change(Change::Create(self.path_below(path)?, make))
    }

    fn stat_path(&self, path: &str) -> anyhow::Result<()> {
        self.database()?
            .stat(None, &self.path_below(path)?, false)?;
        Ok(())
    }

    fn read(&self, path: &str) -> anyhow::Result<usize> {
        let inode = self.database()?.stat(None, &self.path_below(path)?, true)?;
        Ok(match inode.content {
            Content::Inline(content) => content.len(),
            _ => 0,
        })
    }

    fn remove(&self, path: &str) -> anyhow::Result<()> {
        self.change(Change::Unlink(self.path_below(path)?))
    }
}
