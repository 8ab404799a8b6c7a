//! Options for opening a database.

use crate::store_engine::StoreEngine;
use crate::{Database, WindowOptions};
use esker_model::Result;
use esker_store::Durability;

/// Options for opening a database. Memory, sync interval and relaxed durability apply to the owner; a process that
/// attaches uses those of the owner. `Durability::Sync` applies to every process that asks for it.
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
    /// Options for an existing database: 512 MiB of memory, relaxed durability with a sync every 100 ms.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to create the database if the folder is absent or empty. Off by default.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether a new folder gets the mode 0750 instead of 0700. Members of its group may then attach to the owner
    /// process and
    /// read and change files as the permissions of the namespace allow. The stored files stay readable only for their
    /// owner.
    /// Off by default.
    #[must_use]
    pub fn group(mut self, group: bool) -> Self {
        self.group = group;
        self
    }

    /// Creates the folder of a new database with the mode of these options; an existing folder is left unchanged.
    pub fn make_folder(&self, path: &std::path::Path) -> Result<()> {
        crate::folder::Folder::at(path).make(self.group)
    }

    /// Memory for caches and write buffers together, in bytes.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Maximum of files open at a time ([`crate::File`]); one more is refused with `EMFILE`.
    #[must_use]
    pub fn open_files(mut self, most: usize) -> Self {
        self.open_files = most;
        self
    }

    /// The durability that a write must reach before it is acknowledged.
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

    /// The store engine of a new database.
    #[must_use]
    pub fn engine(mut self, engine: StoreEngine) -> Self {
        self.engine = engine;
        self
    }

    /// Marks the folder as part of something larger that only this process may open. Other processes that open the folder
    /// get an error with this description.
    #[must_use]
    pub fn part_of(mut self, whole: &str) -> Self {
        self.part_of = Some(whole.to_owned());
        self
    }

    /// Whether to open a folder that belongs to another user and that others may write to. Refused by default
    /// ([`crate::SAFE_FOLDERS`]).
    #[must_use]
    pub fn trust_foreign_folder(mut self, trust: bool) -> Self {
        self.trust_foreign_folder = trust;
        self
    }

    /// Uses an ephemeral store on a fast local disk; an acknowledged write survives the loss of the machine once a
    /// checkpoint
    /// in storage contains it. Only for a database that was created this way.
    #[must_use]
    pub fn window(mut self, window: WindowOptions) -> Self {
        self.window = Some(window);
        self
    }

    /// Opens the database at `target`, a folder or an address. The first process to open a folder owns the database and
    /// serves the others; later ones attach to the owner. The interface is the same for both.
    pub fn open(&self, target: &str) -> Result<Database> {
        Database::open_with(target, self)
    }
}
