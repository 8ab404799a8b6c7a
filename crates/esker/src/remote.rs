//! Client of the owner process, used by an attached process.

#![deny(clippy::indexing_slicing)]

use crate::limits::{
    CANCEL_GRACE, CANCEL_POLL, FRAME_BYTES_MAX, GREETING_MAX, IDLE_CONNECTIONS_MAX,
};
use crate::owner::claim::Registry;
use crate::socket::SocketPath;
use crate::wire::frame::{self, Kind};
use crate::wire::request::{Hello, Request, Welcome};
use crate::wire::{MAGIC, PROTOCOL};
use esker_model::codec::{DecodeError, Reader};
use esker_model::graph_read::{GraphCall, GraphCallAs, GraphTransport, RemoteGraph};
use esker_model::object::Principal;
use esker_model::traversal::StopReason;
use esker_model::wire::{Wire, decode};
use esker_model::{Cancel, Error, Flow, GraphRead, Result};
use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reason why a call on a session failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The call was answered with an error.
    Failed(Error),
    /// The owner ended before the response was complete; the next owner can be asked.
    Lost,
}

impl From<Error> for CallError {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// Connections to one owner.
pub(crate) struct Remote {
    socket: SocketPath,
    generation: u64,
    pid: u32,
    idle: Mutex<Vec<Connection>>,
}

/// One connection, with no request in progress.
struct Connection {
    stream: BufReader<UnixStream>,
    payload: Vec<u8>,
}

/// Reason why a connection could not be made.
pub(crate) enum NoConnection {
    /// No process accepts connections, yet or any more.
    Absent,
    /// Refused permanently, with this error.
    Refused(Error),
}

/// Callbacks for the parts of a response before its end.
pub(crate) struct Receiver<'a> {
    /// Receives each item; may break.
    pub(crate) item: &'a mut dyn FnMut(&mut Reader<'_>) -> Result<Flow, DecodeError>,
    /// Receives each progress report.
    pub(crate) progress: &'a mut dyn FnMut(u64),
    /// Tells whether the caller has cancelled the call.
    pub(crate) cancel: Option<&'a dyn Cancel>,
}

fn damaged(e: DecodeError) -> CallError {
    CallError::Failed(Error::corrupt("answer of the owner process", e))
}

impl Connection {
    fn greet(mut self) -> Result<(Self, Welcome), NoConnection> {
        let mut out = frame::start();
        Hello {
            magic: MAGIC,
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
        .put(&mut out);
        // An owner without free connections has closed the socket by now, after sending its reason.
        let _ = frame::send(self.stream.get_mut(), Kind::Hello, &mut out);
        match frame::receive(&mut self.stream, &mut self.payload) {
            Ok(Some(Kind::Welcome)) => match decode::<Welcome>(&self.payload) {
                Ok(welcome) => Ok((self, welcome)),
                Err(e) => Err(NoConnection::Refused(Error::corrupt(
                    "greeting of the owner process",
                    e,
                ))),
            },
            Ok(Some(Kind::Failed)) => {
                let e = decode::<Error>(&self.payload);
                Err(NoConnection::Refused(e.unwrap_or_else(|e| {
                    Error::corrupt("greeting of the owner process", e)
                })))
            }
            _ => Err(NoConnection::Absent),
        }
    }
}

impl Remote {
    /// Connects to the owner of this generation.
    pub(crate) fn attach(registry: &Registry, generation: u64) -> Result<Self, NoConnection> {
        let path = registry.path().join(Registry::socket_name(generation));
        let socket = SocketPath::new(&path).map_err(|_| NoConnection::Absent)?;
        let (connection, welcome) = Self::connect(&socket)?;
        let idle = Mutex::new(vec![connection]);
        Ok(Self {
            socket,
            generation,
            pid: welcome.pid,
            idle,
        })
    }

