//! How a database is to be opened. Plain data.

use crate::{Database, WindowOptions};
use esker_model::Result;
use esker_store::Durability;

/// The store engine that a database's folder is written by. Chosen when the database is made; afterwards the folder
/// says which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreEngine {
    /// fjall, pure Rust: in every build.
    #[default]
    Fjall,
    /// `RocksDB`: only in builds with the feature `rocksdb`.
    RocksDb,
}

impl StoreEngine {
    /// The name in the folder's `FORMAT` file and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fjall => "fjall",
            Self::RocksDb => "rocksdb",
        }
    }

    /// The engine of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Fjall, Self::RocksDb]
            .into_iter()
            .find(|e| e.name() == name)
    }
}

/// How to open a database. Memory, interval and relaxed durability are the owner's to use; a process that attaches gets
/// the owner's. One that asks for sync gets it in either case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    pub(crate) create: bool,
    pub(crate) memory_bytes: u64,
    pub(crate) durability: Durability,
    pub(crate) sync_interval_ms: u64,
    pub(crate) engine: StoreEngine,
    pub(crate) part_of: Option<String>,
    pub(crate) trust_foreign_folder: bool,
    pub(crate) window: Option<WindowOptions>,
    pub(crate) open_files: usize,
    pub(crate) group: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create: false,
            memory_bytes: 512 << 20,
            durability: Durability::Relaxed,
            sync_interval_ms: 100,
            engine: StoreEngine::Fjall,
            part_of: None,
            trust_foreign_folder: false,
            window: None,
            open_files: crate::OPEN_FILES_MAX,
            group: false,
        }
    }
}

impl OpenOptions {
    /// An existing database, 512 MiB of memory, relaxed durability synced each 100 ms.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to make the database if the folder is absent or empty. Off by default.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether a folder that is to be made has the mode 0750 instead of 0700: members of its group attach to the process that has it open, and read and
    /// change files as the permissions of the namespace let them. What is stored stays readable for its owner alone. Off by default.
    #[must_use]
    pub fn group(mut self, group: bool) -> Self {
        self.group = group;
        self
    }

    /// Makes the folder of a database that is to be created, with the mode that these options say; one that exists stays as it is.
    pub fn make_folder(&self, path: &std::path::Path) -> Result<()> {
        crate::folder::Folder::at(path).make(self.group)
    }

    /// Memory for caches and write buffers together, in bytes.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// How many files may be open at a time ([`crate::File`]); one more is refused with `EMFILE`.
    #[must_use]
    pub fn open_files(mut self, most: usize) -> Self {
        self.open_files = most;
        self
    }

    /// When a write counts as done.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// With [`Durability::Relaxed`]: the most milliseconds of writes that a power failure may lose.
    #[must_use]
    pub fn sync_interval_ms(mut self, millis: u64) -> Self {
        self.sync_interval_ms = millis.max(1);
        self
    }

    /// The store engine of a database that is to be made.
    #[must_use]
    pub fn engine(mut self, engine: StoreEngine) -> Self {
        self.engine = engine;
        self
    }

    /// The folder is one part of something larger, which this process alone may touch it for: other processes that open it
    /// are told so, in these words.
    #[must_use]
    pub fn part_of(mut self, whole: &str) -> Self {
        self.part_of = Some(whole.to_owned());
        self
    }

    /// Opens a folder that belongs to another user and that others may write in as this process's own; else that is refused
    /// ([`crate::SAFE_FOLDERS`]).
    #[must_use]
    pub fn trust_foreign_folder(mut self, trust: bool) -> Self {
        self.trust_foreign_folder = trust;
        self
    }

    /// The store itself lies elsewhere, where it is fast and dies with its machine; what is acknowledged survives once a checkpoint in
    /// storage holds it. Only for a database that was made so.
    #[must_use]
    pub fn window(mut self, window: WindowOptions) -> Self {
        self.window = Some(window);
        self
    }

    /// Opens the database at `target` (a folder). The first process to do so owns it and serves the others; a later
    /// one attaches to the owner and cannot tell the difference.
    pub fn open(&self, target: &str) -> Result<Database> {
        Database::open_with(target, self)
    }
}
