//! File records: the modules, the layout of each record version, and the counters that are read.
//!
//! A record of any version is `[record id u64][rank i64][integer counters][floating-point counters]`, eight bytes each. Versions differ in
//! their counters, so a layout is a table of positions ([`Layout`]), chosen once per region; decoding a record is then about twenty loads.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::fmt;

use super::bytes::ByteOrder;

/// Number of a Darshan module in the current numbering (3.41). Older numbers are converted when the header is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleId(pub u8);

const MODULE_NAMES: [&str; 18] = [
    "NULL",
    "POSIX",
    "MPI-IO",
    "H5F",
    "H5D",
    "PNETCDF_FILE",
    "PNETCDF_VAR",
    "BG/Q",
    "LUSTRE",
    "STDIO",
    "DXT_POSIX",
    "DXT_MPIIO",
    "MDHIM",
    "APXC",
    "APMPI",
    "HEATMAP",
    "DFS",
    "DAOS",
];

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match MODULE_NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "module {}", self.0),
        }
    }
}

/// Modules whose records become edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Module {
    /// System calls. In 1.x and 2.x logs, and in version 1 of the module, C streams are also counted here.
    Posix,
    /// MPI-IO calls of all kinds.
    MpiIo,
    /// C streams (`fopen` and related functions).
    Stdio,
    /// Calls of the DAOS file system's library. Below it, the module DAOS counts the same bytes for each object.
    Dfs,
}

impl Module {
    /// The modules in the order of the log.
    pub const ALL: [Self; Self::COUNT] = [Self::Posix, Self::MpiIo, Self::Stdio, Self::Dfs];
    /// Number of the modules.
    pub const COUNT: usize = 4;

    /// Returns the number of the module.
    pub fn id(self) -> ModuleId {
        ModuleId(match self {
            Self::Posix => 1,
            Self::MpiIo => 2,
            Self::Stdio => 9,
            Self::Dfs => 16,
        })
    }

    /// Returns the module with a number, if its records are read.
    pub fn from_id(id: ModuleId) -> Option<Self> {
        Self::ALL.into_iter().find(|module| module.id() == id)
    }
}

/// First start and last end of a kind of operation, in seconds since the start of the job.
///
/// Darshan writes 0 if there was no operation, and -1 if the log's version does not record it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Span {
    /// Start of the first operation.
    pub start: f64,
    /// End of the last operation.
    pub end: f64,
}

/// Counters of one module for one file, for one rank or for all.
///
/// Counts are as the log has them; -1 if the log's version lacks the counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModuleRecord {
    /// Module of the record.
    pub module: Module,
    /// Record id of the file: a 64-bit hash of its path.
    pub record: u64,
    /// Rank of the process; -1 if the counters cover all ranks.
    pub rank: i64,
    /// Number of opens of any kind (POSIX and MPI-IO: independent and collective).
    pub opens: i64,
    /// Number of reads of any kind (MPI-IO: independent, collective, split, non-blocking).
    pub reads: i64,
    /// Number of writes of any kind.
    pub writes: i64,
    /// Number of seek calls.
    pub seeks: i64,
    /// Number of `stat`, `lstat`, `fstat` calls.
    pub stats: i64,
    /// Number of `mmap` calls: through these a file may be read without a read call.
    pub mmaps: i64,
    /// Number of bytes read.
    pub bytes_read: i64,
    /// Number of bytes written.
    pub bytes_written: i64,
    /// Highest offset read, in bytes.
    pub max_byte_read: i64,
    /// Highest offset written, in bytes.
    pub max_byte_written: i64,
    /// Number of times the file was the target of a rename.
    pub rename_targets: i64,
    /// Record id of the first file that was renamed to this one; 0 for none.
    pub renamed_from: u64,
    /// Interval of all opens.
    pub open: Span,
    /// Interval of all reads.
    pub read: Span,
    /// Interval of all writes.
    pub write: Span,
    /// Interval of all closes.
    pub close: Span,
}

/// Offset of a counter from the start of a record, in words of 8 bytes; [`ABSENT`] if the version lacks the counter.
type Word = u16;
const ABSENT: Word = Word::MAX;
/// Offset of the first counter, after the record id and the rank.
const BASE: Word = 2;

/// Positions of the counters in one version of one module's records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) module: Module,
    /// Size of a record in bytes.
    pub(crate) size: usize,
    /// Each counter is a sum: MPI-IO counts five kinds of read, old POSIX counted `fread` separately from `read`.
    opens: [Word; 2],
    reads: [Word; 4],
    writes: [Word; 4],
    seeks: [Word; 2],
    stats: Word,
    mmaps: Word,
    bytes_read: Word,
    bytes_written: Word,
    max_byte_read: Word,
    max_byte_written: Word,
    rename_targets: Word,
    renamed_from: Word,
    /// Open, read, write, close; for each the first start, then the last end.
    times: [(Word, Word); 4],
}

