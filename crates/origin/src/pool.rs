//! Many connections to one origin, as few as pay.
//!
//! A question goes to the connection with the fewest open questions. When all are full, another connection is made, up to
//! the limit; when that is reached, questions wait. How many questions a connection may have open (its *window*) begins with
//! what its session allows, is halved when a connection breaks with questions open, and grows back with each full
//! window of answers: servers that cannot be asked ahead of their answers are found out so. A question whose connection broke is
//! asked again on another one, a few times; its whole time is bounded.

use crate::error::{Error, Result};
use crate::place::Place;
use crate::question::{Found, Question, Told};
use crate::session::{Connect, Session};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};

/// How a pool is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Connections at most.
    pub connections: usize,
    /// Questions open on one connection at most: the paper's C.
    pub in_flight: usize,
    /// How long one question may take, all its repetitions together.
    pub patience: Duration,
    /// How long a connection may take to come about.
    pub connect: Duration,
    /// How long a connection without questions is kept.
    pub idle: Duration,
    /// How often a question is asked, if connections break.
    pub tries: u32,
    /// Whether an account that `~/.netrc` has for any host (`default`) is shown to this one.
    pub default_login: bool,
    /// Whether a password may go in clear text over the network (FTP, `GridFTP` without a certificate).
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

/// Connections that come about at once: servers turn away those that have not logged in yet when there are too many of them (OpenSSH's
/// `MaxStartups`, from ten on).
const CONNECTING_MAX: usize = 4;
/// The shortest and the longest time without a new attempt after one to connect failed.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What a pool has done, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Connections that stand.
    pub connections: usize,
    /// Questions that are open.
    pub in_flight: usize,
    /// Questions that a connection may have open now.
    pub window: usize,
    /// Questions that were asked.
    pub asked: u64,
    /// Of these, asked again because a connection broke or the server was busy.
    pub again: u64,
    /// Of these, without an answer in the end.
    pub failed: u64,
    /// The shortest time that a question took.
    pub fastest: Option<Duration>,
    /// What the server says of itself.
    pub about: String,
    /// What went wrong last.
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
    /// No attempt to connect before this.
    rest_until: Option<Instant>,
    rest: Duration,
    /// Why the last attempt failed, told to those who wait.
    refused: Option<Error>,
    report: Report,
}

impl State {
    /// Connections that are of no use any more. One that broke with several questions open may have been asked too far ahead.
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

/// Connections to one origin.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

/// A place among a connection's open questions.
struct Turn {
    inner: Arc<Inner>,
    session: Arc<dyn Session>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.inner.give_back(&self.session);
    }
}

impl Pool {
    /// A pool without connections; the first question makes one.
    pub fn new(connect: Arc<dyn Connect>, settings: Settings) -> Self {
        let state = State {
            window: settings.in_flight.max(1),
            rest: REST.0,
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

    /// Which origin.
    pub fn place(&self) -> &Place {
        self.inner.connect.place()
    }

    /// Changes, if the origin can tell of them.
    pub fn changes(&self) -> Option<mpsc::Receiver<Told>> {
        self.inner.connect.changes()
    }

    /// Whether changes of what was answered about a path are told, where they are told at all. To be asked behind the answer.
    pub fn tells(&self, path: &[u8]) -> bool {
        self.inner.connect.tells(path)
    }

    /// What it has done.
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

    /// Asks, and asks again where that may help.
    pub async fn ask(&self, question: Question) -> Result<Found> {
        let late = || Error::Late {
            origin: self.place().to_string().into(),
            seconds: self.inner.settings.patience.as_secs(),
        };
        self.inner.lock().report.asked += 1;
        let asked = timeout(self.inner.settings.patience, self.ask_again(question)).await;
        let result = asked.unwrap_or_else(|_| Err(late()));
        if let Err(error) = &result {
            let mut state = self.inner.lock();
            state.report.failed += 1;
            state.report.last_error = Some(error.to_string());
        }
        result
    }

    async fn ask_again(&self, question: Question) -> Result<Found> {
        let mut tries = 0;
        loop {
            tries += 1;
            let turn = match self.turn().await {
                Ok(turn) => turn,
                Err(error) if error.is_passing() && tries < self.inner.settings.tries => {
                    sleep(REST.0 * 2_u32.pow(tries.min(8))).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let began = Instant::now();
            let result = turn.session.ask(question.clone()).await;
            let error = match result {
                Ok(found) => {
                    self.inner.answered(&turn.session, began.elapsed());
                    return Ok(found);
                }
                Err(error) => error,
            };
            self.inner.failed(&turn.session, &error);
            drop(turn);
            if !error.is_passing() || tries >= self.inner.settings.tries {
                return Err(error);
            }
            self.inner.lock().report.again += 1;
            if matches!(error, Error::Busy { .. }) {
                sleep(REST.0 * 2_u32.pow(tries.min(8))).await;
            }
        }
    }

    async fn turn(&self) -> Result<Turn> {
        loop {
            let freed = self.inner.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(turn) = Inner::take(&self.inner)? {
                return Ok(turn);
            }
            freed.await;
        }
    }

    /// Closes all connections that nobody has asked anything for a while.
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

    /// Closes all connections.
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

    /// A place on the connection with the fewest questions, or a connection is under way.
    fn take(inner: &Arc<Self>) -> Result<Option<Turn>> {
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
            return Ok(Some(Turn { inner, session }));
        }
        if state.slots.is_empty() && state.connecting == 0 {
            // Nobody can be asked: why the last attempt failed is the answer, until it is time for another one.
            let rests = state.rest_until.is_some_and(|until| until > Instant::now());
            if let (true, Some(error)) = (rests, &state.refused) {
                return Err(error.clone());
            }
        }
        let many = state.slots.len() + state.connecting;
        let rests = state.rest_until.is_some_and(|until| until > Instant::now());
        let more = many < inner.settings.connections.max(1) && state.connecting < CONNECTING_MAX;
        if more && !rests {
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
                origin: self.connect.place().to_string().into(),
                why: format!("no connection within {} s", self.settings.connect.as_secs()).into(),
            })
        });
        let mut state = self.lock();
        state.connecting -= 1;
        match made {
            Ok(session) => {
                state.rest_until = None;
                state.rest = REST.0;
                state.refused = None;
                state.slots.push(Slot {
                    session,
                    open: 0,
                    answered: 0,
                    idle_since: Instant::now(),
                });
            }
            Err(error) => {
                tracing::debug!(origin = %self.connect.place(), %error, "no connection");
                state.rest_until = Some(Instant::now() + state.rest);
                state.rest = (state.rest * 2).min(REST.1);
                state.report.last_error = Some(error.to_string());
                state.refused = Some(error);
            }
        }
        drop(state);
        self.freed.notify_waiters();
    }

    fn give_back(&self, session: &Arc<dyn Session>) {
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
        let broke = matches!(error, Error::Broken { .. } | Error::Late { .. });
        if !broke && !session.is_broken() {
            return;
        }
        let gone = |slot: &Slot| Arc::ptr_eq(&slot.session, session);
        self.lock().drop_slots(gone);
    }
}

#[cfg(test)]
mod tests;
