//! The remote client: a database on a server, through the same traits as a local one.
//!
//! Blocking, and shared by threads: calls of all threads are sent on one stream ([`connection`]) and answered in any
//! order. A
//! call whose connection is lost is sent again on a new one: reads because they change nothing, writes because their
//! idempotency key makes them apply once. A busy server says when to retry. All of this takes at most the address's
//! `patience`; then the caller gets an error that says what happened.

#![deny(clippy::indexing_slicing)]

mod channel;
mod connect;
mod connection;
mod driver;
mod files;
mod grants;
mod graph;
mod lease_cache;
mod namespace;
mod objects;
mod peer;
mod pending;
mod route;
pub(crate) mod secure;
mod send_queue;
mod sharing;
mod slot;
mod window;

pub use channel::channel;
pub use files::{ChangeKind, FileLink, FileSubscription, Happened};
pub use grants::Grants;
pub use peer::PeerLink;
pub use pending::{Pending, Ping};

use crate::address::Address;
use crate::convert::reason_out;
use crate::failure::{RETRY, failure_in};
use crate::limits::{CANCEL_GRACE, CANCEL_POLL};
use crate::map::Map;
use crate::members::Members;
use crate::producer::{self, Producer};
use crate::proto;
use crate::proto::failure::Kind;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use connection::{Connection, SentCall};
use esker_model::object::Principal;
use esker_model::{Cancel, Error, Flow, Result, Version};
use lease_cache::LeaseCache;
use prost::Message as _;
use route::Routes;
use slot::{Arrived, Ended};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use window::{Guard, KeptBatches};

/// A database on a server. Cheap to clone; all clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// `None` for the client's own threads.
    _guard: Option<Arc<Guard>>,
    /// Principal for whom the graph is read.
    principal: Option<Arc<Principal>>,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    connection: Mutex<Option<Arc<Connection>>>,
    /// File of the cluster map, and the number of the server in it.
    map_entry: Mutex<Option<(PathBuf, u32)>>,
    /// Members of the cluster known so far, if its servers move.
    members: Members,
    /// Server that this client is connected to, if servers move.
    store: Mutex<Option<u32>>,
    /// Newest version received; later answers must include it.
    newest: AtomicU64,
    producer: Arc<Producer>,
    /// Acknowledged batches that no checkpoint contains yet.
    kept_batches: KeptBatches,
    /// Cached locations of files; `None` if only the client's own server is asked.
    routes: Option<Routes>,
    /// Cache of leased answers; `None` if caching is off.
    lease_cache: Option<LeaseCache>,
}

/// Reason why a call failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The call was answered with an error.
    Failed(Error),
    /// The connection was lost before the response was complete.
    Lost(String),
    /// The server is overloaded and has not executed the call.
    Busy { message: String, after: Duration },
    /// The server is on another member of the cluster, or on none at the time.
    Moved { members: Vec<String>, why: String },
}

impl CallError {
    /// Converts to an error, for callers that do not retry.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Failed(e) => e,
            Self::Busy { message, .. } => Error::Busy(message),
            Self::Lost(message) | Self::Moved { why: message, .. } => Error::Unavailable(message),
        }
    }
}

impl From<Error> for CallError {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// Waiting behaviour of a call.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wait<'a> {
    /// Cancellation check of the caller.
    cancel: Option<&'a dyn Cancel>,
    /// Whether the call has no time limit. Other calls fail if nothing arrives within the address's `patience`.
    long: bool,
}

impl Client {
    /// Connects to the server at an address. An unreachable server or another protocol version fails at once.
    pub fn connect(address: &Address) -> Result<Self> {
        Self::connect_to(address, address.cache.then(Routes::default))
    }

    fn connect_to(address: &Address, routes: Option<Routes>) -> Result<Self> {
        let members = Members::default();
        let connection = connect_first(address, &members).map_err(CallError::into_error)?;
        let store = store_of(&connection).or(address.store);
        let map_entry = map_entry_of(&connection);
        let kept_batches = KeptBatches::default();
        kept_batches
            .on
            .store(connection.welcome.window, Ordering::Release);
        let shared = Arc::new(Shared {
            address: address.clone(),
            connection: Mutex::new(Some(connection)),
            map_entry: Mutex::new(map_entry),
            members,
            store: Mutex::new(store),
            newest: AtomicU64::new(0),
            producer: Arc::new(Producer::new()),
            kept_batches,
            lease_cache: routes.is_some().then(LeaseCache::default),
            routes,
        });
        Ok(Self {
            _guard: Some(Arc::new(Guard(Arc::clone(&shared)))),
            shared,
            principal: None,
        })
    }

