//! Format numbers of a stored database, read without changing it.

use crate::Database;
use crate::engine::FORMAT;
use crate::folder::{self, Content, Folder};
use crate::options::OpenOptions;
use crate::session::open_engine;
use esker_model::codec::Reader;
use esker_model::{Error, ErrorKind, Result};
use esker_store::{StoreSettings, Table};

/// Format numbers of a database; `docs/book/format-stability.md` explains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats {
    /// Format of the folder layout.
    pub folder: u32,
    /// Format of the rows in the store.
    pub rows: u32,
}

impl Formats {
    /// Formats that this build writes.
    pub const NOW: Self = Self {
        folder: folder::FORMAT,
        rows: FORMAT,
    };
}

impl Database {
    /// Reads the format numbers of a folder's database without changing it.
    ///
    /// # Errors
    /// If the target is a server or not a database, or a process has it open.
    pub fn formats(target: &str, options: &OpenOptions) -> Result<Formats> {
        if crate::server::is_address(target) {
            return Err(Error::Target(format!(
                "`{target}` is a server, and a database is upgraded on the machine that holds it: stop it, and run `esker upgrade FOLDER` there"
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
                ErrorKind::Unavailable => Error::InUse(format!(
                    "`{target}` is in use: end what has it open, and repeat"
                )),
                _ => e,
            })?;
        let row = store.get(Table::Meta, b"format")?.unwrap_or_default();
        let rows = Reader::new(&row)
            .u32("a format number")
            .map_err(|e| Error::corrupt("row `format` of table `meta`", e))?;
        // Folders of newer layouts were refused above, and no older layout exists.
        let folder = folder::FORMAT;
        Ok(Formats { folder, rows })
    }
}
