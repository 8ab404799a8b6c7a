//! `libesker_fs`: the namespace for programs that call a library instead of using a mount, with a C interface
//! (`include/esker_fs.h`).
//!
//! ```text
//!   C program ──► ffi/      pointers, errno, the text of the last error; no panic leaves it
//!                  └─ fs.rs     paths and open files
//!                      ├─ write_behind.rs   names and small contents that are buffered and sent in batches
//!                      └─ esker_mount::direct   the mount's own files, contents and data folders
//! ```
//!
//! Only large contents are read and written through the kernel. A mount of the same target, and other commands, see
//! the changes made here, and the other way round: close-to-open consistency, as between two mounts
//! (`docs/book/mount.md`).

mod ffi;
mod fs;
mod options;
mod target;
mod write_behind;

pub use esker_mount::direct::{Failure, Flags, FsStats, Stat};
pub use ffi::{c_stat, c_statvfs, c_time};
pub use fs::{Entry, File, Fs};
pub use options::{Options, WriteBehind};

/// The result of calls of this library.
pub type Result<T> = std::result::Result<T, Failure>;
