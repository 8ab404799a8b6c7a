//! A small writer of 1.x and 2.x logs, in either byte order, written from the format's description and not from the reader.

use std::io::Write;

/// One file record, by the counter numbers of format 2.06.
#[derive(Debug, Clone, Default)]
pub(crate) struct OldFile {
    pub(crate) hash: u64,
    pub(crate) rank: i64,
    pub(crate) suffix: &'static str,
    pub(crate) counters: Vec<(usize, i64)>,
    pub(crate) floats: Vec<(usize, f64)>,
}

/// One log to be written.
#[derive(Debug, Clone, Default)]
pub(crate) struct OldLog {
    pub(crate) version: &'static str,
    pub(crate) big: bool,
    pub(crate) uid: i64,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) processes: i64,
    pub(crate) job: i64,
    pub(crate) metadata: &'static str,
    pub(crate) tail: &'static str,
    pub(crate) files: Vec<OldFile>,
}

/// Numbers of the counters that the tests set.
pub(crate) mod cp {
    pub(crate) const INDEP_OPENS: usize = 0;
    pub(crate) const COLL_WRITES: usize = 5;
    pub(crate) const POSIX_READS: usize = 11;
    pub(crate) const POSIX_WRITES: usize = 12;
    pub(crate) const POSIX_OPENS: usize = 13;
    pub(crate) const POSIX_STATS: usize = 15;
    pub(crate) const POSIX_FWRITES: usize = 18;
    pub(crate) const POSIX_FOPENS: usize = 19;
    pub(crate) const BYTES_READ: usize = 47;
    pub(crate) const BYTES_WRITTEN: usize = 48;
    pub(crate) const MAX_BYTE_WRITTEN: usize = 50;
    pub(crate) const F_READ_START: usize = 1;
    pub(crate) const F_WRITE_START: usize = 2;
    pub(crate) const F_CLOSE: usize = 3;
    pub(crate) const F_READ_END: usize = 4;
    pub(crate) const F_WRITE_END: usize = 5;
}

impl OldLog {
    fn put(&self, out: &mut Vec<u8>, value: i64) {
        out.extend(if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }

    /// Returns the log before compression.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let one = self.version.starts_with("1.");
        let mut out = self.version.as_bytes().to_vec();
        if one {
            assert!(self.big, "1.x is always big-endian");
            out.resize(12, 0);
            for value in [self.uid, self.start, self.end, self.processes] {
                out.extend(i32::try_from(value).unwrap().to_be_bytes());
            }
        } else {
            out.resize(8, 0);
            for value in [
                6_567_223,
                self.uid,
                self.start,
                self.end,
                self.processes,
                self.job,
            ] {
                self.put(&mut out, value);
            }
        }
        let (metadata, header) = match self.version {
            "2.01" | "2.02" | "2.03" => (64, 1024),
            "2.04" | "2.05" | "2.06" => (1024, 4096),
            _ => (0, 1024),
        };
        let at = out.len();
        out.extend(self.metadata.as_bytes());
        out.resize(at + metadata, 0);
        out.extend(self.tail.as_bytes());
        out.resize(header, 0);
        // Counters that a format lacks, by their numbers in 2.06, in ascending order.
        let (lacks, lacks_float): (&[usize], usize) = match self.version {
            "1.21" => (&[23, 24, 25, 61, 62, 138, 139, 140, 141, 142, 143], 6),
            "1.22" => (&[138, 139, 140, 141, 142, 143], 4),
            "1.23" | "1.24" => (&[140, 141, 142, 143], 4),
            _ => (&[], 0),
        };
        for file in &self.files {
            let mut suffix = [0; 16];
            suffix[..file.suffix.len()].copy_from_slice(file.suffix.as_bytes());
            self.put(&mut out, file.hash.cast_signed());
            if one {
                out.extend(i32::try_from(file.rank).unwrap().to_be_bytes());
                out.extend([0; 4]);
            } else {
                self.put(&mut out, file.rank);
                out.extend(suffix);
            }
            for number in (0..144).filter(|number| !lacks.contains(number)) {
                let value = file
                    .counters
                    .iter()
                    .find(|(n, _)| *n == number)
                    .map_or(0, |(_, v)| *v);
                self.put(&mut out, value);
            }
            for number in 0..18 - lacks_float {
                let value = file
                    .floats
                    .iter()
                    .find(|(n, _)| *n == number)
                    .map_or(0.0, |(_, v)| *v);
                self.put(&mut out, value.to_bits().cast_signed());
            }
            if one {
                out.extend(&suffix);
            }
        }
        out
    }

    /// Returns the log as Darshan writes it.
    pub(crate) fn gzip(&self) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&self.plain()).unwrap();
        encoder.finish().unwrap()
    }

    /// Returns the log as `darshan-convert` writes it.
    pub(crate) fn bzip2(&self) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(&self.plain()).unwrap();
        encoder.finish().unwrap()
    }
}
