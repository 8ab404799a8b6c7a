//! Esker, embedded: the crate that Rust programs link.
//!
//! A database is a folder. [`Database::init`] creates one, [`OpenOptions::open`] opens it; a [`Database`] reads and
//! writes through [`model::GraphRead`] and [`model::GraphWrite`]. Several processes may open one folder at once: the
//! first owns the store and serves the others over a Unix socket. A program can also open `esker://host:port`, where
//! `esker serve` serves a folder over the network. The interface is the same in all three cases.
//!
//! ```no_run
//! use esker::{OpenOptions, model::GraphRead};
//! let db = OpenOptions::new().create(true).open("lab.esker")?;
//! println!("{} vertex types", db.schema()?.vertex_types().count());
//! db.close()?;
//! # Ok::<(), esker::Error>(())
//! ```
//!
//! Features, all on by default, leave out what a program does not need: `remote` (targets `esker://host:port`), `rdf`
//! (RDF data and SPARQL) and `archive` (superseded versions in Parquet files). What is left out returns an error that
//! names the feature. `docs/book/embedding.md` has the times that they take to compile.
//!
//! Suggested reading order: [`OpenOptions`], [`Database`].

#[cfg(feature = "archive")]
mod archive;
#[cfg(not(feature = "archive"))]
#[path = "archive_absent.rs"]
mod archive;
mod backup;
mod clock;
mod current_session;
mod database;
mod file;
mod folder;
mod foreign;
mod formats;
#[cfg(feature = "remote")]
mod http_socket;
pub mod limits;
pub mod modes;
mod names;
mod objects;
mod options;
mod owner;
mod private_subtree;
pub mod raw;
#[cfg(feature = "rdf")]
pub mod rdf;
mod remote;
mod request_keys;
mod server;
mod session;
mod sharing;
mod socket;
mod store_engine;
mod window;
mod wire;
mod write_back;

use esker_engine as engine;

pub use backup::BackupReport;
pub use database::{Database, Role, Submitted};
pub use engine::{
    BulkReport, CheckOptions, CheckReport, CompactReport, Engine, EntryChange, FeedChanges,
    NamesChange, Problem, Stats, explain, filtered_stats,
};
pub use esker_lineage as lineage;
pub use esker_model::{self as model, Error, ErrorKind, Result};
#[cfg(feature = "remote")]
pub use esker_rpc as rpc;
pub use esker_store::Durability;
pub use file::{File, OPEN_FILES_MAX};
pub use folder::{CLUSTER_FILE, is_database};
pub use foreign::SAFE_FOLDERS;
pub use formats::Formats;
#[cfg(feature = "remote")]
pub use http_socket::{HttpSocket, http_endpoint_of};
pub use objects::FindIter;
pub use options::OpenOptions;
#[doc(hidden)]
pub use owner::hostile::check_socket_input;
pub use private_subtree::PrivateSubtree;
pub use store_engine::StoreEngine;
pub use window::{Window, WindowFigures, WindowOptions, is_window, remove_checkpoint};
pub use write_back::{FailedChange, WriteBack, WriteBackOptions};

/// Error for what a feature of this crate would do.
#[cfg(not(all(feature = "archive", feature = "rdf", feature = "remote")))]
pub(crate) fn left_out(feature: &str, what: &str) -> Error {
    Error::Target(format!(
        "{what}, and this program was built without the feature `{feature}` of the crate esker-database: add it in the program's Cargo.toml"
    ))
}
