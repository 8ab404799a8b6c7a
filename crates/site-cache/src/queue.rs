//! Wait-and-notify queue between tiers, as a state machine.
//!
//! A client enqueues a request and waits, or continues without waiting (`nowait`, as prefetches do). Identical requests are
//! sent once: later ones join, and a fetch that joins a prefetch raises it. Fetches precede prefetches, prefetches of a higher
//! priority those of a lower one, and equals are sent in the order of arrival. The queue is bounded: a request that finds it full
//! displaces a prefetch of a lower priority, or is refused, which is the backpressure.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// Urgency of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// No client waits. Higher is more urgent, up to [`PRIORITY_MAX`].
    Prefetch(u8),
    /// A client waits for the answer.
    Fetch,
}

/// Priority of the most urgent prefetch.
pub const PRIORITY_MAX: u8 = 6;
const LEVELS: usize = PRIORITY_MAX as usize + 2;

impl Class {
    fn level(self) -> usize {
        match self {
            Self::Prefetch(priority) => priority.min(PRIORITY_MAX) as usize,
            Self::Fetch => LEVELS - 1,
        }
    }

    fn of_level(level: usize) -> Self {
        if level == LEVELS - 1 {
            Self::Fetch
        } else {
            Self::Prefetch(level as u8)
        }
    }
}

/// Result of enqueueing a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// Newly enqueued; the request waits to be sent.
    New,
    /// Joined an identical request.
    Joined {
        /// Whether a fetch joined a prefetch.
        raised: bool,
        /// Whether the request is in flight.
        running: bool,
    },
    /// Refused: the queue is full of requests of the same or higher urgency.
    Full,
}

/// Low bits of a run number that are the slot of the request.
const SLOT_BITS: u32 = 24;

/// Identifies one sending of a request: after a preemption, the next sending has another number. Later sendings have higher
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run(pub u64);

/// A request that is to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent<K> {
    /// The request to send.
    pub key: K,
    /// Urgency of the request.
    pub class: Class,
    /// Number of this sending.
    pub run: Run,
}

/// Waiters for a request: mostly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiters<W> {
    first: Option<W>,
    more: Vec<W>,
}

impl<W> Waiters<W> {
    fn new(first: Option<W>) -> Self {
        let more = Vec::new();
        Self { first, more }
    }

    fn add(&mut self, waiter: Option<W>) {
        if self.first.is_none() {
            self.first = waiter;
        } else {
            self.more.extend(waiter);
        }
    }

    /// Iterates over all waiters, in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &W> {
        self.first.iter().chain(&self.more)
    }
}

impl<W> IntoIterator for Waiters<W> {
    type Item = W;
    type IntoIter = std::iter::Chain<std::option::IntoIter<W>, std::vec::IntoIter<W>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

/// A completed request with its waiters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed<K, W> {
    /// Request that was completed.
    pub key: K,
    /// Urgency at its completion.
    pub class: Class,
    /// Urgency at the last sending.
    pub began: Class,
    /// Waiters for the answer.
    pub waiters: Waiters<W>,
}

#[derive(Debug)]
struct QueuedRequest<K, W> {
    key: K,
    level: usize,
    /// Level at the last sending.
    began: usize,
    /// Number of its valid position in the line of its level; positions with other numbers are void.
    turn: u64,
    run: Option<Run>,
    waiters: Waiters<W>,
}

/// The queue. `K` is a request, `W` a waiter.
#[derive(Debug)]
pub struct Queue<K, W> {
    slots: Vec<Option<QueuedRequest<K, W>>>,
    free: Vec<u32>,
    by_key: HashMap<K, u32, FixedState>,
    lines: [VecDeque<(u64, u32)>; LEVELS],
    /// Number of valid positions of each line.
    valid: [usize; LEVELS],
    running: usize,
    next: u64,
    waiting_max: usize,
    running_max: usize,
}

