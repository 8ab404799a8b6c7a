//! A filter over the keys in a table's memtables, which tells most absent keys from present ones.
//!
//! fjall looks up a key in the memtables first. They are skip lists, so a look-up of an absent key follows some twenty pointers into cold
//! memory; a look-up in this filter reads one cache line for each memtable. A new edge looks for a version to supersede, so most keys that
//! a writer looks up are absent. `RocksDB` has the same filter as `memtable_whole_key_filtering`.
//!
//! A [`MemtableFilter`] has a few Bloom filters of equal size. One of them, the active one, gets the keys of the active memtable. When the
//! memtable is sealed, another one becomes active; a filter is reused when all memtables with its keys have been flushed. A key that is in
//! none of the filters is in no memtable. The reverse does not hold: fjall also seals memtables on its own, and filters may keep keys that
//! have been flushed.
//!
//! All operations may run at the same time as look-ups, but only one thread at a time may add keys or seal.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Number of filters: for the active memtable, and for sealed ones that are being flushed. With more sealed memtables, the active filter
/// gets the keys of several memtables.
const FILTERS: usize = 4;
/// Number of 64-bit words of a block, which is one cache line. All bits of a key are in one block.
const BLOCK_WORDS: usize = 8;
/// Number of bits that a key sets in its block.
const KEY_BITS: u32 = 6;
/// Number of bits of a filter for each key that it is made for. Some 2 % of absent keys are then mistaken for present ones.
const BITS_PER_KEY: u64 = 10;
/// Approximate size that a memtable counts for a row, in bytes.
const ROW_BYTES: u64 = 160;

#[derive(Debug)]
struct BloomFilter {
    words: Vec<AtomicU64>,
    /// Number of keys that were added.
    keys: AtomicU64,
    /// Whether the filter contains every key: its memtable had unknown keys, or there are too many keys.
    has_all: AtomicBool,
}

impl BloomFilter {
    fn new(blocks: usize) -> Self {
        Self {
            words: (0..blocks * BLOCK_WORDS)
                .map(|_| AtomicU64::new(0))
                .collect(),
            keys: AtomicU64::new(0),
            has_all: AtomicBool::new(false),
        }
    }

    /// The block of a key, by the upper half of its hash.
    fn block(&self, hash: u64) -> &[AtomicU64] {
        let blocks = (self.words.len() / BLOCK_WORDS) as u64;
        let block = (((hash >> 32) * blocks) >> 32) as usize;
        self.words
            .get(block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS)
            .unwrap_or_default()
    }

