//! Cache of recently read or written rows: a look-up that finds its row here does not enter the store.
//!
//! Sharded by key. A shard appends rows to blocks; when no further block is allowed, the oldest one is evicted, except for those
//! of its rows that were used since they were added, which are appended again (a clock in first-in first-out order). So all
//! memory is used except in the last block. A commit removes the rows that it changes and increments the shard's epoch; a
//! reader adds a row only if the epoch has not changed since before the read.
//!
//! Memory that the adjacency cache leaves unused is used, too, up to four times this cache's own size.

use crate::free_memory::FreeMemory;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS_MAX: usize = 64;
/// Minimum size of a shard, in bytes.
const SHARD_BYTES: usize = 1 << 16;
/// Bits of a position within a block.
const BLOCK_BITS: u32 = 16;
/// Larger rows are not cached: many small ones are worth more.
const ROW_BYTES_MAX: usize = 1024;
/// `[length of key][length of value 2, with the used bit]` before a row.
const HEAD: usize = 3;
/// Bit in the length of a value: the row was used since it was added.
const USED: u16 = 1 << 15;
/// Approximate bytes per row in the hash table of positions: a number and a byte, at a load of half to seven eighths.
const POSITION_BYTES: usize = 8;
/// Maximum ratio of borrowed memory to the cache's own.
const BORROWED_TIMES: u64 = 4;

/// Rows of a shard.
#[derive(Default)]
struct Shard {
    epoch: u64,
    /// By key: the number of the block and the position of the row in it.
    positions: HashTable<u32>,
    blocks: Vec<Vec<u8>>,
    /// Numbers of blocks, the oldest first; rows are appended to the last one.
    order: VecDeque<u16>,
}

fn position(block: u16, at: usize) -> u32 {
    u32::from(block) << BLOCK_BITS | at as u32
}

/// Length of a key, length of its value, and whether the row was used.
fn head(row: &[u8]) -> Option<(usize, usize, bool)> {
    let [key, high, low] = *row.first_chunk::<HEAD>()?;
    let value = u16::from_be_bytes([high, low]);
    Some((key.into(), (value & !USED).into(), value & USED != 0))
}

/// Key and value of the row at a position.
fn row(blocks: &[Vec<u8>], position: u32) -> Option<(&[u8], &[u8])> {
    let block = blocks.get((position >> BLOCK_BITS) as usize)?;
    let row = block.get((position & ((1 << BLOCK_BITS) - 1)) as usize..)?;
    let (key, value, _) = head(row)?;
    row.get(HEAD..HEAD + key + value)?.split_at_checked(key)
}

