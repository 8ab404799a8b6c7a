//! Idempotency keys of producers: how a client that sends many batches makes each of them apply once.
//!
//! ```text
//!  [00]esker-sender/[producer 16][sequence 8][settled below 8][created 8]
//! ```
//!
//! A key of any other form is stored by itself, one row for each batch, without end. That suits an importer, which has
//! one key for each file. A client that writes all day numbers its batches instead, and sends with each one the
//! sequence number below which all batches are settled. The database then keeps one row for each producer: that bound,
//! and which sequence numbers above it have been applied.
//!
//! A producer that was silent for [`PRODUCER_RETENTION_MILLIS`] is forgotten. To keep its batches from being applied
//! twice even then, each batch has its creation time, and is refused if it is so old that its producer may have been
//! forgotten ([`BATCH_AGE_MILLIS_MAX`]).

use crate::codec::{DecodeError, Reader, put_u64};

/// The first bytes of every producer key. The row of a producer is stored under its key up to and including the
/// producer id.
pub const PRODUCER_PREFIX: &[u8] = b"\0esker-sender/";

/// The first bytes of the key of a single request, which is forgotten after a while. The time of the request, in
/// milliseconds, follows.
pub const REQUEST_PREFIX: &[u8] = b"\0esker-request/";

/// Bound on the distance of a sequence number from the oldest one that is not settled. It limits the size of a
/// producer's row, which is written with each batch. A client that comes near it continues under a new producer id.
pub const SEQUENCE_SPAN_MAX: u64 = 1 << 14;

/// Maximum age of a batch whose producer is unknown or forgotten; an older one is refused. Clocks may differ by as
/// much.
pub const BATCH_AGE_MILLIS_MAX: u64 = 12 * 3_600_000;

/// Minimum time that a producer is remembered after its last batch. A batch cannot have been created later than
/// [`BATCH_AGE_MILLIS_MAX`] after it was applied, so it is too old once its producer is forgotten.
pub const PRODUCER_RETENTION_MILLIS: u64 = 2 * BATCH_AGE_MILLIS_MAX;

/// The idempotency key of one batch of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerKey {
    /// Id of the producer: random, so that no two are equal.
    pub producer: [u8; 16],
    /// Sequence number of the batch within its producer, from 0.
    pub sequence: u64,
    /// Sequence number below which no batch will be sent again; a late duplicate of one is ignored.
    pub settled_below: u64,
    /// When the batch got its sequence number, in milliseconds since 1970 by the clock of the database's owner as far
    /// as the client knows it. A retry keeps the time of the first attempt.
    pub created_millis: u64,
}

impl ProducerKey {
    /// Returns the key as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PRODUCER_PREFIX.len() + 40);
        out.extend_from_slice(PRODUCER_PREFIX);
        out.extend_from_slice(&self.producer);
        put_u64(&mut out, self.sequence);
        put_u64(&mut out, self.settled_below);
        put_u64(&mut out, self.created_millis);
        out
    }

    /// Decodes a key; `None` if it has another form. A key that only begins like a producer key is an error: stored by
    /// itself, it would lie among the rows of producers.
    pub fn parse(marker: &[u8]) -> Result<Option<Self>, DecodeError> {
        let Some(rest) = marker.strip_prefix(PRODUCER_PREFIX) else {
            return Ok(None);
        };
        let mut r = Reader::new(rest);
        let numbered = Self {
            producer: r.array("a producer")?,
            sequence: r.u64("a number")?,
            settled_below: r.u64("a number")?,
            created_millis: r.u64("a time")?,
        };
        if numbered.sequence == u64::MAX || numbered.settled_below > numbered.sequence {
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
        let numbered = ProducerKey {
            producer: [7; 16],
            sequence: 300,
            settled_below: 299,
            created_millis: 1_700_000_000_000,
        };
        let marker = numbered.encode();
        assert_eq!(ProducerKey::parse(&marker), Ok(Some(numbered)));
        assert_eq!(ProducerKey::parse(b"darshan/1"), Ok(None));
        assert!(ProducerKey::parse(&marker[..marker.len() - 1]).is_err());
        assert!(ProducerKey::parse(&[marker.as_slice(), &[0]].concat()).is_err());
        assert!(ProducerKey::parse(PRODUCER_PREFIX).is_err());
    }

    #[test]
    fn numbers_that_contradict_each_other_are_refused() {
        let with = |number, settled| ProducerKey {
            producer: [7; 16],
            sequence: number,
            settled_below: settled,
            created_millis: 0,
        };
        for wrong in [with(3, 4), with(u64::MAX, 0)] {
            assert!(ProducerKey::parse(&wrong.encode()).is_err(), "{wrong:?}");
        }
    }
}
