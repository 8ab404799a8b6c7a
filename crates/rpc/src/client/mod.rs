//! The remote client: a database on a server, through the same traits as one in this process.
//!
//! Blocking, and shared by threads: calls of all of them go out on one stream ([`connection`]) and are answered in any
//! order. A call whose connection goes away is sent again once there is a new one: reads because they change nothing,
//! writes because their marker makes them count once. A server that is busy says when to come back. All of that takes
//! at most the address's patience; then the caller gets an error that says what happened.

#![deny(clippy::indexing_slicing)]

mod channel;
mod connect;
mod connection;
mod driver;
mod files;
mod grants;
mod graph;
mod held;
mod namespace;
mod objects;
mod outgoing;
mod peer;
mod pending;
mod route;
pub(crate) mod secure;
mod slot;
mod window;

pub use channel::channel;
pub use files::{FileLink, Happened, Watching, What};
pub use grants::Grants;
pub use peer::PeerLink;
pub use pending::{Pending, Ping};

use crate::address::Address;
use crate::convert::reason_out;
use crate::failure::{AGAIN, failure_in};
use crate::limits::{CANCEL_GRACE, CANCEL_POLL};
use crate::map::Map;
use crate::marker::{self, Sender};
use crate::members::Members;
use crate::proto;
use crate::proto::failure::Kind;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use connection::{Connection, Sent};
use esker_model::object::Asker;
use esker_model::{Cancel, Error, Flow, Result, Version};
use held::Held;
use prost::Message as _;
use route::Routes;
use slot::{Arrived, Ended};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use window::{Guard, Windows};

/// A database on a server. Cheap to clone; all clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// `None` for the threads that work for it.
    _guard: Option<Arc<Guard>>,
    /// On whose behalf the graph is read.
    asker: Option<Arc<Asker>>,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    connection: Mutex<Option<Arc<Connection>>>,
    /// Where the cluster's map is, and which of its servers this is.
    place: Mutex<Option<(PathBuf, u32)>>,
    /// Of a cluster whose stores move: its members, as far as was heard.
    members: Members,
    /// Which of its stores this client talks to, once it has.
    store: Mutex<Option<u32>>,
    /// The newest version seen: answers see it too.
    newest: AtomicU64,
    sender: Arc<Sender>,
    /// What no checkpoint holds yet.
    windows: Windows,
    /// Where files are; nothing for a client that asks its own server alone.
    routes: Option<Routes>,
    /// Answers that were promised to hold; nothing for a client that remembers nothing.
    held: Option<Held>,
}

/// Why a call gave no answer.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It was answered: no.
    Failed(Error),
    /// The connection went away before the answer was complete.
    Lost(String),
    /// The server has too much to do, and has done nothing.
    Busy { message: String, after: Duration },
    /// What was asked for is with another member of the cluster, or with none just now.
    Elsewhere { members: Vec<String>, why: String },
}

impl Broken {
    /// For callers that do not ask again.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Failed(e) => e,
            Self::Lost(message)
            | Self::Busy { message, .. }
            | Self::Elsewhere { why: message, .. } => Error::Unavailable(message),
        }
    }
}

impl From<Error> for Broken {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// Whether a call reads the graph: then it can be made on somebody's behalf. (Others say themselves who asks.)
pub fn reads_graph(request: &proto::Request) -> bool {
    matches!(
        request.call,
        Some(
            Call::ReadVertices(_)
                | Call::ReadEdges(_)
                | Call::ScanEdges(_)
                | Call::ScanVertices(_)
                | Call::VertexHistory(_)
                | Call::EdgeHistory(_)
                | Call::Degrees(_)
                | Call::TopDegrees(_)
                | Call::Counts(_)
                | Call::Diff(_)
                | Call::Travel(_)
                | Call::LeftOut(_)
        )
    )
}

/// How a caller waits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wait<'a> {
    /// Whether the answer is wanted still.
    cancel: Option<&'a dyn Cancel>,
    /// Whether it may take as long as it takes. Other calls end once nothing has come for the address's patience.
    long: bool,
}

