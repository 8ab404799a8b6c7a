//! Engines of the store.

/// The store engine of a database. Chosen when the database is created; afterwards its folder records the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreEngine {
    /// fjall, written in Rust: in every build.
    #[default]
    Fjall,
    /// `RocksDB`: only in builds with the feature `rocksdb`.
    RocksDb,
}

impl StoreEngine {
    /// Name in the folder's `FORMAT` file and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fjall => "fjall",
            Self::RocksDb => "rocksdb",
        }
    }

    /// The store engine with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Fjall, Self::RocksDb]
            .into_iter()
            .find(|e| e.name() == name)
    }
}
