//! A cache of so many bytes: values by path, and which of them go when there are too many.
//!
//! Four policies: LRU, as the paper has it; SIEVE (Zhang et al., NSDI 2024), S3-FIFO (Yang et al., SOSP 2023) and W-TinyLFU
//! (Einziger et al., 2017). They are small, exact in bytes and the same in every run, which none of the libraries that we
//! looked at is at once.

mod lists;
mod sketch;

use crate::path::PathId;
use crate::recent::Recent;
use lists::{Lists, NONE};
use sketch::Sketch;
use std::fmt;
use std::str::FromStr;

/// Which values go when there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// What was used longest ago.
    #[default]
    Lru,
    /// What was not used since the hand last passed it; values do not move when they are used.
    Sieve,
    /// Three queues: what is not used soon goes soon, what comes back stays.
    S3Fifo,
    /// A small window of new values; behind it a new one stays only if it is asked for more often than what would go.
    TinyLfu,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lru, Self::Sieve, Self::S3Fifo, Self::TinyLfu];

    /// As people write it.
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
                "`{text}` is no policy: expected lru, sieve, s3-fifo or w-tinylfu"
            ))
        })
    }
}

/// LRU and SIEVE have one list; S3-FIFO a small and a main one; W-TinyLFU a window, probation and protection.
const FIRST: u8 = 0;
const MAIN: u8 = 1;
const PROTECTED: u8 = 2;

/// How many values may be spared for each that comes; each is spared a few times at most, so that is rare.
const SPARES: u32 = 4096;

/// Values by path, never more bytes than it may have.
#[derive(Debug)]
pub struct Cache<V> {
    policy: Policy,
    capacity: u64,
    used: u64,
    /// Where a path's slot is, by its number.
    places: Vec<u32>,
    lists: Lists<V>,
    /// SIEVE's hand.
    hand: u32,
    /// S3-FIFO's paths that went from the small queue.
    ghosts: Option<Recent<PathId, ()>>,
    /// W-TinyLFU's counters.
    sketch: Option<Sketch>,
}

impl<V> Cache<V> {
    /// An empty cache of so many bytes.
    pub fn new(capacity: u64, policy: Policy) -> Self {
        Self {
            policy,
            capacity,
            used: 0,
            places: Vec::new(),
            lists: Lists::new(),
            hand: NONE,
            ghosts: (policy == Policy::S3Fifo).then(|| Recent::new(usize::MAX)),
            sketch: (policy == Policy::TinyLfu).then(Sketch::new),
        }
    }

    /// The bytes that it may have.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The bytes that its values have.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, path: PathId) -> Option<u32> {
        let at = *self.places.get(path.index())?;
        (at != NONE).then_some(at)
    }

    /// The value of a path; that is no use of it.
    pub fn peek(&self, path: PathId) -> Option<&V> {
        let at = self.place(path)?;
        self.lists.slots[at as usize].value.as_ref()
    }

    /// The same, to be changed in what costs no bytes.
    pub fn peek_mut(&mut self, path: PathId) -> Option<&mut V> {
        let at = self.place(path)?;
        self.lists.slots[at as usize].value.as_mut()
    }

    /// The value of a path, which is used by that.
    pub fn get(&mut self, path: PathId) -> Option<&mut V> {
        if let Some(sketch) = &mut self.sketch {
            sketch.count(path);
        }
        let at = self.place(path)?;
        self.use_slot(at);
        self.lists.slots[at as usize].value.as_mut()
    }

    /// Bytes of a path's value.
    pub fn bytes_of(&self, path: PathId) -> Option<u64> {
        Some(self.lists.slots[self.place(path)? as usize].bytes)
    }

    /// All paths with values, in no order.
    pub fn paths(&self) -> impl Iterator<Item = PathId> {
        let slots = self.lists.slots.iter();
        slots.filter(|s| s.value.is_some()).map(|s| s.path)
    }

    /// Puts a value at a path. What had to go for it comes into `gone`, with the value itself if it has no room or the
    /// policy does not want it.
    pub fn insert(&mut self, path: PathId, value: V, bytes: u64, gone: &mut Vec<(PathId, V)>) {
        self.insert_sparing(path, value, bytes, |_, _| false, gone);
    }

    /// The same; of what is to go, `spare` may say that it stays a while. LRU heeds that, a few times for each value that
    /// comes.
    pub fn insert_sparing(
        &mut self,
        path: PathId,
        value: V,
        bytes: u64,
        spare: impl FnMut(PathId, &mut V) -> bool,
        gone: &mut Vec<(PathId, V)>,
    ) {
        if let Some(at) = self.place(path) {
            if bytes > self.capacity {
                gone.extend(self.remove(path));
                gone.push((path, value));
                return;
            }
            self.lists.slots[at as usize].value = Some(value);
            self.weigh(at, bytes);
            self.use_slot(at);
            self.shrink(at, spare, gone);
            return;
        }
        if bytes > self.capacity {
            gone.push((path, value));
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
        if self.places.len() <= path.index() {
            self.places.resize(path.index() + 1, NONE);
        }
        self.places[path.index()] = at;
        if let Some(sketch) = &mut self.sketch {
            sketch.fit(self.lists.len());
        }
        self.shrink(at, spare, gone);
    }

    /// Says that a value has other bytes now. It goes itself if it has no room any more.
    pub fn set_bytes(&mut self, path: PathId, bytes: u64, gone: &mut Vec<(PathId, V)>) {
        let Some(at) = self.place(path) else { return };
        if bytes > self.capacity {
            gone.extend(self.remove(path));
            return;
        }
        self.weigh(at, bytes);
        self.shrink(at, |_, _| false, gone);
    }

    /// Takes a path's value away.
    pub fn remove(&mut self, path: PathId) -> Option<(PathId, V)> {
        let at = self.place(path)?;
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
        self.places[taken.0.index()] = NONE;
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

    /// W-TinyLFU protects four fifths of what is behind the window.
    fn limit_protected(&mut self) {
        while self.lists.bytes(PROTECTED) > self.capacity / 5 * 4 {
            match self.lists.tail(PROTECTED) {
                NONE => return,
                last => self.lists.raise(last, MAIN),
            }
        }
    }

    /// Lets values go until there is room; `new` is what came last, and goes only if the policy says so.
    fn shrink(
        &mut self,
        new: u32,
        mut spare: impl FnMut(PathId, &mut V) -> bool,
        gone: &mut Vec<(PathId, V)>,
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
            gone.extend(self.take(victim));
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
            // The value that all this is for stays, if anything else may go.
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
                    // As many as there are values, as its paper has it.
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
        // What is behind a window of a hundredth competes for its place.
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

    /// Nothing stands behind the window yet: what is older than a hundredth moves there, and the oldest goes.
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
