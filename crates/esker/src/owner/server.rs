//! Serving other processes: a socket in the folder, one thread a connection.

use super::answer::{Answer, answer};
use super::claim::{Claim, Registry};
use super::core::Core;
use super::identity::{self, Identity};
use super::thread;
use crate::limits::{
    CONNECTIONS_MAX, DRAIN_MAX, GREETING_MAX, HELLO_BYTES_MAX, OTHERS_BYTES_MAX,
    OTHERS_CONNECTIONS_MAX, OTHERS_FRAME_TIME, OTHERS_SMALL_BYTES, USER_CONNECTIONS_MAX,
};
use crate::socket::SocketPath;
use crate::wire::encoding::{Wire, decode};
use crate::wire::frame::{self, Kind};
use crate::wire::request::{Hello, Request, Welcome};
use crate::wire::{MAGIC, PROTOCOL, error};
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

/// The listening socket and the connections made to it.
pub(super) struct Server {
    socket: SocketPath,
    accepting: Option<JoinHandle<()>>,
    connections: Arc<Connections>,
}

/// All open connections.
#[derive(Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<u64, Open>>,
    /// Bytes of requests of other users that are being received or answered.
    others_bytes: AtomicUsize,
    fewer: Condvar,
    /// The owner goes: no new requests.
    closing: AtomicBool,
    /// It has waited long enough: answers under way are cut off.
    cut: AtomicBool,
}

/// One of them.
struct Open {
    stream: UnixStream,
    /// Whose it is, if that is another user than this process's and not user 0.
    other: Option<u32>,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }
}

/// Why one more connection of a user is not served, if so.
fn full(open: &HashMap<u64, Open>, other: Option<u32>) -> Option<String> {
    if open.len() >= CONNECTIONS_MAX {
        return Some(format!("{CONNECTIONS_MAX} connections"));
    }
    let user = other?;
    let others = open.values().filter(|o| o.other.is_some()).count();
    if others >= OTHERS_CONNECTIONS_MAX {
        return Some(format!(
            "{OTHERS_CONNECTIONS_MAX} connections of other users"
        ));
    }
    let own = open.values().filter(|o| o.other == Some(user)).count();
    (own >= USER_CONNECTIONS_MAX)
        .then(|| format!("{USER_CONNECTIONS_MAX} connections of user {user}"))
}

/// What a client sends, until a time that it has to send something by.
struct Incoming<'a> {
    stream: &'a UnixStream,
    until: Cell<Option<Instant>>,
}

impl Incoming<'_> {
    /// The end of what is waited for; none to wait for as long as it takes.
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

/// Room for a frame of another user, given back when it is answered.
struct Room<'a> {
    connections: &'a Connections,
    bytes: usize,
}

impl Room<'_> {
    fn take(&mut self, bytes: usize) -> ControlFlow<()> {
        if bytes <= OTHERS_SMALL_BYTES {
            return ControlFlow::Continue(());
        }
        let taken = self
            .connections
            .others_bytes
            .fetch_add(bytes, Ordering::AcqRel);
        self.bytes += bytes;
        if taken + bytes > OTHERS_BYTES_MAX {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.connections
            .others_bytes
            .fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Takes a connection off the list when its thread ends, however it ends.
struct Listed {
    connections: Arc<Connections>,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
        self.connections.fewer.notify_all();
    }
}

impl Server {
    /// Opens the socket, for this user only unless its folder lets others in, and starts to accept.
    pub(super) fn start(claim: &Claim, core: Arc<Core>) -> Result<Self> {
        let registry = Registry::new(&core.folder);
        let path = registry
            .path()
            .join(Registry::socket_name(claim.generation()));
        let failed = |e| core.folder.failed("serving other processes from", e);
        let socket = SocketPath::new(&path).map_err(failed)?;
        let listener = UnixListener::bind(socket.address()).map_err(failed)?;
        // Until this line the folder's own mode (0700) keeps others out, unless its owner has let them in.
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

    /// Stops accepting, lets answers under way finish for [`DRAIN_MAX`], then cuts off the rest.
    pub(super) fn stop(mut self) {
        self.connections.closing.store(true, Ordering::Release);
        // Wakes the accepting thread, which sees the flag. Nobody can wake it if the folder was removed meanwhile; nobody can
        // reach it either, and it ends with the process.
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
        // Out of descriptors, most likely: others may close theirs.
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(std::time::Duration::from_millis(50));
            continue;
        };
        number += 1;
        let Ok(listed) = stream.try_clone() else {
            continue;
        };
        // Whom the kernel does not name is nobody whom connections are kept for.
        let user = rustix::net::sockopt::socket_peercred(&stream)
            .map_or(u32::MAX, |peer| peer.uid.as_raw());
        let other = Some(user).filter(|user| !identity::is_trusted(*user));
        let full = {
            let mut open = connections.open();
            let full = full(&open, other);
            if full.is_none() {
                open.insert(
                    number,
                    Open {
                        stream: listed,
                        other,
                    },
                );
            }
            full
        };
        if let Some(what) = full {
            let message = format!(
                "process {} serves {what} to `{}`, the most it may; close some and repeat",
                std::process::id(),
                core.folder.path.display()
            );
            let _ = refuse(&stream, &Error::Unavailable(message));
            continue;
        }
        let listed = Listed {
            connections: connections.clone(),
            number,
        };
        let (core, connections) = (core.clone(), connections.clone());
        let spawned = thread("esker-serve", move || {
            // Dropped last: once off the list, this thread holds nothing of the store.
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
    error::put(why, &mut out);
    frame::send(&mut stream, Kind::Failed, &mut out)
}

/// One connection, from greeting to end. Whatever goes wrong with it ends it; the other side asks again.
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
        let _ = refuse(stream, &Error::Unavailable(whole.clone()));
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
    let other = identity != Identity::Trusted;
    loop {
        let mut room = Room {
            connections,
            bytes: 0,
        };
        let received = if other {
            // Between frames they may wait; what they begin to send has to come.
            if !from.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
                return;
            }
            incoming.until.set(Some(Instant::now() + OTHERS_FRAME_TIME));
            let received = frame::receive_if(&mut from, &mut payload, |bytes| room.take(bytes));
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
                let _ = refuse(stream, &Error::Unavailable(busy.into()));
                return;
            }
            _ => return,
        };
        if connections.closing() {
            return;
        }
        match kind {
            // It came after the answer that it was to stop.
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
                        identity.admit_open(&request, |asker, handle| core.seal(asker, handle))?;
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
            refuse(stream, &Error::Unavailable(message))?;
            Err(std::io::ErrorKind::InvalidData.into())
        }
        _ => Err(std::io::ErrorKind::InvalidData.into()),
    }
}
