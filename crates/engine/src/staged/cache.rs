//! Rows that were read lately: a look-up that finds its row here does not enter the store.
//!
//! Sharded by key. A shard has two generations: rows are added to the young one; when that is full, it becomes the old one,
//! which is dropped whole, and rows that were used meanwhile have moved on. A commit takes out what it changes and counts the shard's
//! epoch on; who has read a row keeps it only if the epoch is still that of before the reading.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;
/// Larger rows are not kept: many small ones are worth more.
const ROW_BYTES_MAX: usize = 1024;
/// What a row takes beside its key and value: its lengths, and its number with room in the table.
const OVERHEAD: usize = 3 + 8;

#[derive(Default)]
struct Generation {
    places: HashTable<u32>,
    /// `[length of key][length of value 2][key][value]` one behind the other.
    rows: Vec<u8>,
}

impl Generation {
    /// Key and value of the row at a place.
    fn row(rows: &[u8], at: u32) -> Option<(&[u8], &[u8])> {
        let row = rows.get(at as usize..)?;
        let (head, rest) = row.split_first_chunk::<3>()?;
        let [key, high, low] = *head;
        let (key, rest) = rest.split_at_checked(key.into())?;
        let value = rest.get(..u16::from_be_bytes([high, low]).into())?;
        Some((key, value))
    }

    fn get(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let same = |at: &u32| Self::row(&self.rows, *at).is_some_and(|(k, _)| k == key);
        let at = self.places.find(hash, same)?;
        Self::row(&self.rows, *at).map(|(_, value)| value)
    }

    fn forget(&mut self, hash: u64, key: &[u8]) {
        let rows = &self.rows;
        let same = |at: &u32| Self::row(rows, *at).is_some_and(|(k, _)| k == key);
        if let Ok(found) = self.places.find_entry(hash, same) {
            found.remove();
        }
    }

    fn add(&mut self, hasher: &FixedState, hash: u64, key: &[u8], value: &[u8]) {
        let at = self.rows.len() as u32;
        self.rows.push(key.len() as u8);
        let length = (value.len() as u16).to_be_bytes();
        self.rows.extend_from_slice(&length);
        self.rows.extend_from_slice(key);
        self.rows.extend_from_slice(value);
        let rows = &self.rows;
        self.places.insert_unique(hash, at, |at| {
            Self::row(rows, *at).map_or(0, |(key, _)| hasher.hash_one(key))
        });
    }

    fn bytes(&self) -> usize {
        self.rows.len() + self.places.len() * (OVERHEAD - 3)
    }

    fn clear(&mut self) {
        self.places.clear();
        self.rows.clear();
    }
}

#[derive(Default)]
struct Shard {
    epoch: u64,
    young: Generation,
    old: Generation,
}

/// Rows by key, within a bound.
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    hasher: FixedState,
    /// Of one generation of one shard.
    bytes_max: usize,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// What is known of a key that is not here: when that was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missed {
    hash: u64,
    epoch: u64,
}

impl Cache {
    pub(super) fn new(bytes_max: u64) -> Self {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: FixedState::default(),
            // Places are four bytes.
            bytes_max: (bytes_max / SHARDS / 2).min(1 << 30),
        }
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        // The table uses the lowest bits and the highest seven.
        let shard = self.shards.get((hash >> 48) as usize % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies a row to `out` if it is here; else what is needed to keep it once it was read.
    pub(super) fn get(&self, key: &[u8], out: &mut Vec<u8>) -> Result<(), Missed> {
        let hash = self.hasher.hash_one(key);
        let missed = |epoch| Missed { hash, epoch };
        let mut shard = self.shard(hash).ok_or(missed(0))?;
        let shard = &mut *shard;
        if let Some(value) = shard.young.get(hash, key) {
            out.extend_from_slice(value);
            return Ok(());
        }
        let Some(value) = shard.old.get(hash, key) else {
            return Err(missed(shard.epoch));
        };
        out.extend_from_slice(value);
        shard.make_room(self.bytes_max, key.len() + value.len());
        shard.young.add(&self.hasher, hash, key, out);
        Ok(())
    }

    /// Keeps a row that was read since it was missed.
    pub(super) fn keep(&self, missed: Missed, key: &[u8], value: &[u8]) {
        let size = key.len() + value.len() + OVERHEAD;
        if value.len() > ROW_BYTES_MAX || key.len() > 255 || size > self.bytes_max {
            return;
        }
        let Some(mut shard) = self.shard(missed.hash) else {
            return;
        };
        // Two may have read it at the same time.
        if shard.epoch != missed.epoch || shard.young.get(missed.hash, key).is_some() {
            return;
        }
        shard.make_room(self.bytes_max, size);
        shard.young.add(&self.hasher, missed.hash, key, value);
    }

    /// A row is another one now.
    pub(super) fn forget(&self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        if let Some(mut shard) = self.shard(hash) {
            shard.epoch += 1;
            shard.young.forget(hash, key);
            shard.old.forget(hash, key);
        }
    }
}

impl Shard {
    fn make_room(&mut self, bytes_max: usize, size: usize) {
        if self.young.bytes() + size + OVERHEAD > bytes_max {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> [u8; 4] {
        n.to_be_bytes()
    }

    fn read(cache: &Cache, n: u32) -> Result<Vec<u8>, Missed> {
        let mut out = Vec::new();
        cache.get(&key(n), &mut out).map(|()| out)
    }

    #[test]
    fn what_changed_meanwhile_is_not_kept() {
        let cache = Cache::new(1 << 20);
        let missed = read(&cache, 1).unwrap_err();
        cache.keep(missed, &key(1), b"one");
        assert_eq!(read(&cache, 1).unwrap(), b"one");
        cache.forget(&key(1));
        let missed = read(&cache, 1).unwrap_err();
        cache.forget(&key(1));
        cache.keep(missed, &key(1), b"old");
        assert!(read(&cache, 1).is_err(), "it was read before the change");
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let cache = Cache::new(1 << 16);
        for n in 0..100_000 {
            if let Err(missed) = read(&cache, n) {
                cache.keep(missed, &key(n), &key(n));
            }
            assert!(n < 10 || read(&cache, 3).is_ok(), "{n}");
        }
        let bytes = |s: &Mutex<Shard>| {
            let shard = s.lock().unwrap();
            shard.young.bytes() + shard.old.bytes()
        };
        let all: usize = cache.shards.iter().map(bytes).sum();
        assert!(all <= 1 << 16, "{all}");
        assert!(read(&cache, 99_999).is_ok());
        let missed = read(&cache, 200_000).unwrap_err();
        cache.keep(missed, &key(200_000), &[0; 2_000]);
        assert!(read(&cache, 200_000).is_err(), "too large");
    }
}
