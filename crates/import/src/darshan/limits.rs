//! Every bound that protects the reader from a damaged or hostile log, in one place.

/// Limit of decompressed bytes from one region: some twelve million POSIX records.
pub const REGION_BYTES_MAX: u64 = 8 << 30;

/// Limit of decompressed names in memory, in bytes.
pub const NAMES_BYTES_MAX: usize = 512 << 20;

/// Limit of the number of names in memory.
pub const NAMES_MAX: usize = 8 << 20;

/// Limit of a file name's length. Darshan itself stops at `PATH_MAX`, 4,096.
pub const NAME_BYTES_MAX: usize = 64 << 10;

/// Limit of records that [`parse`](super::parse) keeps in memory, over all modules: some 800 MB. [`scan`](super::scan) has no such limit.
pub const RECORDS_MAX: usize = 4 << 20;

/// Limit of damages listed for one log; further ones are only counted in the last entry.
pub const DAMAGES_MAX: usize = 64;

/// Decompressed size of the job region: Darshan's fixed job record.
pub const JOB_BYTES_MAX: usize = 4096;

/// Size of the buffer for decompressed regions.
pub const BUFFER_BYTES: usize = 128 << 10;
/// A name that is split at the buffer's end must fit before the next bytes.
const _: () = assert!(BUFFER_BYTES >= 2 * NAME_BYTES_MAX);
