//! Logs of format 3.00 to 3.41: a plain header with the offset and length of every region, each region compressed by itself.
//!
//! ```text
//!  before 3.41                                  3.41
//!    0  version, 8 characters                     0  version
//!    8  magic number i64: tells the byte order    8  magic number
//!   16  compression u8, 3 unused                 16  compression u8, 7 unused
//!   20  modules that ran out of memory, u32      24  the same, u64
//!   24  name region: offset u64, length u64      32  name region
//!   40  16 modules: offset, length               48  64 modules
//!  296  16 record versions, u32                1072  64 record versions
//!  360  job region, up to the next              1328  job region
//! ```
//! Module numbers moved twice: H5D came in at 4 with 3.20, `PNETCDF_VAR` at 6 with 3.41.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::bytes::{ByteOrder, text};
use super::error::{Damage, LogError, Region};
use super::inflate::{Compression, Inflate};
use super::job::{Job, JobTime};
use super::limits::{BUFFER_BYTES, JOB_BYTES_MAX};
use super::log::{Damages, Log, ModuleEntry, ParseOptions};
use super::names::{NameLayout, Names};
use super::record::{Layout, Module, ModuleId, ModuleRecord};

/// The constant `CP_MAGIC_NR` or `DARSHAN_MAGIC_NR` of Darshan.
pub(crate) const MAGIC: u64 = 6_567_223;

const HEADER_BYTES_16: usize = 360;
const HEADER_BYTES_64: usize = 1328;
const JOB_METADATA_BYTES: usize = 1024;

/// An offset and a length in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Extent {
    offset: u64,
    len: u64,
}

struct Header {
    minor: u32,
    order: ByteOrder,
    compression: Compression,
    job: Extent,
    names: Extent,
    modules: Vec<(ModuleId, Extent, u32, bool)>,
}

/// Returns the minor part of a version such as "3.41".
fn minor_version(version: &str) -> Option<u32> {
    let minor = version.strip_prefix("3.")?;
    if minor.is_empty() || !minor.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    minor.parse().ok()
}

fn header(bytes: &[u8], version: &str) -> Result<Header, LogError> {
    let minor = minor_version(version).ok_or_else(|| LogError::Version {
        found: version.to_owned(),
    })?;
    let wide = minor >= 41;
    let (size, slots, maps, versions, names) = if wide {
        (HEADER_BYTES_64, 64, 48, 1072, 32)
    } else {
        (HEADER_BYTES_16, 16, 40, 296, 24)
    };
    if bytes.len() < size {
        return Err(LogError::Truncated {
            region: Region::Header,
            byte: bytes.len() as u64,
            expected: size as u64,
            found: bytes.len() as u64,
        });
    }
    let order = match (
        ByteOrder::Little.u64(bytes, 8),
        ByteOrder::Big.u64(bytes, 8),
    ) {
        (MAGIC, _) => ByteOrder::Little,
        (_, MAGIC) => ByteOrder::Big,
        (found, _) => return Err(LogError::Magic { byte: 8, found }),
    };
    let compression = match bytes.get(16) {
        Some(0) => Compression::Zlib,
        Some(1) => Compression::Bzip2,
        Some(2) => Compression::Plain,
        other => {
            return Err(LogError::Compression {
                found: other.copied().unwrap_or_default(),
            });
        }
    };
    let partial = if wide {
        order.u64(bytes, 24)
    } else {
        u64::from(order.u32(bytes, 20))
    };
    let extent = |at: usize| Extent {
        offset: order.u64(bytes, at),
        len: order.u64(bytes, at + 8),
    };
    let names = extent(names);
    let mut modules = Vec::new();
    for slot in 0..slots {
        let mut number = slot;
        number += u8::from(minor < 20 && number >= 4);
        number += u8::from(minor < 41 && number >= 6);
        let at = usize::from(slot);
        let extent = extent(maps + at * 16);
        if extent.len > 0 {
            let version = order.u32(bytes, versions + at * 4);
            modules.push((ModuleId(number), extent, version, partial >> slot & 1 == 1));
        }
    }
    // The job region has no entry: it is between the header and the first of the other regions.
    let start = size as u64;
    let end = std::iter::once(names.offset)
        .chain(modules.iter().map(|module| module.1.offset))
        .filter(|offset| *offset > start)
        .min()
        .unwrap_or(bytes.len() as u64);
    let job = Extent {
        offset: start,
        len: end - start,
    };
    Ok(Header {
        minor,
        order,
        compression,
        job,
        names,
        modules,
    })
}

/// Returns the part of the file that an extent covers, and whether the file ends before the extent does.
fn slice(bytes: &[u8], extent: Extent) -> (&[u8], bool) {
    let start = usize::try_from(extent.offset)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    let end = usize::try_from(extent.offset.saturating_add(extent.len))
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    let part = bytes.get(start..end.max(start)).unwrap_or_default();
    (part, (part.len() as u64) < extent.len)
}

