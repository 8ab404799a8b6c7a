//! The job region: user, command, times, number of processes, mounts.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::bytes::text;

/// A timestamp: seconds since 1970 UTC, and nanoseconds if the log has them (format 3.41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct JobTime {
    /// Whole seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second; 0 in logs before 3.41, whose times are truncated to whole seconds.
    pub nanoseconds: i64,
}

impl JobTime {
    /// Returns milliseconds since 1970, saturating.
    pub fn milliseconds(self) -> i64 {
        self.seconds
            .saturating_mul(1000)
            .saturating_add(self.nanoseconds.div_euclid(1_000_000))
    }
}

/// One mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Path of the mount point.
    pub path: String,
    /// File system type: `lustre`, `gpfs`, `nfs`, …
    pub kind: String,
}

/// Properties of the run as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// Numeric id of the user. Anonymised logs have a number that belongs to no account.
    pub uid: i64,
    /// Start of the job (`MPI_Init`, or the start of the process).
    pub start: JobTime,
    /// End of the job.
    pub end: JobTime,
    /// Milliseconds by which the true start may be later than `start`: 999 if the log has only whole seconds.
    pub resolution_ms: i64,
    /// Number of processes in the job.
    pub processes: i64,
    /// The scheduler's job number, or a process id without a scheduler; 0 in 1.x logs.
    pub job_id: i64,
    /// Key and value pairs in the order of the log: library version, MPI-IO hints, …
    pub metadata: Vec<(String, String)>,
    /// The command line as recorded by Darshan; empty if unknown.
    pub command: String,
    /// Mount table, the longest paths first.
    pub mounts: Vec<Mount>,
}

impl Job {
    /// Returns the program: the command line up to the first blank.
    pub fn executable(&self) -> Option<&str> {
        self.command.split_whitespace().next()
    }

    /// Returns the command line after the program.
    pub fn arguments(&self) -> &str {
        let line = self.command.trim();
        line.split_once(char::is_whitespace)
            .map_or("", |(_, rest)| rest.trim())
    }

    /// Parses `key=value` lines. Only the first `=` separates: MPI-IO hints contain more.
    pub(crate) fn set_metadata(&mut self, raw: &[u8]) {
        self.metadata = text(raw)
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
    }

    /// Parses the text after the fixed record: the command line, then one line per mount, whose last two words are the type and the path
    /// (1.x and 2.x have a device number in front).
    pub(crate) fn set_tail(&mut self, raw: &[u8]) {
        let tail = text(raw);
        let mut lines = tail.split('\n');
        lines
            .next()
            .unwrap_or_default()
            .clone_into(&mut self.command);
        self.mounts = lines
            .filter_map(|line| {
                let mut words = line.split('\t').rev();
                let (path, kind) = (words.next()?, words.next()?);
                Some(Mount {
                    path: path.to_owned(),
                    kind: kind.to_owned(),
                })
            })
            .collect();
        // Longest path first, so that the first one that is a prefix of a file's path is its mount.
        self.mounts.sort_by(|a, b| {
            b.path
                .len()
                .cmp(&a.path.len())
                .then_with(|| a.path.cmp(&b.path))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_and_mounts() {
        let mut job = Job::default();
        job.set_tail(
            b"./app -n 4  in.dat \nlustre\t/scratch\n10\tgpfs\t/scratch/deep\nbroken\0trailing\n",
        );
        assert_eq!(job.executable(), Some("./app"));
        assert_eq!(job.arguments(), "-n 4  in.dat");
        let mounts: Vec<_> = job
            .mounts
            .iter()
            .map(|m| (m.path.as_str(), m.kind.as_str()))
            .collect();
        assert_eq!(mounts, [("/scratch/deep", "gpfs"), ("/scratch", "lustre")]);
    }

    #[test]
    fn metadata_is_parted_at_the_first_equals_sign() {
        let mut job = Job::default();
        job.set_metadata(b"lib_ver=3.2.1\nh=romio_no_indep_rw=true;cb_nodes=4\nnothing\n\0\0");
        assert_eq!(
            job.metadata[1],
            (
                "h".to_owned(),
                "romio_no_indep_rw=true;cb_nodes=4".to_owned()
            )
        );
        assert_eq!(job.metadata.len(), 2);
    }
}
