//! Frames: the unit of transfer on the socket.

#![deny(clippy::indexing_slicing)]

use crate::limits::FRAME_BYTES_MAX;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::ops::ControlFlow;

/// Type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// First frame of the client.
    Hello = 1,
    /// Response of the owner to `Hello`.
    Welcome = 2,
    /// A request of the client.
    Request = 3,
    /// Cancellation of the current request.
    Cancel = 4,
    /// Items of the response.
    Items = 5,
    /// Progress of the request.
    Progress = 6,
    /// End of the response.
    Done = 7,
    /// The request failed.
    Failed = 8,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Hello,
        Self::Welcome,
        Self::Request,
        Self::Cancel,
        Self::Items,
        Self::Progress,
        Self::Done,
        Self::Failed,
    ];
}

/// Writes one frame. The payload begins at byte 5 of `buffer`, after space for the head ([`start`]).
pub(crate) fn send(out: &mut impl Write, kind: Kind, buffer: &mut [u8]) -> Result<()> {
    let length = buffer.len().saturating_sub(4);
    let fitting = u32::try_from(length)
        .ok()
        .filter(|_| length <= FRAME_BYTES_MAX);
    let Some(length) = fitting else {
        return Err(Error::new(
            ErrorKind::FileTooLarge,
            "a frame over the limit",
        ));
    };
    let Some(head) = buffer.first_chunk_mut::<5>() else {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "a frame without room for its head",
        ));
    };
    let [l0, l1, l2, l3] = length.to_be_bytes();
    *head = [l0, l1, l2, l3, kind as u8];
    out.write_all(buffer)
}

/// An empty frame: space for the head.
pub(crate) fn start() -> Vec<u8> {
    vec![0; 5]
}

/// Reads one frame into `payload`; `None` at the end of the stream, between two frames.
///
/// The buffer grows as bytes arrive, so that a damaged length allocates no memory.
pub(crate) fn receive(from: &mut impl Read, payload: &mut Vec<u8>) -> Result<Option<Kind>> {
    receive_if(from, payload, |_| ControlFlow::Continue(()))
}

/// Reads one frame like [`receive`], if `accept` accepts its length. `accept` is called before memory is allocated.
pub(crate) fn receive_if(
    from: &mut impl Read,
    payload: &mut Vec<u8>,
    accept: impl FnOnce(usize) -> ControlFlow<()>,
) -> Result<Option<Kind>> {
    let mut head = [0; 5];
    let mut have = 0;
    while have < head.len() {
        let Some(rest) = head.get_mut(have..) else {
            break;
        };
        match from.read(rest) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // A time-out inside a head would lose its beginning, so only time-outs between frames are reported.
            Err(e)
                if have > 0 && matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
    let [l0, l1, l2, l3, kind] = head;
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let kind = Kind::ALL.into_iter().find(|k| *k as u8 == kind);
    let (Some(kind), 1..=FRAME_BYTES_MAX) = (kind, length) else {
        return Err(Error::new(
            ErrorKind::InvalidData,
            "not a frame of this protocol",
        ));
    };
    if accept(length).is_break() {
        return Err(Error::new(
            ErrorKind::FileTooLarge,
            "a frame that is larger than what its sender may send",
        ));
    }
    payload.clear();
    let mut left = length - 1;
    while left > 0 {
        let at = payload.len();
        payload.resize(at + left.min(1 << 20), 0);
        let Some(room) = payload.get_mut(at..) else {
            break;
        };
        match from.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                left -= n;
                payload.truncate(at + n);
            }
            Err(e) => {
                payload.truncate(at);
                let again = matches!(
                    e.kind(),
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut
                );
                if !again {
                    return Err(e);
                }
            }
        }
    }
    Ok(Some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_back_one_by_one() {
        let mut bytes = Vec::new();
        let large = vec![7; 3_000_000];
        for payload in [&b""[..], b"a", &large] {
            let mut frame = start();
            frame.extend_from_slice(payload);
            send(&mut bytes, Kind::Items, &mut frame).unwrap();
        }
        let mut from = bytes.as_slice();
        let mut payload = Vec::new();
        for length in [0, 1, 3_000_000] {
            assert_eq!(receive(&mut from, &mut payload).unwrap(), Some(Kind::Items));
            assert_eq!(payload.len(), length);
        }
        assert_eq!(receive(&mut from, &mut payload).unwrap(), None);
    }

    #[test]
    fn what_is_no_frame_is_refused_before_memory_is_taken() {
        let mut payload = Vec::new();
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            &[0, 0, 0, 0, 3],
            &[0xff, 0xff, 0xff, 0xff, 3],
            &[0, 0, 0, 1, 99],
        ] {
            let error = receive(&mut &*bytes, &mut payload).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
        }
        let error = receive(&mut &[0x0f, 0, 0, 0, 3, 1, 2][..], &mut payload).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(payload.capacity() < 4 << 20);
    }
}
