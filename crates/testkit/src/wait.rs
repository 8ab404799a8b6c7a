//! Waiting for what another thread or process does. Tests wait for events, not for times: the only deadline ends a
//! hang, and is far longer than anything takes on a slow or busy machine.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

/// Time after which a wait counts as hung.
pub const HANG: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `holds` returns true.
///
/// # Panics
///
/// After [`HANG`], with `what`.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(|| holds().then_some(()).ok_or(what));
}

/// Calls `attempt` repeatedly until it succeeds.
///
/// # Panics
///
/// After [`HANG`], with the last error.
#[track_caller]
pub fn eventually<T, E: Display>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + HANG;
    loop {
        match attempt() {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < end, "after {HANG:?}: {error}"),
        }
        std::thread::sleep(PAUSE);
    }
}

/// Calls `attempt` repeatedly until it succeeds, as [`eventually`], without blocking other futures.
///
/// # Panics
///
/// After [`HANG`], with the last error.
pub async fn eventually_async<T, E: Display>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + HANG;
    loop {
        match attempt().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < end, "after {HANG:?}: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Awaits a future that must not hang.
///
/// # Panics
///
/// After [`HANG`].
pub async fn ends<T>(what: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(HANG, what).await;
    ended.unwrap_or_else(|_| panic!("it has not ended after {HANG:?}"))
}
