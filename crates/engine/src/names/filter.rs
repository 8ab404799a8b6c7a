//! In-memory filters of the names in directories that were made since the database was opened: they tell which names are absent.
//!
//! Creating a file looks up its name, which is nearly always absent. In a log-structured store that searches each memtable and a
//! filter of each table, which costs as much as the insert itself. Here it costs one line of the processor's cache for each
//! generation of the filter (blocked Bloom filters: Putze, Sanders, Singler 2007), independently of the size of the directory.

use esker_model::VertexId;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Maximum size of all filters in bytes; the largest are evicted first.
const BYTES_MAX: usize = 64 << 20;
/// Names in the first generation: most directories have fewer.
const FIRST_NAMES: usize = 1 << 6;
/// Names in the second generation; each next one has four times as many.
const SECOND_NAMES: usize = 1 << 12;
/// Bits of a block: one line of the processor's cache.
const BLOCK_BITS: usize = 512;
/// Names in a block, about fifteen bits each.
const BLOCK_NAMES: usize = 32;

type Block = [u64; BLOCK_BITS / 64];

/// The names that a directory may have, by their hashes.
#[derive(Debug, Default)]
struct Filter {
    generations: Vec<FilterGeneration>,
}

#[derive(Debug)]
struct FilterGeneration {
    blocks: Vec<Block>,
    left: usize,
}

/// The bits of a hash in its block: five, each from nine bits of the hash.
fn bits(hash: u64) -> [usize; 5] {
    // The hash orders the directory: its high bits choose the block, and a mix of all its bits chooses the bits.
    let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    [0, 9, 18, 27, 36].map(|shift| (mixed >> (shift + 10)) as usize % BLOCK_BITS)
}

impl FilterGeneration {
    fn new(names: usize) -> Self {
        Self {
            blocks: vec![[0; BLOCK_BITS / 64]; names / BLOCK_NAMES],
            left: names,
        }
    }

    fn block(&self, hash: u64) -> usize {
        // Lemire's reduction: equivalent to a remainder, without a division.
        ((u128::from(hash) * self.blocks.len() as u128) >> 64) as usize
    }

    fn has(&self, hash: u64) -> bool {
        self.blocks.get(self.block(hash)).is_some_and(|block| {
            bits(hash).iter().all(|bit| {
                block
                    .get(bit / 64)
                    .is_some_and(|word| word >> (bit % 64) & 1 == 1)
            })
        })
    }

    fn add(&mut self, hash: u64) {
        let number = self.block(hash);
        if let Some(block) = self.blocks.get_mut(number) {
            for bit in bits(hash) {
                if let Some(word) = block.get_mut(bit / 64) {
                    *word |= 1 << (bit % 64);
                }
            }
        }
        self.left = self.left.saturating_sub(1);
    }
}

impl Filter {
    fn has(&self, hash: u64) -> bool {
        self.generations.iter().rev().any(|g| g.has(hash))
    }

    /// Adds a name; returns the bytes newly allocated.
    fn add(&mut self, hash: u64) -> usize {
        let full = self.generations.last().is_none_or(|g| g.left == 0);
        if full {
            let names = match self.generations.len() {
                0 => FIRST_NAMES,
                n => SECOND_NAMES << (2 * (n - 1)),
            };
            self.generations.push(FilterGeneration::new(names));
        }
        if let Some(last) = self.generations.last_mut() {
            last.add(hash);
        }
        if full {
            self.generations
                .last()
                .map_or(0, |g| g.blocks.len() * size_of::<Block>())
        } else {
            0
        }
    }

    fn bytes(&self) -> usize {
        self.generations
            .iter()
            .map(|g| g.blocks.len() * size_of::<Block>())
            .sum()
    }
}

/// Filters of directories, used by the holder of the write lock.
#[derive(Debug)]
pub(crate) struct Filters {
    of: HashMap<VertexId, Filter, FixedState>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for Filters {
    fn default() -> Self {
        Self {
            of: HashMap::default(),
            bytes: 0,
            bytes_max: BYTES_MAX,
        }
    }
}

impl Filters {
    /// Starts the filter of a new directory, which has no names.
    pub(super) fn begin(&mut self, directory: VertexId) {
        let before = self.of.insert(directory, Filter::default());
        self.bytes -= before.map_or(0, |f| f.bytes());
    }

    /// Whether a directory certainly has no name of that hash.
    pub(super) fn lacks(&self, directory: VertexId, hash: u64) -> bool {
        self.of.get(&directory).is_some_and(|f| !f.has(hash))
    }

    /// Adds a name of a directory.
    pub(super) fn add(&mut self, directory: VertexId, hash: u64) {
        let Some(filter) = self.of.get_mut(&directory) else {
            return;
        };
        self.bytes += filter.add(hash);
        if self.bytes > self.bytes_max {
            self.evict();
        }
    }

    /// Drops the largest filters until half of the memory is free, so that the search for them pays off.
    fn evict(&mut self) {
        let mut sizes: Vec<_> = self.of.iter().map(|(id, f)| (f.bytes(), *id)).collect();
        sizes.sort_unstable();
        while self.bytes > self.bytes_max / 2
            && let Some((_, id)) = sizes.pop()
        {
            self.forget(Some(id));
        }
    }

    /// Drops the filter of a directory.
    pub(super) fn forget(&mut self, directory: Option<VertexId>) {
        let filter = directory.and_then(|id| self.of.remove(&id));
        self.bytes -= filter.map_or(0, |f| f.bytes());
    }

    /// Drops the filters of all directories.
    pub(super) fn clear(&mut self) {
        self.of.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        // SplitMix64's output function.
        let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[test]
    fn what_is_there_is_never_denied_and_what_is_not_seldom_affirmed() {
        let mut filters = Filters::default();
        let id = VertexId([1; 16]);
        assert!(
            !filters.lacks(id, 7),
            "of a directory that is not known, nothing is sure"
        );
        filters.begin(id);
        for n in 0..200_000 {
            assert!(n % 1_000 != 0 || n == 0 || !filters.lacks(id, hash(n - 1)));
            filters.add(id, hash(n));
        }
        assert!((0..200_000).all(|n| !filters.lacks(id, hash(n))));
        let wrong = (200_000..400_000)
            .filter(|n| !filters.lacks(id, hash(*n)))
            .count();
        assert!(wrong < 4_000, "{wrong} of 200,000");
        assert!(filters.bytes < 200_000 * 6 && filters.bytes == filters.of[&id].bytes());
        filters.forget(Some(id));
        assert_eq!(filters.bytes, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut filters = Filters {
            bytes_max: 1 << 16,
            ..Filters::default()
        };
        let (large, small) = (VertexId([1; 16]), VertexId([2; 16]));
        filters.begin(large);
        filters.begin(small);
        filters.add(small, 1);
        // The generations of 64 to 16,384 names exceed the limit.
        for n in 0..50_000 {
            filters.add(large, hash(n));
        }
        assert!(filters.bytes <= 1 << 16);
        assert!(filters.lacks(small, 2) && !filters.lacks(large, hash(70_000)));
    }

    #[test]
    fn small_directories_use_little_memory() {
        let mut filters = Filters::default();
        for n in 0..1_000_u16 {
            let mut id = [0; 16];
            id[..2].copy_from_slice(&n.to_be_bytes());
            filters.begin(VertexId(id));
            (0..40).for_each(|name| filters.add(VertexId(id), hash(name)));
        }
        assert!(filters.bytes <= 1_000 * 128, "{} bytes", filters.bytes);
    }
}