const fn one<const N: usize>(word: Word) -> [Word; N] {
    let mut words = [ABSENT; N];
    let [first, ..] = words.as_mut_slice() else {
        return words;
    };
    *first = BASE + word;
    words
}

/// Positions of the times in POSIX and MPI-IO records before the close start and the open end were added.
const fn times_short(at: Word) -> [(Word, Word); 4] {
    [
        (at, ABSENT),
        (at + 1, at + 3),
        (at + 2, at + 4),
        (ABSENT, at + 5),
    ]
}

/// Positions of the times since then.
const fn times_long(at: Word) -> [(Word, Word); 4] {
    [
        (at, at + 4),
        (at + 1, at + 5),
        (at + 2, at + 6),
        (at + 3, at + 7),
    ]
}

impl Layout {
    /// Returns the newest known record version of a module.
    pub(crate) fn newest(module: Module) -> u32 {
        match module {
            Module::Posix => 4,
            Module::MpiIo => 3,
            Module::Stdio => 2,
            Module::Dfs => 1,
        }
    }

    /// Returns the layout of a record version; `None` for a version that this reader does not know.
    pub(crate) fn of(module: Module, version: u32) -> Option<Self> {
        Some(match (module, version) {
            (Module::Posix, 1) => Self {
                opens: [BASE, BASE + 6],
                reads: [BASE + 1, BASE + 7, ABSENT, ABSENT],
                writes: [BASE + 2, BASE + 8, ABSENT, ABSENT],
                seeks: [BASE + 3, BASE + 9],
                ..Self::posix(68, 15, 3, 13, None, times_short(BASE + 68))
            },
            (Module::Posix, 2) => Self::posix(64, 15, 3, 9, None, times_short(BASE + 64)),
            (Module::Posix, 3) => Self::posix(64, 17, 3, 9, None, times_long(BASE + 64)),
            (Module::Posix, 4) => Self::posix(69, 17, 5, 14, Some(11), times_long(BASE + 69)),
            (Module::MpiIo, 1 | 2) => Self::mpiio(15, times_short(BASE + 51)),
            (Module::MpiIo, 3) => Self::mpiio(17, times_long(BASE + 51)),
            (Module::Stdio, 1) => Self::stdio(13, 1),
            (Module::Stdio, 2) => Self::stdio(14, 2),
            (Module::Dfs, 1) => Self::dfs(),
            _ => return None,
        })
    }

    const fn posix(
        integers: Word,
        floats: Word,
        seeks: Word,
        bytes: Word,
        renames: Option<Word>,
        times: [(Word, Word); 4],
    ) -> Self {
        let (rename_targets, renamed_from) = match renames {
            Some(at) => (BASE + at, BASE + at + 1),
            None => (ABSENT, ABSENT),
        };
        Self {
            module: Module::Posix,
            size: (BASE + integers + floats) as usize * 8,
            opens: one(0),
            reads: one(seeks - 2),
            writes: one(seeks - 1),
            seeks: one(seeks),
            stats: BASE + seeks + 1,
            mmaps: BASE + seeks + 2,
            bytes_read: BASE + bytes,
            bytes_written: BASE + bytes + 1,
            max_byte_read: BASE + bytes + 2,
            max_byte_written: BASE + bytes + 3,
            rename_targets,
            renamed_from,
            times,
        }
    }

    const fn mpiio(floats: Word, times: [(Word, Word); 4]) -> Self {
        Self {
            module: Module::MpiIo,
            size: (BASE + 51 + floats) as usize * 8,
            opens: [BASE, BASE + 1],
            reads: [BASE + 2, BASE + 4, BASE + 6, BASE + 8],
            writes: [BASE + 3, BASE + 5, BASE + 7, BASE + 9],
            seeks: [ABSENT; 2],
            stats: ABSENT,
            mmaps: ABSENT,
            bytes_read: BASE + 14,
            bytes_written: BASE + 15,
            max_byte_read: ABSENT,
            max_byte_written: ABSENT,
            rename_targets: ABSENT,
            renamed_from: ABSENT,
            times,
        }
    }

    const fn stdio(integers: Word, reads: Word) -> Self {
        let float = BASE + integers;
        Self {
            module: Module::Stdio,
            size: (float + 15) as usize * 8,
            opens: one(0),
            reads: one(reads),
            writes: one(reads + 1),
            seeks: one(reads + 2),
            stats: ABSENT,
            mmaps: ABSENT,
            bytes_written: BASE + reads + 4,
            bytes_read: BASE + reads + 5,
            max_byte_read: BASE + reads + 6,
            max_byte_written: BASE + reads + 7,
            rename_targets: ABSENT,
            renamed_from: ABSENT,
            times: [
                (float + 3, float + 7),
                (float + 6, float + 10),
                (float + 5, float + 9),
                (float + 4, float + 8),
            ],
        }
    }

