//! Versions of the network protocol. Each side speaks a range of versions, and a connection uses the newest one that both speak.
//!
//! A new field or call needs no new version: the side that does not know a field ignores it, and a server answers an unknown call with an
//! error. A version is new if a message means something else than before. The code for the version before stays for one release.

/// Newest version that this release speaks.
pub const PROTOCOL: u32 = 7;
/// Oldest version that this release speaks.
pub const OLDEST_PROTOCOL: u32 = 7;

/// Returns the newest version that this release and one that speaks `oldest` to `newest` have in common. Releases that speak one version only
/// send 0 for the oldest.
pub fn agreed_protocol(oldest: u32, newest: u32) -> Option<u32> {
    agree((OLDEST_PROTOCOL, PROTOCOL), (oldest, newest))
}

fn agree(own: (u32, u32), other: (u32, u32)) -> Option<u32> {
    let oldest = match other {
        (0, newest) => newest,
        (oldest, _) => oldest,
    };
    let version = own.1.min(other.1);
    (version >= own.0.max(oldest)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_releases_use_the_newest_version_of_both() {
        for (own, other, expected) in [
            ((7, 7), (7, 7), Some(7)),
            ((7, 7), (0, 7), Some(7)),
            ((7, 8), (0, 7), Some(7)),
            ((7, 8), (7, 9), Some(8)),
            ((7, 8), (9, 10), None),
            ((8, 8), (0, 7), None),
            ((7, 7), (0, 8), None),
            ((7, 7), (7, 8), Some(7)),
            ((7, 7), (0, 0), None),
        ] {
            assert_eq!(agree(own, other), expected, "{own:?} {other:?}");
        }
        assert_eq!(agreed_protocol(OLDEST_PROTOCOL, PROTOCOL), Some(PROTOCOL));
    }
}
