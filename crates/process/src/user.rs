//! Users of this machine, as this process sees their ids.

use std::sync::OnceLock;

/// Returns the effective user of this process.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the user id that the kernel shows for all users without an id here, in user namespaces and on file servers. Two processes
/// with it may belong to two users.
pub fn overflow_user() -> u32 {
    static KNOWN: OnceLock<u32> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let said = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
        let said = said.ok().and_then(|text| text.trim().parse().ok());
        said.unwrap_or(65_534)
    })
}

/// Whether an id identifies one user: it differs from [`overflow_user`], or it is this process's own on a system where all users have
/// an id, as for a process of `nobody`.
pub fn is_mapped(user: u32) -> bool {
    user != overflow_user() || (user == own_user() && all_are_mapped())
}

/// Whether all users of the system have an id in this namespace.
fn all_are_mapped() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let numbers: Vec<u64> = map
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers == [0, 0, u64::from(u32::MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overflow_user_is_nobody() {
        assert_eq!(overflow_user(), 65_534);
        assert!(is_mapped(0) && is_mapped(own_user()));
        assert!(!is_mapped(overflow_user()) || own_user() == overflow_user());
    }
}
