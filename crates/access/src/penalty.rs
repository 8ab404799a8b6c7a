//! Sources that fail to prove who they are, often and lately.
//!
//! Each failure costs its source some seconds. Once there are many of them, what it shows is not looked at any more until they are over,
//! unless it shows a key that has rights: one address may be that of many people, and nobody locks others out.

use crate::slots::Source;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What one failure costs.
const EACH: Duration = Duration::from_secs(5);
/// From here on it is hindered.
const LEAST: Duration = Duration::from_secs(30);
/// The most that a source collects.
const MOST: Duration = Duration::from_mins(5);
/// Sources that are remembered; those that are free soonest are forgotten first.
const SOURCES_MAX: usize = 4_096;

/// What sources have collected: the time at which each is free of it.
#[derive(Debug, Default)]
pub(crate) struct Penalties(Mutex<HashMap<Source, Instant>>);

impl Penalties {
    /// It has failed once more.
    pub(crate) fn failed(&self, source: Source) {
        self.failed_at(source, Instant::now());
    }

    /// How long it is hindered still, if it is.
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
        // Who has failed most is remembered.
        assert!(penalties.hinders_at(Source::User(0), now).is_some());
    }
}
