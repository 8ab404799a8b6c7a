//! Logs of format 1.21 to 2.06: one gzip or bzip2 stream of a job header and fixed file records.
//!
//! ```text
//!  format       header  of which fixed                               record
//!  1.21 .. 1.24   1024  28: 32-bit, always big-endian                 16 + counters + floats + name suffix 12 (+4)
//!  2.00           1024  56: version, magic, uid, start, end, n, id    1328: hash, rank, suffix 16, 144 counters, 18 floats
//!  2.01 .. 2.03   1024  120: and 64 of metadata                       the same
//!  2.04 .. 2.06   4096  1080: and 1024 of metadata                    the same
//! ```
//! The fixed part of the header is followed by the command line, then the mount table, zero-filled.
//!
//! These formats lack two things, which are not guessed: a file is identified only by the hash of its path and the last characters of its
//! name; and bytes are counted once for system calls and C streams together, never for MPI-IO. Before 2.03 timestamps do not count from the
//! start of the job, so they are ignored.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::bytes::{ByteOrder, text};
use super::error::{LogError, Region};
use super::inflate::{Compression, Inflate};
use super::job::{Job, JobTime};
use super::limits::BUFFER_BYTES;
use super::log::{Damages, Log, ModuleEntry, ParseOptions};
use super::names::Names;
use super::record::{Module, ModuleRecord, Span};
use super::v3::{MAGIC, records};

/// Offsets and sizes in one of the old formats.
struct OldLayout {
    /// Bytes before the first file record.
    header: usize,
    /// Bytes of the header before the command line.
    fixed: usize,
    metadata: usize,
    counters: usize,
    floats: usize,
    /// Whether the name suffix is last and has 12 characters (1.x); later it is third and has 16 with its NUL.
    suffix_last: bool,
    /// Number of counters that 1.21 lacks, before the byte counts: the opens of pnetcdf and HDF5.
    missing: usize,
    times_are_relative: bool,
}

impl OldLayout {
    fn of(version: &str) -> Option<Self> {
        let two = |header, fixed, metadata, times_are_relative| Self {
            header,
            fixed,
            metadata,
            counters: 144,
            floats: 18,
            suffix_last: false,
            missing: 0,
            times_are_relative,
        };
        let one = |counters, floats, missing| Self {
            header: 1024,
            fixed: 28,
            metadata: 0,
            counters,
            floats,
            suffix_last: true,
            missing,
            times_are_relative: false,
        };
        Some(match version {
            "1.21" => one(133, 12, 3),
            "1.22" => one(138, 14, 0),
            "1.23" | "1.24" => one(140, 14, 0),
            "2.00" => two(1024, 56, 0, false),
            "2.01" | "2.02" => two(1024, 120, 64, false),
            "2.03" => two(1024, 120, 64, true),
            "2.04" | "2.05" | "2.06" => two(4096, 1080, 1024, true),
            _ => return None,
        })
    }

    fn record_bytes(&self) -> usize {
        32 + (self.counters + self.floats) * 8
    }

    fn job(&self, raw: &[u8]) -> Result<(Job, ByteOrder), LogError> {
        let (mut job, order) = if self.suffix_last {
            let order = ByteOrder::Big;
            let word = |at| i64::from(order.i32(raw, at));
            let time = |at| JobTime {
                seconds: word(at),
                nanoseconds: 0,
            };
            let uid = i64::from(order.u32(raw, 12));
            (
                Job {
                    uid,
                    start: time(16),
                    end: time(20),
                    processes: word(24),
                    ..Job::default()
                },
                order,
            )
        } else {
            let order = match (ByteOrder::Little.u64(raw, 8), ByteOrder::Big.u64(raw, 8)) {
                (MAGIC, _) => ByteOrder::Little,
                (_, MAGIC) => ByteOrder::Big,
                (found, _) => return Err(LogError::Magic { byte: 8, found }),
            };
            let word = |at: usize| order.i64(raw, at * 8);
            let time = |at| JobTime {
                seconds: word(at),
                nanoseconds: 0,
            };
            let job = Job {
                uid: word(2),
                start: time(3),
                end: time(4),
                processes: word(5),
                job_id: word(6),
                ..Job::default()
            };
            (job, order)
        };
        job.resolution_ms = 999;
        job.set_metadata(
            raw.get(self.fixed - self.metadata..self.fixed)
                .unwrap_or_default(),
        );
        job.set_tail(raw.get(self.fixed..).unwrap_or_default());
        Ok((job, order))
    }

