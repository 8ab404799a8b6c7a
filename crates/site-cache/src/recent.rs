//! A map that holds so many keys and forgets those that were used longest ago: miss counters, contexts, directories.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::hash::Hash;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Slot<K, V> {
    key: K,
    value: V,
    newer: u32,
    older: u32,
}

/// A bounded map in the order of use.
#[derive(Debug, Clone)]
pub struct Recent<K, V> {
    map: HashMap<K, u32, FixedState>,
    slots: Vec<Slot<K, V>>,
    newest: u32,
    oldest: u32,
    limit: usize,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    /// For at most so many keys, at least one.
    pub fn new(limit: usize) -> Self {
        Self {
            map: HashMap::with_hasher(FixedState::with_seed(0)),
            slots: Vec::new(),
            newest: NONE,
            oldest: NONE,
            limit: limit.clamp(1, NONE as usize - 1),
        }
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.slots.iter().map(|s| s.key)
    }

    /// All keys and what is known of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.slots.iter().map(|s| (s.key, &s.value))
    }

    /// What is known of a key; that is no use of it.
    pub fn peek(&self, key: K) -> Option<&V> {
        let at = *self.map.get(&key)?;
        Some(&self.slots[at as usize].value)
    }

    /// What is known of a key.
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        let at = *self.map.get(&key)?;
        self.touch(at);
        Some(&mut self.slots[at as usize].value)
    }

    /// What is known of a key, or what is made for it. If that was one key too many, the oldest is given back.
    pub fn get_or_put(&mut self, key: K, make: impl FnOnce() -> V) -> (&mut V, Option<(K, V)>) {
        if let Some(at) = self.map.get(&key).copied() {
            self.touch(at);
            return (&mut self.slots[at as usize].value, None);
        }
        let (at, gone) = self.add(key, make());
        (&mut self.slots[at as usize].value, gone)
    }

    /// Puts a value at a key. If that was one key too many, the oldest is given back.
    pub fn put(&mut self, key: K, value: V) -> Option<(K, V)> {
        if let Some(at) = self.map.get(&key).copied() {
            self.touch(at);
            self.slots[at as usize].value = value;
            return None;
        }
        self.add(key, value).1
    }

    /// Forgets the oldest keys until no more than so many are left.
    pub fn trim(&mut self, limit: usize) {
        while self.slots.len() > limit {
            let oldest = self.slots[self.oldest as usize].key;
            self.remove(oldest);
        }
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let at = self.map.remove(&key)?;
        self.unlink(at);
        let last = (self.slots.len() - 1) as u32;
        let slot = self.slots.swap_remove(at as usize);
        if last != at {
            self.moved(at);
        }
        Some(slot.value)
    }

    fn add(&mut self, key: K, value: V) -> (u32, Option<(K, V)>) {
        let full = self.slots.len() >= self.limit;
        let slot = Slot {
            key,
            value,
            newer: NONE,
            older: NONE,
        };
        let (at, gone) = if full {
            let at = self.oldest;
            self.unlink(at);
            let gone = std::mem::replace(&mut self.slots[at as usize], slot);
            self.map.remove(&gone.key);
            (at, Some((gone.key, gone.value)))
        } else {
            self.slots.push(slot);
            ((self.slots.len() - 1) as u32, None)
        };
        self.map.insert(key, at);
        self.link(at);
        (at, gone)
    }

    fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    fn link(&mut self, at: u32) {
        let newest = self.newest;
        let slot = &mut self.slots[at as usize];
        (slot.newer, slot.older) = (NONE, newest);
        match newest {
            NONE => self.oldest = at,
            _ => self.slots[newest as usize].newer = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let (newer, older) = (self.slots[at as usize].newer, self.slots[at as usize].older);
        match newer {
            NONE => self.newest = older,
            _ => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
    }

    /// Whoever pointed at a slot that moved points at its new place.
    fn moved(&mut self, at: u32) {
        let slot = &self.slots[at as usize];
        let (newer, older, key) = (slot.newer, slot.older, slot.key);
        self.map.insert(key, at);
        match newer {
            NONE => self.newest = at,
            _ => self.slots[newer as usize].older = at,
        }
        match older {
            NONE => self.oldest = at,
            _ => self.slots[older as usize].newer = at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_short_list_of_the_last_used(
            limit in 1_usize..8,
            steps in prop::collection::vec((0_u8..4, 0_u8..12), 0..200),
        ) {
            let mut recent = Recent::new(limit);
            let mut naive: Vec<(u8, usize)> = Vec::new();
            for (i, (what, key)) in steps.into_iter().enumerate() {
                let found = naive.iter().position(|(k, _)| *k == key);
                match what {
                    0 => {
                        prop_assert_eq!(recent.remove(key), found.map(|at| naive.remove(at).1));
                    }
                    1 => {
                        prop_assert_eq!(recent.get(key).copied(), found.map(|at| naive[at].1));
                        if let Some(at) = found {
                            let entry = naive.remove(at);
                            naive.push(entry);
                        }
                    }
                    _ => {
                        let gone = recent.put(key, i);
                        if let Some(at) = found {
                            naive.remove(at);
                        }
                        naive.push((key, i));
                        let expected = (naive.len() > limit).then(|| naive.remove(0));
                        prop_assert_eq!(gone, expected);
                    }
                }
                prop_assert_eq!(recent.len(), naive.len());
            }
        }
    }
}
