//! Every bound that protects the reader from a damaged or hostile log, in one place.

/// Decompressed bytes read from one region before the rest of it is given up: some twelve million POSIX records.
pub const REGION_BYTES_MAX: u64 = 8 << 30;

/// Decompressed bytes of the name region kept in memory.
pub const NAMES_BYTES_MAX: usize = 512 << 20;

/// Names kept in memory.
pub const NAMES_MAX: usize = 8 << 20;

/// Longest file name. Darshan itself stops at `PATH_MAX`, 4,096.
pub const NAME_BYTES_MAX: usize = 64 << 10;

/// Records that [`parse`](super::parse) keeps in memory, over all modules: some 800 MB. [`scan`](super::scan) has no such bound.
pub const RECORDS_MAX: usize = 4 << 20;

/// Damages listed for one log; what follows is counted only in the last one's place.
pub const DAMAGES_MAX: usize = 64;

/// Decompressed bytes of the job region that mean something: Darshan's fixed job record.
pub const JOB_BYTES_MAX: usize = 4096;

/// Size of the buffer that regions are decompressed into.
pub const BUFFER_BYTES: usize = 128 << 10;
/// A name that is cut in two by its end must fit whole behind what is read next.
const _: () = assert!(BUFFER_BYTES >= 2 * NAME_BYTES_MAX);