impl Shard {
    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let same = |at: &u32| row(&self.blocks, *at).is_some_and(|(k, _)| k == key);
        self.positions.find(hash, same).copied()
    }

    /// Marks a row as used, so that it survives the eviction of its block.
    fn note_used(&mut self, position: u32) {
        let block = self.blocks.get_mut((position >> BLOCK_BITS) as usize);
        let at = (position & ((1 << BLOCK_BITS) - 1)) as usize;
        if let Some(byte) = block.and_then(|b| b.get_mut(at + 1)) {
            *byte |= (USED >> 8) as u8;
        }
    }

    fn forget(&mut self, hash: u64, key: &[u8]) {
        let Self {
            positions, blocks, ..
        } = self;
        let same = |at: &u32| row(blocks, *at).is_some_and(|(k, _)| k == key);
        if let Ok(found) = positions.find_entry(hash, same) {
            found.remove();
        }
    }

    /// Appends a row to the last block; returns false if it does not fit.
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
        self.positions
            .insert_unique(hash, position(number, at), |at| {
                row(blocks, *at).map_or(0, |(key, _)| cache.hasher.hash_one(key))
            });
        true
    }

    /// Empties the oldest block. Those of its rows that were used are appended to `survivors`.
    fn drop_oldest(&mut self, cache: &Cache, survivors: &mut Vec<u8>) -> Option<u16> {
        let number = self.order.pop_front()?;
        let block = std::mem::take(self.blocks.get_mut(usize::from(number))?);
        let mut at = 0;
        while let Some(next) = block.get(at..)
            && let Some((key_len, value_len, used)) = head(next)
        {
            let size = HEAD + key_len + value_len;
            let key = next.get(HEAD..HEAD + key_len).unwrap_or_default();
            let here = position(number, at);
            let hash = cache.hasher.hash_one(key);
            // A row that was removed or moved elsewhere is skipped.
            if let Ok(found) = self.positions.find_entry(hash, |p| *p == here) {
                found.remove();
                // At most half a block, since a block whose rows were all used would free nothing.
                if used && survivors.len() + size <= cache.block_bytes / 2 {
                    survivors.extend_from_slice(next.get(..size).unwrap_or_default());
                }
            }
            at += size;
        }
        if let Some(position) = self.blocks.get_mut(usize::from(number)) {
            *position = block;
            position.clear();
        }
        Some(number)
    }

    /// Releases blocks beyond the present limit.
    fn fit(&mut self, cache: &Cache) {
        let blocks_max = cache.blocks_max();
        while self.order.len() > blocks_max {
            let mut survivors = Vec::new();
            let Some(number) = self.drop_oldest(cache, &mut survivors) else {
                return;
            };
            if let Some(block) = self.blocks.get_mut(usize::from(number)) {
                *block = Vec::new();
                cache.blocks.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Starts another block, evicting the oldest if the limit is reached.
    fn reserve_block(&mut self, cache: &Cache) {
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
        let mut survivors = Vec::new();
        let Some(number) = self.drop_oldest(cache, &mut survivors) else {
            return;
        };
        self.order.push_back(number);
        let mut rest = survivors.as_slice();
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

/// A bounded cache of rows by key.
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    hasher: FixedState,
    block_bytes: usize,
    bytes_own: u64,
    free_memory: Arc<FreeMemory>,
    /// Number of blocks of all shards.
    blocks: AtomicUsize,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// Result of a cache miss: the epoch at the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheMiss {
    hash: u64,
    epoch: u64,
}

impl Cache {
    pub(super) fn new(bytes_own: u64, free_memory: Arc<FreeMemory>) -> Self {
        let bytes = usize::try_from(bytes_own).unwrap_or(usize::MAX);
        let shards = (bytes / SHARD_BYTES).clamp(1, SHARDS_MAX);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            hasher: FixedState::default(),
            block_bytes: (bytes / shards / 8).min(1 << BLOCK_BITS),
            bytes_own,
            free_memory,
            blocks: AtomicUsize::new(0),
        }
    }

    /// Maximum number of blocks of a shard.
    fn blocks_max(&self) -> usize {
        let borrowed = self
            .free_memory
            .bytes()
            .min(self.bytes_own * BORROWED_TIMES);
        let bytes = usize::try_from(self.bytes_own + borrowed).unwrap_or(usize::MAX);
        // Number of positions per block, for rows of a hundred bytes.
        let block = self.block_bytes + self.block_bytes / 100 * POSITION_BYTES;
        let most = usize::from(u16::MAX);
        (bytes / self.shards.len())
            .checked_div(block)
            .map_or(0, |n| n.min(most))
    }

    /// Releases borrowed memory that is no longer available.
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
        // The hash table uses the lowest bits and the highest seven.
        let shard = self.shards.get((hash >> 48) as usize % self.shards.len())?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Passes a cached row to `look`; on a miss returns the token for adding the row after it was read. `look` must not call the cache.
    pub(super) fn look<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, CacheMiss> {
        let hash = self.hasher.hash_one(key);
        let missed = |epoch| CacheMiss { hash, epoch };
        let mut shard = self.shard(hash).ok_or(missed(0))?;
        let Some(position) = shard.find(hash, key) else {
            return Err(missed(shard.epoch));
        };
        shard.note_used(position);
        let (_, value) = row(&shard.blocks, position).ok_or(missed(shard.epoch))?;
        Ok(look(value))
    }

    /// Adds a row that was read after the miss.
    pub(super) fn keep(&self, missed: CacheMiss, key: &[u8], value: &[u8]) {
        let Some(mut shard) = self.shard(missed.hash).filter(|_| self.takes(key, value)) else {
            return;
        };
        // Two threads may have read the row concurrently.
        if shard.epoch != missed.epoch || shard.find(missed.hash, key).is_some() {
            return;
        }
        shard.keep(self, missed.hash, key, value);
    }

    /// Adds the present row of a key, which must not change during the call.
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

    /// Invalidates a changed row.
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
            self.reserve_block(cache);
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

    fn read(cache: &Cache, n: u32) -> Result<Vec<u8>, CacheMiss> {
        cache.look(&key(n), <[u8]>::to_vec)
    }

    fn bytes(cache: &Cache) -> usize {
        let of = |s: &Mutex<Shard>| {
            let shard = s.lock().unwrap();
            let blocks: usize = shard.blocks.iter().map(Vec::capacity).sum();
            blocks + shard.positions.len() * POSITION_BYTES
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
        let free_memory = Arc::new(FreeMemory::of(1 << 30));
        let cache = Cache::new(1 << 20, Arc::clone(&free_memory));
        let fill = |cache: &Cache| (0..100_000).for_each(|n| cache.fill(&key(n), &[7; 90]));
        fill(&cache);
        let most = 5 << 20;
        assert!(
            (most / 10 * 9..=most).contains(&bytes(&cache)),
            "{}",
            bytes(&cache)
        );
        free_memory.set(0);
        cache.fit();
        assert!(bytes(&cache) <= 1 << 20, "{}", bytes(&cache));
        let known = (0..100_000).filter(|n| read(&cache, *n).is_ok()).count();
        assert!(known > 5_000, "{known}");
        free_memory.set(1 << 20);
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
