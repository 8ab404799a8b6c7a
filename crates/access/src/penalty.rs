//! Penalties of sources that failed often and recently to prove an identity.
//!
//! Each failure costs its source some seconds. Above a limit, the proofs of a source are ignored until its penalty has passed, unless
//! it offers a key that has rights: many users may share one address, and none of them may lock out the others.

use crate::slots::Source;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Penalty per failure.
const EACH: Duration = Duration::from_secs(5);
/// Penalty from which a source is blocked.
const LEAST: Duration = Duration::from_secs(30);
/// Maximum penalty of a source.
const MOST: Duration = Duration::from_mins(5);
/// Maximum number of sources; those whose penalty ends first are dropped first.
const SOURCES_MAX: usize = 4_096;

/// Time at which the penalty of each source ends.
#[derive(Debug, Default)]
pub(crate) struct Penalties(Mutex<HashMap<Source, Instant>>);

impl Penalties {
    /// Adds the penalty of one failure.
    pub(crate) fn failed(&self, source: Source) {
        self.failed_at(source, Instant::now());
    }

    /// Returns how long the source is still blocked, if it is.
    pub(crate) fn hinders(&self, source: Source) -> Option<Duration> {
        self.hinders_at(source, Instant::now())
    }

    fn failed_at(&self, source: Source, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SOURCES_MAX && !all.contains_key(&source) {
            all.retain(|_, until| *until > now);
            if all.len() >= SOURCES_MAX {
                let soonest = all.iter().min_by_key(|(_, until)| **until);
                if let Some(soonest) = soonest.map(|(source, _)| *source) {
                    all.remove(&soonest);
                }
            }
        }
        let until = all.entry(source).or_insert(now);
        *until = ((*until).max(now) + EACH).min(now + MOST);
    }

    fn hinders_at(&self, source: Source, now: Instant) -> Option<Duration> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = all.get(&source)?.saturating_duration_since(now);
        (left >= LEAST).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_add_up_and_pass() {
        let penalties = Penalties::default();
        let (one, other) = (Source::User(1), Source::User(2));
        let now = Instant::now();
        for _ in 0..5 {
            penalties.failed_at(one, now);
        }
        assert_eq!(penalties.hinders_at(one, now), None);
        penalties.failed_at(one, now);
        assert_eq!(penalties.hinders_at(one, now), Some(LEAST));
        assert_eq!(penalties.hinders_at(other, now), None);
        assert_eq!(penalties.hinders_at(one, now + EACH), None);
        for _ in 0..1_000 {
            penalties.failed_at(one, now);
        }
        assert_eq!(penalties.hinders_at(one, now), Some(MOST));
        assert_eq!(penalties.hinders_at(one, now + MOST), None);
    }

    #[test]
    fn so_many_sources_are_remembered() {
        let penalties = Penalties::default();
        let now = Instant::now();
        for _ in 0..10 {
            penalties.failed_at(Source::User(0), now);
        }
        for n in 1..3 * SOURCES_MAX as u32 {
            penalties.failed_at(Source::User(n), now);
        }
        assert_eq!(penalties.0.lock().unwrap().len(), SOURCES_MAX);
        // The source with the most failures is kept.
        assert!(penalties.hinders_at(Source::User(0), now).is_some());
    }
}
