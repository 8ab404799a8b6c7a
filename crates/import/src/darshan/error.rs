//! Errors of log files: [`LogError`] if nothing of a log can be used, [`Damage`] if the rest can.
//!
//! Both name the region and the byte of the *file* (of the compressed input, if a region is compressed), which a user can inspect with a
//! hex viewer.

use std::fmt;

use super::record::ModuleId;

/// A part of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    /// Header: version, magic number, and the offsets of all regions.
    Header,
    /// Job region: one fixed record, the command line and the mount table.
    Job,
    /// Name region: record id to file name.
    Names,
    /// The records of one module.
    Module(ModuleId),
    /// The file records of a 1.x or 2.x log, which have no modules.
    Files,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Job => f.write_str("job region"),
            Self::Names => f.write_str("name region"),
            Self::Module(id) => write!(f, "{id} region"),
            Self::Files => f.write_str("file records"),
        }
    }
}

/// A part of a log that could not be read; all other parts were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The damaged part of the log.
    pub region: Region,
    /// Offset in the file, in bytes.
    pub byte: u64,
    /// Found and expected content.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}, {}: {}", self.byte, self.region, self.what)
    }
}

/// Cause for which a file could not be read as a Darshan log at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file has no bytes.
    #[error("byte 0, header: the file is empty; expected a Darshan log")]
    Empty,
    /// The file is not a Darshan log.
    #[error(
        "byte 0, header: not a Darshan log: expected a version such as \"3.41\", or a gzip or bzip2 stream that begins \
         with one such as \"2.06\"; found {found}"
    )]
    Foreign {
        /// The first bytes, printable.
        found: String,
    },
    /// A Darshan log of an unsupported format.
    #[error(
        "byte 0, header: log format {found} is not known; expected 1.21 to 1.24, 2.00 to 2.06 or 3.00 to 3.41"
    )]
    Version {
        /// The version as the file gives it.
        found: String,
    },
    /// The magic number is wrong in either byte order.
    #[error(
        "byte {byte}, header: bad magic number {found:#018x}; expected 6567223 in either byte order"
    )]
    Magic {
        /// Offset in the (decompressed) header.
        byte: u64,
        /// The value, read as little-endian.
        found: u64,
    },
    /// An unknown compression method.
    #[error(
        "byte 16, header: unknown compression {found}; expected 0 (zlib), 1 (bzip2) or 2 (none)"
    )]
    Compression {
        /// Value in the header.
        found: u8,
    },
    /// The file ends inside an essential part.
    #[error(
        "byte {byte}, {region}: the file ends early: expected {expected} bytes, found {found}; is it a partial copy?"
    )]
    Truncated {
        /// The truncated part.
        region: Region,
        /// Offset in the file at which the bytes end.
        byte: u64,
        /// Number of bytes expected.
        expected: u64,
        /// Number of bytes found.
        found: u64,
    },
    /// Decompression failed in an essential part.
    #[error("byte {byte}, {region}: damaged: {what}")]
    Damaged {
        /// The damaged part.
        region: Region,
        /// Offset in the file.
        byte: u64,
        /// Found and expected content.
        what: String,
    },
}
