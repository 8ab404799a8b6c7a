//! The wait-and-notify queue between tiers, as a state machine.
//!
//! Whoever wants something enqueues a request and waits, or goes on (`nowait`, as prefetches do). Identical requests are
//! sent once: who comes later joins, and a fetch that joins a prefetch raises it. Fetches go before prefetches, prefetches
//! of a higher priority before those of a lower one, and what came first goes first among equals. The queue is bounded: a
//! request that finds it full displaces a prefetch of a lower priority, or is refused, which is the back-pressure.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// How urgent a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nobody waits for it yet. More is more urgent, up to [`PRIORITY_MAX`].
    Prefetch(u8),
    /// Somebody waits.
    Fetch,
}

/// The most urgent prefetch.
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

/// What became of a request that was enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It waits to be sent.
    New,
    /// The same request was there already.
    Joined {
        /// A fetch has joined a prefetch.
        raised: bool,
        /// It is on its way.
        running: bool,
    },
    /// The queue is full of what is as urgent or more.
    Full,
}

/// Bits of a run's number that say where the request stands.
const SLOT_BITS: u32 = 24;

/// Which of the times that a request was sent is meant: one that was taken back has another number than its successor, and
/// a later one a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run(pub u64);

/// A request that is to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent<K> {
    /// Which request.
    pub key: K,
    /// How urgent it is.
    pub class: Class,
    /// This time that it is sent.
    pub run: Run,
}

/// Who waits for a request: mostly one.
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

    /// All of them, who came first first.
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

/// A request that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over<K, W> {
    /// Which request.
    pub key: K,
    /// How urgent it was at the end.
    pub class: Class,
    /// How urgent it was when it was last sent.
    pub began: Class,
    /// Who waits for it.
    pub waiters: Waiters<W>,
}

#[derive(Debug)]
struct State<K, W> {
    key: K,
    level: usize,
    /// The level when it was last sent.
    began: usize,
    /// Which place in its level's line is its own; older ones are void.
    turn: u64,
    run: Option<Run>,
    waiters: Waiters<W>,
}

/// The queue. `K` is a request, `W` somebody who waits.
#[derive(Debug)]
pub struct Queue<K, W> {
    slots: Vec<Option<State<K, W>>>,
    free: Vec<u32>,
    by_key: HashMap<K, u32, FixedState>,
    lines: [VecDeque<(u64, u32)>; LEVELS],
    /// Of each line, how many places are not void.
    valid: [usize; LEVELS],
    running: usize,
    next: u64,
    waiting_max: usize,
    running_max: usize,
}

impl<K: Copy + Eq + Hash, W> Queue<K, W> {
    /// A queue in which so many requests may wait, and so many be on their way at once; together no more than 16 million.
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

    /// How many requests wait to be sent.
    pub fn waiting(&self) -> usize {
        self.by_key.len() - self.running
    }

    /// How many are on their way.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether a request waits or is on its way.
    pub fn has(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    /// How urgent a request is, and whether it is on its way.
    pub fn look(&self, key: K) -> Option<(Class, bool)> {
        let slot = *self.by_key.get(&key)?;
        let state = self.slots[slot as usize].as_ref()?;
        Some((Class::of_level(state.level), state.run.is_some()))
    }

    /// All requests, in no order.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.by_key.keys().copied()
    }

    /// Enqueues a request. What it displaced comes into `displaced`: those who wait for that are to be told.
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
        let state = State {
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
        self.line_up(slot, level, false);
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
                self.line_up(slot, level, false);
                self.tidy(before);
            }
        }
        let raised = before < LEVELS - 1 && level == LEVELS - 1;
        Enqueued::Joined { raised, running }
    }

    /// A place in a line, at its end or before all others.
    fn line_up(&mut self, slot: u32, level: usize, first: bool) {
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

    /// Whether a place in a line is not void.
    fn holds(&self, turn: u64, slot: u32) -> bool {
        let state = self.slots[slot as usize].as_ref();
        state.is_some_and(|s| s.turn == turn && s.run.is_none())
    }

    fn take(&mut self, slot: u32) -> Option<State<K, W>> {
        let state = self.slots[slot as usize].take()?;
        self.by_key.remove(&state.key);
        self.free.push(slot);
        Some(state)
    }

    /// The youngest of the least urgent requests gives way, if it is less urgent than this.
    fn displace(&mut self, level: usize) -> Option<(K, Waiters<W>)> {
        let least = (0..level).find(|l| self.valid[*l] > 0)?;
        while let Some((turn, slot)) = self.lines[least].pop_back() {
            if self.holds(turn, slot) {
                self.valid[least] -= 1;
                let state = self.take(slot)?;
                return Some((state.key, state.waiters));
            }
        }
        None
    }

    /// The request that is to be sent now, if there is one and not too many are on their way.
    pub fn send(&mut self) -> Option<Sent<K>> {
        if self.running >= self.running_max {
            return None;
        }
        let level = (0..LEVELS).rev().find(|l| self.valid[*l] > 0)?;
        while let Some((turn, slot)) = self.lines[level].pop_front() {
            if !self.holds(turn, slot) {
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

    /// If a fetch waits and nothing more may be sent: the least urgent prefetch on its way, the youngest of these, is taken
    /// back and waits again. The host cancels it; its answer comes too late then.
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
        self.line_up(slot, level, true);
        Some(run)
    }

    /// A number below that of every request that is sent from now on, and not below any that was sent.
    pub fn sent_until(&self) -> Run {
        Run(self.next << SLOT_BITS)
    }

    fn state_of(&self, run: Run) -> Option<&State<K, W>> {
        let state = self.slots.get(slot_of(run) as usize)?.as_ref()?;
        (state.run == Some(run)).then_some(state)
    }

    /// Who waits for a request that is on its way.
    pub fn waiters(&self, run: Run) -> impl Iterator<Item = &W> {
        let state = self.state_of(run);
        state.into_iter().flat_map(|s| s.waiters.iter())
    }

    /// Which request that was, as long as it is on its way.
    pub fn key_of(&self, run: Run) -> Option<K> {
        Some(self.state_of(run)?.key)
    }

    /// A request is over: who waits for it is to be told. Nothing if it was taken back meanwhile.
    pub fn complete(&mut self, run: Run) -> Option<Over<K, W>> {
        self.state_of(run)?;
        let state = self.take(slot_of(run))?;
        self.running -= 1;
        Some(Over {
            key: state.key,
            class: Class::of_level(state.level),
            began: Class::of_level(state.began),
            waiters: state.waiters,
        })
    }

    /// A request is to be sent once more, because what came is of no use; whoever waits goes on waiting.
    pub fn again(&mut self, run: Run) -> bool {
        let Some(level) = self.state_of(run).map(|s| s.level) else {
            return false;
        };
        let slot = slot_of(run);
        if let Some(state) = &mut self.slots[slot as usize] {
            state.run = None;
        }
        self.running -= 1;
        self.line_up(slot, level, true);
        true
    }

    /// Void places do not pile up.
    fn tidy(&mut self, level: usize) {
        if self.lines[level].len() > 2 * self.valid[level] + 64 {
            let mut line = std::mem::take(&mut self.lines[level]);
            line.retain(|(turn, slot)| self.holds(*turn, *slot));
            self.lines[level] = line;
        }
    }
}

fn slot_of(run: Run) -> u32 {
    (run.0 & ((1 << SLOT_BITS) - 1)) as u32
}