impl Client {
    /// Connects to the server at that address. Nobody there, or another protocol, is an error at once.
    pub fn connect(address: &Address) -> Result<Self> {
        Self::connect_to(address, address.cache.then(Routes::default))
    }

    fn connect_to(address: &Address, routes: Option<Routes>) -> Result<Self> {
        let members = Members::default();
        let connection = connect_first(address, &members).map_err(Broken::into_error)?;
        let store = store_of(&connection).or(address.store);
        let place = place_of(&connection);
        let windows = Windows::default();
        windows
            .on
            .store(connection.welcome.window, Ordering::Release);
        let shared = Arc::new(Shared {
            address: address.clone(),
            connection: Mutex::new(Some(connection)),
            place: Mutex::new(place),
            members,
            store: Mutex::new(store),
            newest: AtomicU64::new(0),
            sender: Arc::new(Sender::new()),
            windows,
            held: routes.is_some().then(Held::default),
            routes,
        });
        Ok(Self {
            _guard: Some(Arc::new(Guard(Arc::clone(&shared)))),
            shared,
            asker: None,
        })
    }

    /// The same connection, by which the graph is read on somebody's behalf: answers show what they may see.
    #[must_use]
    pub fn on_behalf_of(&self, asker: Option<&Asker>) -> Self {
        Self {
            asker: asker.map(|a| Arc::new(a.clone())),
            ..self.clone()
        }
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// The server's process, on its machine.
    pub fn pid(&self) -> u32 {
        let connection = self.shared.connection.lock();
        let connection = connection.unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().map_or(0, |c| c.welcome.pid)
    }

    /// Notes a version that came in an answer.
    fn saw(&self, version: Version) {
        if version != Version::MAX {
            self.shared.newest.fetch_max(version.0, Ordering::AcqRel);
        }
    }

    fn newest(&self) -> u64 {
        self.shared.newest.load(Ordering::Acquire)
    }

    /// What time it is by the clock of the server, as far as is known.
    fn server_millis(&self) -> u64 {
        let connection = self.shared.connection.lock();
        let connection = connection.unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().map_or(0, |c| c.server_millis())
    }

    /// The connection, or a new one. Many threads may ask; one connects.
    fn connection(&self) -> Result<Arc<Connection>, Broken> {
        let held = self.shared.connection.lock();
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = held.as_ref().filter(|c| c.usable()) {
            return Ok(Arc::clone(connection));
        }
        let connection = self.connect_anew()?;
        if let Some(place) = place_of(&connection) {
            *self.place() = Some(place);
        }
        *held = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Connects where the server is by now; of a cluster whose stores move, to whoever has the store.
    fn connect_anew(&self) -> Result<Arc<Connection>, Broken> {
        let members = &self.shared.members;
        let store = *self
            .shared
            .store
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if members.all().is_empty() || store.is_none() {
            return Connection::open(&self.whereabouts());
        }
        let address = Address {
            store,
            ..self.shared.address.clone()
        };
        connect_to_any(&address, members)
    }

    /// Whether the store that this client talks to has another server by now: the one that does not answer may be paused for a long
    /// time. Then there is a connection to the other one.
    fn has_moved(&self) -> bool {
        let store = *self
            .shared
            .store
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let members = self.shared.members.all();
        // The first one is who does not answer.
        for member in members.iter().skip(1) {
            let Some(mut there) = self.shared.address.moved(member) else {
                continue;
            };
            (there.store, there.connect) = (store, Some(MEMBER_CONNECT_MAX));
            if let Ok(connection) = Connection::open(&there) {
                self.shared.members.learn(&connection.welcome.members);
                self.shared.members.answered(member);
                let mut held = self
                    .shared
                    .connection
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *held = Some(connection);
                return true;
            }
        }
        false
    }

    fn place(&self) -> MutexGuard<'_, Option<(PathBuf, u32)>> {
        self.shared
            .place
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the server is: another may have taken over for it.
    fn whereabouts(&self) -> Address {
        let address = &self.shared.address;
        let moved = self.place().as_ref().and_then(|(map, server)| {
            // One that cannot be read from here says nothing; then the server is waited for where it was.
            let map = Map::read(map).ok()?;
            address.moved(map.address(*server)?)
        });
        moved.unwrap_or_else(|| address.clone())
    }

    /// Makes a call, again where that helps, for as long as the address's patience lasts.
    fn run<T>(
        &self,
        cancel: Option<&dyn Cancel>,
        mut call: impl FnMut(&Arc<Connection>) -> Result<T, Broken>,
    ) -> Result<T> {
        let patience = self.shared.address.patience;
        let mut troubled: Option<Instant> = None;
        let mut pause = Duration::from_millis(5);
        loop {
            let (message, after) = match self.connection().and_then(|c| call(&c)) {
                Ok(value) => return Ok(value),
                Err(Broken::Failed(e)) => return Err(e),
                Err(Broken::Elsewhere { why, .. }) => {
                    pause = (pause * 2).min(ELSEWHERE_PAUSE_MAX);
                    (why, pause)
                }
                Err(Broken::Lost(message)) => {
                    pause = (pause * 2).min(Duration::from_millis(500));
                    (message, pause)
                }
                Err(Broken::Busy { message, after }) => (message, after),
            };
            let since = *troubled.get_or_insert_with(Instant::now);
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(Error::Unavailable(format!(
                    "{message} (tried for {})",
                    connect::seconds(patience)
                )));
            }
            // Clients that were turned away together should not come back together.
            let jitter = marker::dice() % (after.as_millis() as u64 / 2 + 1);
            let until = Instant::now() + (after + Duration::from_millis(jitter)).min(left);
            while let Some(rest) = until.checked_duration_since(Instant::now()) {
                if cancel.is_some_and(Cancel::cancelled) {
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(rest.min(Duration::from_millis(50)));
            }
        }
    }

    /// Sends a request and hands on each piece of its answer. True if the receiver broke off.
    fn exchange(
        &self,
        connection: &Arc<Connection>,
        request: &proto::Request,
        wait: Wait<'_>,
        receive: &mut dyn FnMut(Reply) -> Result<Flow>,
    ) -> Result<(), Broken> {
        let sent = match &self.asker {
            Some(asker) if reads_graph(request) => {
                let on_behalf = proto::Request {
                    call: Some(Call::As(Box::new(proto::AsRequest {
                        asker: crate::convert::asker_out(Some(asker)),
                        request: Some(Box::new(request.clone())),
                    }))),
                };
                connection.send(&on_behalf, self.newest(), 0)?
            }
            _ => connection.send(request, self.newest(), 0)?,
        };
        self.receive(&sent, wait, receive)
    }

    fn receive(
        &self,
        sent: &Sent,
        wait: Wait<'_>,
        receive: &mut dyn FnMut(Reply) -> Result<Flow>,
    ) -> Result<(), Broken> {
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
                            return Err(Broken::Failed(Error::Unavailable(format!(
                                "{} answered with what this build does not understand: use the same release",
                                self.shared.address.authority()
                            ))));
                        }
                    }
                }
                Arrived::End(Ended::Complete) => return Ok(()),
                Arrived::End(Ended::Lost(why)) => return Err(Broken::Lost(why)),
                Arrived::Nothing if moving && looked.elapsed() >= MOVED_POLL => {
                    if self.has_moved() {
                        return Err(Broken::Lost(format!(
                            "{} did not answer, and what was asked is with another server now",
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
                        return Err(Broken::Failed(Error::Interrupted));
                    }
                    None if !wait.long && heard.elapsed() >= patience => {
                        return Err(Broken::Failed(Error::Unavailable(format!(
                            "{} did not answer within {}; a longer time is asked for with {}?timeout=…",
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

    /// Asks for an answer of one piece.
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
                    return Err(self.stray());
                }
                Ok(ControlFlow::Continue(()))
            })?;
            answer.ok_or_else(|| Broken::Failed(self.stray()))
        })
    }

    /// Asks for an answer of several pieces, put together anew each time that it is asked for.
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
                changes.again = true;
            }
            let mut all = T::default();
            self.exchange(connection, &request, wait, &mut |reply| {
                if take(&mut all, reply)? {
                    Ok(ControlFlow::Continue(()))
                } else {
                    Err(self.stray())
                }
            })?;
            Ok(all)
        })
    }

    /// An answer of another kind than was asked for.
    fn stray(&self) -> Error {
        Error::Unavailable(format!(
            "{} gave an answer to another question: use the same release on both sides",
            self.shared.address.authority()
        ))
    }
}

