//! A byte-bounded cache of values by path, with replacement policies.
//!
//! Four policies: LRU, as in the paper; SIEVE (Zhang et al., NSDI 2024), S3-FIFO (Yang et al., SOSP 2023) and W-TinyLFU
//! (Einziger et al., 2017). They are small, exact in bytes and deterministic; none of the libraries that we examined is all three.

mod lists;
mod sketch;

use crate::path::PathId;
use crate::recent::Recent;
use lists::{Lists, NONE};
use sketch::Sketch;
use std::fmt;
use std::str::FromStr;

/// Replacement policy: selects the values to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Evicts the least recently used value.
    #[default]
    Lru,
    /// Evicts a value not used since the hand last passed it; values do not move when used.
    Sieve,
    /// Three queues: values that are not reused soon are evicted soon, values that return stay.
    S3Fifo,
    /// A small window of new values; beyond it, a new value stays only if it is requested more often than the victim.
    TinyLfu,
}

impl Policy {
    /// All policies, in declaration order.
    pub const ALL: [Self; 4] = [Self::Lru, Self::Sieve, Self::S3Fifo, Self::TinyLfu];

    /// Returns the name of the policy in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Sieve => "sieve",
            Self::S3Fifo => "s3-fifo",
            Self::TinyLfu => "w-tinylfu",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Self> {
        let found = Self::ALL.into_iter().find(|p| p.name() == text);
        found.ok_or_else(|| {
            crate::Error::Setting(format!(
                "`{text}` is not a policy: expected lru, sieve, s3-fifo or w-tinylfu"
            ))
        })
    }
}

/// Lists by policy: LRU and SIEVE have one; S3-FIFO a small and a main one; W-TinyLFU a window, probation and protected.
const FIRST: u8 = 0;
const MAIN: u8 = 1;
const PROTECTED: u8 = 2;

/// Maximum number of victims spared per insertion; rarely reached, because each value is spared a few times at most.
const SPARES: u32 = 1 << 16;

/// A cache of values by path whose total size never exceeds its capacity.
#[derive(Debug)]
pub struct Cache<V> {
    policy: Policy,
    capacity: u64,
    used: u64,
    /// Slot of each path, by path number.
    slots_by_path: Vec<u32>,
    lists: Lists<V>,
    /// Hand of SIEVE.
    hand: u32,
    /// Paths that S3-FIFO evicted from its small queue.
    ghosts: Option<Recent<PathId, ()>>,
    /// Counters of W-TinyLFU.
    sketch: Option<Sketch>,
}

