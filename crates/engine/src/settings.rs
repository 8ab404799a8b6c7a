//! Settings (plain data) and the engine's reports. Components (store, clock, archive) are passed separately.

use esker_model::{Counts, Version, wire_struct};
use esker_store::{Durability, StoreStats};

/// Options of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Memory of the adjacency cache, in bytes.
    pub adjacency_bytes: u64,
    /// Condition under which a commit is acknowledged.
    pub durability: Durability,
    /// Whether batches of several threads that wait for the write lock are committed as one group. Group commit pays where a
    /// commit waits for the disk; elsewhere four threads write a sixth more single edges without it (two cores).
    pub group_commits: bool,
    /// Number of objects with a value of an attribute from which searches index that attribute; below it they scan all values.
    pub index_objects_least: u64,
    /// Degree changes held in memory before they are merged into their rows.
    pub pending_counters_max: usize,
    /// Capacity of the memtable of namespace rows, in bytes; a full one is written out as a sorted table.
    pub memtable_bytes: usize,
    /// Memory of the cache of namespace rows, in bytes. It also uses memory that the adjacency cache leaves free, up to four times as much.
    pub row_cache_bytes: u64,
    /// Row count from which a merged subtree is bulk-loaded as a sorted table; below it, its rows go into the commit batch.
    pub bulk_load_rows_min: usize,
    /// Longest lease on a file's state, in milliseconds ([`crate::Engine::enable_leases`]); 0 disables leases.
    pub lease_millis: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            adjacency_bytes: 192 << 20,
            durability: Durability::Relaxed,
            group_commits: true,
            index_objects_least: 256,
            pending_counters_max: 1 << 18,
            memtable_bytes: 32 << 20,
            row_cache_bytes: 32 << 20,
            bulk_load_rows_min: 1 << 13,
            lease_millis: 0,
        }
    }
}

/// Counts, memory use and versions of a database.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// Exact counts by type.
    pub counts: Counts,
    /// The store's own figures.
    pub store: StoreStats,
    /// Adjacency lists in memory.
    pub adjacency_lists: u64,
    /// Edges in the cached adjacency lists.
    pub adjacency_edges: u64,
    /// Memory used by the adjacency cache, in bytes.
    pub adjacency_bytes: u64,
    /// Capacity of the adjacency cache, in bytes.
    pub adjacency_bytes_max: u64,
    /// Memory that objects' columns take, in bytes, without their indexes.
    pub objects_bytes: u64,
    /// Memory that the indexes of objects' columns take, in bytes.
    pub objects_index_bytes: u64,
    /// Bytes of objects on disk before the store compresses them: the last checkpoint, and the log since then.
    pub objects_disk_bytes: u64,
    /// The newest version assigned.
    pub newest: Option<Version>,
    /// Reads as of this version or later need only the live store; earlier ones include the archive.
    pub retained_since: Option<Version>,
}

/// Options of `check` beyond reading everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// Whether to repair derived data: counters, inverse edges, the index by type.
    pub repair: bool,
    /// Whether this is one of several parts: references to vertices, inverse edges and directories of other parts are not checked.
    pub part: bool,
}

/// One inconsistency found by `check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Kind of the problem in a word or two: `counter`, `inverse edge`, `unreachable vertex`.
    pub what: String,
    /// Location of the problem, and the expected value.
    pub detail: String,
    /// Whether the problem was repaired.
    pub repaired: bool,
}

/// Counts and problems found by `check`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Rows read from all tables.
    pub rows: u64,
    /// Vertices read, including deleted ones.
    pub vertices: u64,
    /// Edges read, including inverse and deleted ones.
    pub edges: u64,
    /// Number of superseded versions read.
    pub history: u64,
    /// The first problems (at most [`CheckReport::PROBLEMS_MAX`]).
    pub problems: Vec<Problem>,
    /// Number of all problems.
    pub problems_total: u64,
    /// Whether everything was read; false if it was interrupted.
    pub complete: bool,
    /// Checksum over the edges of a part; summed over all parts, it equals the sum of `inverses_sum`.
    pub edges_sum: u64,
    /// Checksum over the inverse edges of a part.
    pub inverses_sum: u64,
}

impl CheckReport {
    /// Maximum number of problems that are listed individually.
    pub const PROBLEMS_MAX: usize = 100;

    /// Records a problem and counts it.
    pub fn note(&mut self, what: &str, detail: String, repaired: bool) {
        self.problems_total += 1;
        if self.problems.len() < Self::PROBLEMS_MAX {
            self.problems.push(Problem {
                what: what.to_owned(),
                detail,
                repaired,
            });
        }
    }
}

/// Result of a run of `compact`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactReport {
    /// Superseded versions moved to the archive.
    pub archived: u64,
    /// Superseded versions kept in the live store.
    pub kept: u64,
    /// Past states of files, and removed files, that were dropped.
    pub dropped: u64,
}

/// Result of a bulk load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkReport {
    /// Number of vertices created.
    pub vertices_created: u64,
    /// Number of edges created, without inverse edges.
    pub edges_created: u64,
    /// Number of mutations read.
    pub mutations: u64,
}

wire_struct!(Stats {
    counts,
    store,
    adjacency_lists,
    adjacency_edges,
    adjacency_bytes,
    adjacency_bytes_max,
    objects_bytes,
    objects_index_bytes,
    objects_disk_bytes,
    newest,
    retained_since,
});
wire_struct!(CheckOptions { repair, part });
wire_struct!(Problem {
    what,
    detail,
    repaired
});
wire_struct!(CheckReport {
    rows,
    vertices,
    edges,
    history,
    problems,
    problems_total,
    complete,
    edges_sum,
    inverses_sum
});
wire_struct!(CompactReport {
    archived,
    kept,
    dropped
});
wire_struct!(BulkReport {
    vertices_created,
    edges_created,
    mutations
});
