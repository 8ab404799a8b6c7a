//! Idempotency keys, by which a repeated write applies once: a producer numbers its batches ([`esker_model::idempotency`]) and
//! states in each
//! batch which earlier numbers are settled.

use esker_model::idempotency::{ProducerKey, SEQUENCE_SPAN_MAX};
use esker_model::{Error, Result};
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A producer of batches. Its id is random and drawn with the first batch.
#[derive(Debug, Default)]
pub struct Producer {
    state: Mutex<ProducerState>,
}

#[derive(Debug, Default)]
struct ProducerState {
    name: Option<[u8; 16]>,
    /// Process that drew the id: a forked child has its parent's memory, and must not use its parent's id.
    process: u32,
    next: u64,
    /// Numbers in use that are not settled.
    open: BTreeSet<u64>,
}

/// Number of one batch, from before it is sent until its result is known.
///
/// Dropping it does not settle it: the batch may still be in transit, and would be discarded if it arrived after a
/// batch that
/// declares it settled.
#[derive(Debug)]
pub struct BatchNumber {
    producer: Arc<Producer>,
    numbered: ProducerKey,
}

/// Reads unpredictable random bytes from the system.
pub fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bytes))
        .map_err(|e| Error::io("reading /dev/urandom", e))?;
    Ok(bytes)
}

impl Producer {
    /// A producer that has sent no batch.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, ProducerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next number; `now_millis` is the estimated time of the database owner's clock.
    pub fn next(self: &Arc<Self>, now_millis: u64) -> Result<BatchNumber> {
        let mut state = self.state();
        let process = std::process::id();
        let oldest = state.open.first().copied().unwrap_or(state.next);
        let producer = match state.name {
            // A slow batch blocks the bound of settled numbers; other batches then continue under a new id.
            Some(name) if state.process == process && state.next - oldest < SEQUENCE_SPAN_MAX => {
                name
            }
            _ => {
                let name = random_bytes()?;
                *state = ProducerState {
                    name: Some(name),
                    process,
                    ..ProducerState::default()
                };
                name
            }
        };
        let number = state.next;
        state.next += 1;
        state.open.insert(number);
        let settled = state.open.first().copied().unwrap_or(number);
        drop(state);
        Ok(BatchNumber {
            producer: Arc::clone(self),
            numbered: ProducerKey {
                producer,
                sequence: number,
                settled_below: settled,
                created_millis: now_millis,
            },
        })
    }
}

impl BatchNumber {
    /// Idempotency key of the batch; equal each time that the batch is sent.
    pub fn idempotency_key(&self) -> Vec<u8> {
        self.numbered.encode()
    }

    /// Settles the number: the batch will not be sent again, and must not be applied if it has not been applied yet.
    pub fn settle(self) {
        let mut state = self.producer.state();
        // The producer may have a new id by now.
        if state.name == Some(self.numbered.producer) {
            state.open.remove(&self.numbered.sequence);
        }
    }
}

/// A number that differs from call to call, for jitter. Not for secrets.
pub fn random_u64() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_the_oldest_open_one_is_settled() {
        let producer = Arc::new(Producer::new());
        let first = producer.next(7).unwrap();
        let second = producer.next(7).unwrap();
        assert_eq!((first.numbered.sequence, second.numbered.sequence), (0, 1));
        assert_eq!(second.numbered.settled_below, 0);
        first.settle();
        let third = producer.next(8).unwrap();
        assert_eq!(
            (third.numbered.settled_below, third.numbered.created_millis),
            (1, 8)
        );
        assert_eq!(third.numbered.producer, second.numbered.producer);
        assert_eq!(
            ProducerKey::parse(&third.idempotency_key()),
            Ok(Some(third.numbered))
        );
    }

    /// The batch may be in the server's queue, after a later one.
    #[test]
    fn what_nobody_waits_for_is_not_settled() {
        let producer = Arc::new(Producer::new());
        drop(producer.next(0).unwrap());
        let second = producer.next(0).unwrap();
        assert_eq!(second.numbered.settled_below, 0);
    }

    #[test]
    fn a_batch_that_takes_long_does_not_hold_up_the_producer() {
        let producer = Arc::new(Producer::new());
        let stuck = producer.next(0).unwrap();
        let mut names = BTreeSet::new();
        for _ in 0..3 * SEQUENCE_SPAN_MAX {
            let number = producer.next(0).unwrap();
            let numbered = number.numbered;
            assert!(numbered.sequence - numbered.settled_below < SEQUENCE_SPAN_MAX);
            names.insert(numbered.producer);
            number.settle();
        }
        assert_eq!(names.len(), 2, "it took one new name");
        // Under the new id this number belongs to another batch.
        stuck.settle();
        assert_eq!(
            producer.next(0).unwrap().numbered.sequence,
            2 * SEQUENCE_SPAN_MAX + 1
        );
        assert_ne!(Producer::new().state().name, producer.state().name);
    }
}
