//! Slots for connections: how many there are of all, of one source, and of those who have not said who they are; and which sources have
//! failed to prove who they are.
//!
//! A connection is taken before anything is known of whoever makes it but its source. As long as no request on it was let in, it is one of
//! few, and for a short time: so that whoever connects and says nothing, or never proves anything, leaves room for others. Some slots are
//! for the owner's processes alone. Servers, tiers of the site cache and RDF workers count their connections so.

use crate::penalty::Penalties;
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// Connections at once unless settings say otherwise.
pub const CONNECTIONS: usize = 1_024;
/// Connections that the owner's processes may have beyond the limit.
pub const OWNER_CONNECTIONS: usize = 16;
/// Connections of one source that may be unproved at once, if that is more than a quarter of all.
pub const UNPROVED_LEAST: usize = 10;
/// Connections beyond the limit that are told so; others are closed without a word.
pub const REFUSED_CONNECTIONS_MAX: usize = 64;
/// How long a connection stays open that is closed without a word: a client that connects again at once is slowed down.
pub const CLOSE_AFTER: Duration = Duration::from_secs(1);
/// Connections that wait for that at a time; others are closed at once.
pub const CLOSING_MAX: usize = 512;
/// How long a client may take for the first byte of a connection, to agree on TLS, for the head of an HTTP request, and a connection until a
/// request on it is let in.
pub const HEAD_MAX: Duration = Duration::from_secs(10);
/// How long a connection lasts on which nothing was asked but what everybody may ask.
pub const ASKED_MAX: Duration = Duration::from_mins(1);
/// How long one lasts on which a key was shown that has rights, and was not proved: whoever has it may be asked for a passphrase.
pub const PROVE_MAX: Duration = Duration::from_mins(2);

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A process of this machine, of that user.
    User(u32),
    /// An address; of version 6 the first half, for a machine has all of the other.
    Address(IpAddr),
}

impl Source {
    /// Of a connection from there, whose other end the kernel says is that user's.
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

/// How far somebody is with saying who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// No request was let in.
    Silent,
    /// One was that everybody may send.
    Asked,
    /// They have shown a key that has rights: signing may take a person's hand.
    Proving,
    /// A request was let in that not everybody may send.
    Known,
}

impl Standing {
    /// How long a connection lasts on which nothing more comes; none for as long as its client likes.
    const fn lasts(self) -> Option<Duration> {
        match self {
            Self::Silent => Some(HEAD_MAX),
            Self::Asked => Some(ASKED_MAX),
            Self::Proving => Some(PROVE_MAX),
            Self::Known => None,
        }
    }
}

/// The slots of a port or a socket.
#[derive(Debug)]
pub struct Slots {
    /// Who has them, in one word.
    whose: &'static str,
    /// Connections of those who are not the owner.
    most: usize,
    /// Connections of one source, and of one key.
    each: usize,
    state: Mutex<State>,
    penalties: Penalties,
    /// How many more connections without a slot may wait to be closed.
    closing: Arc<Semaphore>,
    random: std::collections::hash_map::RandomState,
}

#[derive(Debug, Default)]
struct State {
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

/// A connection's slot, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    source: Source,
    owner: bool,
    refusal: Option<String>,
    begun: Instant,
    standing: watch::Sender<Standing>,
    key: Mutex<Option<Arc<str>>>,
}

impl Slots {
    /// Of a `"server"` or what else has connections: for `most` at once, `each` of them of one source or key; 0 stands for half of all. The owner
    /// has some more.
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unproved connections of one source, and those of all from which on some are closed early.
    fn unproved_each(&self) -> usize {
        (self.most / 4).max(UNPROVED_LEAST)
    }

    /// Whether one more unproved connection is closed early: the more there are, the likelier.
    fn drops_early(&self, state: &State) -> bool {
        let begin = self.unproved_each();
        let full = begin * 3;
        let above = state.unproved.saturating_sub(begin);
        let chance = self.random.hash_one(state.taken) as usize % (full - begin).max(1);
        chance < above
    }

