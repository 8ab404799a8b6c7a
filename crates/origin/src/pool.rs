//! A pool of connections to one origin.
//!
//! A request goes to the connection with the fewest open requests. If all are full, another connection is made, up to the limit;
//! then requests wait. The number of requests that a connection may have open (its *window*) begins with the limit of
//! its session, is
//! halved when a connection breaks with several requests open, and grows by one with each full window of responses: so servers
//! that cannot take pipelined requests are detected. A request whose connection broke is retried on another one, a few times;
//! its total time is bounded.

use crate::error::{Error, Result};
use crate::origin_url::OriginUrl;
use crate::request::{MetadataRequest, Notification, PathMetadata};
use crate::session::{Connect, Session};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};

/// Settings of a pool.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of requests in flight on one connection: the paper's C.
    pub in_flight: usize,
    /// Time limit of one request, retries included.
    pub patience: Duration,
    /// Time limit of connecting.
    pub connect: Duration,
    /// Time after which a connection without requests is closed.
    pub idle: Duration,
    /// Maximum number of attempts for a request whose connections break.
    pub tries: u32,
    /// Whether the `default` account of `~/.netrc` is used for this origin.
    pub default_login: bool,
    /// Whether a password may be sent over the network in clear text (FTP, `GridFTP` without a certificate).
    pub clear_passwords: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 4,
            in_flight: 64,
            patience: Duration::from_secs(30),
            connect: Duration::from_secs(15),
            idle: Duration::from_mins(1),
            tries: 3,
            default_login: false,
            clear_passwords: false,
        }
    }
}

/// Maximum number of concurrent connection attempts: servers refuse unauthenticated connections when there are too
/// many (OpenSSH's
/// `MaxStartups`, from ten on).
const CONNECTING_MAX: usize = 4;
/// Shortest and longest pause after a failed connection attempt.
const RECONNECT_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Statistics of a pool, for display.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of open connections.
    pub connections: usize,
    /// Number of requests in flight.
    pub in_flight: usize,
    /// Current limit of requests in flight on one connection.
    pub window: usize,
    /// Total number of requests.
    pub asked: u64,
    /// Number of retries after a broken connection or a busy server.
    pub retries: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Shortest time of a request.
    pub fastest: Option<Duration>,
    /// Description of the server.
    pub about: String,
    /// Message of the last error.
    pub last_error: Option<String>,
}

struct Slot {
    session: Arc<dyn Session>,
    open: usize,
    answered: usize,
    idle_since: Instant,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    connecting: usize,
    window: usize,
    /// Time before which no connection attempt is made.
    reconnect_after: Option<Instant>,
    reconnect_delay: Duration,
    /// Error of the last connection attempt, returned to waiting requests.
    refused: Option<Error>,
    report: Report,
}

impl State {
    /// Removes broken connections. If one broke with several requests open, the window is halved.
    fn drop_slots(&mut self, gone: impl Fn(&Slot) -> bool) {
        let window = &mut self.window;
        self.slots.retain(|slot| {
            let goes = gone(slot);
            if goes && slot.open > 1 {
                *window = (*window / 2).max(1);
            }
            !goes
        });
    }
}

struct Inner {
    connect: Arc<dyn Connect>,
    settings: Settings,
    state: Mutex<State>,
    freed: Notify,
}

/// A pool of connections to one origin.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

/// One of a connection's request slots; released on drop.
struct RequestSlot {
    inner: Arc<Inner>,
    session: Arc<dyn Session>,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.inner.release(&self.session);
    }
}

