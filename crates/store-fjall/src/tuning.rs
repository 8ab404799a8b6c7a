//! Settings of the fjall database, and the reasons for them.
//!
//! Rows are 35-byte keys with values of some 100 to 200 bytes, written in random key order, read by key and by short
//! ranges. One read in three asks for a key that does not exist (a new edge looks for a version to supersede), so
//! filters matter more than anything else. Measurements: `cargo run --release -p esker-store-fjall --example
//! seam_bench`.

use esker_store::{StoreSettings, Table};
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    HashRatioPolicy, PartitioningPolicy, PinningPolicy, RestartIntervalPolicy,
};
use fjall::{CompressionType, KeyspaceCreateOptions, KvSeparationOptions};
use std::sync::Arc;

/// Division of the memory that [`StoreSettings`] grants, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Size of the block cache: data blocks, unpinned filters and indexes, large values.
    pub(crate) cache: u64,
    /// Size of all memtables together, as fjall counts them. The memory that a row really takes is some 1.3 times that.
    pub(crate) memtables: u64,
}

impl Budget {
    /// Divides the memory. The rest, about a sixth, is for pinned filters and indexes, the buffers of a flush and of a
    /// compaction, and iterators. Waiting writers (`engine`) keep the memtables within their part.
    pub(crate) fn new(settings: &StoreSettings) -> Self {
        let memory = settings.memory_bytes.max(MEMORY_BYTES_MIN);
        let memtables = (memory / 100 * 33).min(MEMTABLES_BYTES_MAX);
        Self {
            cache: memory / 100 * 83 - memtables / 10 * 13,
            memtables,
        }
    }

    /// Returns the size at which a table's memtable is flushed. Rows get most: the larger the memtable, the fewer times
    /// a row is rewritten on its way down. The sum leaves room for one full memtable of rows that is being flushed
    /// while the next one fills.
    ///
    /// More memory does not enlarge them without limit: their rows are replayed after a crash, and from some 32 MiB on
    /// the search in the memtable costs a writer what larger flushes save.
    pub(crate) fn memtable(&self, table: Table) -> u64 {
        match table {
            Table::Rows => self.memtables / 100 * 27,
            Table::History | Table::Objects => self.memtables / 100 * 9,
            Table::Index => self.memtables / 100 * 7,
            Table::Counts => self.memtables / 100 * 4,
            // Rows of files arrive in rows of `meta`, which are overwritten again and again: the longer they stay in
            // memory, the fewer are written. They enter `names` as sorted tables, and only removals pass through its
            // memtable.
            Table::Meta => self.memtables / 100 * 14,
            Table::Names => self.memtables / 100 * 3,
        }
    }
}

/// Gives the rows a memtable of at most 31 MiB, some 130,000 rows.
const MEMTABLES_BYTES_MAX: u64 = 96 << 20;
/// Smaller memory has no room for five memtables and a useful cache.
const MEMORY_BYTES_MIN: u64 = 32 << 20;

/// Size of the log. It is replayed when a database opens, at some 400,000 rows a second, and fjall removes a log file
/// of 64 MiB only when every table has flushed its rows of that file. This setting bounds the time to open: as soon as
/// one full log file waits, tables that lag are flushed. 64 MiB is the minimum that fjall accepts.
pub(crate) const LOG_BYTES: u64 = 64 << 20;

/// Number of open files: far below the usual limit of 1,024, above the number of files of a database of 50 GB (64 MiB a
/// table file).
pub(crate) const OPEN_FILES: usize = 700;

/// Size from which a value of rows or history is stored in a file of values, with a pointer in its row (the paper's
/// second table of keys and pointers): such values are not rewritten by each compaction. For smaller ones the pointer
/// and the second read cost more than they save, so a typical row stays in one place.
const SEPARATED_BYTES: u32 = 1024;

/// Returns the compaction strategy. Levels as in `LevelDB`: four tables in L0 start a compaction, each level is ten
/// times the last. `engine` runs it; the keyspaces themselves get [`idle`].
pub(crate) fn levels() -> Leveled {
    Leveled::default()
        .with_l0_threshold(4)
        .with_table_target_size(64 << 20)
        .with_level_ratio_policy(vec![10.0])
}

/// Returns a strategy that never merges (it still moves tables down where nothing overlaps, which costs nothing).
/// fjall's worker threads would pass a compaction that they may not take among themselves without a pause, which uses a
/// whole core for as long as a compaction runs; so they get no compactions.
fn idle() -> Leveled {
    Leveled::default()
        .with_l0_threshold(u8::MAX)
        .with_table_target_size(1 << 40)
}

/// Returns the settings of a table. They are stored with the table: a change affects new databases only.
pub(crate) fn keyspace(table: Table) -> KeyspaceCreateOptions {
    let options = KeyspaceCreateOptions::default()
        // `engine` decides when a memtable is full: by the memory of this process, not of the one that created the
        // table.
        .max_memtable_size(u64::MAX)
        .compaction_strategy(Arc::new(idle()))
        // 10 bits a key: a look-up of an absent key reads a block in one case of a hundred. L0 has several tables, all
        // of which are searched, so its filters are better: together they fail as seldom as one of a lower level. The
        // last level keeps its filters, though it has most of a database's memory for filters, because a new edge's key
        // is in no level at all.
        .filter_policy(FilterPolicy::new([
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::FalsePositiveRate(0.001)),
            FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
        ]))
        .expect_point_read_hits(false)
        // Every read uses the filters and indexes of L0 and L1: always in memory (some 1 % of these levels). Below,
        // they are cut into blocks that the cache keeps by use, so that memory does not grow with the database.
        .filter_block_pinning_policy(PinningPolicy::new([true, true, false]))
        .index_block_pinning_policy(PinningPolicy::new([true, true, false]))
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        .index_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        // A key is found by bisecting a block's restart points and searching from there. Ten rows apart, they cost 2 %
        // of space; keys of one vertex share 18 bytes or more, which are stored once between restart points.
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(10))
        // A compaction reads L0 and L1 back within seconds: compressing them costs more than it saves. Below, lz4
        // halves paths and command lines.
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]))
        .index_block_compression_policy(CompressionPolicy::all(CompressionType::None));
    match table {
        Table::Rows | Table::History | Table::Names => options
            // 4 KiB contain some 25 rows: an edge scan of a typical vertex reads one block, a get decodes little.
            // Content of small files is better stored separately, where compactions do not move it.
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
        // Read by key and always found: a hash index in each block avoids bisecting.
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
            let memory = memory.max(MEMORY_BYTES_MIN);
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