    /// A slot for a connection from there; none for one that is to be closed without a word ([`Slots::close_later`]). A source that has failed
    /// to prove who it is, often and lately, has fewer.
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
            standing: watch::channel(Standing::Silent).0,
            key: Mutex::new(None),
        })
    }

    /// That there are so many connections: of all, or of one source or key.
    fn full(&self, connections: usize, of: Option<&dyn fmt::Display>) -> String {
        let whose = self.whose;
        let most = match of {
            None => ", the most it may".to_owned(),
            Some(one) => format!(" of {one}, the most that one may have"),
        };
        format!("the {whose} has {connections} connections{most}: close some, or try again in 1 s")
    }

    /// Closes a connection that got no slot, after a while ([`CLOSE_AFTER`]): whoever connects again as soon as a connection is closed does so less
    /// often. If many wait already, it is closed at once. It is to be called within tokio's runtime.
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
    /// Where its connection comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Why there is no room for its connection, if so: that is what all its requests are answered with.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Its client has failed to prove who it is: so has its source.
    pub fn failed(&self) {
        self.slots.penalties.failed(self.source);
    }

    /// That its source has failed too often, for a while.
    pub fn hindered(&self) -> Option<String> {
        let left = self.slots.penalties.hinders(self.source)?;
        Some(format!(
            "{} has failed to prove who it is too often: try again in {} s",
            self.source,
            left.as_secs() + 1
        ))
    }

    fn rises(&self, to: Standing) -> bool {
        self.refusal.is_none()
            && self.standing.send_if_modified(|standing| {
                let rises = *standing < to;
                if rises {
                    *standing = to;
                }
                rises
            })
    }

    /// A request was let in that everybody may send.
    pub fn asked(&self) {
        if *self.standing.borrow() == Standing::Silent {
            self.rises(Standing::Asked);
        }
    }

    /// A key was shown that has rights.
    pub fn proving(&self) {
        self.rises(Standing::Proving);
    }

    /// Whether a key was shown on it that has rights.
    pub fn is_proving(&self) -> bool {
        *self.standing.borrow() >= Standing::Proving
    }

    /// Whether nobody was let in yet who said who they are.
    pub fn is_unproved(&self) -> bool {
        *self.standing.borrow() != Standing::Known
    }

    /// Somebody was let in who is known by that; what else there is of them may be too much.
    pub fn known(&self, key: impl FnOnce() -> Arc<str>) -> Result<(), String> {
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
            // Two requests may come at once.
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
        self.rises(Standing::Known);
        Ok(())
    }

    /// Ends when the connection is to be closed, because nobody has said in time who they are. Never else.
    pub async fn overdue(&self) {
        let mut standing = self.standing.subscribe();
        loop {
            let now = *standing.borrow_and_update();
            let Some(time) = now.lasts() else {
                return std::future::pending().await;
            };
            let changed = tokio::time::timeout_at(self.begun + time, standing.changed());
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

    fn told(taken: Option<Slot>) -> String {
        taken.unwrap().refusal().unwrap().to_owned()
    }

    /// Whoever proves nothing is one of few, and nobody else has less for it.
    #[test]
    fn one_source_takes_few_unproved_slots() {
        let slots = Slots::new("server", 1_024, 512);
        let silent: Vec<Slot> = (0..1_200)
            .filter_map(|_| slots.take(Source::User(7), false))
            .collect();
        assert_eq!(silent.len(), 256);
        let honest = slots.take(Source::User(8), false).unwrap();
        honest.known(named("user 8")).unwrap();
        assert!(!honest.is_unproved());
        drop(silent);
        assert!(slots.take(Source::User(7), false).is_some());
        // One that has failed before has fewer still.
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
            slot.known(named("one")).unwrap();
            Some(slot)
        };
        let all = [take(1).unwrap(), take(2).unwrap()];
        assert!(told(take(3)).contains("the server has 2 connections, the most"));
        let own: Vec<Slot> = (0..OWNER_CONNECTIONS)
            .map(|_| slots.take(Source::User(0), true).unwrap())
            .collect();
        assert!(told(slots.take(Source::User(0), true)).contains("connections, the most"));
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
            slot.known(named("key A")).map(|()| slot)
        };
        let two = (take(1).unwrap(), take(2).unwrap());
        let e = take(3).map(drop).unwrap_err();
        assert!(e.contains("2 connections of key A"), "{e}");
        drop(two.0);
        take(3).unwrap();
        // And so has an address.
        let first = take(4).unwrap();
        let other = slots.take(from(4), false).unwrap();
        assert!(told(slots.take(from(4), false)).contains("of 0.0.0.4, the most"));
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
        let lasts = |slot: &Slot| slot.standing.borrow().lasts();
        let slot = take();
        assert_eq!(lasts(&slot), Some(HEAD_MAX));
        slot.asked();
        assert_eq!(lasts(&slot), Some(ASKED_MAX));
        slot.proving();
        slot.asked();
        assert_eq!(lasts(&slot), Some(PROVE_MAX));
        slot.known(named("user 7")).unwrap();
        slot.proving();
        assert_eq!(lasts(&slot), None);
        // What is told that there is no slot does not stay.
        drop(slot);
        let _others: Vec<Slot> = (0..8)
            .map(|_| slots.take(Source::User(0), true).unwrap())
            .collect();
        let refused = slots.take(Source::User(7), false).unwrap();
        assert!(refused.refusal().is_some());
        refused.asked();
        refused.known(named("user 7")).unwrap();
        assert_eq!(lasts(&refused), Some(HEAD_MAX));
    }

    /// What got no slot is closed after a while, and so many wait for that: without that, whoever connects again as soon as a connection is
    /// closed would have as many answers as the network carries. Time is tokio's own here, which passes when all wait.
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
        // Their places are free again.
        slots.close_later(Arc::clone(&connection));
        assert_eq!(open(), 1);
    }
}