    fn connect(socket: &SocketPath) -> Result<(Connection, Welcome), NoConnection> {
        match UnixStream::connect(socket.address()) {
            Ok(stream) => {
                let patient = stream.set_read_timeout(Some(GREETING_MAX));
                patient.map_err(|_| NoConnection::Absent)?;
                let connection = Connection {
                    stream: BufReader::with_capacity(64 << 10, stream),
                    payload: Vec::new(),
                };
                let (connection, welcome) = connection.greet()?;
                let patient = connection.stream.get_ref().set_read_timeout(None);
                patient.map_err(|_| NoConnection::Absent)?;
                Ok((connection, welcome))
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                Err(NoConnection::Refused(Error::InUse(format!(
                    "`{}` belongs to another user: only the user whose process has a database open may attach to it, unless \
                     they let others in (chmod 755 on the folder `owner` in it, before it is opened)",
                    socket.path().display()
                ))))
            }
            Err(_) => Err(NoConnection::Absent),
        }
    }

    /// Process id of the owner.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Generation of the owner.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Requests a single value.
    pub(crate) fn value<T: Wire>(
        &self,
        request: &Request,
        cancel: Option<&dyn Cancel>,
    ) -> Result<T, CallError> {
        self.call(
            request,
            Receiver {
                item: &mut |r| Err(r.error("no items")),
                progress: &mut |_| {},
                cancel,
            },
        )?
        .ok_or(CallError::Lost)
    }

    /// Requests a list of items.
    pub(crate) fn list<T: Wire>(&self, request: &Request) -> Result<Vec<T>, CallError> {
        let mut items = Vec::new();
        self.stream(request, &mut |item| {
            items.push(item);
            ControlFlow::Continue(())
        })?;
        Ok(items)
    }

    /// Requests items and passes each one to `sink`.
    pub(crate) fn stream<T: Wire>(
        &self,
        request: &Request,
        sink: &mut dyn FnMut(T) -> Flow,
    ) -> Result<(), CallError> {
        let receiver = Receiver {
            item: &mut |r| T::take(r).map(&mut *sink),
            progress: &mut |_| {},
            cancel: None,
        };
        self.call::<()>(request, receiver).map(|_| ())
    }

    /// Sends a request and reads its response to the end; `None` if the receiver broke off.
    pub(crate) fn call<T: Wire>(
        &self,
        request: &Request,
        receiver: Receiver<'_>,
    ) -> Result<Option<T>, CallError> {
        let value = self.call_encoded(request, receiver)?;
        let value = value.map(|value| decode(&value)).transpose();
        value.map_err(damaged)
    }

    /// As [`Self::call`], with the value still encoded.
    fn call_encoded(
        &self,
        request: &Request,
        receiver: Receiver<'_>,
    ) -> Result<Option<Vec<u8>>, CallError> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => match Self::connect(&self.socket) {
                Ok((connection, _)) => connection,
                Err(NoConnection::Absent) => return Err(CallError::Lost),
                Err(NoConnection::Refused(e)) => return Err(e.into()),
            },
        };
        let mut out = frame::start();
        request.put(&mut out);
        if out.len() - 4 > FRAME_BYTES_MAX {
            return Err(CallError::Failed(Error::Limit {
                what: "the size in bytes of one call through another process".into(),
                got: out.len() as u64,
                limit: FRAME_BYTES_MAX as u64,
            }));
        }
        frame::send(connection.stream.get_mut(), Kind::Request, &mut out)
            .map_err(|_| CallError::Lost)?;
        drop(out);
        let answer = connection.answer(receiver)?;
        let Some(answer) = answer else {
            return Ok(None);
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_CONNECTIONS_MAX {
            if connection.payload.capacity() > 1 << 20 {
                connection.payload = Vec::new();
            }
            idle.push(connection);
        }
        drop(idle);
        Ok(Some(answer?))
    }

