//! Layout of a database's folder, and how to recognize one.
//!
//! ```text
//!  lab.esker/
//!    FORMAT         text: magic, format number, store engine, creation time and release
//!    store/         files of the store engine
//!    archive/       superseded versions past the retention policy, as Parquet
//!    rdf/           RDF data: an image and a log of later changes (see `rdf`)
//!    owner/         records of owners by generation, the socket
//! ```
//!
//! [`crate::modes`] defines the permissions. `FORMAT` is written last, so a folder that has `owner/` and no `FORMAT` is a
//! database whose creation was interrupted.

use crate::modes;
use crate::store_engine::StoreEngine;
use esker_model::{Error, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Number of the folder layout that this build writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;
const MAGIC: &str = "Esker database";
const FORMAT_FILE: &str = "FORMAT";
/// File in the folder of a cluster, whose databases are parts of the cluster, one per server.
pub const CLUSTER_FILE: &str = "CLUSTER";
const FORMAT_NEW: &str = "FORMAT.new";

/// A folder that is, or is about to become, a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Path as the user wrote it.
    pub(crate) path: PathBuf,
}

/// State of a folder's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A database of this store engine.
    Database(StoreEngine),
    /// An empty folder.
    Empty,
    /// A database whose creation is in progress or was interrupted.
    Unfinished,
    /// No folder at this path.
    Absent,
}

/// Whether a folder is a database, as far as its name list says: it has a file `FORMAT`. Opening it may still fail.
pub fn is_database(folder: &Path) -> bool {
    folder.join(FORMAT_FILE).is_file()
}

impl Folder {
    /// The folder that a target names; the folder may be absent.
    pub(crate) fn of_target(target: &str) -> Result<Self> {
        if target.is_empty() {
            return Err(Error::Target(
                "the target is empty; expected the folder of a database, as in lab.esker, or a server, as in esker://127.0.0.1:7400".into(),
            ));
        }
        Ok(Self {
            path: PathBuf::from(target),
        })
    }

