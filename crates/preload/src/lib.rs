//! `libesker_preload.so`: unmodified programs use the files of a target below a path prefix, without a mount.
//!
//! ```text
//!  ESKER_PRELOAD=/mnt/lab=esker://meta1:7400,/scratch/.esker-data LD_PRELOAD=libesker_preload.so python3 analyse.py /mnt/lab/run7
//!
//!  open("/mnt/lab/run7/out.nc") ──► opening.rs ──► esker_fs ──► a real descriptor of the backing file (or of a copy in memory)
//!  read, write, lseek, mmap, fcntl locks on it ──────────────► the kernel, unchanged
//!  fstat, fsync, dup, close of it          ──► descriptors.rs: close publishes what was written
//!  stat, mkdir, rename, opendir … below the prefix ──► attributes.rs, names.rs, directories.rs, xattrs.rs
//!  everything else ──► the C library
//! ```
//!
//! The functions have the names of C library functions and override them. Calls that this library makes itself go to
//! the C library ([`reentrancy`]).

#![allow(unsafe_code, reason = "stands in the place of C's functions")]
#![allow(unreachable_pub, reason = "C reaches them by their names")]
#![allow(
    clippy::missing_safety_doc,
    clippy::undocumented_unsafe_blocks,
    reason = "each function is called as the one of C that it stands for, and passes on what it got"
)]
#![allow(
    clippy::single_match_else,
    reason = "of the target, or of the C library: two equal halves"
)]
#![allow(clippy::used_underscore_items, reason = "C's names begin so")]

mod attributes;
mod descriptors;
mod directories;
mod errno;
mod names;
mod opening;
mod prefix;
mod real;
mod reentrancy;
mod working_directory;
mod xattrs;
