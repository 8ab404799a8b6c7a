//! `libesker_preload.so`: programs that know nothing of Esker, and no mount, use files of a target below a prefix.
//!
//! ```text
//!  ESKER_PRELOAD=/mnt/lab=esker://meta1:7400,/scratch/.esker-data LD_PRELOAD=libesker_preload.so python3 analyse.py /mnt/lab/run7
//!
//!  open("/mnt/lab/run7/out.nc") ──► opening.rs ──► esker_fs ──► a real descriptor of the file underneath (or of a copy in memory)
//!  read, write, lseek, mmap, fcntl locks on it ──────────────► the kernel, untouched
//!  fstat, fsync, dup, close of it          ──► descriptors.rs: close tells the target what was written
//!  stat, mkdir, rename, opendir … below the prefix ──► attributes.rs, names.rs, directories.rs, xattrs.rs
//!  everything else ──► the C library
//! ```
//!
//! The functions have the C library's names, and come before it. Whatever this library itself calls meanwhile goes through ([`inside`]).

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
mod inside;
mod names;
mod opening;
mod prefix;
mod real;
mod working;
mod xattrs;