fn job<'a>(
    bytes: &'a [u8],
    header: &Header,
    stream: &mut Inflate<'a>,
    buffer: &mut [u8],
) -> Result<Job, LogError> {
    let (part, _) = slice(bytes, header.job);
    stream.open(part, header.job.offset, JOB_BYTES_MAX as u64);
    let raw = buffer.get_mut(..JOB_BYTES_MAX).unwrap_or_default();
    let mut have = 0;
    let mut failed = None;
    while let Some(room) = raw.get_mut(have..).filter(|room| !room.is_empty()) {
        match stream.read(room) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let words = if header.minor >= 41 { 7 } else { 5 };
    let fixed = words * 8 + JOB_METADATA_BYTES;
    if have < fixed {
        return Err(match failed {
            Some(error) => LogError::Damaged {
                region: Region::Job,
                byte: error.byte,
                what: error.what,
            },
            None => LogError::Truncated {
                region: Region::Job,
                byte: stream.position(),
                expected: fixed as u64,
                found: have as u64,
            },
        });
    }
    let word = |at: usize| header.order.i64(raw, at * 8);
    let mut job = if header.minor >= 41 {
        Job {
            uid: word(0),
            start: JobTime {
                seconds: word(1),
                nanoseconds: word(2),
            },
            end: JobTime {
                seconds: word(3),
                nanoseconds: word(4),
            },
            processes: word(5),
            job_id: word(6),
            ..Job::default()
        }
    } else {
        Job {
            uid: word(0),
            start: JobTime {
                seconds: word(1),
                nanoseconds: 0,
            },
            end: JobTime {
                seconds: word(2),
                nanoseconds: 0,
            },
            processes: word(3),
            job_id: word(4),
            resolution_ms: 999,
            ..Job::default()
        }
    };
    job.set_metadata(raw.get(words * 8..fixed).unwrap_or_default());
    job.set_tail(raw.get(fixed..have).unwrap_or_default());
    Ok(job)
}

/// Reads a 3.x log; records go to `sink` in the order of the file, each with the names, which precede them.
pub(crate) fn scan(
    bytes: &[u8],
    options: &ParseOptions,
    sink: &mut dyn FnMut(&Names, &ModuleRecord) -> bool,
) -> Result<Log, LogError> {
    let version = text(bytes.get(..8.min(bytes.len())).unwrap_or_default());
    let header = header(bytes, &version)?;
    // One decoder and one buffer for all regions: for a small log their setup is most of the cost.
    let mut stream = Inflate::new(header.compression, &[], 0, 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    let job = job(bytes, &header, &mut stream, &mut buffer)?;
    let mut damages = Damages::new(bytes);
    if header.minor > 41 {
        let what =
            format!("log format {version} is newer than 3.41, the newest known; read as 3.41");
        damages.push(Region::Header, 0, what);
    }
    let names = if header.names.len == 0 {
        Names::default()
    } else {
        let read = (&mut stream, buffer.as_mut_slice());
        names(bytes, &header, options, read, &mut damages)
    };

    let mut modules = Vec::new();
    for (id, extent, record_version, partial) in &header.modules {
        let mut entry = ModuleEntry {
            id: *id,
            record_version: *record_version,
            offset: extent.offset,
            len: extent.len,
            partial: *partial,
            records: None,
        };
        if let Some(module) = Module::from_id(*id) {
            let region = Region::Module(*id);
            if let Some(layout) = Layout::of(module, *record_version) {
                let (part, short) = slice(bytes, *extent);
                stream.open(part, extent.offset, options.region_bytes_max);
                let mut count = 0;
                let mut wanted = true;
                let failed = records(&mut stream, layout.size, &mut buffer, &mut |raw| {
                    count += 1;
                    wanted = sink(&names, &layout.decode(raw, header.order));
                    wanted
                });
                entry.records = Some(count);
                if short {
                    damages.push(region, bytes.len() as u64, ends_early(*extent, bytes.len()));
                } else if let Some((byte, what)) = failed {
                    damages.push(region, byte, what);
                }
                if !wanted {
                    damages.push(
                        region,
                        stream.position(),
                        "more records than the caller takes".to_owned(),
                    );
                }
            } else {
                let newest = Layout::newest(module);
                let what = format!(
                    "record version {record_version} is not known; expected 1 to {newest}; skipped"
                );
                damages.push(region, extent.offset, what);
            }
        }
        modules.push(entry);
    }
    Ok(Log {
        version,
        order: header.order,
        compression: header.compression,
        times_are_relative: true,
        job,
        names,
        modules,
        records: Vec::new(),
        damages: damages.list,
    })
}

fn ends_early(extent: Extent, len: usize) -> String {
    format!(
        "the file ends early: the region is {} bytes from byte {}, the file has {len}; is it a partial copy?",
        extent.len, extent.offset
    )
}

fn names<'a>(
    bytes: &'a [u8],
    header: &Header,
    options: &ParseOptions,
    (stream, buffer): (&mut Inflate<'a>, &mut [u8]),
    damages: &mut Damages,
) -> Names {
    let (part, short) = slice(bytes, header.names);
    let layout = if header.minor < 10 {
        NameLayout::Counted
    } else {
        NameLayout::Terminated
    };
    stream.open(part, header.names.offset, options.region_bytes_max);
    let (names, damage) = Names::read(stream, layout, header.order, buffer);
    if short {
        damages.push(
            Region::Names,
            bytes.len() as u64,
            ends_early(header.names, bytes.len()),
        );
    } else if let Some(Damage { region, byte, what }) = damage {
        damages.push(region, byte, what);
    }
    names
}

/// Cuts a stream into records of `size` bytes, until `take` returns `false`. Returns the error and its position.
pub(crate) fn records(
    stream: &mut Inflate<'_>,
    size: usize,
    buffer: &mut [u8],
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> Option<(u64, String)> {
    let mut have = 0;
    loop {
        let n = match stream.read(buffer.get_mut(have..).unwrap_or_default()) {
            Ok(n) => n,
            Err(error) => return Some((error.byte, error.what)),
        };
        if n == 0 {
            let what = format!("the last record is cut short: {have} of {size} bytes");
            return (have > 0).then(|| (stream.position(), what));
        }
        have += n;
        let whole = have - have % size;
        for raw in buffer.get(..whole).unwrap_or_default().chunks_exact(size) {
            if !take(raw) {
                return None;
            }
        }
        buffer.copy_within(whole..have, 0);
        have -= whole;
    }
}
