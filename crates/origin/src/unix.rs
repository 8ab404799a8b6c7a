//! Modes and owners of Unix.

use esker_site_cache::entry::{Attributes, Kind};
use std::sync::Arc;

/// Names and values of attributes without a field of their own.
pub(crate) type More = Arc<[(Box<str>, Box<str>)]>;

/// Returns the file kind from the upper bits of a mode.
pub(crate) fn kind(mode: u32) -> Kind {
    match mode & 0o170_000 {
        0o040_000 => Kind::Directory,
        0o100_000 => Kind::File,
        0o120_000 => Kind::Link,
        0 => Kind::Unknown,
        _ => Kind::Other,
    }
}

/// Returns owner and group as further attributes.
pub(crate) fn owner(user: u32, group: u32) -> More {
    [
        ("uid".into(), user.to_string().into()),
        ("gid".into(), group.to_string().into()),
    ]
    .into()
}

/// Appends an attribute to the further attributes.
pub(crate) fn add(attributes: &mut Attributes, name: &str, value: &str) {
    let known = attributes.more.iter().flat_map(|more| more.iter().cloned());
    let added = (name.into(), value.into());
    attributes.more = Some(known.chain([added]).collect());
}
