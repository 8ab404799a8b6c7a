//! Idempotency keys of tagging by a filter: each server does its share in a commit of its own.

use crate::node::SERVERS_MAX;
use crate::vnode::ServerId;
use esker_model::idempotency::{ProducerKey, REQUEST_PREFIX};

const SHARE: &[u8] = b"/server/";

/// Returns the idempotency key of one server's share. Numbered keys are kept by each server for itself; others are
/// looked up on all servers.
pub(crate) fn share_of(idempotency_key: Vec<u8>, server: ServerId) -> Vec<u8> {
    if ProducerKey::parse(&idempotency_key).is_ok_and(|n| n.is_some()) {
        return idempotency_key;
    }
    share(idempotency_key, server)
}

/// Appends a server's share to an idempotency key.
pub(crate) fn share(mut idempotency_key: Vec<u8>, server: ServerId) -> Vec<u8> {
    idempotency_key.extend_from_slice(SHARE);
    idempotency_key.extend_from_slice(&server.0.to_be_bytes());
    idempotency_key
}

/// Returns the key of the row that a server stores beside a numbered key, so that the number can later be recognized
/// as that of a share and not of a batch. The row expires like keys of single requests.
pub(crate) fn note(numbered: &ProducerKey, server: ServerId) -> Vec<u8> {
    // `settled` may differ when the request is sent again.
    let settled = 0;
    let idempotency_key = ProducerKey {
        settled_below: settled,
        ..*numbered
    };
    let made = numbered.created_millis.to_be_bytes();
    share(
        [REQUEST_PREFIX, &made, &idempotency_key.encode()].concat(),
        server,
    )
}

/// Parses the key of a share into the key of the whole request and the server.
pub(crate) fn parse_share(idempotency_key: &[u8]) -> Option<(&[u8], ServerId)> {
    let (rest, server) = idempotency_key.split_last_chunk::<4>()?;
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
        let numbered = ProducerKey {
            producer: [4; 16],
            sequence: 9,
            settled_below: 0,
            created_millis: 1_700_000_000_000,
        };
        let later = ProducerKey {
            settled_below: 8,
            ..numbered
        };
        assert_eq!(share_of(later.encode(), ServerId(1)), later.encode());
        let noted = note(&later, ServerId(1));
        assert_eq!(noted, note(&numbered, ServerId(1)));
        let (whole, server) = parse_share(&noted).unwrap();
        assert_eq!(ProducerKey::parse(whole), Ok(Some(numbered)));
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
