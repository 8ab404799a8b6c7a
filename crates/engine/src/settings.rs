//! Settings (plain data) and the reports that the engine gives. Components (store, clock, archive) are apart.

use esker_model::{Counts, Version};
use esker_store::{Durability, StoreStats};

/// What can be chosen about an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Memory of the adjacency cache, in bytes.
    pub adjacency_bytes: u64,
    /// When a commit counts as done.
    pub durability: Durability,
    /// Whether batches of several threads that wait for the write lock are committed together. It pays where a commit waits
    /// for the disk; where it does not, four threads write a sixth more single edges without (two cores).
    pub group_commits: bool,
    /// So many objects have a value under a name before searches build an index of it; with fewer, they read them all.
    pub index_objects_least: u64,
    /// Degree changes held in memory before they are merged into their rows.
    pub pending_counters_max: usize,
    /// Memory of files' rows that are not in their table yet, in bytes: when it is full, they become a sorted table.
    pub staged_bytes: usize,
    /// Memory of the cache of files' rows, in bytes. It uses what the adjacency cache leaves, too, up to four times as much.
    pub entries_bytes: u64,
    /// A subtree with fewer rows comes in as other changes do; with more, as a sorted table.
    pub sorted_least: usize,
    /// For how many milliseconds at most it promises that files stay as they are ([`crate::Engine::make_promises`]); 0 for no promises.
    pub promises: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            adjacency_bytes: 192 << 20,
            durability: Durability::Relaxed,
            group_commits: true,
            index_objects_least: 256,
            pending_counters_max: 1 << 18,
            staged_bytes: 32 << 20,
            entries_bytes: 32 << 20,
            sorted_least: 1 << 13,
            promises: 0,
        }
    }
}

/// What a database holds and what it costs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// Exact counts by type.
    pub counts: Counts,
    /// The store's own figures.
    pub store: StoreStats,
    /// Adjacency lists in memory.
    pub adjacency_lists: u64,
    /// Edges in them.
    pub adjacency_edges: u64,
    /// Memory that they take, in bytes.
    pub adjacency_bytes: u64,
    /// The most that they may take, in bytes.
    pub adjacency_bytes_max: u64,
    /// Memory that objects' columns take, in bytes, without their indexes.
    pub objects_bytes: u64,
    /// Memory that the indexes of objects' columns take, in bytes.
    pub objects_index_bytes: u64,
    /// Bytes that objects take on disk before the store compresses them: the last checkpoint, and the log since.
    pub objects_disk_bytes: u64,
    /// The newest version given.
    pub newest: Option<Version>,
    /// Reads as of this version or later need the live store alone; those of an earlier time look into the archive too.
    pub retained_since: Option<Version>,
}

/// What `check` should do beyond reading everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// Mend what can be derived: counters, inverse edges, the index by type.
    pub repair: bool,
    /// It is one of several parts: what refers to vertices, inverse edges and directories of other parts is not looked for.
    pub part: bool,
}

/// Something that `check` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of thing is wrong, in a word or two: `counter`, `inverse edge`, `unreachable vertex`.
    pub what: String,
    /// Where, and what was expected.
    pub detail: String,
    /// Whether it was mended.
    pub repaired: bool,
}

/// What `check` looked at and found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Rows read, of all tables.
    pub rows: u64,
    /// Vertices seen, deleted ones included.
    pub vertices: u64,
    /// Edges seen, inverses and deleted ones included.
    pub edges: u64,
    /// Superseded versions seen.
    pub history: u64,
    /// The first problems (at most [`CheckReport::PROBLEMS_MAX`]).
    pub problems: Vec<Problem>,
    /// All problems, counted.
    pub problems_total: u64,
    /// Whether everything was read; false if it was interrupted.
    pub complete: bool,
    /// Of a part: a sum over its edges, and one over its inverse edges. Over all parts they are the same.
    pub edges_sum: u64,
    /// The other one.
    pub inverses_sum: u64,
}

impl CheckReport {
    /// How many problems are listed one by one.
    pub const PROBLEMS_MAX: usize = 100;

    /// Notes a problem.
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

/// What `compact` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactReport {
    /// Superseded versions moved to the archive.
    pub archived: u64,
    /// Superseded versions kept.
    pub kept: u64,
    /// Past states of files, and files that were removed, that are forgotten.
    pub dropped: u64,
}

/// What a bulk load did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkReport {
    /// Vertices that are new.
    pub vertices_created: u64,
    /// Edges that are new, inverses not counted.
    pub edges_created: u64,
    /// Mutations read.
    pub mutations: u64,
}
