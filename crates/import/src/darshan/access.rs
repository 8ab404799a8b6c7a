//! Accesses of a job to each file: the records of all modules and ranks combined.
//!
//! One write may be counted three times: by MPI-IO as the program requested it, by POSIX as the library performed it, by STDIO if it went
//! through a stream. The bytes of a file in a job are therefore
//!
//! - POSIX's, if POSIX counted any in that direction: the bytes moved to or from the file system;
//! - else those of DAOS's file system (DFS), which needs no system calls;
//! - else MPI-IO's (a driver below MPI-IO need not go through calls that Darshan sees);
//! - plus STDIO's: streams do their own system calls, which Darshan does not count under POSIX.
//!
//! The choice is made for the *file*, over all ranks: with collective buffering MPI-IO has one shared record of all ranks and POSIX one
//! record for each aggregator, and both count the same bytes. The sums of each module remain available and equal what `PyDarshan` shows.

use super::record::{Module, ModuleRecord, Span};

/// First start and last end of an operation, in seconds since the start of the job; `None` where the log does not say.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Interval {
    /// Start of the first operation.
    pub start: Option<f64>,
    /// End of the last operation.
    pub end: Option<f64>,
}

impl Interval {
    fn add(&mut self, span: Span) {
        if is_recorded(span.start) {
            self.start = Some(self.start.map_or(span.start, |old| old.min(span.start)));
        }
        if is_recorded(span.end) {
            self.end = Some(self.end.map_or(span.end, |old| old.max(span.end)));
        }
    }
}

/// Darshan writes 0 for "never" and -1 for "not counted by this version".
fn is_recorded(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0
}

/// Sums of one module over the ranks; counters that the log's version lacks are 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModuleSums {
    /// Number of records added up; 0 if the module has none for the file.
    pub records: u64,
    /// Number of opens counted.
    pub opens: i64,
    /// Number of reads counted.
    pub reads: i64,
    /// Number of writes counted.
    pub writes: i64,
    /// Number of bytes read.
    pub bytes_read: i64,
    /// Number of bytes written.
    pub bytes_written: i64,
}

/// One file in one job, or in one of its processes.
#[derive(Debug, Clone, PartialEq)]
pub struct FileAccess {
    /// Record id of the file.
    pub record: u64,
    /// Number of ranks with a record of their own.
    pub ranks: u64,
    /// Whether any record covers all ranks.
    pub shared: bool,
    /// Sums by module, in the order of [`Module::ALL`].
    pub modules: [ModuleSums; Module::COUNT],
    /// Highest offset read; -1 if unknown.
    pub max_byte_read: i64,
    /// Highest offset written; -1 if unknown.
    pub max_byte_written: i64,
    /// Record id of the first file that was renamed to this one; 0 for none.
    pub renamed_from: u64,
    /// Interval of all reads.
    pub read: Interval,
    /// Interval of all writes.
    pub write: Interval,
    /// Interval of all operations.
    pub any: Interval,
}

impl FileAccess {
    fn new(record: u64) -> Self {
        Self {
            record,
            ranks: 0,
            shared: false,
            modules: [ModuleSums::default(); Module::COUNT],
            max_byte_read: -1,
            max_byte_written: -1,
            renamed_from: 0,
            read: Interval::default(),
            write: Interval::default(),
            any: Interval::default(),
        }
    }

    fn add(&mut self, record: &ModuleRecord) {
        let [posix, mpiio, stdio, dfs] = &mut self.modules;
        let sums = match record.module {
            Module::Posix => posix,
            Module::MpiIo => mpiio,
            Module::Stdio => stdio,
            Module::Dfs => dfs,
        };
        sums.records += 1;
        for (sum, count) in [
            (&mut sums.opens, record.opens),
            (&mut sums.reads, record.reads),
            (&mut sums.writes, record.writes),
            (&mut sums.bytes_read, record.bytes_read),
            (&mut sums.bytes_written, record.bytes_written),
        ] {
            *sum = sum.saturating_add(count.max(0));
        }
        self.max_byte_read = self.max_byte_read.max(record.max_byte_read);
        self.max_byte_written = self.max_byte_written.max(record.max_byte_written);
        if self.renamed_from == 0 && record.rename_targets > 0 {
            self.renamed_from = record.renamed_from;
        }
        self.read.add(record.read);
        self.write.add(record.write);
        for span in [record.open, record.read, record.write, record.close] {
            self.any.add(span);
        }
    }

    /// Returns the sums of one module.
    pub fn module(&self, module: Module) -> &ModuleSums {
        let [posix, mpiio, stdio, dfs] = &self.modules;
        match module {
            Module::Posix => posix,
            Module::MpiIo => mpiio,
            Module::Stdio => stdio,
            Module::Dfs => dfs,
        }
    }

    fn merged(&self, get: fn(&ModuleSums) -> i64) -> i64 {
        let [posix, mpiio, stdio, dfs] = self.modules.each_ref().map(get);
        let below = [posix, dfs].into_iter().find(|count| *count > 0);
        stdio.saturating_add(below.unwrap_or(mpiio))
    }

    /// Returns the bytes read, each counted once; see the module's documentation.
    pub fn bytes_read(&self) -> i64 {
        self.merged(|sums| sums.bytes_read)
    }

    /// Returns the bytes written, each counted once.
    pub fn bytes_written(&self) -> i64 {
        self.merged(|sums| sums.bytes_written)
    }

    /// Returns the number of reads, by the same rule as the bytes.
    pub fn reads(&self) -> i64 {
        self.merged(|sums| sums.reads)
    }

