//! How the engine is set up, and why.
//!
//! Rows are 35-byte keys with values of some 100 to 200 bytes, written in random key order, read by key and by short ranges.
//! One read in three asks for a key that is not there (a new edge looks for a version to supersede), so filters matter
//! more than anything else. Figures: `cargo run --release -p esker-store-fjall --example seam_bench`.

use esker_store::{StoreSettings, Table};
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    HashRatioPolicy, PartitioningPolicy, PinningPolicy, RestartIntervalPolicy,
};
use fjall::{CompressionType, KeyspaceCreateOptions, KvSeparationOptions};
use std::sync::Arc;

/// How the memory that [`StoreSettings`] grants is divided. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The block cache: data blocks, filters and indexes that are not pinned, large values.
    pub(crate) cache: u64,
    /// All memtables together, as fjall counts them. What a row takes in fact is some 1.3 times that.
    pub(crate) memtables: u64,
}

impl Budget {
    /// The rest, about a sixth, is for pinned filters and indexes, the buffers of a flush and of a compaction, and
    /// iterators. Writes that wait (`engine`) hold the memtables to their part.
    pub(crate) fn new(settings: &StoreSettings) -> Self {
        let memory = settings.memory_bytes.max(MEMORY_LEAST);
        let memtables = (memory / 100 * 33).min(MEMTABLES_MOST);
        Self {
            cache: memory / 100 * 83 - memtables / 10 * 13,
            memtables,
        }
    }

    /// At what size a table's memtable is flushed. Rows get most: the larger the memtable, the fewer times a row is
    /// rewritten on its way down. Their sum leaves room for one full memtable of rows that is being flushed while the
    /// next one fills.
    ///
    /// More memory does not make them larger without end: what is in them is replayed after a crash, and from some 32 MiB
    /// on the walk through the memtable costs a writer what larger flushes save.
    pub(crate) fn memtable(&self, table: Table) -> u64 {
        match table {
            Table::Rows => self.memtables / 100 * 27,
            Table::History | Table::Objects => self.memtables / 100 * 9,
            Table::Index => self.memtables / 100 * 7,
            Table::Counts => self.memtables / 100 * 4,
            // Rows of files come as part of rows of `meta`, which are used again and again: the longer they stay in memory,
            // the fewer are written. Into `names` they come as sorted tables, and only removals pass its memtable.
            Table::Meta => self.memtables / 100 * 14,
            Table::Names => self.memtables / 100 * 3,
        }
    }
}

/// Makes a memtable of rows of at most 31 MiB, some 130,000 rows.
const MEMTABLES_MOST: u64 = 96 << 20;
/// Less than this does not hold five memtables and a cache that is of use.
const MEMORY_LEAST: u64 = 32 << 20;

/// The log is replayed when a database opens, at some 400,000 rows a second, and fjall removes a log file of
/// 64 MiB only when every table has flushed what it holds. This is the setting that bounds the time to open: as soon as one
/// full log file waits, tables that are behind are flushed. 64 MiB is the least that fjall takes.
pub(crate) const LOG_BYTES: u64 = 64 << 20;

/// Open files. Far below the usual limit of 1,024, above what a database of 50 GB has (64 MiB a table file).
pub(crate) const OPEN_FILES: usize = 700;

/// From this size on a value of rows or history lies in a file of values, and its row holds a pointer (the paper's
/// second table of keys and pointers): such values are not rewritten by each compaction. Below it, the pointer and the
/// second read cost more than they save; the usual row stays in one place.
const SEPARATED_BYTES: u32 = 1024;

/// How rows are compacted. Levels as in `LevelDB`: four tables in L0 start a compaction, each level is ten times the last.
/// `engine` runs it; the keyspaces themselves are given [`idle`].
pub(crate) fn levels() -> Leveled {
    Leveled::default()
        .with_l0_threshold(4)
        .with_table_target_size(64 << 20)
        .with_level_ratio_policy(vec![10.0])
}