    /// Reads the graph with the visibility of a principal; `None` sees everything.
    pub(crate) fn read_graph<T>(
        &self,
        principal: Option<&Principal>,
        read: impl FnOnce(&dyn GraphRead) -> Result<T>,
    ) -> Result<T, CallError> {
        let attempt = GraphAttempt {
            remote: self,
            principal,
            lost: AtomicBool::new(false),
        };
        read(&RemoteGraph(&attempt)).map_err(|e| {
            if attempt.lost.load(Ordering::Relaxed) {
                CallError::Lost
            } else {
                CallError::Failed(e)
            }
        })
    }
}

/// The transport of a read of the graph that is made once.
struct GraphAttempt<'a> {
    remote: &'a Remote,
    principal: Option<&'a Principal>,
    /// Whether the owner ended before the response was complete.
    lost: AtomicBool,
}

impl GraphTransport for GraphAttempt<'_> {
    fn exchange(
        &self,
        call: GraphCall,
        cancel: Option<&dyn Cancel>,
        item: &mut dyn FnMut(&mut Reader<'_>) -> Result<Flow, DecodeError>,
    ) -> Result<Vec<u8>> {
        let request = match self.principal {
            Some(principal) if call.depends_on_principal() => Request::GraphAs(GraphCallAs {
                call,
                principal: principal.clone(),
            }),
            _ => Request::Graph(call),
        };
        let receiver = Receiver {
            item,
            progress: &mut |_| {},
            cancel,
        };
        match self.remote.call_encoded(&request, receiver) {
            Ok(value) => Ok(value.unwrap_or_default()),
            Err(CallError::Failed(e)) => Err(e),
            Err(CallError::Lost) => {
                self.lost.store(true, Ordering::Relaxed);
                Err(Error::Unavailable("the owner process has ended".into()))
            }
        }
    }
}

impl Connection {
    /// Reads a response to its end. Returns `Ok(None)` if the receiver broke off, which makes the connection unusable;
    /// otherwise the value or the error that ended the response.
    fn answer(
        &mut self,
        receiver: Receiver<'_>,
    ) -> Result<Option<Result<Vec<u8>, Error>>, CallError> {
        let Receiver {
            item,
            progress,
            cancel,
        } = receiver;
        let wait = |stream: &UnixStream, time: Option<Duration>| {
            stream
                .set_read_timeout(time)
                .map_err(|e| CallError::Failed(Error::io("waiting for the owner", e)))
        };
        if cancel.is_some() {
            wait(self.stream.get_ref(), Some(CANCEL_POLL))?;
        }
        let mut stopped_at = None;
        loop {
            let kind = match frame::receive(&mut self.stream, &mut self.payload) {
                Ok(Some(kind)) => kind,
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    match stopped_at {
                        None if cancel.is_some_and(Cancel::cancelled) => {
                            let mut out = frame::start();
                            cancel
                                .map_or(StopReason::Interrupted, Cancel::reason)
                                .put(&mut out);
                            let sent = frame::send(self.stream.get_mut(), Kind::Cancel, &mut out);
                            sent.map_err(|_| CallError::Lost)?;
                            stopped_at = Some(Instant::now());
                        }
                        Some(at) if Instant::now().duration_since(at) > CANCEL_GRACE => {
                            return Err(CallError::Failed(Error::Interrupted));
                        }
                        _ => {}
                    }
                    continue;
                }
                Ok(None) | Err(_) => return Err(CallError::Lost),
            };
            match kind {
                Kind::Items => {
                    let mut r = Reader::new(&self.payload);
                    while r.remaining() > 0 {
                        if item(&mut r).map_err(damaged)?.is_break() {
                            return Ok(None);
                        }
                    }
                }
                Kind::Progress => progress(decode(&self.payload).map_err(damaged)?),
                Kind::Done | Kind::Failed => {
                    if cancel.is_some() {
                        wait(self.stream.get_ref(), None)?;
                    }
                    return Ok(Some(if kind == Kind::Done {
                        Ok(std::mem::take(&mut self.payload))
                    } else {
                        Err(decode::<Error>(&self.payload).map_err(damaged)?)
                    }));
                }
                _ => return Err(CallError::Lost),
            }
        }
    }
}
