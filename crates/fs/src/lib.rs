//! `libesker_fs`: the namespace for programs that call a library in the place of a mount, with a C interface (`include/esker_fs.h`).
//!
//! ```text
//!  C program ──► ffi/      pointers, errno, the text of the last error; no panic gets out
//!                 └─ fs.rs     paths and open files
//!                     ├─ late.rs   names and small contents that are held back and sent together (write-behind)
//!                     └─ esker_mount::direct   the mount's own files, contents and data folders
//! ```
//!
//! Nothing goes through the kernel but what large contents are read and written by. A mount of the same target, and other commands, see
//! what is done here, and the other way round: close-to-open, as between two mounts (`docs/book/mount.md`).

mod ffi;
mod fs;
mod late;
mod options;
mod target;

pub use esker_mount::direct::{Failure, Flags, Room, Stat};
pub use ffi::{c_stat, c_statvfs, c_time};
pub use fs::{Entry, File, Fs};
pub use options::{Options, WriteBehind};

/// What a call answers.
pub type Result<T> = std::result::Result<T, Failure>;