    /// Behind the counters are the UUIDs of the pool and the container.
    const fn dfs() -> Self {
        Self {
            module: Module::Dfs,
            size: (BASE + 52 + 15) as usize * 8 + 32,
            opens: [BASE, BASE + 1],
            reads: [BASE + 4, BASE + 5, ABSENT, ABSENT],
            writes: [BASE + 6, BASE + 7, ABSENT, ABSENT],
            stats: BASE + 13,
            ..Self::mpiio(0, times_long(BASE + 52))
        }
    }

    /// Decodes one record of `self.size` bytes.
    #[inline]
    pub(crate) fn decode(&self, raw: &[u8], order: ByteOrder) -> ModuleRecord {
        let integer = |word: Word| {
            if word == ABSENT {
                -1
            } else {
                order.i64(raw, usize::from(word) * 8)
            }
        };
        let sum = |words: &[Word]| {
            let mut total: Option<i64> = None;
            for word in words.iter().take_while(|word| **word != ABSENT) {
                total = Some(
                    total
                        .unwrap_or(0)
                        .saturating_add(order.i64(raw, usize::from(*word) * 8)),
                );
            }
            total.unwrap_or(-1)
        };
        let float = |word: Word| {
            if word == ABSENT {
                -1.0
            } else {
                order.f64(raw, usize::from(word) * 8)
            }
        };
        let span = |(start, end): (Word, Word)| Span {
            start: float(start),
            end: float(end),
        };
        let [open, read, write, close] = self.times.map(span);
        ModuleRecord {
            module: self.module,
            record: order.u64(raw, 0),
            rank: order.i64(raw, 8),
            opens: sum(&self.opens),
            reads: sum(&self.reads),
            writes: sum(&self.writes),
            seeks: sum(&self.seeks),
            stats: integer(self.stats),
            mmaps: integer(self.mmaps),
            bytes_read: integer(self.bytes_read),
            bytes_written: integer(self.bytes_written),
            max_byte_read: integer(self.max_byte_read),
            max_byte_written: integer(self.max_byte_written),
            rename_targets: integer(self.rename_targets),
            renamed_from: if self.renamed_from == ABSENT {
                0
            } else {
                integer(self.renamed_from).cast_unsigned()
            },
            open,
            read,
            write,
            close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_c_structs() {
        let sizes: Vec<usize> = [
            (Module::Posix, 1),
            (Module::Posix, 2),
            (Module::Posix, 3),
            (Module::Posix, 4),
            (Module::MpiIo, 1),
            (Module::MpiIo, 2),
            (Module::MpiIo, 3),
            (Module::Stdio, 1),
            (Module::Stdio, 2),
            (Module::Dfs, 1),
        ]
        .into_iter()
        .map(|(module, version)| Layout::of(module, version).unwrap().size)
        .collect();
        assert_eq!(sizes, [680, 648, 664, 704, 544, 544, 560, 240, 248, 584]);
        assert!(Layout::of(Module::Posix, 0).is_none());
        assert!(Layout::of(Module::Posix, Layout::newest(Module::Posix) + 1).is_none());
    }

    /// A record whose n-th word is n shows from which word each counter was taken.
    #[test]
    fn counters_come_from_their_places() {
        let raw: Vec<u8> = (0..100_i64).flat_map(i64::to_le_bytes).collect();
        let posix = Layout::of(Module::Posix, 4)
            .unwrap()
            .decode(&raw, ByteOrder::Little);
        assert_eq!((posix.record, posix.rank, posix.opens), (0, 1, 2));
        assert_eq!(
            (
                posix.reads,
                posix.writes,
                posix.seeks,
                posix.stats,
                posix.mmaps
            ),
            (5, 6, 7, 8, 9)
        );
        assert_eq!((posix.bytes_read, posix.max_byte_written), (16, 19));
        assert_eq!((posix.rename_targets, posix.renamed_from), (13, 14));
        let old = Layout::of(Module::Posix, 1)
            .unwrap()
            .decode(&raw, ByteOrder::Little);
        assert_eq!(
            (old.opens, old.reads, old.writes, old.seeks),
            (2 + 8, 3 + 9, 4 + 10, 5 + 11)
        );
        assert_eq!(
            (old.stats, old.mmaps, old.bytes_read, old.rename_targets),
            (6, 7, 15, -1)
        );
        let mpi = Layout::of(Module::MpiIo, 3)
            .unwrap()
            .decode(&raw, ByteOrder::Little);
        assert_eq!(
            (mpi.opens, mpi.reads, mpi.writes),
            (2 + 3, 4 + 6 + 8 + 10, 5 + 7 + 9 + 11)
        );
        assert_eq!((mpi.bytes_read, mpi.bytes_written, mpi.seeks), (16, 17, -1));
    }
}
