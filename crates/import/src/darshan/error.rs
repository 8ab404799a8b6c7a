//! What can be wrong with a log: [`LogError`] when nothing of it can be used, [`Damage`] when the rest can.
//!
//! Both name the region and the byte of the *file* (of the compressed input, where a region is compressed), because that
//! is what a person can look at with a hex viewer.

use std::fmt;

use super::record::ModuleId;

/// A part of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    /// Version, magic number, and where everything lies.
    Header,
    /// Who ran what, when: one fixed record, then the command line and the mount table.
    Job,
    /// Record id to file name.
    Names,
    /// The records of one module.
    Module(ModuleId),
    /// The file records of a 1.x or 2.x log, which know no modules.
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

/// A part of a log that could not be read; everything else was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The part of the log.
    pub region: Region,
    /// Offset in the file.
    pub byte: u64,
    /// What was found, and what was expected.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}, {}: {}", self.byte, self.region, self.what)
    }
}

/// Why a file could not be read as a Darshan log at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file has no bytes.
    #[error("byte 0, header: the file is empty; expected a Darshan log")]
    Empty,
    /// The file is something else.
    #[error(
        "byte 0, header: not a Darshan log: expected a version such as \"3.41\", or a gzip or bzip2 stream that begins \
         with one such as \"2.06\"; found {found}"
    )]
    Foreign {
        /// The first bytes, printable.
        found: String,
    },
    /// A Darshan log of a format that this reader does not know.
    #[error(
        "byte 0, header: log format {found} is not known; expected 1.21 to 1.24, 2.00 to 2.06 or 3.00 to 3.41"
    )]
    Version {
        /// The version as the file gives it.
        found: String,
    },
    /// The number that tells the byte order is neither way round.
    #[error(
        "byte {byte}, header: bad magic number {found:#018x}; expected 6567223 in either byte order"
    )]
    Magic {
        /// Offset in the (decompressed) header.
        byte: u64,
        /// The value, read as little-endian.
        found: u64,
    },
    /// An unknown compression.
    #[error(
        "byte 16, header: unknown compression {found}; expected 0 (zlib), 1 (bzip2) or 2 (none)"
    )]
    Compression {
        /// The value.
        found: u8,
    },
    /// The file ends inside a part that nothing works without.
    #[error(
        "byte {byte}, {region}: the file ends early: expected {expected} bytes, found {found}; is it a partial copy?"
    )]
    Truncated {
        /// The part.
        region: Region,
        /// Offset in the file where bytes ran out.
        byte: u64,
        /// Bytes needed.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// Decompression failed in a part that nothing works without.
    #[error("byte {byte}, {region}: damaged: {what}")]
    Damaged {
        /// The part.
        region: Region,
        /// Offset in the file.
        byte: u64,
        /// What was found and expected.
        what: String,
    },
}
