//! The mount: any namespace as a file system of this machine, over FUSE.
//!
//! ```text
//!  program ──► kernel ──► Files (fuse.rs, handler.rs: the calls of the FUSE protocol)
//!                │          ├─ names.rs    look-ups, changes of names, attributes          ──► Target: the namespace
//!                │          ├─ content.rs  open files, and publishing what was written     ──► data.rs: objects in folders
//!                │          ├─ list.rs     directories
//!                │          └─ view_calls  what the database knows about files, below `.esker`
//!                └── passthrough: reads and writes of open files go straight to the backing file
//! ```
//!
//! If requested, `record` turns the processes that open files into edges of the graph. [`direct`] offers the same
//! files and contents without the kernel, to programs that link a library.
//!
//! The crate uses only the trait [`esker_model::namespace::Namespace`] and cannot tell an embedded database from a
//! cluster. Small contents are stored in the namespace itself, large ones in files of the data folders
//! (`docs/internals/mount.md`).

mod attributes;
mod body;
mod bytes;
mod caller;
mod content;
pub mod data;
pub mod direct;
mod files;
mod fuse;
mod handler;
mod inode_flags;
mod list;
mod mapping;
pub mod mount_point;
mod names;
mod nodes;
mod null;
mod options;
pub mod orphans;
mod past;
mod project;
mod record;
mod session;
mod view_calls;
mod views;
pub mod write_journal;
mod xattrs;

pub use files::Target;
pub use handler::{mount, mount_recorded};
pub use mount_point::UnmountMode;
pub use null::mount_null;
pub use options::{Options, OptionsError};
pub use past::PastNamespace;
pub use project::project_id;
pub use record::{Recorded, Recorder};
pub use session::Mounted;
