//! Use of the network threads by requests that they answer themselves. These threads have no queue: a client that sends many requests in
//! one message delays all others. While others are active, each client may use a part of the time; its further requests go to a queue.

use super::Share;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Period in which uses are added up.
const WINDOW: Duration = Duration::from_millis(10);
/// Part of the period that all clients together may use while several are active.
const PART: u32 = 2;
/// Clients that are counted in one period; requests of further ones go to a queue.
const CLIENTS_MAX: usize = 4_096;

/// Time of network threads that clients have used lately.
pub(crate) struct InlineUse {
    origin: Instant,
    state: Mutex<InlineState>,
}

#[derive(Default)]
struct InlineState {
    /// Number of the period.
    window: u64,
    /// Nanoseconds and weight by client, in this period.
    used: HashMap<Arc<str>, (u64, u32)>,
    /// Uses of the period before.
    before: HashMap<Arc<str>, (u64, u32)>,
}

impl InlineState {
    fn turn_to(&mut self, window: u64) {
        if window == self.window {
            return;
        }
        if window == self.window + 1 {
            std::mem::swap(&mut self.used, &mut self.before);
        } else {
            self.before.clear();
        }
        self.used.clear();
        self.window = window;
    }

    /// Whether a client may use a network thread now.
    fn may(&mut self, share: &Share, window: u64) -> bool {
        self.turn_to(window);
        let own = match self.used.get(&share.client) {
            Some((nanos, _)) => *nanos,
            None if self.used.len() >= CLIENTS_MAX => return false,
            None => {
                let client = Arc::clone(&share.client);
                self.used.insert(client, (0, share.weight));
                0
            }
        };
        let is_alone = |clients: &HashMap<Arc<str>, _>| {
            clients.len() <= 1 && clients.keys().all(|c| *c == share.client)
        };
        if is_alone(&self.used) && is_alone(&self.before) {
            return true;
        }
        let weights = |clients: &HashMap<Arc<str>, (u64, u32)>| {
            clients.values().map(|(_, w)| u64::from(*w)).sum::<u64>()
        };
        let all = weights(&self.used).max(weights(&self.before)).max(1);
        let window = u64::try_from(WINDOW.as_nanos()).unwrap_or(u64::MAX);
        own.saturating_mul(all) < window / u64::from(PART) * u64::from(share.weight)
    }

    fn charge(&mut self, share: &Share, nanos: u64) {
        if let Some((used, _)) = self.used.get_mut(&share.client) {
            *used += nanos;
        }
    }
}

impl InlineUse {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            state: Mutex::default(),
        }
    }

    fn window(&self) -> u64 {
        let windows = self.origin.elapsed().as_nanos() / WINDOW.as_nanos();
        u64::try_from(windows).unwrap_or(u64::MAX)
    }

    /// Answers a request on this thread and counts its time, unless its client has used its share.
    pub(crate) fn run<T>(&self, share: &Share, answer: impl FnOnce() -> Option<T>) -> Option<T> {
        let window = self.window();
        let lock = || self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !lock().may(share, window) {
            return None;
        }
        let began = Instant::now();
        let answered = answer();
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        lock().charge(share, nanos);
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(client: &str, weight: u32) -> Share {
        Share {
            client: client.into(),
            weight,
        }
    }

    /// A client alone may use all of the time; beside others, its part by weight in each period.
    #[test]
    fn a_client_uses_its_part_while_others_are_active() {
        let (heavy, light) = (share("heavy", 1), share("light", 3));
        let mut state = InlineState::default();
        for _ in 0..1_000 {
            assert!(state.may(&heavy, 7));
            state.charge(&heavy, 100_000);
        }
        // A second client comes: what the first has used in this period counts.
        assert!(state.may(&light, 7));
        assert!(!state.may(&heavy, 7));
        // In the next periods each has its part of 5 ms.
        for window in 8..20 {
            let mut used = [0; 2];
            for (client, used) in [&heavy, &light].into_iter().zip(&mut used) {
                state.may(client, window);
                while state.may(client, window) {
                    state.charge(client, 10_000);
                    *used += 10_000;
                }
            }
            assert!(used[1] >= 3_750_000 && used[1] < 3_800_000, "{used:?}");
            if window > 8 {
                assert!((1_250_000..1_300_000).contains(&used[0]), "{used:?}");
            }
        }
        // One period after the other client has gone, all of the time is there again.
        assert!(state.may(&heavy, 20));
        for _ in 0..1_000 {
            assert!(state.may(&heavy, 21));
            state.charge(&heavy, 100_000);
        }
    }
}