    /// The folder at a path.
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
        }
    }

    /// Refuses a folder that is part of a cluster: only its server may change it, because the parts must agree.
    pub(crate) fn check_not_in_cluster(&self) -> Result<()> {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        match path.parent() {
            Some(storage) if storage.join(CLUSTER_FILE).is_file() => Err(Error::Target(format!(
                "`{}` is a part of the cluster in `{}`: start that with `esker cluster up FILE`, and use the address of one \
                 of its servers",
                self.display_path(),
                storage.display()
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.path.join("archive")
    }

    pub(crate) fn rdf(&self) -> PathBuf {
        self.path.join("rdf")
    }

    pub(crate) fn owner(&self) -> PathBuf {
        self.path.join("owner")
    }

    fn display_path(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Converts an I/O error inside the folder into an error that says what to do, where that is known.
    pub(crate) fn failed(&self, doing: &str, cause: std::io::Error) -> Error {
        use std::io::ErrorKind as K;
        let path = self.display_path();
        match cause.kind() {
            K::ReadOnlyFilesystem => Error::Target(format!(
                "cannot open `{path}`: its file system is mounted read-only, and even readers write there (who has \
                 it open, and recovery); mount it writable or copy the folder elsewhere"
            )),
            K::PermissionDenied => Error::Target(format!(
                "cannot open `{path}`: no permission to write in it, and even readers write there (who has it open, \
                 and recovery); change its owner or mode, or copy the folder elsewhere"
            )),
            K::StorageFull | K::QuotaExceeded => Error::io(
                format!(
                    "{doing} `{path}`: no space left; free some and repeat, nothing was half-applied"
                ),
                cause,
            ),
            _ => Error::io(format!("{doing} `{path}`"), cause),
        }
    }

    /// Determines the state of the folder; an error if it can neither be nor become a database.
    pub(crate) fn content(&self) -> Result<Content> {
        let path = self.display_path();
        match std::fs::metadata(&self.path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Content::Absent),
            Err(e) => return Err(self.failed("opening", e)),
            Ok(m) if !m.is_dir() => {
                return Err(Error::Target(format!(
                    "`{path}` is a file; an Esker database is a folder"
                )));
            }
            Ok(_) => {}
        }
        if let Some(text) = self.read_format()? {
            return self.parse_format(&text).map(Content::Database);
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(|e| self.failed("reading", e))? {
            let entry = entry.map_err(|e| self.failed("reading", e))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        let ours = |n: &String| {
            matches!(
                n.as_str(),
                "owner" | "store" | "archive" | "checkpoint" | FORMAT_NEW
            )
        };
        if names.is_empty() {
            Ok(Content::Empty)
        } else if names.iter().all(ours) && names.iter().any(|n| n == "owner") {
            // Another process may have completed the database between the two reads.
            match self.read_format()? {
                Some(text) => self.parse_format(&text).map(Content::Database),
                None => Ok(Content::Unfinished),
            }
        } else {
            let more = names.len().saturating_sub(3);
            let mut seen = names
                .iter()
                .take(3)
                .map(|n| format!("`{n}`"))
                .collect::<Vec<_>>()
                .join(", ");
            if more > 0 {
                seen = format!("{seen} and {more} more");
            }
            Err(Error::Target(format!(
                "`{path}` is not an Esker database: it holds {seen}, but no file `{FORMAT_FILE}`; \
                 to make one, name a folder that is empty or absent: esker init NEW.esker"
            )))
        }
    }

    fn read_format(&self) -> Result<Option<String>> {
        match std::fs::read(self.path.join(FORMAT_FILE)) {
            Ok(bytes) => Ok(Some(
                String::from_utf8_lossy(bytes.get(..4096).unwrap_or(&bytes)).into_owned(),
            )),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.failed("reading FORMAT of", e)),
        }
    }

    fn parse_format(&self, text: &str) -> Result<StoreEngine> {
        let path = self.display_path();
        let mut lines = text.lines();
        if lines.next() != Some(MAGIC) {
            return Err(Error::Target(format!(
                "`{path}` is not an Esker database: its file `{FORMAT_FILE}` does not begin with `{MAGIC}`"
            )));
        }
        let fields: Vec<(&str, &str)> = lines.filter_map(|l| l.split_once(' ')).collect();
        let field = |name: &str| fields.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let Some(format) = field("format").and_then(|v| v.parse::<u32>().ok()) else {
            return Err(Error::Target(format!(
                "file `{FORMAT_FILE}` of `{path}` is damaged: expected a line `format NUMBER`; restore it from a backup"
            )));
        };
        if format > FORMAT {
            return Err(Error::Target(format!(
                "`{path}` was written by a newer Esker (format {format}; this build reads up to {FORMAT}): upgrade Esker"
            )));
        }
        let name = field("engine").unwrap_or_default();
        let engine = StoreEngine::from_name(name).ok_or_else(|| {
            Error::Target(format!(
                "`{path}` uses the store engine `{name}`, which this build does not know; it knows fjall and rocksdb"
            ))
        })?;
        available(engine).map_err(|()| {
            Error::Target(format!(
                "`{path}` uses the store engine {}, which this build lacks: build Esker with --features rocksdb",
                engine.name()
            ))
        })?;
        Ok(engine)
    }

    /// Writes `FORMAT`, which completes the creation of the database.
    pub(crate) fn write_format(&self, engine: StoreEngine, now_millis: u64) -> Result<()> {
        let created = esker_model::Version::new(now_millis, 0);
        let text = format!(
            "{MAGIC}\nformat {FORMAT}\nengine {}\ncreated {created} by esker {}\n",
            engine.name(),
            env!("CARGO_PKG_VERSION")
        );
        let new = self.path.join(FORMAT_NEW);
        let write = || {
            let mut file = std::fs::File::create(&new)?;
            // Processes that may attach read this file to recognize the database.
            modes::readable(&file)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, self.path.join(FORMAT_FILE))?;
            sync_folder(&self.path)
        };
        write().map_err(|e| self.failed("making", e))
    }

    /// The error for a target that has no database.
    pub(crate) fn missing(&self, content: Content) -> Error {
        let path = self.display_path();
        Error::Target(match content {
            Content::Absent => format!(
                "no database at `{path}`: there is no such folder; to make one: esker init {path}"
            ),
            Content::Unfinished => format!(
                "`{path}` is half made: its creation was cut short before anything was stored; to finish it: esker init {path}"
            ),
            Content::Empty | Content::Database(_) => {
                format!(
                    "no database at `{path}`: the folder is empty; to make one: esker init {path}"
                )
            }
        })
    }

    /// Creates the folder, but not its parents. With `group`, members of the folder's group may reach the owner process.
    pub(crate) fn make(&self, group: bool) -> Result<()> {
        let made = if group {
            modes::create(&self.path, modes::FOR_GROUP)
                .and_then(|()| modes::create(&self.owner(), modes::FOR_GROUP))
        } else {
            modes::create_private(&self.path)
        };
        match made {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Error::Target(format!(
                "cannot make `{}`: its parent folder does not exist; make that first (mkdir -p)",
                self.display_path()
            ))),
            Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => Err(Error::Target(format!(
                "cannot make `{}`: a part of that path is a file",
                self.display_path()
            ))),
            Err(e) => Err(self.failed("making", e)),
            Ok(()) => Ok(()),
        }
    }

    /// Refuses a store engine that this build lacks, before any file is created.
    pub(crate) fn check_engine(engine: StoreEngine) -> Result<()> {
        available(engine).map_err(|()| {
            Error::Target(format!(
                "this build lacks the store engine {}: build Esker with --features rocksdb, or use fjall",
                engine.name()
            ))
        })
    }
}

fn available(engine: StoreEngine) -> std::result::Result<(), ()> {
    match engine {
        StoreEngine::Fjall => Ok(()),
        StoreEngine::RocksDb if cfg!(feature = "rocksdb") => Ok(()),
        StoreEngine::RocksDb => Err(()),
    }
}

/// Syncs a folder, so that renames and new files in it survive a power failure.
pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}
