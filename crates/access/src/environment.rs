//! Environment variables of processes that may run with more rights than the user who started them.
//!
//! Programs with elevated rights (set-user-ID, set-group-ID, file capabilities) inherit the environment of the user who started
//! them. Variables that name keys, servers or files are ignored there, as by `secure_getenv(3)`.

use std::ffi::OsString;
use std::sync::OnceLock;

/// Returns a variable if it is set, not empty, and this process does not run with elevated rights.
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights() {
        return None;
    }
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether this process has more rights than the user who started it.
pub fn has_more_rights() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        use rustix::process::{getegid, geteuid, getgid, getuid};
        geteuid() != getuid() || getegid() != getgid() || is_secure()
    })
}

/// Whether the kernel reports elevated rights (`AT_SECURE`); file capabilities count, too.
#[cfg(target_os = "linux")]
#[allow(clippy::host_endian_bytes, reason = "the kernel writes its own words")]
fn is_secure() -> bool {
    const SECURE: usize = 23;
    const WORD: usize = size_of::<usize>();
    let words = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, usize::from_ne_bytes);
    words.chunks_exact(2 * WORD).any(|pair| {
        let (kind, value) = pair.split_at(WORD);
        word(kind) == SECURE && word(value) != 0
    })
}

#[cfg(not(target_os = "linux"))]
fn is_secure() -> bool {
    false
}
