//! Messages between the servers of a cluster: each is decoded or refused; a decoded one is encoded and decoded back to the same bytes.

use esker_cluster::peer::{Part, PeerRequest, PeerResponse};
use esker_model::wire::{Wire, decode, encode};

pub(crate) fn check(bytes: &[u8]) {
    comes_back::<PeerRequest>(bytes);
    comes_back::<PeerResponse>(bytes);
    // The coordinator of a batch also stores its parts.
    comes_back::<Part>(bytes);
}

/// Encodings are compared, because NaN is not equal to itself.
fn comes_back<T: Wire>(bytes: &[u8]) {
    match decode::<T>(bytes) {
        Ok(value) => {
            let once = encode(&value);
            let again = decode::<T>(&once).map(|value| encode(&value));
            assert_eq!(again.as_ref(), Ok(&once));
        }
        Err(error) => assert!(error.at <= bytes.len()),
    }
}