impl<K: Copy + Eq + Hash, W> Queue<K, W> {
    /// Creates a queue for the given numbers of waiting and of in-flight requests, each limited to about 8 million.
    pub fn new(waiting_max: usize, running_max: usize) -> Self {
        let most = (1 << (SLOT_BITS - 1)) - 1;
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::with_hasher(FixedState::with_seed(1)),
            lines: std::array::from_fn(|_| VecDeque::new()),
            valid: [0; LEVELS],
            running: 0,
            next: 1,
            waiting_max: waiting_max.clamp(1, most),
            running_max: running_max.clamp(1, most),
        }
    }

    /// Returns the number of requests that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.by_key.len() - self.running
    }

    /// Returns the number of requests in flight.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether a request is waiting or in flight.
    pub fn has(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Returns the urgency of a request, and whether it is in flight.
    pub fn status(&self, key: K) -> Option<(Class, bool)> {
        let slot = *self.by_key.get(&key)?;
        let state = self.slots[slot as usize].as_ref()?;
        Some((Class::of_level(state.level), state.run.is_some()))
    }

    /// Iterates over all requests, in no order.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.by_key.keys().copied()
    }

    /// Enqueues a request. A displaced request is stored in `displaced`; its waiters must be notified.
    pub fn enqueue(
        &mut self,
        key: K,
        class: Class,
        waiter: Option<W>,
        displaced: &mut Option<(K, Waiters<W>)>,
    ) -> Enqueued {
        let level = class.level();
        if let Some(slot) = self.by_key.get(&key).copied() {
            return self.join(slot, level, waiter);
        }
        if self.waiting() >= self.waiting_max {
            match self.displace(level) {
                Some(gone) => *displaced = Some(gone),
                None => return Enqueued::Full,
            }
        }
        let state = QueuedRequest {
            key,
            level,
            began: level,
            turn: 0,
            run: None,
            waiters: Waiters::new(waiter),
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(state);
            slot
        } else {
            self.slots.push(Some(state));
            (self.slots.len() - 1) as u32
        };
        self.by_key.insert(key, slot);
        self.add_to_line(slot, level, false);
        Enqueued::New
    }

    fn join(&mut self, slot: u32, level: usize, waiter: Option<W>) -> Enqueued {
        let Some(state) = &mut self.slots[slot as usize] else {
            return Enqueued::Full;
        };
        state.waiters.add(waiter);
        let before = state.level;
        let running = state.run.is_some();
        if level > before {
            state.level = level;
            if !running {
                self.valid[before] -= 1;
                self.add_to_line(slot, level, false);
                self.remove_void(before);
            }
        }
        let raised = before < LEVELS - 1 && level == LEVELS - 1;
        Enqueued::Joined { raised, running }
    }

    /// Assigns a new position in a line, at its end or at its front.
    fn add_to_line(&mut self, slot: u32, level: usize, first: bool) {
        let turn = self.next;
        self.next += 1;
        if let Some(state) = &mut self.slots[slot as usize] {
            state.turn = turn;
        }
        if first {
            self.lines[level].push_front((turn, slot));
        } else {
            self.lines[level].push_back((turn, slot));
        }
        self.valid[level] += 1;
    }

    /// Whether a position in a line is valid.
    fn is_valid(&self, turn: u64, slot: u32) -> bool {
        let state = self.slots[slot as usize].as_ref();
        state.is_some_and(|s| s.turn == turn && s.run.is_none())
    }

    fn take(&mut self, slot: u32) -> Option<QueuedRequest<K, W>> {
        let state = self.slots[slot as usize].take()?;
        self.by_key.remove(&state.key);
        self.free.push(slot);
        Some(state)
    }

    /// Removes the latest of the least urgent requests, if it is less urgent than `level`.
    fn displace(&mut self, level: usize) -> Option<(K, Waiters<W>)> {
        let least = (0..level).find(|l| self.valid[*l] > 0)?;
        while let Some((turn, slot)) = self.lines[least].pop_back() {
            if self.is_valid(turn, slot) {
                self.valid[least] -= 1;
                let state = self.take(slot)?;
                return Some((state.key, state.waiters));
            }
        }
        None
    }

    /// Returns the request to send next, if there is one and the limit of requests in flight is not reached.
    pub fn send(&mut self) -> Option<Sent<K>> {
        if self.running >= self.running_max {
            return None;
        }
        let level = (0..LEVELS).rev().find(|l| self.valid[*l] > 0)?;
        while let Some((turn, slot)) = self.lines[level].pop_front() {
            if !self.is_valid(turn, slot) {
                continue;
            }
            self.valid[level] -= 1;
            self.running += 1;
            let run = Run(self.next << SLOT_BITS | u64::from(slot));
            self.next += 1;
            let state = self.slots[slot as usize].as_mut()?;
            state.run = Some(run);
            state.began = level;
            let class = Class::of_level(level);
            let key = state.key;
            return Some(Sent { key, class, run });
        }
        None
    }

    /// Makes room for a waiting fetch at the limit of requests in flight: the least urgent and latest prefetch in flight is
    /// requeued. The host cancels it; a late answer to it is ignored.
    pub fn preempt(&mut self) -> Option<Run> {
        if self.valid[LEVELS - 1] == 0 || self.running < self.running_max {
            return None;
        }
        let running = self.slots.iter().flatten();
        let prefetches = running.filter_map(|state| {
            let run = state.run?;
            (state.level < LEVELS - 1).then_some((state.level, std::cmp::Reverse(run)))
        });
        let (level, std::cmp::Reverse(run)) = prefetches.min()?;
        let slot = slot_of(run);
        self.slots[slot as usize].as_mut()?.run = None;
        self.running -= 1;
        self.add_to_line(slot, level, true);
        Some(run)
    }

    /// Returns a run number below those of all later sendings, and not below any earlier one.
    pub fn sent_until(&self) -> Run {
        Run(self.next << SLOT_BITS)
    }

    fn state_of(&self, run: Run) -> Option<&QueuedRequest<K, W>> {
        let state = self.slots.get(slot_of(run) as usize)?.as_ref()?;
        (state.run == Some(run)).then_some(state)
    }

    /// Iterates over the waiters of a request in flight.
    pub fn waiters(&self, run: Run) -> impl Iterator<Item = &W> {
        let state = self.state_of(run);
        state.into_iter().flat_map(|s| s.waiters.iter())
    }

    /// Returns the request of a run, as long as it is in flight.
    pub fn key_of(&self, run: Run) -> Option<K> {
        Some(self.state_of(run)?.key)
    }

    /// Completes a request; the waiters must be notified. `None` if it was preempted meanwhile.
    pub fn complete(&mut self, run: Run) -> Option<Completed<K, W>> {
        self.state_of(run)?;
        let state = self.take(slot_of(run))?;
        self.running -= 1;
        Some(Completed {
            key: state.key,
            class: Class::of_level(state.level),
            began: Class::of_level(state.began),
            waiters: state.waiters,
        })
    }

    /// Requeues a request because its answer is unusable; its waiters continue to wait.
    pub fn requeue(&mut self, run: Run) -> bool {
        let Some(level) = self.state_of(run).map(|s| s.level) else {
            return false;
        };
        let slot = slot_of(run);
        if let Some(state) = &mut self.slots[slot as usize] {
            state.run = None;
        }
        self.running -= 1;
        self.add_to_line(slot, level, true);
        true
    }

    /// Removes void positions before they accumulate.
    fn remove_void(&mut self, level: usize) {
        if self.lines[level].len() > 2 * self.valid[level] + 64 {
            let mut line = std::mem::take(&mut self.lines[level]);
            line.retain(|(turn, slot)| self.is_valid(*turn, *slot));
            self.lines[level] = line;
        }
    }
}

fn slot_of(run: Run) -> u32 {
    (run.0 & ((1 << SLOT_BITS) - 1)) as u32
}
