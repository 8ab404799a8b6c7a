//! Connection slots: limits on all connections, on those of one source, and on unproved ones; and the sources that failed to prove an
//! identity.
//!
//! When a connection is accepted, only its source is known. Until a request on it is admitted, it counts as unproved; unproved
//! connections are few and short-lived, so that clients that send nothing or never prove an identity leave room for others. Some
//! slots are reserved for the owner's processes. Servers, site cache tiers and RDF workers count their connections this way.

use crate::penalty::Penalties;
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// Default limit of concurrent connections.
pub const CONNECTIONS: usize = 1_024;
/// Connections that the owner's processes may have beyond the limit.
pub const OWNER_CONNECTIONS: usize = 16;
/// Minimum limit of unproved connections of one source, which is otherwise a quarter of all.
pub const UNPROVED_LEAST: usize = 10;
/// Connections beyond the limit that are answered with a refusal; others are closed without an answer.
pub const REFUSED_CONNECTIONS_MAX: usize = 64;
/// Delay before a connection without a slot is closed: it slows down clients that reconnect at once.
pub const CLOSE_AFTER: Duration = Duration::from_secs(1);
/// Connections that wait for that delay at a time; others are closed at once.
pub const CLOSING_MAX: usize = 512;
/// Time limit for the first byte of a connection, for the TLS handshake, for the head of an HTTP request, and for the first admitted
/// request on a connection.
pub const HEAD_MAX: Duration = Duration::from_secs(10);
/// Time limit of a connection on which only requests that need no rights were admitted.
pub const PUBLIC_MAX: Duration = Duration::from_mins(1);
/// Time limit of a connection on which a key with rights was offered but not proved: its user may have to type a passphrase.
pub const PROVE_MAX: Duration = Duration::from_mins(2);

/// Source of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A process of this user on this machine.
    User(u32),
    /// An address; for IPv6 only its first half, because one machine owns all of the second.
    Address(IpAddr),
}

impl Source {
    /// Creates the source of a connection from `address` whose other end belongs to `user`, if the kernel says so.
    pub fn new(address: IpAddr, user: Option<u32>) -> Self {
        match (user, address.to_canonical()) {
            (Some(user), _) => Self::User(user),
            (None, IpAddr::V6(ip)) => {
                let mut octets = ip.octets();
                octets[8..].fill(0);
                Self::Address(IpAddr::V6(octets.into()))
            }
            (None, ip) => Self::Address(ip),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "user {user}"),
            Self::Address(ip) => write!(f, "{ip}"),
        }
    }
}

/// Progress of a client's authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AuthProgress {
    /// No request was admitted.
    Silent,
    /// A request that needs no rights was admitted.
    Public,
    /// A key that has rights was offered; signing may need the user's action.
    Proving,
    /// An authenticated request was admitted.
    Authenticated,
}

impl AuthProgress {
    /// Returns the time limit of a connection in this state; `None` if unlimited.
    const fn lasts(self) -> Option<Duration> {
        match self {
            Self::Silent => Some(HEAD_MAX),
            Self::Public => Some(PUBLIC_MAX),
            Self::Proving => Some(PROVE_MAX),
            Self::Authenticated => None,
        }
    }
}

/// Connection slots of a port or a socket.
#[derive(Debug)]
pub struct Slots {
    /// Kind of process that has the slots, in one word.
    whose: &'static str,
    /// Maximum number of connections, apart from the owner's reserve.
    most: usize,
    /// Maximum number of connections of one source, and of one key.
    each: usize,
    state: Mutex<SlotCounts>,
    penalties: Penalties,
    /// Permits of connections without a slot that may wait to be closed.
    closing: Arc<Semaphore>,
    random: std::collections::hash_map::RandomState,
}

#[derive(Debug, Default)]
struct SlotCounts {
    taken: u64,
    open: usize,
    unproved: usize,
    refused: usize,
    sources: HashMap<Source, Counts>,
    keys: HashMap<Arc<str>, usize>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    open: usize,
    unproved: usize,
}

/// The slot of one connection, released when dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    source: Source,
    owner: bool,
    refusal: Option<String>,
    begun: Instant,
    progress: watch::Sender<AuthProgress>,
    key: Mutex<Option<Arc<str>>>,
}

