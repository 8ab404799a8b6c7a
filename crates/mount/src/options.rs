//! Options of a mount, as plain data.

use esker_model::namespace::INLINE_BYTES_MAX;
use esker_model::version::Version;
use std::path::PathBuf;
use std::time::Duration;

/// Options of a mounted namespace.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders for contents that are larger than [`Self::inline_bytes`]; without any, such contents are refused
    /// (`EFBIG`).
    pub data: Vec<PathBuf>,
    /// Whether all changes are refused.
    pub read_only: bool,
    /// The past time that the target shows, if it does; data files that were changed since are not read. Implies
    /// [`Self::read_only`].
    pub as_of: Option<Version>,
    /// Whether users other than the one who mounts may use the mount.
    pub allow_other: bool,
    /// Number of threads that answer the kernel.
    pub threads: usize,
    /// Time that the kernel may cache names and attributes.
    pub timeout: Duration,
    /// Time that the kernel may cache the absence of a name; a file created through another mount is not visible
    /// before.
    pub negative: Duration,
    /// Largest size of content stored in the namespace, in bytes.
    pub inline_bytes: usize,
    /// Whether the kernel may read and write backing files directly, if it supports that.
    pub passthrough: bool,
    /// Source of the mount, as it is listed.
    pub source: String,
}

/// Errors of invalid options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The inline size exceeds the capacity of a dentry.
    #[error("contents in the namespace may be up to {INLINE_BYTES_MAX} bytes; got {0}")]
    Inline(usize),
    /// The number of threads is zero or uselessly large.
    #[error("threads are from 1 to 64; got {0}")]
    Threads(usize),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: Vec::new(),
            read_only: false,
            as_of: None,
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
    /// Whether all changes are refused.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only || self.as_of.is_some()
    }

    /// Checks that the options are valid.
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
