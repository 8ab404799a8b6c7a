//! Numbered markers: how a sender of many batches makes each of them count once.
//!
//! ```text
//!  [00]esker-sender/[sender 16][number 8][settled 8][made 8]
//! ```
//!
//! A marker of any other form is kept for itself, one row for each batch, for ever. That is right for an importer, which
//! has one for each file; a client that writes all day numbers its batches instead, and says with each below which number
//! all are settled. What has to be remembered of a sender is then one row: that bound, and which numbers above it were
//! applied.
//!
//! A sender that was silent for long is forgotten ([`KEPT_MILLIS`]). So that nothing is applied twice then, a batch says
//! when it was made, and is refused if that is so long ago that its sender may be forgotten ([`AGE_MILLIS_MAX`]).

use crate::codec::{DecodeError, Reader, put_u64};

/// What every numbered marker begins with. What is kept of a sender lies under the marker up to and with its name.
pub const SENDER_PREFIX: &[u8] = b"\0esker-sender/";

/// What the marker of a single request begins with that is forgotten after a while; behind it when it was made, in milliseconds.
pub const REQUEST_PREFIX: &[u8] = b"\0esker-request/";

/// A number lies less than this above the oldest that is not settled: what is remembered of a sender is bounded, because
/// it is written with each batch. A client that comes near it goes on under a new name.
pub const SPAN_MAX: u64 = 1 << 14;

/// A batch of a sender that is not known (any more) is refused once it was made so long ago. Clocks may differ by as much.
pub const AGE_MILLIS_MAX: u64 = 12 * 3_600_000;

/// A sender is remembered for at least so long after its last batch. A batch cannot have been made later than
/// [`AGE_MILLIS_MAX`] after it was applied, so that it is too old when its sender is forgotten.
pub const KEPT_MILLIS: u64 = 2 * AGE_MILLIS_MAX;

/// One batch of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// Who sends: random, so that no two are alike.
    pub sender: [u8; 16],
    /// Which of its batches, from 0.
    pub number: u64,
    /// Of the batches below this one none will be sent again, nor is wanted any more if it arrives late.
    pub settled: u64,
    /// When it got its number, in milliseconds since 1970 by the clock of the database's owner as far as known. The same
    /// each time that it is sent.
    pub made: u64,
}

impl Numbered {
    /// The marker.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SENDER_PREFIX.len() + 40);
        out.extend_from_slice(SENDER_PREFIX);
        out.extend_from_slice(&self.sender);
        put_u64(&mut out, self.number);
        put_u64(&mut out, self.settled);
        put_u64(&mut out, self.made);
        out
    }

    /// Reads a marker; `None` if it is of another form. One that only begins like a numbered one is an error: kept for
    /// itself, it would lie among the rows of senders.
    pub fn parse(marker: &[u8]) -> Result<Option<Self>, DecodeError> {
        let Some(rest) = marker.strip_prefix(SENDER_PREFIX) else {
            return Ok(None);
        };
        let mut r = Reader::new(rest);
        let numbered = Self {
            sender: r.array("a sender")?,
            number: r.u64("a number")?,
            settled: r.u64("a number")?,
            made: r.u64("a time")?,
        };
        if numbered.number == u64::MAX || numbered.settled > numbered.number {
            return Err(r.error("a number at or above what is settled"));
        }
        r.finish()?;
        Ok(Some(numbered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_come_back_and_others_are_left_alone() {
        let numbered = Numbered {
            sender: [7; 16],
            number: 300,
            settled: 299,
            made: 1_700_000_000_000,
        };
        let marker = numbered.encode();
        assert_eq!(Numbered::parse(&marker), Ok(Some(numbered)));
        assert_eq!(Numbered::parse(b"darshan/1"), Ok(None));
        assert!(Numbered::parse(&marker[..marker.len() - 1]).is_err());
        assert!(Numbered::parse(&[marker.as_slice(), &[0]].concat()).is_err());
        assert!(Numbered::parse(SENDER_PREFIX).is_err());
    }

    #[test]
    fn numbers_that_contradict_each_other_are_refused() {
        let with = |number, settled| Numbered {
            sender: [7; 16],
            number,
            settled,
            made: 0,
        };
        for wrong in [with(3, 4), with(u64::MAX, 0)] {
            assert!(Numbered::parse(&wrong.encode()).is_err(), "{wrong:?}");
        }
    }
}
