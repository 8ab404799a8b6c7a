//! In which formats a database is stored, read without changing it.

use crate::Database;
use crate::engine::FORMAT;
use crate::folder::{self, Content, Folder};
use crate::options::OpenOptions;
use crate::session::open_engine;
use esker_model::codec::Reader;
use esker_model::{Error, ErrorKind, Result};
use esker_rpc::Address;
use esker_store::{StoreSettings, Table};

/// The numbers of a database's formats; `docs/book/format-promise.md` tells what they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats {
    /// Of the folder.
    pub folder: u32,
    /// Of the rows in its store.
    pub rows: u32,
}

impl Formats {
    /// Those that this build writes.
    pub const NOW: Self = Self {
        folder: folder::FORMAT,
        rows: FORMAT,
    };
}

impl Database {
    /// In which formats the database of a folder is stored. Nothing is changed, and nobody may have it open meanwhile.
    ///
    /// # Errors
    /// If the target is a server or no database, or some process has it open.
    pub fn formats(target: &str, options: &OpenOptions) -> Result<Formats> {
        if Address::is_address(target) {
            return Err(Error::Target(format!(
                "`{target}` is a server, and databases are brought up to date where they lie: stop it, and run `esker upgrade FOLDER` there"
            )));
        }
        let folder = Folder::of_target(target)?;
        let engine = match folder.content()? {
            Content::Database(engine) => engine,
            other @ (Content::Empty | Content::Unfinished | Content::Absent) => {
                return Err(folder.missing(other));
            }
        };
        let settings = StoreSettings {
            memory_bytes: crate::raw::store_memory(options.memory_bytes),
            ..StoreSettings::default()
        };
        let store =
            open_engine(engine, &folder.store(), &settings, false).map_err(|e| match e.kind() {
                ErrorKind::Unavailable => Error::Unavailable(format!(
                    "`{target}` is in use: end what has it open, and repeat"
                )),
                _ => e,
            })?;
        let row = store.get(Table::Meta, b"format")?.unwrap_or_default();
        let rows = Reader::new(&row)
            .u32("a format number")
            .map_err(|e| Error::corrupt("row `format` of table `meta`", e))?;
        // A folder of a later layout has been refused, and there was none before the first.
        let folder = folder::FORMAT;
        Ok(Formats { folder, rows })
    }
}
