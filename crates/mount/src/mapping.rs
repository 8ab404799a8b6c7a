//! Whether a program still uses a backing file after the last close.
//!
//! With passthrough, a memory mapping refers to the backing file, not to the file of the mount. So the kernel reports the last
//! close although programs read and write the mapping.
#![allow(unsafe_code, reason = "neither nix nor rustix has leases")]

use rustix::fs::FsWord;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

/// Types of file systems whose mappings refer to files of other file systems, so that leases tell nothing: overlayfs, FUSE,
/// eCryptfs.
const STACKING: [FsWord; 3] = [0x794c_7630, 0x6573_5546, 0xf15f];
/// Number of attempts: the kernel closes the backing file of a closed file a little after it has reported the close.
const ATTEMPTS: u32 = 3;
/// Time between two attempts.
const INTERVAL: Duration = Duration::from_millis(1);

/// Whether the file may be open or mapped elsewhere. Returns `true` where the file system cannot tell.
pub(crate) fn may_be_used_elsewhere(file: &File) -> bool {
    let stacking = rustix::fs::fstatfs(file).is_ok_and(|s| STACKING.contains(&s.f_type));
    if stacking {
        return true;
    }
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(INTERVAL);
        }
        if lease(file, libc::F_WRLCK) {
            lease(file, libc::F_UNLCK);
            return false;
        }
    }
    true
}

/// Takes or returns a lease. The kernel gives a write lease only on a file that nobody else has open; a mapping counts as open.
fn lease(file: &File, kind: libc::c_int) -> bool {
    // SAFETY: the call takes two numbers and an open descriptor, and refers to no memory.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_is_used() {
        let file = tempfile::tempfile().unwrap();
        assert!(!may_be_used_elsewhere(&file));
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let reader = File::open(path).unwrap();
        assert!(may_be_used_elsewhere(&file));
        drop(reader);
        assert!(!may_be_used_elsewhere(&file));
    }
}