impl Pool {
    /// Creates a pool without connections; the first request connects.
    pub fn new(connect: Arc<dyn Connect>, settings: Settings) -> Self {
        let state = State {
            window: settings.in_flight.max(1),
            reconnect_delay: RECONNECT_DELAY.0,
            ..State::default()
        };
        let inner = Inner {
            connect,
            settings,
            state: Mutex::new(state),
            freed: Notify::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The origin of all connections.
    pub fn origin_url(&self) -> &OriginUrl {
        self.inner.connect.origin_url()
    }

    /// Starts change notifications, if the origin supports them.
    pub fn changes(&self) -> Option<mpsc::Receiver<Notification>> {
        self.inner.connect.changes()
    }

    /// Whether changes to the last response for `path` are notified, if the origin sends notifications. Call after the response.
    pub fn notifies(&self, path: &[u8]) -> bool {
        self.inner.connect.notifies(path)
    }

    /// Returns the statistics of the pool.
    pub fn report(&self) -> Report {
        let state = self.inner.lock();
        let mut report = state.report.clone();
        report.connections = state.slots.len();
        report.in_flight = state.slots.iter().map(|s| s.open).sum();
        report.window = state.window;
        if let Some(slot) = state.slots.first() {
            report.about = slot.session.about();
        }
        report
    }

    /// Sends a request, and retries if that may help.
    ///
    /// # Errors
    /// Returns the last error of the attempts, or `TimedOut` after `patience`.
    pub async fn request(&self, request: MetadataRequest) -> Result<PathMetadata> {
        let timed_out = || Error::TimedOut {
            origin: self.origin_url().to_string().into(),
            seconds: self.inner.settings.patience.as_secs(),
        };
        self.inner.lock().report.asked += 1;
        let asked = timeout(
            self.inner.settings.patience,
            self.request_with_retries(request),
        )
        .await;
        let result = asked.unwrap_or_else(|_| Err(timed_out()));
        if let Err(error) = &result {
            let mut state = self.inner.lock();
            state.report.failed += 1;
            state.report.last_error = Some(error.to_string());
        }
        result
    }

    async fn request_with_retries(&self, request: MetadataRequest) -> Result<PathMetadata> {
        let mut tries = 0;
        loop {
            tries += 1;
            let slot = match self.acquire().await {
                Ok(slot) => slot,
                Err(error) if error.is_transient() && tries < self.inner.settings.tries => {
                    sleep(RECONNECT_DELAY.0 * 2_u32.pow(tries.min(8))).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let began = Instant::now();
            let result = slot.session.request(request.clone()).await;
            let error = match result {
                Ok(found) => {
                    self.inner.answered(&slot.session, began.elapsed());
                    return Ok(found);
                }
                Err(error) => error,
            };
            self.inner.failed(&slot.session, &error);
            drop(slot);
            if !error.is_transient() || tries >= self.inner.settings.tries {
                return Err(error);
            }
            self.inner.lock().report.retries += 1;
            if matches!(error, Error::Busy { .. }) {
                sleep(RECONNECT_DELAY.0 * 2_u32.pow(tries.min(8))).await;
            }
        }
    }

    async fn acquire(&self) -> Result<RequestSlot> {
        loop {
            let freed = self.inner.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(slot) = Inner::try_acquire(&self.inner)? {
                return Ok(slot);
            }
            freed.await;
        }
    }

    /// Closes connections that have been idle too long.
    pub async fn tidy(&self) {
        let mut gone = Vec::new();
        {
            let mut state = self.inner.lock();
            let idle = self.inner.settings.idle;
            state.slots.retain(|slot| {
                let stays = slot.open > 0 || slot.idle_since.elapsed() < idle;
                if !stays {
                    gone.push(slot.session.clone());
                }
                stays
            });
        }
        for session in gone {
            session.close().await;
        }
    }

    /// Closes all connections of the pool.
    pub async fn close(&self) {
        let slots = std::mem::take(&mut self.inner.lock().slots);
        let all = slots.iter().map(|slot| slot.session.close());
        futures_util::future::join_all(all).await;
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot of the connection with the fewest requests; returns `None` if one has to be waited for, and may
    /// start a connection.
    fn try_acquire(inner: &Arc<Self>) -> Result<Option<RequestSlot>> {
        let mut state = inner.lock();
        state.drop_slots(|slot| slot.session.is_broken());
        let window = state.window;
        let free = state
            .slots
            .iter_mut()
            .filter(|slot| slot.open < slot.session.width().clamp(1, window))
            .min_by_key(|slot| slot.open);
        if let Some(slot) = free {
            slot.open += 1;
            let session = slot.session.clone();
            let inner = inner.clone();
            return Ok(Some(RequestSlot { inner, session }));
        }
        if state.slots.is_empty() && state.connecting == 0 {
            // No connection exists; until the next attempt, the error of the last one is returned.
            let is_backing_off = state
                .reconnect_after
                .is_some_and(|until| until > Instant::now());
            if let (true, Some(error)) = (is_backing_off, &state.refused) {
                return Err(error.clone());
            }
        }
        let many = state.slots.len() + state.connecting;
        let is_backing_off = state
            .reconnect_after
            .is_some_and(|until| until > Instant::now());
        let more = many < inner.settings.connections.max(1) && state.connecting < CONNECTING_MAX;
        if more && !is_backing_off {
            state.connecting += 1;
            drop(state);
            tokio::spawn(Self::connect(inner.clone()));
        }
        Ok(None)
    }

    async fn connect(self: Arc<Self>) {
        let made = timeout(self.settings.connect, self.connect.connect()).await;
        let made = made.unwrap_or_else(|_| {
            Err(Error::Unreachable {
                origin: self.connect.origin_url().to_string().into(),
                why: format!("no connection within {} s", self.settings.connect.as_secs()).into(),
            })
        });
        let mut state = self.lock();
        state.connecting -= 1;
        match made {
            Ok(session) => {
                state.reconnect_after = None;
                state.reconnect_delay = RECONNECT_DELAY.0;
                state.refused = None;
                state.slots.push(Slot {
                    session,
                    open: 0,
                    answered: 0,
                    idle_since: Instant::now(),
                });
            }
            Err(error) => {
                tracing::debug!(origin = %self.connect.origin_url(), %error, "no connection");
                state.reconnect_after = Some(Instant::now() + state.reconnect_delay);
                state.reconnect_delay = (state.reconnect_delay * 2).min(RECONNECT_DELAY.1);
                state.report.last_error = Some(error.to_string());
                state.refused = Some(error);
            }
        }
        drop(state);
        self.freed.notify_waiters();
    }

    fn release(&self, session: &Arc<dyn Session>) {
        let mut state = self.lock();
        let mut slots = state.slots.iter_mut();
        if let Some(slot) = slots.find(|slot| Arc::ptr_eq(&slot.session, session)) {
            slot.open = slot.open.saturating_sub(1);
            slot.idle_since = Instant::now();
        }
        drop(state);
        self.freed.notify_one();
    }

    fn answered(&self, session: &Arc<dyn Session>, took: Duration) {
        let mut state = self.lock();
        state.report.fastest = Some(state.report.fastest.map_or(took, |f| f.min(took)));
        let (window, most) = (state.window, self.settings.in_flight.max(1));
        let mut slots = state.slots.iter_mut();
        let found = slots.find(|slot| Arc::ptr_eq(&slot.session, session));
        let Some(slot) = found else { return };
        slot.answered += 1;
        if slot.answered >= window && window < most {
            slot.answered = 0;
            state.window = window + 1;
        }
    }

    fn failed(&self, session: &Arc<dyn Session>, error: &Error) {
        let broke = matches!(error, Error::Broken { .. } | Error::TimedOut { .. });
        if !broke && !session.is_broken() {
            return;
        }
        let gone = |slot: &Slot| Arc::ptr_eq(&slot.session, session);
        self.lock().drop_slots(gone);
    }
}

#[cfg(test)]
mod tests;
