//! Hybrid logical clock: turns the host's time into versions.

use esker_model::Version;

/// Time source of the engine: the host's clock, or a simulator's.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 UTC. May stand still or step back.
    fn now_millis(&self) -> u64;

    /// Microseconds since any fixed instant, never backwards: for time budgets and profiles.
    fn monotonic_micros(&self) -> u64;
}

/// A hybrid logical clock: never behind the host's clock, never the same version twice, never backwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HybridClock {
    last: Version,
}

impl HybridClock {
    /// Starts after the last version ever assigned.
    pub(crate) fn after(last: Version) -> Self {
        Self { last }
    }

    /// The last version assigned.
    pub(crate) fn last(self) -> Version {
        self.last
    }

    /// Advances the clock to a version that another clock assigned.
    pub(crate) fn witness(&mut self, version: Version) {
        self.last = self.last.max(version);
    }

    /// Returns a new version, later than all before.
    pub(crate) fn tick(&mut self, now_millis: u64) -> Version {
        self.last = self.last.next().max(Version::new(now_millis, 0));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_even_if_the_host_clock_steps_back() {
        let mut clock = HybridClock::after(Version::new(100, 5));
        let versions: Vec<_> = [99, 100, 101, 101, 50].map(|ms| clock.tick(ms)).to_vec();
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        assert_eq!(versions[2], Version::new(101, 0));
    }
}
