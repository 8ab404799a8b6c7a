//! Server for attached processes: a socket in the folder, one thread per connection.

use super::answer::{Answer, answer};
use super::claim::{Claim, Registry};
use super::core::Core;
use super::identity::{self, Identity};
use super::thread;
use crate::limits::{
    CONNECTIONS_MAX, DRAIN_MAX, GREETING_MAX, HELLO_BYTES_MAX, OTHER_USERS_BYTES_MAX,
    OTHER_USERS_CONNECTIONS_MAX, OTHER_USERS_FRAME_TIME, OTHER_USERS_SMALL_BYTES,
    USER_CONNECTIONS_MAX,
};
use crate::socket::SocketPath;
use crate::wire::frame::{self, Kind};
use crate::wire::request::{Hello, Request, Welcome};
use crate::wire::{MAGIC, PROTOCOL};
use esker_model::wire::{Wire as _, decode};
use esker_model::{Error, Result};
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// The listening socket and its connections.
pub(super) struct Server {
    socket: SocketPath,
    accepting: Option<JoinHandle<()>>,
    connections: Arc<Connections>,
}

/// All open connections of attached processes.
#[derive(Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<u64, OpenConnection>>,
    /// Bytes of requests of other users that are being received or answered.
    other_users_bytes: AtomicUsize,
    fewer: Condvar,
    /// Whether the owner is closing and accepts no new requests.
    closing: AtomicBool,
    /// Whether responses in progress are being aborted.
    cut: AtomicBool,
}

/// An open connection.
struct OpenConnection {
    stream: UnixStream,
    /// User of the connection, unless that is this process's user or user 0.
    other_user: Option<u32>,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, OpenConnection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }
}

/// Reason why one more connection of a user is refused; `None` if it is accepted.
fn full(open: &HashMap<u64, OpenConnection>, other_user: Option<u32>) -> Option<String> {
    if open.len() >= CONNECTIONS_MAX {
        return Some(format!("{CONNECTIONS_MAX} connections"));
    }
    let user = other_user?;
    let others = open.values().filter(|o| o.other_user.is_some()).count();
    if others >= OTHER_USERS_CONNECTIONS_MAX {
        return Some(format!(
            "{OTHER_USERS_CONNECTIONS_MAX} connections of other users"
        ));
    }
    let own = open.values().filter(|o| o.other_user == Some(user)).count();
    (own >= USER_CONNECTIONS_MAX)
        .then(|| format!("{USER_CONNECTIONS_MAX} connections of user {user}"))
}

/// The client's data, with a deadline for reading.
struct Incoming<'a> {
    stream: &'a UnixStream,
    until: Cell<Option<Instant>>,
}

impl Incoming<'_> {
    /// Sets the deadline for reads; `None` waits without limit.
    fn until(&self, until: Option<Instant>) -> std::io::Result<()> {
        self.until.set(until);
        self.stream.set_read_timeout(None)
    }
}

impl Read for &Incoming<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let mut stream = self.stream;
        let Some(until) = self.until.get() else {
            return stream.read(to);
        };
        let late = || std::io::Error::from(std::io::ErrorKind::ConnectionAborted);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        stream.set_read_timeout(Some(left))?;
        stream.read(to).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => late(),
            _ => e,
        })
    }
}

/// Memory reserved for a frame of another user, released when the frame is answered.
struct MemoryReservation<'a> {
    connections: &'a Connections,
    bytes: usize,
}

