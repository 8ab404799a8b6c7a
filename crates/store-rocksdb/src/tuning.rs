//! Settings of the RocksDB database; the reasons are those of fjall's settings.

use esker_store::{StoreSettings, Table};
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, DataBlockIndexType, Options,
    WriteBufferManager,
};

/// Smaller memory has no room for five memtables and a useful cache.
const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// Maximum length of the log that is replayed when a database opens; tables that lag are flushed when it grows longer.
const LOG_BYTES: u64 = 128 << 20;
/// Size from which values of rows and history are stored in blob files, which compactions do not rewrite.
const SEPARATED_BYTES: u64 = 1024;
const TABLE_BYTES: u64 = 64 << 20;

/// Resources that all column families share.
pub(crate) struct Shared {
    pub(crate) cache: Cache,
    memtables: WriteBufferManager,
    memtable_bytes: usize,
}

impl Shared {
    /// Divides the memory. Memtables take up to a third and are charged to the cache, so that both together stay within
    /// it; the rest, a sixth, is for compactions and iterators.
    pub(crate) fn new(settings: &StoreSettings) -> Self {
        let memory = settings.memory_bytes.max(MEMORY_BYTES_MIN);
        let bytes = |part: u64| usize::try_from(part).unwrap_or(usize::MAX);
        let cache = Cache::new_lru_cache(bytes(memory / 100 * 83));
        let limit = bytes(memory / 100 * 33);
        Self {
            // Writers wait rather than let memory grow.
            memtables: WriteBufferManager::new_write_buffer_manager_with_cache(
                limit,
                true,
                cache.clone(),
            ),
            memtable_bytes: limit,
            cache,
        }
    }

    /// Returns the settings of the database.
    pub(crate) fn database(&self, settings: &StoreSettings, create: bool) -> Options {
        let mut options = Options::default();
        options.create_if_missing(create);
        // Creates missing column families, also after an incomplete creation.
        options.create_missing_column_families(true);
        options.set_write_buffer_manager(&self.memtables);
        options.set_max_background_jobs(i32::try_from(settings.threads.clamp(2, 16)).unwrap_or(2));
        options.set_max_open_files(700);
        options.set_max_total_wal_size(LOG_BYTES);
        // Spreads the writing of table files, so that a commit that waits for the disk does not wait for a whole file.
        options.set_bytes_per_sync(1 << 20);
        options.set_keep_log_file_num(2);
        options
    }

    /// Returns the settings of a table.
    pub(crate) fn family(&self, table: Table) -> Options {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&self.cache);
        blocks.set_format_version(5);
        // 10 bits a key: a look-up of an absent key reads a block in one case of a hundred. All levels keep their
        // filters, because a new edge's key is in none.
        blocks.set_bloom_filter(10.0, false);
        blocks.set_whole_key_filtering(true);
        // Filters and indexes are in the cache and count there, in parts, the hot ones kept by preference: memory does
        // not grow with the database.
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        blocks.set_pin_top_level_index_and_filter(true);
        blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        blocks.set_partition_filters(true);
        blocks.set_metadata_block_size(4 << 10);
        match table {
            Table::Rows | Table::History | Table::Names => blocks.set_block_size(4 << 10),
            Table::Objects => blocks.set_block_size(32 << 10),
            // Keys without values, read in ranges.
            Table::Index => blocks.set_block_size(16 << 10),
            // Read by key and always found.
            Table::Counts | Table::Meta => {
                blocks.set_block_size(4 << 10);
                blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
                blocks.set_data_block_hash_ratio(0.75);
            }
        }

        let mut options = Options::default();
        options.set_block_based_table_factory(&blocks);
        let share = match table {
            Table::Rows => 30,
            Table::History | Table::Index => 15,
            Table::Counts => 8,
            Table::Meta => 2,
            Table::Objects => 10,
            Table::Names => 15,
        };
        options.set_write_buffer_size(self.memtable_bytes / 100 * share);
        options.set_max_write_buffer_number(3);
        options.set_target_file_size_base(TABLE_BYTES);
        options.set_max_bytes_for_level_base(4 * TABLE_BYTES);
        options.set_level_compaction_dynamic_level_bytes(true);
        // A compaction reads the top levels back within seconds; below, lz4 halves paths and command lines. With
        // dynamic levels the second entry is the first level that is in use.
        options.set_compression_per_level(&[
            DBCompressionType::None,
            DBCompressionType::None,
            DBCompressionType::Lz4,
            DBCompressionType::Lz4,
            DBCompressionType::Lz4,
            DBCompressionType::Lz4,
            DBCompressionType::Lz4,
        ]);
        if !matches!(table, Table::Index | Table::Counts | Table::Meta) {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(SEPARATED_BYTES);
            options.set_blob_file_size(TABLE_BYTES);
            options.set_blob_compression_type(DBCompressionType::Lz4);
            options.set_enable_blob_gc(true);
        }
        options
    }
}
