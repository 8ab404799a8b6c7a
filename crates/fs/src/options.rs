//! Options for opening a target, as plain data.

use esker_model::namespace::INLINE_BYTES_MAX;
use std::path::PathBuf;
use std::time::Duration;

/// Options of an open target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Folders for contents that are larger than [`Self::inline_bytes`]: those of the mounts of this target. Without
    /// any, such contents are refused (`EFBIG`).
    pub data: Vec<PathBuf>,
    /// Largest size of content stored in the namespace, in bytes.
    pub inline_bytes: usize,
    /// Whether each change survives a power failure when its call returns.
    pub durable: bool,
    /// Buffering of names and small contents; `None` sends each change immediately.
    pub write_behind: Option<WriteBehind>,
}

/// Limits of the write-behind queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBehind {
    /// Largest number of queued changes; a call that exceeds it waits until they are sent.
    pub most: usize,
    /// Longest time that a change is queued.
    pub age: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: Vec::new(),
            inline_bytes: INLINE_BYTES_MAX,
            durable: false,
            write_behind: None,
        }
    }
}

impl Default for WriteBehind {
    fn default() -> Self {
        Self {
            most: 10_000,
            age: Duration::from_millis(500),
        }
    }
}
