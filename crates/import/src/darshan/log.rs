//! A whole log: [`parse`] keeps every record, [`scan`] hands each one on.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::bytes::ByteOrder;
use super::error::{Damage, LogError, Region};
use super::inflate::Compression;
use super::job::Job;
use super::limits::{DAMAGES_MAX, RECORDS_MAX, REGION_BYTES_MAX};
use super::names::Names;
use super::record::{ModuleId, ModuleRecord};
use super::{v2, v3};

/// Bounds on what is read. The defaults fit any real log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseOptions {
    /// Decompressed bytes of one region before the rest is given up.
    pub region_bytes_max: u64,
    /// Records that [`parse`] keeps.
    pub records_max: usize,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            region_bytes_max: REGION_BYTES_MAX,
            records_max: RECORDS_MAX,
        }
    }
}

/// A module that has data in a log, whether its records are read or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleEntry {
    /// Which.
    pub id: ModuleId,
    /// Version of its records; 0 in 1.x and 2.x logs.
    pub record_version: u32,
    /// Where its region starts in the file.
    pub offset: u64,
    /// Length of the region in the file.
    pub len: u64,
    /// True if Darshan ran out of memory for the module: not all files that were used are in the log.
    pub partial: bool,
    /// File records read; `None` for a module whose records this reader skips.
    pub records: Option<u64>,
}

/// One log.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// The format version as the file gives it, such as `3.21`.
    pub version: String,
    /// Byte order of the machine that wrote it.
    pub order: ByteOrder,
    /// How it is compressed.
    pub compression: Compression,
    /// False before 2.03: time stamps of records do not count from the start of the job and mean nothing.
    pub times_are_relative: bool,
    /// The run.
    pub job: Job,
    /// File names. In 1.x and 2.x logs only their last 12 or 15 characters: see [`Log::has_whole_names`].
    pub names: Names,
    /// The modules that have data.
    pub modules: Vec<ModuleEntry>,
    /// The records, in the order of the file; empty after [`scan`].
    pub records: Vec<ModuleRecord>,
    /// What could not be read.
    pub damages: Vec<Damage>,
}

impl Log {
    /// False for 1.x and 2.x, where a file is known by the hash of its path, and its name by the end of it only.
    pub fn has_whole_names(&self) -> bool {
        self.version.starts_with("3.")
    }
}

/// Damages as they are found, at most [`DAMAGES_MAX`].
#[derive(Debug)]
pub(crate) struct Damages {
    pub(crate) list: Vec<Damage>,
    /// A forged offset must not send a person past the end of the file.
    file_bytes: u64,
}

impl Damages {
    pub(crate) fn new(file: &[u8]) -> Self {
        Self {
            list: Vec::new(),
            file_bytes: file.len() as u64,
        }
    }

    pub(crate) fn push(&mut self, region: Region, byte: u64, what: String) {
        if self.list.len() < DAMAGES_MAX {
            let byte = byte.min(self.file_bytes);
            self.list.push(Damage { region, byte, what });
        }
    }
}

/// Reads a log of any format and keeps its records.
///
/// # Errors
/// [`LogError`] if the file is no Darshan log or its header or job region cannot be read. Damage elsewhere is listed in
/// [`Log::damages`], and everything before it in its region, and all other regions, are delivered.
pub fn parse(bytes: &[u8], options: &ParseOptions) -> Result<Log, LogError> {
    let mut records = Vec::new();
    let mut log = scan(bytes, options, |_, record| {
        let room = records.len() < options.records_max;
        if room {
            records.push(*record);
        }
        room
    })?;
    log.records = records;
    Ok(log)
}

/// Reads a log of any format and hands each record on, with the names (which 1.x and 2.x logs give only in the end: there
/// they are empty meanwhile). `sink` returns false to have no more of a module.
///
/// # Errors
/// As [`parse`].
pub fn scan(
    bytes: &[u8],
    options: &ParseOptions,
    mut sink: impl FnMut(&Names, &ModuleRecord) -> bool,
) -> Result<Log, LogError> {
    match bytes {
        [] => Err(LogError::Empty),
        [0x1f, 0x8b, ..] => v2::scan(bytes, Compression::Gzip, options, &mut sink),
        [b'B', b'Z', b'h', ..] => v2::scan(bytes, Compression::Bzip2, options, &mut sink),
        [b'3', b'.', b'0'..=b'9', ..] => v3::scan(bytes, options, &mut sink),
        [b'1' | b'2', b'.', b'0'..=b'9', ..] => {
            v2::scan(bytes, Compression::Plain, options, &mut sink)
        }
        _ => {
            let start: Vec<u8> = bytes.iter().take(8).copied().collect();
            Err(LogError::Foreign {
                found: format!("\"{}\"", start.escape_ascii()),
            })
        }
    }
}
