//! Who commits for whom: the writers' queue.
//!
//! A writer puts its batch in the queue. If nobody leads, it leads: it takes all that wait, commits them as one group,
//! wakes each of them, and goes on for as long as others have come meanwhile. All others sleep until their own answer is
//! there; nobody has to take a lock to see it. A leader that has served enough groups hands over to the first that waits.

use super::lock;
use esker_model::{Batch, Commit, Error, Result};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Groups that one writer commits for others before another one leads.
const GROUPS_LED_MAX: usize = 64;

/// Batches waiting to be committed.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    tickets: Vec<Ticket>,
    /// Whether someone takes from `tickets`, or has been told to.
    led: bool,
}

/// A batch in the queue, and where its answer will be.
#[derive(Debug, Clone)]
pub(super) struct Ticket(Arc<Place>);

#[derive(Debug)]
struct Place {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
enum State {
    Waiting(Batch),
    /// Still waiting, and to lead.
    Leading(Batch),
    /// Being committed by a leader.
    Taken,
    Done(Result<Commit>),
}

impl Ticket {
    pub(super) fn new(batch: Batch) -> Self {
        Self(Arc::new(Place {
            state: Mutex::new(State::Waiting(batch)),
            changed: Condvar::new(),
        }))
    }

    /// The batch, once.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = lock(&self.0.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting(batch) | State::Leading(batch) => Some(batch),
            other => {
                *state = other;
                None
            }
        }
    }

    pub(super) fn answer(&self, answer: Result<Commit>) {
        *lock(&self.0.state) = State::Done(answer);
        self.0.changed.notify_one();
    }

    pub(super) fn take_answer(&self) -> Option<Result<Commit>> {
        let mut state = lock(&self.0.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(answer) => Some(answer),
            other => {
                *state = other;
                None
            }
        }
    }

    fn lead(&self) {
        let mut state = lock(&self.0.state);
        if let State::Waiting(batch) = std::mem::replace(&mut *state, State::Taken) {
            *state = State::Leading(batch);
        }
        drop(state);
        self.0.changed.notify_one();
    }

    /// Sleeps until the answer is there (`Some`) or this writer is to lead (`None`).
    fn wait(&self) -> Option<Result<Commit>> {
        let mut state = lock(&self.0.state);
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(answer) => return Some(answer),
                State::Leading(batch) => {
                    *state = State::Leading(batch);
                    return None;
                }
                other => *state = other,
            }
            state = self
                .0
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Answers a batch that was taken and never answered.
    fn give_up(&self) {
        if matches!(&*lock(&self.0.state), State::Taken) {
            self.answer(Err(lost()));
        }
    }
}

pub(super) fn lost() -> Error {
    Error::Unavailable("the write was lost on its way to the store; try again".into())
}

/// Whoever leads. Dropped, also by a panic, it hands over or leaves the queue to the next who comes.
struct Leader<'q> {
    queue: &'q Queue,
    group: Vec<Ticket>,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // Those of a group whose commit panicked would sleep for ever.
        for ticket in &self.group {
            ticket.give_up();
        }
        let mut waiting = lock(&self.queue.0);
        match waiting.tickets.first() {
            Some(next) => next.lead(),
            None => waiting.led = false,
        }
    }
}

impl Queue {
    /// Has a batch committed, by `commit_group` in this thread or in another one that leads.
    pub(super) fn commit(
        &self,
        batch: Batch,
        commit_group: &mut dyn FnMut(&[Ticket]),
    ) -> Result<Commit> {
        let ticket = Ticket::new(batch);
        let led = {
            let mut waiting = lock(&self.0);
            waiting.tickets.push(ticket.clone());
            std::mem::replace(&mut waiting.led, true)
        };
        if led && let Some(answer) = ticket.wait() {
            return answer;
        }
        let mut leader = Leader {
            queue: self,
            group: Vec::new(),
        };
        for _ in 0..GROUPS_LED_MAX {
            leader.group.clear();
            std::mem::swap(&mut lock(&self.0).tickets, &mut leader.group);
            if leader.group.is_empty() {
                break;
            }
            commit_group(&leader.group);
        }
        drop(leader);
        ticket.take_answer().unwrap_or_else(|| Err(lost()))
    }

    /// How many batches wait to be taken.
    pub(super) fn len(&self) -> usize {
        lock(&self.0).tickets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::Version;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn commit() -> Commit {
        Commit {
            version: Version::ZERO,
            applied: true,
            vertices_created: 0,
            edges_created: 0,
            unchanged: 0,
        }
    }

    #[test]
    fn every_batch_is_committed_once_by_one_leader_at_a_time() {
        let queue = Queue::default();
        let (inside, commits) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let answer = queue.commit(Batch::new(), &mut |group| {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            for ticket in group {
                                assert!(ticket.take().is_some());
                                commits.fetch_add(1, Ordering::SeqCst);
                                ticket.answer(Ok(commit()));
                            }
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                        assert!(answer.is_ok());
                    }
                });
            }
        });
        assert_eq!(commits.into_inner(), 16_000);
        assert!(!lock(&queue.0).led);
    }

    #[test]
    fn a_leader_that_panics_leaves_nobody_asleep() {
        let queue = Queue::default();
        let panicked = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                            queue.commit(Batch::new(), &mut |group| {
                                for ticket in group {
                                    ticket.take();
                                }
                                if panicked.fetch_add(1, Ordering::SeqCst) % 3 == 0 {
                                    std::panic::resume_unwind(Box::new("as a test wants"));
                                }
                                group.iter().for_each(|t| t.answer(Ok(commit())));
                            })
                        }));
                        match answer {
                            Ok(Ok(_)) | Err(_) => {}
                            Ok(Err(e)) => assert!(matches!(e, Error::Unavailable(_)), "{e}"),
                        }
                    }
                });
            }
        });
        assert!(!lock(&queue.0).led);
    }
}