    /// Returns the suffix of the file's name, one record for system calls and streams, and one for MPI-IO if it was used.
    fn decode<'r>(
        &self,
        raw: &'r [u8],
        order: ByteOrder,
    ) -> (&'r [u8], ModuleRecord, Option<ModuleRecord>) {
        let record = order.u64(raw, 0);
        let (rank, counters) = if self.suffix_last {
            (i64::from(order.i32(raw, 8)), 16)
        } else {
            (order.i64(raw, 8), 32)
        };
        let floats = counters + self.counters * 8;
        let suffix = if self.suffix_last {
            let at = floats + self.floats * 8;
            raw.get(at..at + 12)
        } else {
            raw.get(16..31)
        };
        // Counter numbers are those of 2.06.
        let counter = |number: usize| {
            let place = if number > 22 {
                number - self.missing
            } else {
                number
            };
            order.i64(raw, counters + place * 8)
        };
        let sum = |numbers: &[usize]| {
            numbers
                .iter()
                .fold(0_i64, |sum, n| sum.saturating_add(counter(*n)))
        };
        let float = |number: usize| order.f64(raw, floats + number * 8);
        let base = ModuleRecord {
            module: Module::Posix,
            record,
            rank,
            opens: sum(&[13, 19]),
            reads: sum(&[11, 17]),
            writes: sum(&[12, 18]),
            seeks: sum(&[14, 20]),
            stats: counter(15),
            mmaps: counter(16),
            bytes_read: counter(47),
            bytes_written: counter(48),
            max_byte_read: counter(49),
            max_byte_written: counter(50),
            rename_targets: -1,
            renamed_from: 0,
            open: Span {
                start: float(0),
                end: -1.0,
            },
            read: Span {
                start: float(1),
                end: float(4),
            },
            write: Span {
                start: float(2),
                end: float(5),
            },
            close: Span {
                start: -1.0,
                end: float(3),
            },
        };
        let (opens, reads, writes) = (sum(&[0, 1]), sum(&[2, 4, 6, 8]), sum(&[3, 5, 7, 9]));
        let mpi = (opens > 0 || reads > 0 || writes > 0).then_some(ModuleRecord {
            module: Module::MpiIo,
            opens,
            reads,
            writes,
            seeks: -1,
            stats: -1,
            mmaps: -1,
            bytes_read: -1,
            bytes_written: -1,
            max_byte_read: -1,
            max_byte_written: -1,
            ..base
        });
        (suffix.unwrap_or_default(), base, mpi)
    }
}

/// Reads a 1.x or 2.x log. Records go to `sink` in the order of the file. The names are the suffixes.
pub(crate) fn scan(
    bytes: &[u8],
    compression: Compression,
    options: &ParseOptions,
    sink: &mut dyn FnMut(&Names, &ModuleRecord) -> bool,
) -> Result<Log, LogError> {
    let mut stream = Inflate::new(compression, bytes, 0, options.region_bytes_max);
    let mut raw = vec![0; 4096];
    fill(&mut stream, &mut raw, 0, 16)?;
    let version = text(raw.get(..8).unwrap_or_default());
    let Some(layout) = OldLayout::of(&version) else {
        let looks_old = matches!(version.as_bytes(), [b'1' | b'2', b'.', digits @ ..]
            if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit));
        return Err(if looks_old {
            LogError::Version { found: version }
        } else {
            LogError::Foreign {
                found: format!("{version:?} inside a compressed stream"),
            }
        });
    };
    fill(&mut stream, &mut raw, 16, layout.header)?;
    raw.truncate(layout.header);
    let (job, order) = layout.job(&raw)?;

    let mut names = Names::default();
    let mut damages = Damages::new(bytes);
    let mut buffer = vec![0; BUFFER_BYTES];
    let offset = stream.position();
    let (mut count, mut wanted) = (0, true);
    let nameless = Names::default();
    let failed = records(
        &mut stream,
        layout.record_bytes(),
        &mut buffer,
        &mut |raw| {
            let (suffix, base, mpi) = layout.decode(raw, order);
            count += 1;
            wanted = names.push(base.record, suffix) && sink(&nameless, &base);
            if let Some(mpi) = mpi.filter(|_| wanted) {
                wanted = sink(&nameless, &mpi);
            }
            wanted
        },
    );
    if let Some((byte, what)) = failed {
        damages.push(Region::Files, byte, what);
    }
    if !wanted {
        damages.push(
            Region::Files,
            stream.position(),
            "more records than the caller takes".to_owned(),
        );
    }
    names.finish();
    let entry = ModuleEntry {
        id: Module::Posix.id(),
        record_version: 0,
        offset,
        len: (bytes.len() as u64).saturating_sub(offset),
        partial: false,
        records: Some(count),
    };
    Ok(Log {
        version,
        order,
        compression,
        times_are_relative: layout.times_are_relative,
        job,
        names,
        modules: vec![entry],
        records: Vec::new(),
        damages: damages.list,
    })
}

/// Fills `raw[from..to]`; fails with the position if the file ends early.
fn fill(stream: &mut Inflate<'_>, raw: &mut [u8], from: usize, to: usize) -> Result<(), LogError> {
    let mut have = from;
    while have < to {
        match stream.read(raw.get_mut(have..to).unwrap_or_default()) {
            Ok(0) => {
                return Err(LogError::Truncated {
                    region: Region::Job,
                    byte: stream.position(),
                    expected: to as u64,
                    found: have as u64,
                });
            }
            Ok(n) => have += n,
            Err(error) => {
                return Err(LogError::Damaged {
                    region: Region::Job,
                    byte: error.byte,
                    what: error.what,
                });
            }
        }
    }
    Ok(())
}
