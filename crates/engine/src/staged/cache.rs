//! Rows that were read or written lately: a look-up that finds its row here does not enter the store.
//!
//! Sharded by key. A shard keeps rows in blocks, one behind the other as they come; when there is no room for another block, the
//! oldest one goes, but for those of its rows that were used since they were put there, which come again (a clock, in the
//! order of first-in first-out). So all the memory is used but for the last block. A commit takes out what it changes
//! and counts the shard's epoch on; who has read a row keeps it only if the epoch is still that of before the reading.
//!
//! Memory that the adjacency cache does not need is used, too, up to four times as much as there is here alone.

use crate::spare::Spare;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS_MAX: usize = 64;
/// A shard is worth having from so many bytes on.
const SHARD_BYTES: usize = 1 << 16;
/// Places in a block are told by so many bits.
const BLOCK_BITS: u32 = 16;
/// Larger rows are not kept: many small ones are worth more.
const ROW_BYTES_MAX: usize = 1024;
/// `[length of key][length of value 2, and whether it was used]` before a row.
const HEAD: usize = 3;
/// In the length of a value: the row was used since it was put here.
const USED: u16 = 1 << 15;
/// What the table of places takes for each row, about: a number and a byte, of which it fills half to seven eighths.
const PLACE_BYTES: usize = 8;
/// How much more than its own memory the cache borrows.
const BORROWED_TIMES: u64 = 4;

/// Rows of a shard.
#[derive(Default)]
struct Shard {
    epoch: u64,
    /// By key: the number of a block, and where in it the row begins.
    places: HashTable<u32>,
    blocks: Vec<Vec<u8>>,
    /// Numbers of blocks, the oldest first; rows are added to the last one.
    order: VecDeque<u16>,
}

fn place(block: u16, at: usize) -> u32 {
    u32::from(block) << BLOCK_BITS | at as u32
}

/// Length of a key, of its value, and whether the row was used.
fn head(row: &[u8]) -> Option<(usize, usize, bool)> {
    let [key, high, low] = *row.first_chunk::<HEAD>()?;
    let value = u16::from_be_bytes([high, low]);
    Some((key.into(), (value & !USED).into(), value & USED != 0))
}

/// Key and value of the row at a place.
fn row(blocks: &[Vec<u8>], place: u32) -> Option<(&[u8], &[u8])> {
    let block = blocks.get((place >> BLOCK_BITS) as usize)?;
    let row = block.get((place & ((1 << BLOCK_BITS) - 1)) as usize..)?;
    let (key, value, _) = head(row)?;
    row.get(HEAD..HEAD + key + value)?.split_at_checked(key)
}