    /// The bits of a key in its block, by the lower half of its hash: pairs of a word's index and a mask.
    fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
        let (low, step) = (hash as u32, (hash >> 17) as u32 | 1);
        (0..KEY_BITS).map(move |i| {
            // The upper bits of a product are the best mixed ones.
            let bit = low
                .wrapping_add(step.wrapping_mul(i))
                .wrapping_mul(0x9e37_79b1)
                >> 23;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    fn add(&self, hash: u64) {
        let block = self.block(hash);
        for (word, mask) in Self::bits(hash) {
            if let Some(word) = block.get(word) {
                // Only one thread adds keys, so nothing is lost between the load and the store.
                let before = word.load(Ordering::Relaxed);
                word.store(before | mask, Ordering::Release);
            }
        }
    }

    fn may_contain(&self, hash: u64) -> bool {
        let block = self.block(hash);
        self.has_all.load(Ordering::Acquire)
            || Self::bits(hash).all(|(word, mask)| {
                block
                    .get(word)
                    .is_some_and(|word| word.load(Ordering::Acquire) & mask != 0)
            })
    }

    fn clear(&self) {
        for word in &self.words {
            word.store(0, Ordering::Release);
        }
        self.keys.store(0, Ordering::Relaxed);
        self.has_all.store(false, Ordering::Release);
    }
}

/// The filter over the memtables of one table.
#[derive(Debug)]
pub(crate) struct MemtableFilter {
    filters: [BloomFilter; FILTERS],
    /// Bit set of the filters that have keys of memtables.
    used: AtomicU32,
    /// Number of keys for which a filter is made.
    capacity: u64,
}

/// The part of a [`MemtableFilter`] that belongs to the thread that writes.
#[derive(Debug, Default)]
pub(crate) struct FilterWriter {
    active: usize,
    /// Filters of sealed memtables, the oldest first.
    sealed: VecDeque<usize>,
}

impl MemtableFilter {
    /// Creates the filter of a table whose memtables have up to `memtable_bytes` each. `is_empty` says whether the memtables have no
    /// keys, sealed ones included; their keys are unknown otherwise.
    pub(crate) fn new(memtable_bytes: u64, is_empty: bool) -> Self {
        let capacity = memtable_bytes / ROW_BYTES;
        let bits = capacity * BITS_PER_KEY;
        let blocks = usize::try_from(bits / (64 * BLOCK_WORDS as u64)).unwrap_or(0) + 1;
        let filter = Self {
            filters: std::array::from_fn(|_| BloomFilter::new(blocks)),
            used: AtomicU32::new(1),
            capacity,
        };
        filter.filters[0]
            .has_all
            .store(!is_empty, Ordering::Release);
        filter
    }

    /// Adds a key by its hash. Must be called before the key is in the memtable.
    pub(crate) fn add(&self, writer: &FilterWriter, hash: u64) {
        let Some(active) = self.filters.get(writer.active) else {
            return;
        };
        if active.keys.fetch_add(1, Ordering::Relaxed) >= 2 * self.capacity {
            // Rows are short here. A filter with this number of keys would exclude few others.
            active.has_all.store(true, Ordering::Release);
        } else {
            active.add(hash);
        }
    }

    /// Whether a memtable may have the key with this hash. If not, a look-up in the tables that starts after this call finds the key's
    /// value, or the key is absent.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let used = self.used.load(Ordering::Acquire);
        (self.filters.iter().enumerate())
            .any(|(i, filter)| used & (1 << i) != 0 && filter.may_contain(hash))
    }

    /// Makes another filter the active one after the active memtable was sealed. `unflushed` is the number of sealed memtables that have
    /// not been flushed yet, at least.
    pub(crate) fn seal(&self, writer: &mut FilterWriter, unflushed: usize) {
        writer.sealed.push_back(writer.active);
        // Each of these filters has the keys of one memtable or several, and memtables are flushed in the order in which they were sealed.
        let flushed = writer.sealed.len().saturating_sub(unflushed);
        writer.sealed.drain(..flushed);
        let kept = writer.sealed.iter().fold(0, |kept, i| kept | 1 << i);
        let Some(free) = (0..FILTERS).find(|i| kept & (1 << i) == 0) else {
            // The active filter stays the active one, and gets the keys of the next memtable, too.
            writer.sealed.pop_back();
            return;
        };
        // A look-up that began before may still use the filter that is cleared. It finds no keys there, but they were flushed before.
        self.used.store(kept, Ordering::Release);
        if let Some(filter) = self.filters.get(free) {
            filter.clear();
        }
        self.used.store(kept | 1 << free, Ordering::Release);
        writer.active = free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Mixes a number to a hash.
    fn hash(key: u64) -> u64 {
        let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
    }

    #[derive(Debug, Clone)]
    enum Step {
        Add(u64),
        /// Seals the memtable, after some of the sealed ones were flushed.
        Seal(usize),
        /// The store seals on its own: the filter is not told.
        SealUnseen,
        /// Flushes the oldest sealed memtable.
        Flush,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => any::<u64>().prop_map(Step::Add),
            2 => (0_usize..6).prop_map(Step::Seal),
            1 => Just(Step::SealUnseen),
            2 => Just(Step::Flush),
        ]
    }

    proptest! {
        /// Keys that are not flushed are always found, also with more sealed memtables than filters and with more keys than planned.
        #[test]
        fn keys_in_memtables_are_found(steps in prop::collection::vec(step(), 0..300), memtable in 0_u64..40_000) {
            let filter = MemtableFilter::new(memtable, true);
            let mut writer = FilterWriter::default();
            let (mut active, mut sealed) = (Vec::new(), VecDeque::<Vec<u64>>::new());
            for step in steps {
                match step {
                    Step::Add(key) => {
                        filter.add(&writer, hash(key));
                        active.push(key);
                    }
                    Step::Seal(flushed) => {
                        sealed.push_back(std::mem::take(&mut active));
                        sealed.drain(..flushed.min(sealed.len()));
                        filter.seal(&mut writer, sealed.len());
                    }
                    Step::SealUnseen => sealed.push_back(std::mem::take(&mut active)),
                    Step::Flush => drop(sealed.pop_front()),
                }
                for key in sealed.iter().flatten().chain(&active) {
                    prop_assert!(filter.may_contain(hash(*key)), "{key}");
                }
            }
        }
    }

    #[test]
    fn most_absent_keys_are_excluded() {
        let memtable = 16 << 20;
        let filter = MemtableFilter::new(memtable, true);
        let writer = FilterWriter::default();
        let keys = memtable / ROW_BYTES;
        (0..keys).for_each(|key| filter.add(&writer, hash(key)));
        let wrong = (keys..2 * keys)
            .filter(|key| filter.may_contain(hash(*key)))
            .count() as u64;
        assert!(wrong < keys / 25, "{wrong} of {keys}");
    }

    #[test]
    fn unknown_keys_count_until_they_are_flushed() {
        let filter = MemtableFilter::new(1 << 20, false);
        let mut writer = FilterWriter::default();
        assert!(filter.may_contain(hash(1)));
        filter.seal(&mut writer, 1);
        assert!(filter.may_contain(hash(1)));
        filter.seal(&mut writer, 1);
        assert!(!filter.may_contain(hash(1)));
    }
}
