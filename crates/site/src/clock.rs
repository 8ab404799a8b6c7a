//! Clock of a tier: microseconds since 1970, taken from the wall clock at the start and advanced by the monotonic one, so that time
//! never goes back and entries on disk keep their age.

use esker_site_cache::entry::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    offset: Time,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            start: Instant::now(),
            offset: micros(since.unwrap_or_default()),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.offset + micros(self.start.elapsed())
    }
}

pub(crate) fn micros(time: Duration) -> Time {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