/// A strategy that never merges (it still moves tables down where nothing overlaps, which costs nothing). fjall's worker threads would hand a compaction that they may not
/// take round among themselves without a pause, a core's worth of work for as long as a compaction runs; so compactions
/// are taken away from them.
fn idle() -> Leveled {
    Leveled::default()
        .with_l0_threshold(u8::MAX)
        .with_table_target_size(1 << 40)
}

/// The settings of a table. They are stored with it: a change holds for new databases.
pub(crate) fn keyspace(table: Table) -> KeyspaceCreateOptions {
    let options = KeyspaceCreateOptions::default()
        // `engine` says when a memtable is full: by the memory of this process, not of the one that created the table.
        .max_memtable_size(u64::MAX)
        .compaction_strategy(Arc::new(idle()))
        // 10 bits a key: a look-up of an absent key reads a block in one case of a hundred. L0 has several tables that
        // are all asked, so its filters are better: together they fail as seldom as one of a lower level. The last
        // level keeps its filters, though most of a database's memory for filters lies there, because a new edge's key
        // is in no level at all.
        .filter_policy(FilterPolicy::new([
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::FalsePositiveRate(0.001)),
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
        ]))
        .expect_point_read_hits(false)
        // Filters and indexes of L0 and L1 are asked by every read: always in memory (some 1 % of these levels). Below
        // they are cut into blocks that the cache keeps by use, so that memory does not grow with the database.
        .filter_block_pinning_policy(PinningPolicy::new([true, true, false]))
        .index_block_pinning_policy(PinningPolicy::new([true, true, false]))
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        .index_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        // A key is found by bisecting a block's restart points and walking from there. Ten rows apart, they cost
        // 2 % of space; keys of one vertex share 18 bytes or more, which are stored once between them.
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(10))
        // L0 and L1 are read back within seconds, by a compaction: compressing them costs more than it saves. Below,
        // lz4 halves paths and command lines.
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]))
        .index_block_compression_policy(CompressionPolicy::all(CompressionType::None));
    match table {
        Table::Rows | Table::History | Table::Names => options
            // 4 KiB hold some 25 rows: an edge scan of the usual vertex reads one block, a get decodes little. Content of
            // small files is better off beside, where compactions do not move it.
            .data_block_size_policy(BlockSizePolicy::all(4 << 10))
            .with_kv_separation(Some(
                KvSeparationOptions::default()
                    .separation_threshold(SEPARATED_BYTES)
                    .compression(CompressionType::Lz4)
                    .file_target_size(64 << 20),
            )),
        // Large values, read once, from the first to the last.
        Table::Objects => options
            .data_block_size_policy(BlockSizePolicy::all(32 << 10))
            .with_kv_separation(Some(
                KvSeparationOptions::default()
                    .separation_threshold(SEPARATED_BYTES)
                    .compression(CompressionType::Lz4)
                    .file_target_size(64 << 20),
            )),
        // Keys without values, read in ranges: larger blocks share more of their keys and compress better.
        Table::Index => options.data_block_size_policy(BlockSizePolicy::all(16 << 10)),
        // Read by key and always found: a hash index in each block saves the bisecting.
        Table::Counts | Table::Meta => options
            .data_block_size_policy(BlockSizePolicy::all(4 << 10))
            .data_block_hash_ratio_policy(HashRatioPolicy::all(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_stay_within_the_whole() {
        for memory in [0, 1 << 20, 64 << 20, 256 << 20, 512 << 20, 8 << 30] {
            let budget = Budget::new(&StoreSettings {
                memory_bytes: memory,
                threads: 2,
            });
            let memory = memory.max(MEMORY_LEAST);
            assert!(
                budget.cache + budget.memtables * 13 / 10 <= memory * 86 / 100,
                "{memory}"
            );
            let full: u64 = Table::ALL.iter().map(|table| budget.memtable(*table)).sum();
            assert!(
                full + budget.memtable(Table::Rows) <= budget.memtables,
                "{memory}"
            );
        }
    }
}