    /// Returns the number of writes, by the same rule as the bytes.
    pub fn writes(&self) -> i64 {
        self.merged(|sums| sums.writes)
    }

    /// Returns the number of opens, by the same rule as the bytes.
    pub fn opens(&self) -> i64 {
        self.merged(|sums| sums.opens)
    }

    /// Returns whether anything was read. A read that returned no byte found the end of the file: the file is no input then.
    pub fn was_read(&self) -> bool {
        self.bytes_read() > 0
    }

    /// Returns whether anything was written, or another file was renamed to this one.
    pub fn was_written(&self) -> bool {
        self.writes() > 0 || self.bytes_written() > 0 || self.renamed_from != 0
    }
}

/// Returns the files of a job, by ascending record id.
pub fn file_accesses(records: &[ModuleRecord]) -> Vec<FileAccess> {
    let mut order: Vec<&ModuleRecord> = records.iter().collect();
    order.sort_by_key(|record| (record.record, record.rank));
    order
        .chunk_by(|a, b| a.record == b.record)
        .map(of_one_file)
        .collect()
}

/// Returns the files of each process that has records of its own, by ascending rank and record id.
pub fn rank_accesses(records: &[ModuleRecord]) -> Vec<(i64, FileAccess)> {
    let mut order: Vec<&ModuleRecord> = records.iter().filter(|record| record.rank >= 0).collect();
    order.sort_by_key(|record| (record.rank, record.record));
    order
        .chunk_by(|a, b| (a.rank, a.record) == (b.rank, b.record))
        .map(|group| {
            (
                group.first().map_or(0, |record| record.rank),
                of_one_file(group),
            )
        })
        .collect()
}

/// Adds up the records of one file, sorted by rank.
fn of_one_file(group: &[&ModuleRecord]) -> FileAccess {
    let mut access = FileAccess::new(group.first().map_or(0, |record| record.record));
    let mut last = None;
    for record in group {
        access.add(record);
        if record.rank < 0 {
            access.shared = true;
        } else if last != Some(record.rank) {
            last = Some(record.rank);
            access.ranks += 1;
        }
    }
    access
}

#[cfg(test)]
mod tests {
    use super::super::record::Layout;
    use super::*;
    use crate::darshan::ByteOrder;

    fn record(module: Module, file: u64, rank: i64, read: i64, written: i64) -> ModuleRecord {
        let version = Layout::newest(module);
        let empty = Layout::of(module, version)
            .unwrap()
            .decode(&[0; 704], ByteOrder::Little);
        ModuleRecord {
            record: file,
            rank,
            bytes_read: read,
            bytes_written: written,
            ..empty
        }
    }

    #[test]
    fn the_same_bytes_are_not_counted_twice() {
        // Collective buffering: MPI-IO has one record of all ranks, POSIX those of the aggregators.
        let records = [
            record(Module::MpiIo, 1, -1, 0, 8000),
            record(Module::Posix, 1, 0, 10, 4000),
            record(Module::Posix, 1, 2, 10, 4000),
            record(Module::MpiIo, 2, -1, 0, 8000),
            record(Module::Posix, 2, -1, 0, 0),
            record(Module::Stdio, 3, 0, 0, 5),
            record(Module::Posix, 3, 0, 0, 7),
            record(Module::MpiIo, 4, 0, 9, 9),
            record(Module::Dfs, 4, 0, 9, 8),
        ];
        let files = file_accesses(&records);
        let bytes: Vec<_> = files
            .iter()
            .map(|f| (f.record, f.bytes_read(), f.bytes_written()))
            .collect();
        assert_eq!(bytes, [(1, 20, 8000), (2, 0, 8000), (3, 0, 12), (4, 9, 8)]);
        assert_eq!((files[0].ranks, files[0].shared), (2, true));
        assert_eq!(files[0].module(Module::MpiIo).bytes_written, 8000);
        assert!(files[1].was_written() && !files[1].was_read());
        let ranks: Vec<_> = rank_accesses(&records)
            .iter()
            .map(|(r, f)| (*r, f.record))
            .collect();
        assert_eq!(ranks, [(0, 1), (0, 3), (0, 4), (2, 1)]);
    }

    /// A program that reads its own output to the end, and finds nothing behind it, would depend on itself.
    #[test]
    fn a_read_of_zero_bytes_is_no_input() {
        let at_the_end = ModuleRecord {
            reads: 3,
            ..record(Module::Posix, 1, 0, 0, 5)
        };
        let [file] = file_accesses(&[at_the_end]).try_into().unwrap();
        assert!(file.was_written() && !file.was_read());
        assert_eq!(file.reads(), 3);
    }

    #[test]
    fn times_that_are_not_known_do_not_count() {
        let early = ModuleRecord {
            read: Span {
                start: 2.0,
                end: 3.0,
            },
            write: Span {
                start: 0.0,
                end: 0.0,
            },
            close: Span {
                start: -1.0,
                end: 9.0,
            },
            ..record(Module::Posix, 1, 0, 1, 0)
        };
        let late = ModuleRecord {
            read: Span {
                start: 1.0,
                end: f64::NAN,
            },
            ..record(Module::Stdio, 1, 0, 1, 0)
        };
        let [file] = file_accesses(&[early, late]).try_into().unwrap();
        assert_eq!(
            file.read,
            Interval {
                start: Some(1.0),
                end: Some(3.0)
            }
        );
        assert_eq!(file.write, Interval::default());
        assert_eq!(
            file.any,
            Interval {
                start: Some(1.0),
                end: Some(9.0)
            }
        );
    }
}
