//! How to open a target. Plain data.

use esker_model::namespace::INLINE_BYTES_MAX;
use std::path::PathBuf;
use std::time::Duration;

/// How a target is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Folders for contents that are larger than [`Self::inline_bytes`]: those of the mounts of this target. Without any, such contents
    /// are refused (`EFBIG`).
    pub data: Vec<PathBuf>,
    /// Contents up to this size lie in the namespace, in bytes.
    pub inline_bytes: usize,
    /// Each change survives a power failure when it returns.
    pub durable: bool,
    /// Names and small contents are held back, and sent together.
    pub write_behind: Option<WriteBehind>,
}

/// How much is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBehind {
    /// So many changes at most; whoever makes one more waits until they are sent.
    pub most: usize,
    /// For so long at most.
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
