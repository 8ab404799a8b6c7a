//! The C interface. `include/esker_fs.h` documents each function.
//!
//! The header's requirements on pointers are trusted, not checked. No panic leaves the library: it becomes `EIO`.

#![allow(unsafe_code, reason = "C calls with pointers")]
#![allow(unreachable_pub, reason = "C reaches them by their names")]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    clippy::missing_safety_doc,
    reason = "nobody but C calls these, and the header says what it has to keep to"
)]

mod entries;
mod error;
mod files;
mod marshal;
mod paths;
mod target;

pub use marshal::{stat as c_stat, statvfs as c_statvfs};
pub use paths::time as c_time;
