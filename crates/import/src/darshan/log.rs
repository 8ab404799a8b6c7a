//! Reading of whole logs: [`parse`] keeps every record, [`scan`] passes each one to a callback.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::bytes::ByteOrder;
use super::error::{Damage, LogError, Region};
use super::inflate::Compression;
use super::job::Job;
use super::limits::{DAMAGES_MAX, RECORDS_MAX, REGION_BYTES_MAX};
use super::names::Names;
use super::record::{Module, ModuleId, ModuleRecord};
use super::{v2, v3};

/// Limits of reading. The defaults fit any real log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseOptions {
    /// Limit of decompressed bytes from one region.
    pub region_bytes_max: u64,
    /// Limit of records that [`parse`] keeps.
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

/// A module that has data in a log, whether or not its records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleEntry {
    /// Number of the module.
    pub id: ModuleId,
    /// Version of the module's records; 0 in 1.x and 2.x logs.
    pub record_version: u32,
    /// Offset of the module's region in the file.
    pub offset: u64,
    /// Length of the region in the file.
    pub len: u64,
    /// Whether Darshan ran out of memory for the module: then the log does not contain all files.
    pub partial: bool,
    /// Number of file records read; `None` for a module whose records this reader skips.
    pub records: Option<u64>,
}

/// Number of the module that counts accesses to single objects of DAOS.
const DAOS: ModuleId = ModuleId(17);

/// Contents of a Darshan log.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// The format version as the file gives it, such as `3.21`.
    pub version: String,
    /// Byte order of the machine that wrote it.
    pub order: ByteOrder,
    /// Compression method of the log.
    pub compression: Compression,
    /// Whether timestamps of records count from the start of the job. False before 2.03, where they have no meaning.
    pub times_are_relative: bool,
    /// Properties of the job.
    pub job: Job,
    /// File names. In 1.x and 2.x logs only the last 12 or 15 characters: see [`Log::has_whole_names`].
    pub names: Names,
    /// Modules that have data.
    pub modules: Vec<ModuleEntry>,
    /// Records in the order of the file; empty after [`scan`].
    pub records: Vec<ModuleRecord>,
    /// Parts that could not be read.
    pub damages: Vec<Damage>,
}

impl Log {
    /// Returns whether the log has complete file names. False for 1.x and 2.x, which have only the hash of a path and the end of the name.
    pub fn has_whole_names(&self) -> bool {
        self.version.starts_with("3.")
    }

    /// Returns whether the log has objects of DAOS that belong to no file of the log. These make no edges: they have numbers and no names.
    pub fn has_objects_alone(&self) -> bool {
        let has = |id| self.modules.iter().any(|module| module.id == id);
        has(DAOS) && !has(Module::Dfs.id())
    }
}

/// Damages found so far, at most [`DAMAGES_MAX`].
#[derive(Debug)]
pub(crate) struct Damages {
    pub(crate) list: Vec<Damage>,
    /// Limits reported offsets: a forged one must not point past the end of the file.
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
/// Returns [`LogError`] if the file is no Darshan log, or if its header or job region cannot be read. Damage elsewhere is listed in
/// [`Log::damages`], and everything before it in its region, and all other regions, are returned.
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

/// Reads a log of any format and passes each record to `sink`, with the names (1.x and 2.x logs have these at the end: until then they are
/// empty). `sink` returns `false` to skip the rest of a module.
///
/// # Errors
/// Fails in the same cases as [`parse`].
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
