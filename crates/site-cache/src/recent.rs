//! A bounded map that evicts the least recently used keys: for miss counters, contexts, directories.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::hash::Hash;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct RecentSlot<K, V> {
    key: K,
    value: V,
    newer: u32,
    older: u32,
}

/// A bounded map in the order of use.
#[derive(Debug, Clone)]
pub struct Recent<K, V> {
    map: HashMap<K, u32, FixedState>,
    slots: Vec<RecentSlot<K, V>>,
    newest: u32,
    oldest: u32,
    limit: usize,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    /// Creates a map for at most `limit` keys, at least one.
    pub fn new(limit: usize) -> Self {
        Self {
            map: HashMap::with_hasher(FixedState::with_seed(0)),
            slots: Vec::new(),
            newest: NONE,
            oldest: NONE,
            limit: limit.clamp(1, NONE as usize - 1),
        }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Iterates over all keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.slots.iter().map(|s| s.key)
    }

    /// Iterates over all keys and values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.slots.iter().map(|s| (s.key, &s.value))
    }

    /// Returns the value of a key without counting a use.
    pub fn peek(&self, key: K) -> Option<&V> {
        let at = *self.map.get(&key)?;
        Some(&self.slots[at as usize].value)
    }

    /// Returns the value of a key and counts a use.
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        let at = *self.map.get(&key)?;
        self.touch(at);
        Some(&mut self.slots[at as usize].value)
    }

    /// Returns the value of a key, made by `make` if missing, and the evicted entry if the map was full.
    pub fn get_or_put(&mut self, key: K, make: impl FnOnce() -> V) -> (&mut V, Option<(K, V)>) {
        if let Some(at) = self.map.get(&key).copied() {
            self.touch(at);
            return (&mut self.slots[at as usize].value, None);
        }
        let (at, evicted) = self.add(key, make());
        (&mut self.slots[at as usize].value, evicted)
    }

    /// Inserts a value; returns the evicted entry if the map was full.
    pub fn put(&mut self, key: K, value: V) -> Option<(K, V)> {
        if let Some(at) = self.map.get(&key).copied() {
            self.touch(at);
            self.slots[at as usize].value = value;
            return None;
        }
        self.add(key, value).1
    }

    /// Evicts the oldest keys until at most `limit` are left.
    pub fn trim(&mut self, limit: usize) {
        while self.slots.len() > limit {
            let oldest = self.slots[self.oldest as usize].key;
            self.remove(oldest);
        }
    }

    /// Removes a key and returns its value.
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
        let slot = RecentSlot {
            key,
            value,
            newer: NONE,
            older: NONE,
        };
        let (at, evicted) = if full {
            let at = self.oldest;
            self.unlink(at);
            let evicted = std::mem::replace(&mut self.slots[at as usize], slot);
            self.map.remove(&evicted.key);
            (at, Some((evicted.key, evicted.value)))
        } else {
            self.slots.push(slot);
            ((self.slots.len() - 1) as u32, None)
        };
        self.map.insert(key, at);
        self.link(at);
        (at, evicted)
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

    /// Updates the links to a slot that moved to `at`.
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
                        let evicted = recent.put(key, i);
                        if let Some(at) = found {
                            naive.remove(at);
                        }
                        naive.push((key, i));
                        let expected = (naive.len() > limit).then(|| naive.remove(0));
                        prop_assert_eq!(evicted, expected);
                    }
                }
                prop_assert_eq!(recent.len(), naive.len());
            }
        }
    }
}
