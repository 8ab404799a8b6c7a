//! Lines of an FTP server's listings: a line is parsed or skipped; a parsed name consists of the line's own bytes.

use esker_origin::ftp::{facts, unix};

pub(crate) fn check(bytes: &[u8]) {
    if let Some((_, attributes, name)) = facts::parse(bytes) {
        assert!(!name.is_empty() && bytes.ends_with(name));
        assert!(attributes.more.is_none_or(|more| more.len() < 100));
    }
    if let Some((attributes, name)) = unix::parse(bytes, 1_800_000_000) {
        assert!(!name.is_empty() && bytes.windows(name.len()).any(|part| part == name));
        assert!(attributes.mode.is_some_and(|mode| mode <= 0o7777));
    }
}
