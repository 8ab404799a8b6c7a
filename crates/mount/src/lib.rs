//! The mount: any namespace as a file system of this machine, over FUSE.
//!
//! ```text
//!  program ──► kernel ──► Files (fuse.rs, door.rs: the protocol's calls)
//!                │          ├─ names.rs    look-ups, changes of names, attributes   ──► Target: the namespace
//!                │          ├─ content.rs  open files, and what was written told    ──► data.rs: objects in folders
//!                │          └─ list.rs     directories
//!                └── passthrough: reads and writes of open files go straight to the file underneath
//! ```
//!
//! Who has which file open becomes edges of the graph, where that is asked for (`record`).
//! [`direct`] is the same for programs that link a library instead: files and contents without the kernel.
//!
//! It stands above the trait [`esker_model::namespace::Namespace`] and cannot tell an embedded database from a cluster.
//! Small contents lie in the namespace itself, large ones in files of the data folders (`docs/internals/mount.md`).

mod attributes;
mod body;
mod bytes;
mod content;
pub mod data;
pub mod direct;
mod door;
mod files;
mod fuse;
mod list;
mod names;
mod nodes;
mod null;
mod options;
pub mod orphans;
pub mod place;
mod record;
mod session;
mod who;
mod xattrs;

pub use door::{mount, mount_recorded};
pub use files::Target;
pub use null::mount_null;
pub use options::{Options, OptionsError};
pub use place::How;
pub use record::{Recorded, Recorder};
pub use session::Mounted;