impl MemoryReservation<'_> {
    fn take(&mut self, bytes: usize) -> ControlFlow<()> {
        if bytes <= OTHER_USERS_SMALL_BYTES {
            return ControlFlow::Continue(());
        }
        let taken = self
            .connections
            .other_users_bytes
            .fetch_add(bytes, Ordering::AcqRel);
        self.bytes += bytes;
        if taken + bytes > OTHER_USERS_BYTES_MAX {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Drop for MemoryReservation<'_> {
    fn drop(&mut self) {
        self.connections
            .other_users_bytes
            .fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Removes a connection from the list when its thread ends.
struct ConnectionGuard {
    connections: Arc<Connections>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
        self.connections.fewer.notify_all();
    }
}

impl Server {
    /// Opens the socket, for this user only unless its folder is open to others, and starts to accept.
    pub(super) fn start(claim: &Claim, core: Arc<Core>) -> Result<Self> {
        let registry = Registry::new(&core.folder);
        let path = registry
            .path()
            .join(Registry::socket_name(claim.generation()));
        let failed = |e| core.folder.failed("serving other processes from", e);
        let socket = SocketPath::new(&path).map_err(failed)?;
        let listener = UnixListener::bind(socket.address()).map_err(failed)?;
        // Until this line the folder's own mode (0700) keeps other users out, unless its owner has opened it.
        let mode = if identity::lets_others_in(registry.path()) {
            0o666
        } else {
            0o600
        };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        let connections = Arc::new(Connections::default());
        let accepting = {
            let connections = connections.clone();
            thread("esker-accept", move || {
                accept(&listener, &core, &connections);
            })?
        };
        Ok(Self {
            socket,
            accepting: Some(accepting),
            connections,
        })
    }

    /// Stops accepting, lets responses in progress finish for [`DRAIN_MAX`], then aborts the rest.
    pub(super) fn stop(mut self) {
        self.connections.closing.store(true, Ordering::Release);
        // Wakes the accepting thread, which sees the flag. If the folder was removed, the thread can be neither woken
        // nor reached
        // by clients; it ends with the process.
        let woken = UnixStream::connect(self.socket.address()).is_ok();
        if let Some(accepting) = self.accepting.take()
            && (woken || accepting.is_finished())
        {
            let _ = accepting.join();
        }
        let _ = std::fs::remove_file(self.socket.path());
        let end = Instant::now() + DRAIN_MAX;
        let mut open = self.connections.open();
        for one in open.values() {
            // Threads that wait for a request see the end of the stream.
            let _ = one.stream.shutdown(Shutdown::Read);
        }
        while !open.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() && !self.connections.cut() {
                self.connections.cut.store(true, Ordering::Release);
                for one in open.values() {
                    let _ = one.stream.shutdown(Shutdown::Both);
                }
            }
            let wait = if left.is_zero() { DRAIN_MAX } else { left };
            let waited = self.connections.fewer.wait_timeout(open, wait);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn accept(listener: &UnixListener, core: &Arc<Core>, connections: &Arc<Connections>) {
    let mut number = 0;
    loop {
        let accepted = listener.accept();
        if connections.closing() {
            return;
        }
        // Probably out of descriptors; other connections may be closed meanwhile.
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(std::time::Duration::from_millis(50));
            continue;
        };
        number += 1;
        let Ok(listed) = stream.try_clone() else {
            continue;
        };
        // A peer without credentials counts as another user.
        let user = rustix::net::sockopt::socket_peercred(&stream)
            .map_or(u32::MAX, |peer| peer.uid.as_raw());
        let other_user = Some(user).filter(|user| !identity::is_trusted(*user));
        let full = {
            let mut open = connections.open();
            let full = full(&open, other_user);
            if full.is_none() {
                open.insert(
                    number,
                    OpenConnection {
                        stream: listed,
                        other_user,
                    },
                );
            }
            full
        };
        if let Some(what) = full {
            let message = format!(
                "process {} serves {what} to `{}`, the maximum; close some and repeat",
                std::process::id(),
                core.folder.path.display()
            );
            let _ = refuse(&stream, &Error::Busy(message));
            continue;
        }
        let listed = ConnectionGuard {
            connections: connections.clone(),
            number,
        };
        let (core, connections) = (core.clone(), connections.clone());
        let spawned = thread("esker-serve", move || {
            // Dropped last: once off the list, this thread has no reference to the store.
            let listed = listed;
            serve(&stream, &core, &connections);
            drop(core);
            drop(stream);
            drop(listed);
        });
        drop(spawned);
    }
}

fn refuse(mut stream: &UnixStream, why: &Error) -> std::io::Result<()> {
    let mut out = frame::start();
    why.put(&mut out);
    frame::send(&mut stream, Kind::Failed, &mut out)
}

/// Serves one connection from greeting to end. Any failure ends the connection; the client retries.
fn serve(stream: &UnixStream, core: &Core, connections: &Connections) {
    let incoming = Incoming {
        stream,
        until: Cell::new(Some(Instant::now() + GREETING_MAX)),
    };
    let mut from = BufReader::new(&incoming);
    let mut payload = Vec::new();
    let short = |bytes| {
        if bytes <= HELLO_BYTES_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    if !matches!(
        frame::receive_if(&mut from, &mut payload, short),
        Ok(Some(Kind::Hello))
    ) {
        return;
    }
    if let Some(whole) = &core.part_of {
        let _ = refuse(stream, &Error::InUse(whole.clone()));
        return;
    }
    let identity = match Identity::of(stream, core) {
        Ok(identity) => identity,
        Err(e) => {
            let _ = refuse(stream, &e);
            return;
        }
    };
    if greet(stream, &payload).is_err() || incoming.until(None).is_err() {
        return;
    }
    let other_user = identity != Identity::Trusted;
    loop {
        let mut reservation = MemoryReservation {
            connections,
            bytes: 0,
        };
        let received = if other_user {
            // Between frames the peer may wait; a frame that has begun must arrive in time.
            if !from.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
                return;
            }
            incoming
                .until
                .set(Some(Instant::now() + OTHER_USERS_FRAME_TIME));
            let received =
                frame::receive_if(&mut from, &mut payload, |bytes| reservation.take(bytes));
            if incoming.until(None).is_err() {
                return;
            }
            received
        } else {
            frame::receive(&mut from, &mut payload)
        };
        let kind = match received {
            Ok(Some(kind)) => kind,
            Err(e) if e.kind() == std::io::ErrorKind::FileTooLarge => {
                let busy = "requests of other users take all the memory that this process has for them; try again";
                let _ = refuse(stream, &Error::Busy(busy.into()));
                return;
            }
            _ => return,
        };
        if connections.closing() {
            return;
        }
        match kind {
            // The cancellation arrived after the response.
            Kind::Cancel => {}
            Kind::Request => {
                let request = decode::<Request>(&payload);
                // A large batch should not stay in memory twice.
                if payload.capacity() > 1 << 20 {
                    payload = Vec::new();
                }
                let mut out = Answer::new(stream, connections, from.buffer());
                let request = request
                    .map_err(|e| Error::corrupt("request from another process", e))
                    .and_then(|request| identity.admit(request))
                    .and_then(|request| {
                        identity.admit_open(&request, |principal, handle| {
                            core.seal(principal, handle)
                        })?;
                        Ok(request)
                    });
                let sent = match request {
                    Ok(request) => answer(core, request, &mut out),
                    Err(e) => out.failed(&e),
                };
                if sent.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn greet(mut stream: &UnixStream, hello: &[u8]) -> std::io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    match decode::<Hello>(hello) {
        Ok(hello) if hello.magic == MAGIC && hello.protocol == PROTOCOL => {
            let mut out = frame::start();
            Welcome {
                protocol: PROTOCOL,
                version: version.to_owned(),
                pid: std::process::id(),
            }
            .put(&mut out);
            frame::send(&mut stream, Kind::Welcome, &mut out)?;
            stream.flush()
        }
        Ok(hello) if hello.magic == MAGIC => {
            let message = format!(
                "process {} has the database open with Esker {version} (protocol {PROTOCOL}); this is Esker {} \
                 (protocol {}): end that process, or use the same release",
                std::process::id(),
                hello.version,
                hello.protocol
            );
            refuse(stream, &Error::OtherRelease(message))?;
            Err(std::io::ErrorKind::InvalidData.into())
        }
        _ => Err(std::io::ErrorKind::InvalidData.into()),
    }
}
