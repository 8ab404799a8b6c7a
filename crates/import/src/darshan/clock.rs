//! Clock of a log: converts seconds since the start of the job to timestamps and versions.
//!
//! Timestamps are as the log has them. If the start of the job is truncated to a whole second, that is recorded separately and not applied
//! to the timestamps, because times within one job are exact.

use esker_model::Version;

use super::access::Interval;
use super::job::JobTime;
use super::log::Log;

/// Converter from seconds since the start of the job to timestamps and versions.
pub(crate) struct Clock {
    /// Start of the job, in nanoseconds since 1970.
    pub(crate) start_ns: i64,
    /// End of the job, in nanoseconds since 1970.
    pub(crate) end_ns: i64,
    /// Upper bound of the true end: logs before 3.41 truncate the end to whole seconds.
    latest_ns: i64,
    relative: bool,
    logical: u16,
}

const NS_PER_MS: i64 = 1_000_000;

impl Clock {
    /// Returns the clock of a log; `logical` distinguishes its versions from those of other logs.
    pub(crate) fn new(log: &Log, logical: u16) -> Self {
        let job = &log.job;
        let ns = |time: JobTime| {
            time.seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(time.nanoseconds)
        };
        let start_ns = ns(job.start);
        let end_ns = ns(job.end).max(start_ns);
        let latest_ns = end_ns.saturating_add(job.resolution_ms * NS_PER_MS);
        Self {
            start_ns,
            end_ns,
            latest_ns,
            relative: log.times_are_relative,
            logical,
        }
    }

    /// Returns the version of a timestamp.
    pub(crate) fn version(&self, ns: i64) -> Version {
        Version::new(
            u64::try_from(ns.div_euclid(NS_PER_MS)).unwrap_or(0),
            self.logical,
        )
    }

    /// Returns the version of the start of the job.
    pub(crate) fn start(&self) -> Version {
        self.version(self.start_ns)
    }

    /// Returns a timestamp clamped to the job: a clock jump must not date a write outside its job.
    fn clamped(&self, seconds: Option<f64>) -> Option<i64> {
        let seconds = seconds.filter(|_| self.relative)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "saturates, and is bounded next"
        )]
        let ns = self.start_ns.saturating_add((seconds * 1e9) as i64);
        Some(ns.clamp(self.start_ns, self.latest_ns))
    }

    /// Returns the first start and last end in nanoseconds since 1970. Missing values are taken from the file's interval, else from the
    /// job's.
    pub(crate) fn interval(&self, interval: &Interval, any: &Interval) -> (i64, i64) {
        let end = self
            .clamped(interval.end)
            .or_else(|| self.clamped(any.end))
            .unwrap_or(self.end_ns);
        let start = self
            .clamped(interval.start)
            .or_else(|| self.clamped(any.start))
            .unwrap_or(self.start_ns);
        (start.min(end), end)
    }
}
