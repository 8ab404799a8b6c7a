//! Messages that a tier of the site cache receives from downstream and from upstream, and records on its disk.

use esker_site::hostile::{down, stored, up};

pub(crate) fn check(bytes: &[u8]) {
    let Some((kind, message)) = bytes.split_first() else {
        return;
    };
    match kind % 3 {
        0 => up(message),
        1 => down(message),
        _ => stored(message),
    }
}
