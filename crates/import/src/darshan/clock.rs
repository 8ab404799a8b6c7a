//! A log's clock: seconds since the start of the job, made points in time and versions.
//!
//! Every moment is as the log says it; that the start of the job may be cut to a whole second is said beside it, not
//! mixed into it, because within one job the times are exact.

use esker_model::Version;

use super::access::Interval;
use super::job::JobTime;
use super::log::Log;

/// Turns seconds since the start of the job into points in time and versions.
pub(crate) struct Clock {
    /// Start of the job, in nanoseconds since 1970.
    pub(crate) start_ns: i64,
    /// Its end.
    pub(crate) end_ns: i64,
    /// The job cannot have ended after this: logs before 3.41 cut its end to whole seconds.
    latest_ns: i64,
    relative: bool,
    logical: u16,
}

const NS_PER_MS: i64 = 1_000_000;

impl Clock {
    /// The clock of a log; `logical` tells its versions from those of other logs.
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

    /// The version of a moment.
    pub(crate) fn version(&self, ns: i64) -> Version {
        Version::new(
            u64::try_from(ns.div_euclid(NS_PER_MS)).unwrap_or(0),
            self.logical,
        )
    }

    /// The version of the start of the job.
    pub(crate) fn start(&self) -> Version {
        self.version(self.start_ns)
    }

    /// A moment of the job, never outside it: a clock that jumped must not date a write before its job or into next year.
    fn moment(&self, seconds: Option<f64>) -> Option<i64> {
        let seconds = seconds.filter(|_| self.relative)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "saturates, and is bounded next"
        )]
        let ns = self.start_ns.saturating_add((seconds * 1e9) as i64);
        Some(ns.clamp(self.start_ns, self.latest_ns))
    }

    /// First start and last end in nanoseconds since 1970; what the log does not say comes from what is known of the file,
    /// else from the job.
    pub(crate) fn interval(&self, interval: &Interval, any: &Interval) -> (i64, i64) {
        let end = self
            .moment(interval.end)
            .or_else(|| self.moment(any.end))
            .unwrap_or(self.end_ns);
        let start = self
            .moment(interval.start)
            .or_else(|| self.moment(any.start))
            .unwrap_or(self.start_ns);
        (start.min(end), end)
    }
}
