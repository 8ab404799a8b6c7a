//! The archive of a database in a program without the feature `archive`: it must be empty.

use crate::engine::{Archive, ArchiveView, HistoryRows, NoArchive};
use crate::left_out;
use esker_model::{Error, Result};
use std::io::ErrorKind;
use std::path::Path;

/// Takes the place of the archive.
pub(crate) use self::AbsentArchive as FolderArchive;

/// The archive of one database, which has no files.
#[derive(Debug)]
pub(crate) struct AbsentArchive;

impl AbsentArchive {
    /// Refuses a folder with files: reads of the past would lack their versions.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let files = match std::fs::read_dir(folder) {
            Ok(mut entries) => entries.next().is_some(),
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            Err(e) => return Err(Error::io(format!("reading `{}`", folder.display()), e)),
        };
        if files {
            return Err(left_out(
                "archive",
                &format!("`{}` has superseded versions", folder.display()),
            ));
        }
        Ok(Self)
    }

    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the signature with the feature"
    )]
    pub(crate) fn merge_if_many(&self) -> Result<()> {
        Ok(())
    }

    /// Makes the folder of an empty archive; returns its size in bytes.
    #[allow(clippy::unused_self, reason = "the signature with the feature")]
    pub(crate) fn copy_to(&self, folder: &Path) -> Result<u64> {
        crate::modes::create_inside(folder)
            .map_err(|e| Error::io(format!("writing `{}`", folder.display()), e))?;
        Ok(0)
    }
}

impl Archive for AbsentArchive {
    fn append(&self, rows: &mut HistoryRows<'_>) -> Result<u64> {
        match rows.next() {
            None => Ok(0),
            Some(_) => Err(left_out(
                "archive",
                "superseded versions move to the archive",
            )),
        }
    }

    fn view(&self) -> Result<Box<dyn ArchiveView + '_>> {
        Ok(Box::new(NoArchive))
    }
}
