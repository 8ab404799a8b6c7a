//! How to mount. Plain data.

use esker_model::namespace::INLINE_BYTES_MAX;
use std::path::PathBuf;
use std::time::Duration;

/// How a namespace is mounted.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders for contents that are larger than [`Self::inline_bytes`]; without any, such contents are refused (`EFBIG`).
    pub data: Vec<PathBuf>,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Other users than the one who mounts may use it.
    pub allow_other: bool,
    /// Threads that answer the kernel.
    pub threads: usize,
    /// For how long the kernel may answer for names and attributes itself.
    pub timeout: Duration,
    /// For how long it may answer that a name is not there: what another mount makes is not seen before.
    pub negative: Duration,
    /// Contents up to this size lie in the namespace.
    pub inline_bytes: usize,
    /// Whether reads and writes may go straight to the file underneath, where the kernel can do that.
    pub passthrough: bool,
    /// What the list of mounts says of where it comes from.
    pub source: String,
}

/// Options that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// More than a dentry takes.
    #[error("contents in the namespace may be up to {INLINE_BYTES_MAX} bytes; got {0}")]
    Inline(usize),
    /// None, or more than help.
    #[error("threads are from 1 to 64; got {0}")]
    Threads(usize),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: Vec::new(),
            read_only: false,
            allow_other: false,
            threads: 2,
            timeout: Duration::from_secs(1),
            negative: Duration::ZERO,
            inline_bytes: INLINE_BYTES_MAX,
            passthrough: true,
            source: "esker".to_owned(),
        }
    }
}

impl Options {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), OptionsError> {
        if self.inline_bytes > INLINE_BYTES_MAX {
            return Err(OptionsError::Inline(self.inline_bytes));
        }
        if self.threads == 0 || self.threads > 64 {
            return Err(OptionsError::Threads(self.threads));
        }
        Ok(())
    }
}
