//! Markers of tagging by a filter: each server does its share in a commit of its own.

use crate::node::SERVERS_MAX;
use crate::vnode::ServerId;
use esker_model::once::{Numbered, REQUEST_PREFIX};

const SHARE: &[u8] = b"/server/";

/// The marker of one server's share. Numbered ones are kept by each server for itself; others are looked for on all.
pub(crate) fn share_of(marker: Vec<u8>, server: ServerId) -> Vec<u8> {
    if Numbered::parse(&marker).is_ok_and(|n| n.is_some()) {
        return marker;
    }
    share(marker, server)
}

/// The marker of a server's share of what has that marker.
pub(crate) fn share(mut marker: Vec<u8>, server: ServerId) -> Vec<u8> {
    marker.extend_from_slice(SHARE);
    marker.extend_from_slice(&server.0.to_be_bytes());
    marker
}

/// What a server notes beside a numbered marker, so that it can be told later that the number was one of a share and not of a batch.
/// It is forgotten as single requests are.
pub(crate) fn note(numbered: &Numbered, server: ServerId) -> Vec<u8> {
    // What is settled may differ when it is sent again.
    let settled = 0;
    let marker = Numbered {
        settled,
        ..*numbered
    };
    let made = numbered.made.to_be_bytes();
    share([REQUEST_PREFIX, &made, &marker.encode()].concat(), server)
}

/// The marker of the whole, and whose share of it that is.
pub(crate) fn parse_share(marker: &[u8]) -> Option<(&[u8], ServerId)> {
    let (rest, server) = marker.split_last_chunk::<4>()?;
    let server = u32::from_be_bytes(*server);
    let whole = rest.strip_suffix(SHARE)?;
    let whole = match whole.strip_prefix(REQUEST_PREFIX) {
        Some(noted) => noted.get(8..)?,
        None => whole,
    };
    ((server as usize) < SERVERS_MAX).then_some((whole, ServerId(server)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_tell_what_they_are_shares_of() {
        let plain = share_of(b"import/7".to_vec(), ServerId(3));
        assert_eq!(
            parse_share(&plain),
            Some((b"import/7".as_slice(), ServerId(3)))
        );
        let numbered = Numbered {
            sender: [4; 16],
            number: 9,
            settled: 0,
            made: 1_700_000_000_000,
        };
        let later = Numbered {
            settled: 8,
            ..numbered
        };
        assert_eq!(share_of(later.encode(), ServerId(1)), later.encode());
        let noted = note(&later, ServerId(1));
        assert_eq!(noted, note(&numbered, ServerId(1)));
        let (whole, server) = parse_share(&noted).unwrap();
        assert_eq!(Numbered::parse(whole), Ok(Some(numbered)));
        assert_eq!(server, ServerId(1));
        for other in [
            &b"darshan/1"[..],
            b"/logs/server/0001",
            b"",
            &later.encode(),
        ] {
            assert_eq!(parse_share(other), None);
        }
    }
}
