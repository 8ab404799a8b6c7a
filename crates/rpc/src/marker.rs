//! Markers that make a repeated write count once: who sends numbers its batches ([`esker_model::once`]), and says with each
//! which of the earlier ones are settled.

use esker_model::once::{Numbered, SPAN_MAX};
use esker_model::{Error, Result};
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whoever sends batches. Its name is random and drawn when the first one is sent.
#[derive(Debug, Default)]
pub struct Sender {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    name: Option<[u8; 16]>,
    /// Whose name it is: a forked child has its parent's memory, and must not send under its parent's name.
    process: u32,
    next: u64,
    /// Numbered, and not settled.
    open: BTreeSet<u64>,
}

/// One batch's number, from before it is sent until its answer is known.
///
/// Dropped without being settled, it stays open: the batch may be on its way still, and would be thrown away if it
/// arrived after one that says it is settled.
#[derive(Debug)]
pub struct Number {
    sender: Arc<Sender>,
    numbered: Numbered,
}

/// Bytes that nobody can guess.
pub fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bytes))
        .map_err(|e| Error::io("reading /dev/urandom", e))?;
    Ok(bytes)
}

impl Sender {
    /// A sender that has sent nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next batch. It is `now_millis` by the clock of the database's owner, as far as is known.
    pub fn next(self: &Arc<Self>, now_millis: u64) -> Result<Number> {
        let mut state = self.state();
        let process = std::process::id();
        let oldest = state.open.first().copied().unwrap_or(state.next);
        let sender = match state.name {
            // Whoever takes long holds up the bound, but not the others: they go on under another name.
            Some(name) if state.process == process && state.next - oldest < SPAN_MAX => name,
            _ => {
                let name = random()?;
                *state = State {
                    name: Some(name),
                    process,
                    ..State::default()
                };
                name
            }
        };
        let number = state.next;
        state.next += 1;
        state.open.insert(number);
        let settled = state.open.first().copied().unwrap_or(number);
        drop(state);
        Ok(Number {
            sender: Arc::clone(self),
            numbered: Numbered {
                sender,
                number,
                settled,
                made: now_millis,
            },
        })
    }
}

impl Number {
    /// What goes into the batch; the same each time that it is sent.
    pub fn marker(&self) -> Vec<u8> {
        self.numbered.encode()
    }

    /// Whatever became of the batch, it will not be sent again, and is not to be applied if it has not been yet.
    pub fn settle(self) {
        let mut state = self.sender.state();
        // The sender may have another name by now.
        if state.name == Some(self.numbered.sender) {
            state.open.remove(&self.numbered.number);
        }
    }
}

/// A number that differs from call to call, for jitter. Not for secrets.
pub fn dice() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_the_oldest_open_one_is_settled() {
        let sender = Arc::new(Sender::new());
        let first = sender.next(7).unwrap();
        let second = sender.next(7).unwrap();
        assert_eq!((first.numbered.number, second.numbered.number), (0, 1));
        assert_eq!(second.numbered.settled, 0);
        first.settle();
        let third = sender.next(8).unwrap();
        assert_eq!((third.numbered.settled, third.numbered.made), (1, 8));
        assert_eq!(third.numbered.sender, second.numbered.sender);
        assert_eq!(Numbered::parse(&third.marker()), Ok(Some(third.numbered)));
    }

    /// The batch may be in the server's queue, behind a later one.
    #[test]
    fn what_nobody_waits_for_is_not_settled() {
        let sender = Arc::new(Sender::new());
        drop(sender.next(0).unwrap());
        let second = sender.next(0).unwrap();
        assert_eq!(second.numbered.settled, 0);
    }

    #[test]
    fn a_batch_that_takes_long_does_not_hold_up_the_sender() {
        let sender = Arc::new(Sender::new());
        let stuck = sender.next(0).unwrap();
        let mut names = BTreeSet::new();
        for _ in 0..3 * SPAN_MAX {
            let number = sender.next(0).unwrap();
            let numbered = number.numbered;
            assert!(numbered.number - numbered.settled < SPAN_MAX);
            names.insert(numbered.sender);
            number.settle();
        }
        assert_eq!(names.len(), 2, "it took one new name");
        // Under the new name it is somebody else's number.
        stuck.settle();
        assert_eq!(sender.next(0).unwrap().numbered.number, 2 * SPAN_MAX + 1);
        assert_ne!(Sender::new().state().name, sender.state().name);
    }
}
