//! What must hold of any bytes on the owner's socket. Fuzz targets ask this.

use super::identity::Identity;
use crate::limits::OTHERS_TRAVEL_BYTES_MAX;
use crate::wire::encoding::{Wire, decode};
use crate::wire::error;
use crate::wire::frame::{self, Kind};
use crate::wire::request::{Hello, Request, Welcome};
use esker_model::codec::{DecodeError, Reader};
use esker_model::namespace::SEAL_BYTES;
use esker_model::object::Asker;
use esker_model::traversal::StopReason;

/// Frames are read one by one, or the rest is refused before it takes memory; they come back; what is in them is read or refused, and
/// a request of another user is admitted in that user's own name or not at all.
pub fn on_the_socket(bytes: &[u8]) {
    frames(bytes);
    // Past the lengths, too.
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
            // A length that lies takes no memory.
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

fn put(value: &impl Wire) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

fn refused(error: &DecodeError, bytes: &[u8]) {
    assert!(error.at <= bytes.len() && !error.expected.is_empty());
}

/// What is read is written, and read again as it was: encodings are compared, for a NaN equals nothing.
fn comes_back<T: Wire>(bytes: &[u8]) -> Option<T> {
    match decode::<T>(bytes) {
        Ok(value) => {
            let once = put(&value);
            let again = decode::<T>(&once).map(|value| put(&value));
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
    match error::take(&mut Reader::new(bytes)) {
        Ok(told) => {
            let mut once = Vec::new();
            error::put(&told, &mut once);
            let again = error::take(&mut Reader::new(&once));
            assert_eq!(
                again.map(|told| told.to_string()).as_ref(),
                Ok(&told.to_string())
            );
        }
        Err(error) => refused(&error, bytes),
    }
}

fn admitted(request: &Request) {
    let own = Asker {
        uid: 1001,
        gids: vec![1001, 7],
    };
    let other = Identity::Other {
        asker: own.clone(),
        owner: 5,
    };
    let owner = Identity::FolderOwner { user: 5 };
    for who in [other, owner] {
        let Ok(admitted) = who.admit(request.clone()) else {
            continue;
        };
        // Whoever it is for now, it is for them the next time.
        let again = who.admit(admitted.clone()).map(|again| put(&again));
        assert_eq!(again.ok(), Some(put(&admitted)));
        if let Identity::Other { .. } = who {
            assert!(is_in_the_name_of(&admitted, &own), "{admitted:?}");
        } else {
            assert!(!matches!(admitted, Request::Backup | Request::Compact(_)));
        }
        // No seal is that one.
        let _ = who.admit_open(&admitted, |_, _| Ok([0xa5; SEAL_BYTES]));
    }
}

/// Whether a request is answered by somebody's rights, or by no more than theirs.
fn is_in_the_name_of(request: &Request, own: &Asker) -> bool {
    let is_own = |said: &Asker| {
        said.uid == own.uid && said.gids.iter().all(|group| own.gids.contains(group))
    };
    match request {
        Request::Schema | Request::Persist => true,
        Request::ReadObjects(_, asker)
        | Request::Tags(asker)
        | Request::FileIds(asker, _)
        | Request::Stat(asker, ..)
        | Request::Look(asker, ..)
        | Request::List(asker, ..)
        | Request::Walk(asker, _)
        | Request::Usage(asker, ..)
        | Request::Usages(asker, _) => asker.as_ref().is_some_and(is_own),
        Request::Find(find) => find.asker.as_ref().is_some_and(is_own),
        Request::TagWhere(change) => change.asker.as_ref().is_some_and(is_own),
        Request::Change(changes) => changes.asker.as_ref().is_some_and(is_own),
        Request::As(asker, read) => {
            let bounded = match &**read {
                Request::Travel(_, budget) => budget
                    .bytes
                    .is_some_and(|bytes| bytes <= OTHERS_TRAVEL_BYTES_MAX),
                _ => true,
            };
            bounded && is_own(asker) && !matches!(**read, Request::As(..))
        }
        _ => false,
    }
}