impl Slots {
    /// Creates slots for a process of kind `whose` (such as `"server"`): `most` connections at once, `each` of one source or key, 0
    /// for half of all. The owner has [`OWNER_CONNECTIONS`] more.
    pub fn new(whose: &'static str, most: usize, each: usize) -> Arc<Self> {
        let each = if each == 0 { most.div_ceil(2) } else { each };
        Arc::new(Self {
            whose,
            most,
            each: each.min(most),
            state: Mutex::default(),
            penalties: Penalties::default(),
            closing: Arc::new(Semaphore::new(CLOSING_MAX)),
            random: std::collections::hash_map::RandomState::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, SlotCounts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limit of unproved connections of one source, and number of all unproved ones from which some are closed early.
    fn unproved_each(&self) -> usize {
        (self.most / 4).max(UNPROVED_LEAST)
    }

    /// Whether to close one more unproved connection early: the probability grows with their number.
    fn drops_early(&self, state: &SlotCounts) -> bool {
        let begin = self.unproved_each();
        let full = begin * 3;
        let above = state.unproved.saturating_sub(begin);
        let chance = self.random.hash_one(state.taken) as usize % (full - begin).max(1);
        chance < above
    }

    /// Takes a slot for a connection; `None` if it is to be closed without an answer ([`Slots::close_later`]). A blocked source gets
    /// fewer slots.
    pub fn take(self: &Arc<Self>, source: Source, owner: bool) -> Option<Slot> {
        let hindered = self.penalties.hinders(source).is_some();
        let mut state = self.state();
        state.taken += 1;
        let counts = state.sources.get(&source).copied().unwrap_or_default();
        let most = self.most + if owner { OWNER_CONNECTIONS } else { 0 };
        let unproved = self.unproved_each() / if hindered { 8 } else { 1 };
        let refusal = if state.open >= most {
            Some(self.full(state.open, None))
        } else if !owner && counts.open >= self.each {
            Some(self.full(counts.open, Some(&source)))
        } else {
            None
        };
        if refusal.is_some() {
            if state.refused >= REFUSED_CONNECTIONS_MAX {
                return None;
            }
            state.refused += 1;
        } else {
            let early = counts.unproved >= unproved.max(1) || self.drops_early(&state);
            if !owner && early {
                return None;
            }
            state.open += 1;
            let counts = state.sources.entry(source).or_default();
            counts.open += 1;
            if !owner {
                counts.unproved += 1;
                state.unproved += 1;
            }
        }
        drop(state);
        Some(Slot {
            slots: Arc::clone(self),
            source,
            owner,
            refusal,
            begun: Instant::now(),
            progress: watch::channel(AuthProgress::Silent).0,
            key: Mutex::new(None),
        })
    }

    /// Message that the limit of all connections, or of one source or key, is reached.
    fn full(&self, connections: usize, of: Option<&dyn fmt::Display>) -> String {
        let whose = self.whose;
        let most = match of {
            None => ", the maximum".to_owned(),
            Some(one) => format!(" of {one}, the maximum"),
        };
        format!("the {whose} has {connections} connections{most}: close some, or try again in 1 s")
    }

    /// Closes a connection without a slot after [`CLOSE_AFTER`], which slows down clients that reconnect as soon as they are
    /// disconnected; at once if too many connections already wait. Must be called within a tokio runtime.
    pub fn close_later(&self, stream: impl Send + 'static) {
        if let Ok(place) = Arc::clone(&self.closing).try_acquire_owned() {
            tokio::spawn(async move {
                tokio::time::sleep(CLOSE_AFTER).await;
                drop((stream, place));
            });
        }
    }
}

impl Slot {
    /// Returns the source of the connection.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the refusal with which all requests of the connection are answered, if there was no room.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Records that the client, and so its source, failed to prove an identity.
    pub fn failed(&self) {
        self.slots.penalties.failed(self.source);
    }

    /// Returns a message if the source is blocked after too many failures.
    pub fn hindered(&self) -> Option<String> {
        let left = self.slots.penalties.hinders(self.source)?;
        Some(format!(
            "{} has failed to prove who it is too often: try again in {} s",
            self.source,
            left.as_secs() + 1
        ))
    }

    fn advance(&self, to: AuthProgress) -> bool {
        self.refusal.is_none()
            && self.progress.send_if_modified(|progress| {
                let rises = *progress < to;
                if rises {
                    *progress = to;
                }
                rises
            })
    }

    /// Records that a request that needs no rights was admitted.
    pub fn admit_public(&self) {
        if *self.progress.borrow() == AuthProgress::Silent {
            self.advance(AuthProgress::Public);
        }
    }

    /// Records that a key with rights was offered.
    pub fn key_offered(&self) {
        self.advance(AuthProgress::Proving);
    }

    /// Whether a key with rights was offered on the connection.
    pub fn is_proving(&self) -> bool {
        *self.progress.borrow() >= AuthProgress::Proving
    }

    /// Whether no authenticated request was admitted yet.
    pub fn is_unproved(&self) -> bool {
        *self.progress.borrow() != AuthProgress::Authenticated
    }

    /// Records that a request authenticated by `key` was admitted. Fails if that key has too many connections.
    pub fn admit_authenticated(&self, key: impl FnOnce() -> Arc<str>) -> Result<(), String> {
        if !self.is_unproved() || self.refusal.is_some() {
            return Ok(());
        }
        if !self.owner {
            let key = key();
            let mut state = self.slots.state();
            let each = self.slots.each;
            let count = state.keys.entry(Arc::clone(&key)).or_default();
            if *count >= each {
                return Err(self.slots.full(each, Some(&key)));
            }
            let mut own = self.key.lock().unwrap_or_else(PoisonError::into_inner);
            // Two requests may arrive at once.
            if own.is_some() {
                return Ok(());
            }
            *count += 1;
            *own = Some(key);
            state.unproved = state.unproved.saturating_sub(1);
            if let Some(counts) = state.sources.get_mut(&self.source) {
                counts.unproved = counts.unproved.saturating_sub(1);
            }
        }
        self.advance(AuthProgress::Authenticated);
        Ok(())
    }

    /// Completes when the connection must be closed because no client authenticated in time; otherwise never.
    pub async fn overdue(&self) {
        let mut progress = self.progress.subscribe();
        loop {
            let now = *progress.borrow_and_update();
            let Some(time) = now.lasts() else {
                return std::future::pending().await;
            };
            let changed = tokio::time::timeout_at(self.begun + time, progress.changed());
            if changed.await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        if self.refusal.is_some() {
            state.refused = state.refused.saturating_sub(1);
            return;
        }
        state.open = state.open.saturating_sub(1);
        let key = self.key.get_mut().unwrap_or_else(PoisonError::into_inner);
        let unproved = usize::from(!self.owner && key.is_none());
        state.unproved = state.unproved.saturating_sub(unproved);
        if let Some(counts) = state.sources.get_mut(&self.source) {
            counts.open = counts.open.saturating_sub(1);
            counts.unproved = counts.unproved.saturating_sub(unproved);
            if counts.open == 0 {
                state.sources.remove(&self.source);
            }
        }
        if let Some(key) = key.take()
            && let Some(count) = state.keys.get_mut(&key)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                state.keys.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> impl FnOnce() -> Arc<str> {
        let name = Arc::from(name);
        move || name
    }

    fn refusal_of(taken: Option<Slot>) -> String {
        taken.unwrap().refusal().unwrap().to_owned()
    }

    /// A source with unproved connections only gets few slots, and other sources lose none.
    #[test]
    fn one_source_takes_few_unproved_slots() {
        let slots = Slots::new("server", 1_024, 512);
        let silent: Vec<Slot> = (0..1_200)
            .filter_map(|_| slots.take(Source::User(7), false))
            .collect();
        assert_eq!(silent.len(), 256);
        let honest = slots.take(Source::User(8), false).unwrap();
        honest.admit_authenticated(named("user 8")).unwrap();
        assert!(!honest.is_unproved());
        drop(silent);
        assert!(slots.take(Source::User(7), false).is_some());
        // A source that failed before gets fewer still.
        let failed = slots.take(Source::User(9), false).unwrap();
        assert_eq!(failed.hindered(), None);
        for _ in 0..10 {
            failed.failed();
        }
        let words = failed.hindered().unwrap();
        assert!(
            words.contains("user 9 has failed to prove who it is too often"),
            "{words}"
        );
        drop(failed);
        let failing: Vec<Slot> = (0..100)
            .filter_map(|_| slots.take(Source::User(9), false))
            .collect();
        assert_eq!(failing.len(), 32);
    }

    /// Many sources together are dropped early, at random.
    #[test]
    fn unproved_connections_are_dropped_early() {
        let slots = Slots::new("server", 1_024, 512);
        let from = |n: u32| Source::Address(std::net::Ipv4Addr::from(n).into());
        let silent: Vec<Slot> = (0..5_000)
            .filter_map(|n| slots.take(from(n), false))
            .collect();
        // None is dropped up to a quarter of all, and all are from three quarters on.
        assert!((256..=768).contains(&silent.len()), "{}", silent.len());
        let owner: Vec<Slot> = (0..1_040)
            .filter_map(|_| slots.take(Source::User(0), true))
            .take_while(|slot| slot.refusal().is_none())
            .collect();
        assert_eq!(owner.len() + silent.len(), 1_024 + OWNER_CONNECTIONS);
    }

    #[test]
    fn the_owner_has_slots_of_its_own() {
        let slots = Slots::new("server", 2, 2);
        let take = |user| {
            let slot = slots.take(Source::User(user), false)?;
            slot.admit_authenticated(named("one")).unwrap();
            Some(slot)
        };
        let all = [take(1).unwrap(), take(2).unwrap()];
        assert!(refusal_of(take(3)).contains("the server has 2 connections, the maximum"));
        let own: Vec<Slot> = (0..OWNER_CONNECTIONS)
            .map(|_| slots.take(Source::User(0), true).unwrap())
            .collect();
        assert!(refusal_of(slots.take(Source::User(0), true)).contains("connections, the maximum"));
        drop((all, own));
        let state = slots.state();
        assert!(state.sources.is_empty() && state.keys.is_empty());
        assert_eq!((state.open, state.unproved), (0, 0));
    }

    #[test]
    fn a_key_has_so_many_connections() {
        let slots = Slots::new("server", 8, 2);
        let from = |n: u32| Source::Address(std::net::Ipv4Addr::from(n).into());
        let take = |n| {
            let slot = slots.take(from(n), false).unwrap();
            slot.admit_authenticated(named("key A")).map(|()| slot)
        };
        let two = (take(1).unwrap(), take(2).unwrap());
        let e = take(3).map(drop).unwrap_err();
        assert!(e.contains("2 connections of key A"), "{e}");
        drop(two.0);
        take(3).unwrap();
        // The limit of an address.
        let first = take(4).unwrap();
        let other = slots.take(from(4), false).unwrap();
        assert!(refusal_of(slots.take(from(4), false)).contains("of 0.0.0.4, the maximum"));
        drop((first, other));
    }

    #[test]
    fn a_machine_has_all_of_its_half_of_an_address() {
        let source = |text: &str| Source::new(text.parse().unwrap(), None);
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
    }

    #[test]
    fn a_connection_lasts_by_what_was_said_on_it() {
        let slots = Slots::new("server", 8, 8);
        let take = || slots.take(Source::User(7), false).unwrap();
        let lasts = |slot: &Slot| slot.progress.borrow().lasts();
        let slot = take();
        assert_eq!(lasts(&slot), Some(HEAD_MAX));
        slot.admit_public();
        assert_eq!(lasts(&slot), Some(PUBLIC_MAX));
        slot.key_offered();
        slot.admit_public();
        assert_eq!(lasts(&slot), Some(PROVE_MAX));
        slot.admit_authenticated(named("user 7")).unwrap();
        slot.key_offered();
        assert_eq!(lasts(&slot), None);
        // A connection that was refused a slot is closed, too.
        drop(slot);
        let _others: Vec<Slot> = (0..8)
            .map(|_| slots.take(Source::User(0), true).unwrap())
            .collect();
        let refused = slots.take(Source::User(7), false).unwrap();
        assert!(refused.refusal().is_some());
        refused.admit_public();
        refused.admit_authenticated(named("user 7")).unwrap();
        assert_eq!(lasts(&refused), Some(HEAD_MAX));
    }

    /// A connection without a slot is closed after a while, and only a limited number waits for that: otherwise, a client that reconnects
    /// as soon as it is disconnected would get as many answers as the network carries. Tokio's clock is paused here; it advances when
    /// all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn so_many_connections_wait_to_be_closed() {
        let slots = Slots::new("server", 8, 8);
        let connection = Arc::new(());
        let open = || Arc::strong_count(&connection) - 1;
        for _ in 0..CLOSING_MAX + 100 {
            slots.close_later(Arc::clone(&connection));
        }
        assert_eq!(open(), CLOSING_MAX);
        let began = Instant::now();
        while open() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(began.elapsed() >= CLOSE_AFTER);
        // Their permits are free again.
        slots.close_later(Arc::clone(&connection));
        assert_eq!(open(), 1);
    }
}
