//! Properties that the owner's socket must keep for arbitrary bytes; called by fuzz targets.

use super::identity::Identity;
use crate::limits::OTHER_USERS_TRAVEL_BYTES_MAX;
use crate::wire::frame::{self, Kind};
use crate::wire::request::{Hello, Request, Welcome};
use esker_model::Error;
use esker_model::codec::DecodeError;
use esker_model::graph_read::{GraphCall, GraphCallAs};
use esker_model::namespace::SEAL_BYTES;
use esker_model::object::Principal;
use esker_model::traversal::StopReason;
use esker_model::wire::{Wire, decode, encode};

/// Checks the properties for one input. Frames decode one by one, or the rest is refused before memory is allocated; frames
/// and messages encode back to the same bytes; a request of another user is admitted only in that user's name.
pub fn check_socket_input(bytes: &[u8]) {
    frames(bytes);
    // Payloads without frame lengths as well.
    if let Some((kind, payload)) = bytes.split_first() {
        for known in [
            Kind::Hello,
            Kind::Welcome,
            Kind::Request,
            Kind::Cancel,
            Kind::Failed,
        ] {
            if known as u8 == *kind {
                understood(known, payload);
            }
        }
    }
}

fn frames(bytes: &[u8]) {
    let mut left = bytes;
    let mut payload = Vec::new();
    loop {
        let before = left;
        match frame::receive(&mut left, &mut payload) {
            Ok(Some(kind)) => {
                let length = before.len() - left.len();
                let mut again = frame::start();
                again.extend_from_slice(&payload);
                let mut sent = Vec::new();
                let done = frame::send(&mut sent, kind, &mut again);
                assert!(done.is_ok() && before.get(..length) == Some(&*sent));
                understood(kind, &payload);
            }
            Ok(None) => return assert!(left.is_empty()),
            // A wrong length must not allocate memory.
            Err(_) => return assert!(payload.capacity() <= 2 * bytes.len() + (2 << 20)),
        }
    }
}

fn understood(kind: Kind, payload: &[u8]) {
    match kind {
        Kind::Hello => drop(comes_back::<Hello>(payload)),
        Kind::Welcome => drop(comes_back::<Welcome>(payload)),
        Kind::Cancel => drop(comes_back::<StopReason>(payload)),
        Kind::Failed => failed(payload),
        Kind::Request => {
            if let Some(request) = comes_back::<Request>(payload) {
                admitted(&request);
            }
        }
        Kind::Items | Kind::Progress | Kind::Done => {}
    }
}

fn refused(error: &DecodeError, bytes: &[u8]) {
    assert!(error.at <= bytes.len() && !error.expected.is_empty());
}

/// Decoded values encode, and decode again to an equal value. Encodings are compared, because NaN is not equal to itself.
fn comes_back<T: Wire>(bytes: &[u8]) -> Option<T> {
    match decode::<T>(bytes) {
        Ok(value) => {
            let once = encode(&value);
            let again = decode::<T>(&once).map(|value| encode(&value));
            assert_eq!(again.as_ref(), Ok(&once));
            Some(value)
        }
        Err(error) => {
            refused(&error, bytes);
            None
        }
    }
}

fn failed(bytes: &[u8]) {
    match decode::<Error>(bytes) {
        Ok(decoded) => {
            let again = decode::<Error>(&encode(&decoded));
            assert_eq!(
                again.map(|decoded| decoded.to_string()).as_ref(),
                Ok(&decoded.to_string())
            );
        }
        Err(error) => refused(&error, bytes),
    }
}

fn admitted(request: &Request) {
    let own = Principal {
        uid: 1001,
        gids: vec![1001, 7],
    };
    let other = Identity::Other {
        principal: own.clone(),
        owner: 5,
    };
    let owner = Identity::FolderOwner { user: 5 };
    for who in [other, owner] {
        let Ok(admitted) = who.admit(request.clone()) else {
            continue;
        };
        // An admitted request is admitted again unchanged.
        let again = who.admit(admitted.clone()).map(|again| encode(&again));
        assert_eq!(again.ok(), Some(encode(&admitted)));
        if let Identity::Other { .. } = who {
            assert!(is_in_the_name_of(&admitted, &own), "{admitted:?}");
        } else {
            assert!(!matches!(admitted, Request::Backup | Request::Compact(_)));
        }
        // No valid seal equals this one.
        let _ = who.admit_open(&admitted, |_, _| Ok([0xa5; SEAL_BYTES]));
    }
}

/// Whether a request runs with the rights of `own`, or with fewer.
fn is_in_the_name_of(request: &Request, own: &Principal) -> bool {
    let is_own = |claimed: &Principal| {
        claimed.uid == own.uid && claimed.gids.iter().all(|group| own.gids.contains(group))
    };
    match request {
        Request::Graph(GraphCall::Schema) | Request::Persist => true,
        Request::ReadObjects(_, principal)
        | Request::Tags(principal)
        | Request::FileIds(principal, _)
        | Request::Stat(principal, ..)
        | Request::Look(principal, ..)
        | Request::List(principal, ..)
        | Request::Walk(principal, _)
        | Request::Usage(principal, ..)
        | Request::Usages(principal, _)
        | Request::Share(principal, _) => principal.as_ref().is_some_and(is_own),
        Request::Find(find) => find.principal.as_ref().is_some_and(is_own),
        Request::TagWhere(change) => change.principal.as_ref().is_some_and(is_own),
        Request::Change(changes) => changes.principal.as_ref().is_some_and(is_own),
        Request::GraphAs(GraphCallAs { call, principal }) => {
            let bounded = match call {
                GraphCall::Travel(_, budget) => budget
                    .bytes
                    .is_some_and(|bytes| bytes <= OTHER_USERS_TRAVEL_BYTES_MAX),
                call => call.depends_on_principal(),
            };
            bounded && is_own(principal)
        }
        _ => false,
    }
}
