//! All named maxima of the data model.
//!
//! A limit is part of the format: raising one is compatible, lowering one is not.

/// Longest external key of a vertex, in bytes (`PATH_MAX` on Linux is 4,096).
pub const VERTEX_KEY_BYTES_MAX: usize = 4_096;
/// Longest name of a vertex type, an edge type or an attribute, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Largest single property value once encoded, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Largest number of properties on one edge, or of attributes of one kind on one vertex.
pub const PROPERTIES_MAX: usize = 4_096;
/// Largest encoded vertex or edge row, in bytes.
pub const ROW_BYTES_MAX: usize = 8 << 20;
/// Deepest nesting of list values.
pub const LIST_DEPTH_MAX: usize = 8;
/// Largest number of mutations in one atomic batch.
pub const BATCH_MUTATIONS_MAX: usize = 1 << 20;
/// Largest number of mutations in a batch that one server of a cluster coordinates whatever server receives it
/// ([`crate::Batch::coordinating_vertex`]).
pub const SMALL_BATCH_MUTATIONS_MAX: usize = 16;
/// Largest number of vertex types, and of edge types, of one database.
pub const TYPES_MAX: usize = 4_096;
/// Longest text of a traversal, in bytes.
pub const TRAVERSAL_TEXT_BYTES_MAX: usize = 1 << 20;
/// Largest number of calls in one traversal chain, not counting the `v()` of its hops.
pub const TRAVERSAL_CALLS_MAX: usize = 1_024;
/// Longest text of a filter, in bytes.
pub const FILTER_TEXT_BYTES_MAX: usize = 1 << 20;
/// Largest number of regular expressions in a filter: each compiled one takes memory.
pub const FILTER_REGEXES_MAX: usize = 64;
/// Deepest nesting of parentheses and `NOT` in a filter.
pub const FILTER_DEPTH_MAX: usize = 100;
/// Largest number of shares of one database.
pub const SHARES_MAX: usize = 1_000;
/// Largest number of shares that one user makes; the owner of the database may make all.
pub const SHARES_OF_USER_MAX: usize = 100;
/// Largest number of users and groups of one share.
pub const SHARE_GRANTEES_MAX: usize = 100;
/// Largest number of edge types that a request for a share names for one role.
pub const SHARE_TYPES_MAX: usize = 64;
/// Largest number of vertices of a lineage that is shared at once.
pub const SHARE_VERTICES_MAX: usize = 100_000;