impl<V> Cache<V> {
    /// Creates an empty cache of `capacity` bytes.
    pub fn new(capacity: u64, policy: Policy) -> Self {
        Self {
            policy,
            capacity,
            used: 0,
            slots_by_path: Vec::new(),
            lists: Lists::new(),
            hand: NONE,
            ghosts: (policy == Policy::S3Fifo).then(|| Recent::new(usize::MAX)),
            sketch: (policy == Policy::TinyLfu).then(Sketch::new),
        }
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the total size of the values in bytes.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot_of(&self, path: PathId) -> Option<u32> {
        let at = *self.slots_by_path.get(path.index())?;
        (at != NONE).then_some(at)
    }

    /// Returns the value of a path without counting a use.
    pub fn peek(&self, path: PathId) -> Option<&V> {
        let at = self.slot_of(path)?;
        self.lists.slots[at as usize].value.as_ref()
    }

    /// Returns the value of a path without counting a use; changes must not affect its size.
    pub fn peek_mut(&mut self, path: PathId) -> Option<&mut V> {
        let at = self.slot_of(path)?;
        self.lists.slots[at as usize].value.as_mut()
    }

    /// Returns the value of a path and counts a use.
    pub fn get(&mut self, path: PathId) -> Option<&mut V> {
        if let Some(sketch) = &mut self.sketch {
            sketch.count(path);
        }
        let at = self.slot_of(path)?;
        self.use_slot(at);
        self.lists.slots[at as usize].value.as_mut()
    }

    /// Returns the size of a path's value in bytes.
    pub fn bytes_of(&self, path: PathId) -> Option<u64> {
        Some(self.lists.slots[self.slot_of(path)? as usize].bytes)
    }

    /// Iterates over all cached paths, in no order.
    pub fn paths(&self) -> impl Iterator<Item = PathId> {
        let slots = self.lists.slots.iter();
        slots.filter(|s| s.value.is_some()).map(|s| s.path)
    }

    /// Inserts a value at a path. Evicted values are appended to `evicted`, including the value itself if it does not fit or the
    /// policy rejects it.
    pub fn insert(&mut self, path: PathId, value: V, bytes: u64, evicted: &mut Vec<(PathId, V)>) {
        self.insert_sparing(path, value, bytes, |_, _| false, evicted);
    }

    /// Inserts a value like [`Self::insert`]. `spare` may keep a victim in the cache for now; only LRU calls it, a bounded number
    /// of times per insertion.
    pub fn insert_sparing(
        &mut self,
        path: PathId,
        value: V,
        bytes: u64,
        spare: impl FnMut(PathId, &mut V) -> bool,
        evicted: &mut Vec<(PathId, V)>,
    ) {
        if let Some(at) = self.slot_of(path) {
            if bytes > self.capacity {
                evicted.extend(self.remove(path));
                evicted.push((path, value));
                return;
            }
            self.lists.slots[at as usize].value = Some(value);
            self.weigh(at, bytes);
            self.use_slot(at);
            self.shrink(at, spare, evicted);
            return;
        }
        if bytes > self.capacity {
            evicted.push((path, value));
            return;
        }
        let returns = self
            .ghosts
            .as_mut()
            .is_some_and(|g| g.remove(path).is_some());
        let at = self
            .lists
            .add(path, value, bytes, if returns { MAIN } else { FIRST });
        self.used += bytes;
        if self.slots_by_path.len() <= path.index() {
            self.slots_by_path.resize(path.index() + 1, NONE);
        }
        self.slots_by_path[path.index()] = at;
        if let Some(sketch) = &mut self.sketch {
            sketch.fit(self.lists.len());
        }
        self.shrink(at, spare, evicted);
    }

    /// Updates the size of a path's value, which is evicted if it no longer fits.
    pub fn set_bytes(&mut self, path: PathId, bytes: u64, evicted: &mut Vec<(PathId, V)>) {
        let Some(at) = self.slot_of(path) else { return };
        if bytes > self.capacity {
            evicted.extend(self.remove(path));
            return;
        }
        self.weigh(at, bytes);
        self.shrink(at, |_, _| false, evicted);
    }

    /// Removes and returns the value of a path.
    pub fn remove(&mut self, path: PathId) -> Option<(PathId, V)> {
        let at = self.slot_of(path)?;
        self.take(at)
    }

    fn weigh(&mut self, at: u32, bytes: u64) {
        self.used = self.used - self.lists.slots[at as usize].bytes + bytes;
        self.lists.weigh(at, bytes);
    }

    fn take(&mut self, at: u32) -> Option<(PathId, V)> {
        if self.hand == at {
            self.hand = self.lists.newer(at);
        }
        self.used -= self.lists.slots[at as usize].bytes;
        let taken = self.lists.take(at)?;
        self.slots_by_path[taken.0.index()] = NONE;
        Some(taken)
    }

    fn use_slot(&mut self, at: u32) {
        let slot = &mut self.lists.slots[at as usize];
        match self.policy {
            Policy::Lru => self.lists.raise(at, FIRST),
            Policy::Sieve => slot.uses = 1,
            Policy::S3Fifo => slot.uses = (slot.uses + 1).min(3),
            Policy::TinyLfu if slot.list == FIRST => self.lists.raise(at, FIRST),
            Policy::TinyLfu => {
                self.lists.raise(at, PROTECTED);
                self.limit_protected();
            }
        }
    }

    /// Limits the protected list of W-TinyLFU to four fifths of the capacity.
    fn limit_protected(&mut self) {
        while self.lists.bytes(PROTECTED) > self.capacity / 5 * 4 {
            match self.lists.tail(PROTECTED) {
                NONE => return,
                last => self.lists.raise(last, MAIN),
            }
        }
    }

    /// Evicts values until the cache fits; `new` is the latest insertion, evicted only if the policy says so.
    fn shrink(
        &mut self,
        new: u32,
        mut spare: impl FnMut(PathId, &mut V) -> bool,
        evicted: &mut Vec<(PathId, V)>,
    ) {
        let mut spares = if self.policy == Policy::Lru {
            SPARES
        } else {
            0
        };
        while self.used > self.capacity {
            let victim = match self.policy {
                Policy::Lru => self.lists.tail(FIRST),
                Policy::Sieve => self.sieve(new),
                Policy::S3Fifo => self.s3_fifo(),
                Policy::TinyLfu => self.tiny_lfu(),
            };
            if victim == NONE {
                return;
            }
            if spares > 0 && victim != new {
                let slot = &mut self.lists.slots[victim as usize];
                let path = slot.path;
                if slot.value.as_mut().is_some_and(|v| spare(path, v)) {
                    spares -= 1;
                    self.lists.raise(victim, FIRST);
                    continue;
                }
            }
            evicted.extend(self.take(victim));
        }
    }

    fn sieve(&mut self, new: u32) -> u32 {
        loop {
            if self.hand == NONE {
                self.hand = self.lists.tail(FIRST);
            }
            let at = self.hand;
            if at == NONE {
                return NONE;
            }
            // The inserted value stays if any other value can be evicted.
            let spared = at == new && self.lists.len() > 1;
            let slot = &mut self.lists.slots[at as usize];
            if slot.uses == 0 && !spared {
                return at;
            }
            slot.uses = 0;
            self.hand = self.lists.newer(at);
        }
    }

    fn s3_fifo(&mut self) -> u32 {
        loop {
            let small = self.lists.tail(FIRST);
            let main = self.lists.tail(MAIN);
            let from_small =
                main == NONE || (small != NONE && self.lists.bytes(FIRST) > self.capacity / 10);
            let at = if from_small { small } else { main };
            if at == NONE {
                return NONE;
            }
            let slot = &mut self.lists.slots[at as usize];
            if from_small {
                if slot.uses > 1 {
                    slot.uses = 0;
                    self.lists.raise(at, MAIN);
                    continue;
                }
                let path = slot.path;
                if let Some(ghosts) = &mut self.ghosts {
                    ghosts.put(path, ());
                    // As many ghosts as there are values, as in the paper.
                    ghosts.trim(self.lists.len());
                }
                return at;
            }
            if slot.uses == 0 {
                return at;
            }
            slot.uses -= 1;
            self.lists.raise(at, MAIN);
        }
    }

    fn tiny_lfu(&mut self) -> u32 {
        // The window has a hundredth of the capacity; the value that leaves it competes with the main list's victim.
        let candidate = self.lists.tail(FIRST);
        let victim = match self.lists.tail(MAIN) {
            NONE => self.lists.tail(PROTECTED),
            tail => tail,
        };
        if candidate == NONE || self.lists.bytes(FIRST) <= self.capacity / 100 {
            return if victim == NONE { candidate } else { victim };
        }
        if victim == NONE {
            return self.window_or_main(candidate);
        }
        let estimate = |at: u32| {
            let path = self.lists.slots[at as usize].path;
            self.sketch.as_ref().map_or(0, |s| s.estimate(path))
        };
        if estimate(candidate) > estimate(victim) {
            self.lists.raise(candidate, MAIN);
            return if self.used > self.capacity {
                victim
            } else {
                NONE
            };
        }
        candidate
    }

    /// The main lists are empty: values beyond a hundredth of the capacity move there, and the oldest is evicted.
    fn window_or_main(&mut self, oldest: u32) -> u32 {
        while self.lists.bytes(FIRST) > self.capacity / 100 {
            match self.lists.tail(FIRST) {
                NONE => break,
                tail => self.lists.raise(tail, MAIN),
            }
        }
        oldest
    }
}