impl Shard {
    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let same = |at: &u32| row(&self.blocks, *at).is_some_and(|(k, _)| k == key);
        self.places.find(hash, same).copied()
    }

    /// A row was used: it stays when its block goes.
    fn note_used(&mut self, place: u32) {
        let block = self.blocks.get_mut((place >> BLOCK_BITS) as usize);
        let at = (place & ((1 << BLOCK_BITS) - 1)) as usize;
        if let Some(byte) = block.and_then(|b| b.get_mut(at + 1)) {
            *byte |= (USED >> 8) as u8;
        }
    }

    fn forget(&mut self, hash: u64, key: &[u8]) {
        let Self { places, blocks, .. } = self;
        let same = |at: &u32| row(blocks, *at).is_some_and(|(k, _)| k == key);
        if let Ok(found) = places.find_entry(hash, same) {
            found.remove();
        }
    }

    /// Adds a row to the last block; whether there was room.
    fn add(&mut self, cache: &Cache, hash: u64, key: &[u8], value: &[u8]) -> bool {
        let Some(number) = self.order.back().copied() else {
            return false;
        };
        let Some(block) = self.blocks.get_mut(usize::from(number)) else {
            return false;
        };
        let at = block.len();
        if at + HEAD + key.len() + value.len() > cache.block_bytes {
            return false;
        }
        block.push(key.len() as u8);
        block.extend_from_slice(&(value.len() as u16).to_be_bytes());
        block.extend_from_slice(key);
        block.extend_from_slice(value);
        let blocks = &self.blocks;
        self.places.insert_unique(hash, place(number, at), |at| {
            row(blocks, *at).map_or(0, |(key, _)| cache.hasher.hash_one(key))
        });
        true
    }

    /// Makes the oldest block empty. Those of its rows that were used are written behind one another to `again`.
    fn drop_oldest(&mut self, cache: &Cache, again: &mut Vec<u8>) -> Option<u16> {
        let number = self.order.pop_front()?;
        let block = std::mem::take(self.blocks.get_mut(usize::from(number))?);
        let mut at = 0;
        while let Some(next) = block.get(at..)
            && let Some((key_len, value_len, used)) = head(next)
        {
            let size = HEAD + key_len + value_len;
            let key = next.get(HEAD..HEAD + key_len).unwrap_or_default();
            let here = place(number, at);
            let hash = cache.hasher.hash_one(key);
            // A row that was taken out, or is somewhere else by now, is nothing.
            if let Ok(found) = self.places.find_entry(hash, |p| *p == here) {
                found.remove();
                // At most half a block: else a block whose rows were all used would make no room.
                if used && again.len() + size <= cache.block_bytes / 2 {
                    again.extend_from_slice(next.get(..size).unwrap_or_default());
                }
            }
            at += size;
        }
        if let Some(place) = self.blocks.get_mut(usize::from(number)) {
            *place = block;
            place.clear();
        }
        Some(number)
    }

    /// Gives back what is more than may be, block by block.
    fn fit(&mut self, cache: &Cache) {
        let blocks_max = cache.blocks_max();
        while self.order.len() > blocks_max {
            let mut again = Vec::new();
            let Some(number) = self.drop_oldest(cache, &mut again) else {
                return;
            };
            if let Some(block) = self.blocks.get_mut(usize::from(number)) {
                *block = Vec::new();
                cache.blocks.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Begins another block, if there may be one.
    fn make_room(&mut self, cache: &Cache) {
        self.fit(cache);
        let blocks_max = cache.blocks_max();
        if blocks_max == 0 {
            return;
        }
        if self.order.len() < blocks_max {
            let free = self.blocks.iter().position(|b| b.capacity() == 0);
            let number = free.unwrap_or(self.blocks.len());
            let room = Vec::with_capacity(cache.block_bytes);
            match self.blocks.get_mut(number) {
                Some(block) => *block = room,
                None => self.blocks.push(room),
            }
            cache.blocks.fetch_add(1, Ordering::Relaxed);
            self.order.push_back(number as u16);
            return;
        }
        let mut again = Vec::new();
        let Some(number) = self.drop_oldest(cache, &mut again) else {
            return;
        };
        self.order.push_back(number);
        let mut rest = again.as_slice();
        while let Some((key_len, value_len, _)) = head(rest) {
            let (now, behind) = rest
                .split_at_checked(HEAD + key_len + value_len)
                .unwrap_or((rest, &[]));
            let row = now.get(HEAD..).and_then(|r| r.split_at_checked(key_len));
            if let Some((key, value)) = row {
                self.add(cache, cache.hasher.hash_one(key), key, value);
            }
            rest = behind;
        }
    }
}

/// Rows by key, within a bound.
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    hasher: FixedState,
    block_bytes: usize,
    bytes_own: u64,
    spare: Arc<Spare>,
    /// Blocks of all shards.
    blocks: AtomicUsize,
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
    pub(super) fn new(bytes_own: u64, spare: Arc<Spare>) -> Self {
        let bytes = usize::try_from(bytes_own).unwrap_or(usize::MAX);
        let shards = (bytes / SHARD_BYTES).clamp(1, SHARDS_MAX);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            hasher: FixedState::default(),
            block_bytes: (bytes / shards / 8).min(1 << BLOCK_BITS),
            bytes_own,
            spare,
            blocks: AtomicUsize::new(0),
        }
    }

    /// Blocks that a shard may have.
    fn blocks_max(&self) -> usize {
        let borrowed = self.spare.bytes().min(self.bytes_own * BORROWED_TIMES);
        let bytes = usize::try_from(self.bytes_own + borrowed).unwrap_or(usize::MAX);
        // Of rows of a hundred bytes, a block has so many places.
        let block = self.block_bytes + self.block_bytes / 100 * PLACE_BYTES;
        let most = usize::from(u16::MAX);
        (bytes / self.shards.len())
            .checked_div(block)
            .map_or(0, |n| n.min(most))
    }

    /// Gives back what was borrowed and is no longer to spare.
    pub(super) fn fit(&self) {
        if self.blocks.load(Ordering::Relaxed) <= self.blocks_max() * self.shards.len() {
            return;
        }
        for shard in &self.shards {
            shard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .fit(self);
        }
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        // The table uses the lowest bits and the highest seven.
        let shard = self.shards.get((hash >> 48) as usize % self.shards.len())?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows a row to `look` if it is here; else what is needed to keep it once it was read. `look` must not come back here.
    pub(super) fn look<T>(&self, key: &[u8], look: impl FnOnce(&[u8]) -> T) -> Result<T, Missed> {
        let hash = self.hasher.hash_one(key);
        let missed = |epoch| Missed { hash, epoch };
        let mut shard = self.shard(hash).ok_or(missed(0))?;
        let Some(place) = shard.find(hash, key) else {
            return Err(missed(shard.epoch));
        };
        shard.note_used(place);
        let (_, value) = row(&shard.blocks, place).ok_or(missed(shard.epoch))?;
        Ok(look(value))
    }

    /// Keeps a row that was read since it was missed.
    pub(super) fn keep(&self, missed: Missed, key: &[u8], value: &[u8]) {
        let Some(mut shard) = self.shard(missed.hash).filter(|_| self.takes(key, value)) else {
            return;
        };
        // Two may have read it at the same time.
        if shard.epoch != missed.epoch || shard.find(missed.hash, key).is_some() {
            return;
        }
        shard.keep(self, missed.hash, key, value);
    }

    /// Keeps a row that is the present one, and stays it until this is done.
    pub(super) fn fill(&self, key: &[u8], value: &[u8]) {
        let hash = self.hasher.hash_one(key);
        let Some(mut shard) = self.shard(hash).filter(|_| self.takes(key, value)) else {
            return;
        };
        if shard.find(hash, key).is_none() {
            shard.keep(self, hash, key, value);
        }
    }

    fn takes(&self, key: &[u8], value: &[u8]) -> bool {
        let size = HEAD + key.len() + value.len();
        value.len() <= ROW_BYTES_MAX && key.len() <= 255 && size * 2 <= self.block_bytes
    }

    /// A row is another one now.
    pub(super) fn forget(&self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        if let Some(mut shard) = self.shard(hash) {
            shard.epoch += 1;
            shard.forget(hash, key);
        }
    }
}

impl Shard {
    fn keep(&mut self, cache: &Cache, hash: u64, key: &[u8], value: &[u8]) {
        if !self.add(cache, hash, key, value) {
            self.make_room(cache);
            self.add(cache, hash, key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> [u8; 4] {
        n.to_be_bytes()
    }

    fn cache(bytes: u64) -> Cache {
        Cache::new(bytes, Arc::default())
    }

    fn read(cache: &Cache, n: u32) -> Result<Vec<u8>, Missed> {
        cache.look(&key(n), <[u8]>::to_vec)
    }

    fn bytes(cache: &Cache) -> usize {
        let of = |s: &Mutex<Shard>| {
            let shard = s.lock().unwrap();
            let blocks: usize = shard.blocks.iter().map(Vec::capacity).sum();
            blocks + shard.places.len() * PLACE_BYTES
        };
        cache.shards.iter().map(of).sum()
    }

    #[test]
    fn what_changed_meanwhile_is_not_kept() {
        let cache = cache(1 << 20);
        let missed = read(&cache, 1).unwrap_err();
        cache.keep(missed, &key(1), b"one");
        assert_eq!(read(&cache, 1).unwrap(), b"one");
        cache.forget(&key(1));
        let missed = read(&cache, 1).unwrap_err();
        cache.forget(&key(1));
        cache.keep(missed, &key(1), b"old");
        assert!(read(&cache, 1).is_err(), "it was read before the change");
        cache.fill(&key(1), b"new");
        cache.fill(&key(1), b"newer");
        assert_eq!(read(&cache, 1).unwrap(), b"new", "what is there is right");
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let cache = cache(1 << 16);
        let value = |n: u32| [key(n); 24].concat();
        for n in 0..100_000 {
            if let Err(missed) = read(&cache, n) {
                cache.keep(missed, &key(n), &value(n));
            }
            assert!(n < 10 || read(&cache, 3).unwrap() == value(3), "{n}");
        }
        assert!(bytes(&cache) <= 1 << 16, "{}", bytes(&cache));
        let known = (90_000..100_000)
            .filter(|n| read(&cache, *n).is_ok_and(|row| row == value(*n)))
            .count();
        assert!(known > 400, "of {known} rows it is known what they are");
        let missed = read(&cache, 200_000).unwrap_err();
        cache.keep(missed, &key(200_000), &[0; 2_000]);
        assert!(read(&cache, 200_000).is_err(), "too large");
    }

    #[test]
    fn what_is_borrowed_is_given_back() {
        let spare = Arc::new(Spare::of(1 << 30));
        let cache = Cache::new(1 << 20, Arc::clone(&spare));
        let fill = |cache: &Cache| (0..100_000).for_each(|n| cache.fill(&key(n), &[7; 90]));
        fill(&cache);
        let most = 5 << 20;
        assert!(
            (most / 10 * 9..=most).contains(&bytes(&cache)),
            "{}",
            bytes(&cache)
        );
        spare.set(0);
        cache.fit();
        assert!(bytes(&cache) <= 1 << 20, "{}", bytes(&cache));
        let known = (0..100_000).filter(|n| read(&cache, *n).is_ok()).count();
        assert!(known > 5_000, "{known}");
        spare.set(1 << 20);
        fill(&cache);
        assert!(bytes(&cache) > 3 << 19, "{}", bytes(&cache));
    }

    #[test]
    fn none_is_none() {
        let cache = cache(0);
        cache.fill(&key(1), b"1");
        assert!(read(&cache, 1).is_err());
        assert_eq!(bytes(&cache), 0);
    }
}