    /// A client on the same connection that reads the graph for a principal: answers contain only what the principal
    /// may see.
    #[must_use]
    pub fn on_behalf_of(&self, principal: Option<&Principal>) -> Self {
        Self {
            principal: principal.map(|a| Arc::new(a.clone())),
            ..self.clone()
        }
    }

    /// Address of the server.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// Process id of the server, on its machine.
    pub fn pid(&self) -> u32 {
        let connection = self.shared.connection.lock();
        let connection = connection.unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().map_or(0, |c| c.welcome.pid)
    }

    /// Records a version that an answer contained.
    fn record_version(&self, version: Version) {
        if version != Version::MAX {
            self.shared.newest.fetch_max(version.0, Ordering::AcqRel);
        }
    }

    fn newest(&self) -> u64 {
        self.shared.newest.load(Ordering::Acquire)
    }

    /// Estimated time of the server's clock.
    fn server_millis(&self) -> u64 {
        let connection = self.shared.connection.lock();
        let connection = connection.unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().map_or(0, |c| c.server_millis())
    }

    /// The current connection, or a new one. If several threads need a new one, one of them connects.
    fn connection(&self) -> Result<Arc<Connection>, CallError> {
        let guard = self.shared.connection.lock();
        let mut guard = guard.unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = guard.as_ref().filter(|c| c.usable()) {
            return Ok(Arc::clone(connection));
        }
        let connection = self.connect_anew()?;
        if let Some(map_entry) = map_entry_of(&connection) {
            *self.map_entry() = Some(map_entry);
        }
        *guard = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Connects to the server's present location; if servers move between members, to the member that runs the server.
    fn connect_anew(&self) -> Result<Arc<Connection>, CallError> {
        let members = &self.shared.members;
        let store = *self
            .shared
            .store
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if members.all().is_empty() || store.is_none() {
            return Connection::open(&self.current_address());
        }
        let address = Address {
            store,
            ..self.shared.address.clone()
        };
        connect_to_any(&address, members)
    }

    /// Whether the server of this client now runs on another member, because the old one may be paused for a long time.
    /// In that case
    /// the client is connected to the new one afterwards.
    fn has_moved(&self) -> bool {
        let store = *self
            .shared
            .store
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let members = self.shared.members.all();
        // The first member is the one that does not respond.
        for member in members.iter().skip(1) {
            let Some(mut there) = self.shared.address.with_authority(member) else {
                continue;
            };
            (there.store, there.connect) = (store, Some(MEMBER_CONNECT_MAX));
            if let Ok(connection) = Connection::open(&there) {
                self.shared.members.learn(&connection.welcome.members);
                self.shared.members.answered(member);
                let mut guard = self
                    .shared
                    .connection
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *guard = Some(connection);
                return true;
            }
        }
        false
    }

    fn map_entry(&self) -> MutexGuard<'_, Option<(PathBuf, u32)>> {
        self.shared
            .map_entry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Current address of the server: another machine may have taken over.
    fn current_address(&self) -> Address {
        let address = &self.shared.address;
        let moved = self.map_entry().as_ref().and_then(|(map, server)| {
            // A map that cannot be read here is ignored, and the server is expected at its old address.
            let map = Map::read(map).ok()?;
            address.with_authority(map.address(*server)?)
        });
        moved.unwrap_or_else(|| address.clone())
    }

    /// Makes a call, and retries it where that helps until the address's `patience` is over.
    fn run<T>(
        &self,
        cancel: Option<&dyn Cancel>,
        mut call: impl FnMut(&Arc<Connection>) -> Result<T, CallError>,
    ) -> Result<T> {
        let patience = self.shared.address.patience;
        let mut failing: Option<Instant> = None;
        let mut pause = Duration::from_millis(5);
        loop {
            let mut error: fn(String) -> Error = Error::Unavailable;
            let (message, after) = match self.connection().and_then(|c| call(&c)) {
                Ok(value) => return Ok(value),
                Err(CallError::Failed(e)) => return Err(e),
                Err(CallError::Moved { why, .. }) => {
                    pause = (pause * 2).min(MOVED_PAUSE_MAX);
                    (why, pause)
                }
                Err(CallError::Lost(message)) => {
                    pause = (pause * 2).min(Duration::from_millis(500));
                    (message, pause)
                }
                Err(CallError::Busy { message, after }) => {
                    error = Error::Busy;
                    (message, after)
                }
            };
            let since = *failing.get_or_insert_with(Instant::now);
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(error(format!(
                    "{message} (tried for {})",
                    connect::seconds(patience)
                )));
            }
            // Clients that were refused together should not retry together.
            let jitter = producer::random_u64() % (after.as_millis() as u64 / 2 + 1);
            let until = Instant::now() + (after + Duration::from_millis(jitter)).min(left);
            while let Some(rest) = until.checked_duration_since(Instant::now()) {
                if cancel.is_some_and(Cancel::cancelled) {
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(rest.min(Duration::from_millis(50)));
            }
        }
    }

    /// Sends a request and passes on each piece of its response. Ends early if the receiver breaks.
    fn exchange(
        &self,
        connection: &Arc<Connection>,
        request: &proto::Request,
        wait: Wait<'_>,
        receive: &mut dyn FnMut(Reply) -> Result<Flow>,
    ) -> Result<(), CallError> {
        let sent = connection.send(request, self.newest(), 0)?;
        self.receive(&sent, wait, receive)
    }

    fn receive(
        &self,
        sent: &SentCall,
        wait: Wait<'_>,
        receive: &mut dyn FnMut(Reply) -> Result<Flow>,
    ) -> Result<(), CallError> {
        let patience = self.shared.address.patience;
        let moving = !self.shared.members.is_empty();
        let mut looked = Instant::now();
        let poll = match wait.cancel {
            Some(_) => Some(CANCEL_POLL),
            None if moving => Some(MOVED_POLL),
            None if wait.long => None,
            None => Some(patience),
        };
        let mut stopped_at: Option<Instant> = None;
        let mut heard = Instant::now();
        let mut taken = 0;
        loop {
            match sent.slot.wait(poll) {
                Arrived::Piece(piece) => {
                    heard = Instant::now();
                    taken += piece.len() as u64;
                    if taken >= crate::limits::CREDIT_BYTES / 2 {
                        sent.credit(taken);
                        taken = 0;
                    }
                    let reply = proto::Reply::decode(piece).ok().and_then(|r| r.reply);
                    match reply {
                        Some(Reply::Failure(failure)) => return Err(failed(failure)),
                        Some(reply) => {
                            if receive(reply)?.is_break() {
                                return Ok(());
                            }
                        }
                        None => {
                            return Err(CallError::Failed(Error::OtherRelease(format!(
                                "{} answered with what this build does not understand: use the same release",
                                self.shared.address.authority()
                            ))));
                        }
                    }
                }
                Arrived::End(Ended::Complete) => return Ok(()),
                Arrived::End(Ended::Lost(why)) => return Err(CallError::Lost(why)),
                Arrived::Nothing if moving && looked.elapsed() >= MOVED_POLL => {
                    if self.has_moved() {
                        return Err(CallError::Lost(format!(
                            "{} did not answer, and another server has the data now",
                            self.shared.address.authority()
                        )));
                    }
                    looked = Instant::now();
                }
                Arrived::Nothing => match stopped_at {
                    None if wait.cancel.is_some_and(Cancel::cancelled) => {
                        let reason = wait.cancel.map_or(
                            esker_model::traversal::StopReason::Interrupted,
                            Cancel::reason,
                        );
                        sent.cancel(reason_out(reason));
                        stopped_at = Some(Instant::now());
                    }
                    Some(at) if at.elapsed() > CANCEL_GRACE => {
                        return Err(CallError::Failed(Error::Interrupted));
                    }
                    None if !wait.long && heard.elapsed() >= patience => {
                        return Err(CallError::Failed(Error::Unavailable(format!(
                            "{} did not answer within {}; set a longer time with {}?timeout=…",
                            self.shared.address.authority(),
                            connect::seconds(patience),
                            self.shared.address
                        ))));
                    }
                    _ => {}
                },
            }
        }
    }

    /// Makes a call with a response of one piece.
    fn value<T>(
        &self,
        call: Call,
        wait: Wait<'_>,
        read: impl Fn(Reply) -> Result<Option<T>>,
    ) -> Result<T> {
        let request = proto::Request { call: Some(call) };
        self.run(wait.cancel, |connection| {
            let mut answer = None;
            self.exchange(connection, &request, wait, &mut |reply| {
                answer = read(reply)?;
                if answer.is_none() {
                    return Err(self.wrong_reply());
                }
                Ok(ControlFlow::Continue(()))
            })?;
            answer.ok_or_else(|| CallError::Failed(self.wrong_reply()))
        })
    }

    /// Makes a call with a response of several pieces; starts over for each attempt.
    fn collect<T: Default>(
        &self,
        call: Call,
        wait: Wait<'_>,
        take: impl Fn(&mut T, Reply) -> Result<bool>,
    ) -> Result<T> {
        let mut request = proto::Request { call: Some(call) };
        let mut sent = false;
        self.run(wait.cancel, |connection| {
            if std::mem::replace(&mut sent, true)
                && let Some(Call::ChangeFiles(changes)) = &mut request.call
            {
                changes.is_retry = true;
            }
            let mut all = T::default();
            self.exchange(connection, &request, wait, &mut |reply| {
                if take(&mut all, reply)? {
                    Ok(ControlFlow::Continue(()))
                } else {
                    Err(self.wrong_reply())
                }
            })?;
            Ok(all)
        })
    }

    /// Error for a response of the wrong kind.
    fn wrong_reply(&self) -> Error {
        Error::OtherRelease(format!(
            "{} answered another request: use the same release on both sides",
            self.shared.address.authority()
        ))
    }
}

/// Time without a response after which the client checks whether the server has moved to another member.
const MOVED_POLL: Duration = Duration::from_secs(2);
/// Maximum pause between attempts to find a server that is moving.
const MOVED_PAUSE_MAX: Duration = Duration::from_millis(100);
/// Time limit for connecting to one member if there are others.
const MEMBER_CONNECT_MAX: Duration = Duration::from_secs(1);

/// Number of the connected server, if servers move.
fn store_of(connection: &Connection) -> Option<u32> {
    let welcome = &connection.welcome;
    (!welcome.members.is_empty()).then_some(welcome.server)
}

/// Opens the first connection: to the address, or to another member that it refers to.
fn connect_first(address: &Address, members: &Members) -> Result<Arc<Connection>, CallError> {
    match Connection::open(address) {
        Err(CallError::Moved {
            members: others, ..
        }) => {
            members.learn(&others);
            let began = Instant::now();
            loop {
                match connect_to_any(address, members) {
                    // The cluster is reachable, and its servers are moving.
                    Err(CallError::Moved { .. }) if began.elapsed() < address.patience => {
                        std::thread::sleep(MOVED_PAUSE_MAX);
                    }
                    done => return done,
                }
            }
        }
        Ok(connection) => {
            members.learn(&connection.welcome.members);
            members.answered(&address.authority());
            Ok(connection)
        }
        Err(e) => Err(e),
    }
}

/// Tries one member after the other.
fn connect_to_any(address: &Address, members: &Members) -> Result<Arc<Connection>, CallError> {
    let all = members.all();
    let mut failed = None;
    for member in &all {
        let Some(mut there) = address.with_authority(member) else {
            continue;
        };
        if all.len() > 1 {
            there.connect = Some(MEMBER_CONNECT_MAX);
        }
        match Connection::open(&there) {
            Ok(connection) => {
                members.learn(&connection.welcome.members);
                members.answered(member);
                return Ok(connection);
            }
            Err(CallError::Moved {
                members: others,
                why,
            }) => {
                members.learn(&others);
                failed = Some(CallError::Moved {
                    members: others,
                    why,
                });
            }
            Err(e) => {
                members.failed(member);
                // A referral to other members is more informative than an unreachable member, and an unknown host of
                // one member is no reason to
                // give up.
                let gone = matches!(e, CallError::Failed(_));
                let better = match &failed {
                    None => true,
                    Some(CallError::Moved { .. }) => false,
                    Some(before) => !gone || matches!(before, CallError::Failed(_)),
                };
                if better {
                    failed = Some(e);
                }
            }
        }
    }
    Err(failed.unwrap_or_else(|| CallError::Lost("no member of the cluster is known".into())))
}

/// File of the cluster map and number of the server, by which clients find the server after a failover.
fn map_entry_of(connection: &Connection) -> Option<(PathBuf, u32)> {
    let welcome = &connection.welcome;
    (!welcome.map.is_empty()).then(|| (PathBuf::from(&welcome.map), welcome.server))
}

fn failed(failure: proto::Failure) -> CallError {
    if matches!(failure.code.as_str(), "closing" | RETRY) {
        return CallError::Lost(failure.message);
    }
    if failure.kind == i32::from(Kind::Busy) {
        return CallError::Busy {
            after: Duration::from_millis(u64::from(failure.retry_after_ms.clamp(1, 10_000))),
            message: failure.message,
        };
    }
    CallError::Failed(failure_in(failure))
}