/// After so long without an answer a client looks whether another member has what it asked for.
const MOVED_POLL: Duration = Duration::from_secs(2);
/// Longest pause between looks for a store that is moving.
const ELSEWHERE_PAUSE_MAX: Duration = Duration::from_millis(100);
/// How long a member that may be paused is waited for, where there are others to ask.
const MEMBER_CONNECT_MAX: Duration = Duration::from_secs(1);

/// Which store answers, if stores move.
fn store_of(connection: &Connection) -> Option<u32> {
    let welcome = &connection.welcome;
    (!welcome.members.is_empty()).then_some(welcome.server)
}

/// The first connection: to that address, or, if there is nothing to talk to at it, to another member that it names.
fn connect_first(address: &Address, members: &Members) -> Result<Arc<Connection>, Broken> {
    match Connection::open(address) {
        Err(Broken::Elsewhere {
            members: others, ..
        }) => {
            members.learn(&others);
            let began = Instant::now();
            loop {
                match connect_to_any(address, members) {
                    // The cluster is there, and its stores are on their way.
                    Err(Broken::Elsewhere { .. }) if began.elapsed() < address.patience => {
                        std::thread::sleep(ELSEWHERE_PAUSE_MAX);
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

/// Asks one member after the other.
fn connect_to_any(address: &Address, members: &Members) -> Result<Arc<Connection>, Broken> {
    let all = members.all();
    let mut failed = None;
    for member in &all {
        let Some(mut there) = address.moved(member) else {
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
            Err(Broken::Elsewhere {
                members: others,
                why,
            }) => {
                members.learn(&others);
                failed = Some(Broken::Elsewhere {
                    members: others,
                    why,
                });
            }
            Err(e) => {
                members.failed(member);
                // That a member says where to look tells more than that another is gone; and one whose host is not known any more
                // is no reason to give up.
                let gone = matches!(e, Broken::Failed(_));
                let better = match &failed {
                    None => true,
                    Some(Broken::Elsewhere { .. }) => false,
                    Some(before) => !gone || matches!(before, Broken::Failed(_)),
                };
                if better {
                    failed = Some(e);
                }
            }
        }
    }
    Err(failed.unwrap_or_else(|| Broken::Lost("no member of the cluster is known".into())))
}

/// What a server of a cluster says of how to find it when it is gone.
fn place_of(connection: &Connection) -> Option<(PathBuf, u32)> {
    let welcome = &connection.welcome;
    (!welcome.map.is_empty()).then(|| (PathBuf::from(&welcome.map), welcome.server))
}

fn failed(failure: proto::Failure) -> Broken {
    if matches!(failure.code.as_str(), "closing" | AGAIN) {
        return Broken::Lost(failure.message);
    }
    if failure.kind == i32::from(Kind::Busy) {
        return Broken::Busy {
            after: Duration::from_millis(u64::from(failure.retry_after_ms.clamp(1, 10_000))),
            message: failure.message,
        };
    }
    Broken::Failed(failure_in(failure))
}
