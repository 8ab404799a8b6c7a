//! Answers one request: sends items in chunks as they are found, then the end of the response.

use super::core::Core;
use super::server::Connections;
use crate::engine::View;
use crate::limits::{CANCEL_POLL, CHUNK_BYTES};
use crate::wire::frame::{self, Kind};
use crate::wire::request::Request;
use esker_model::codec::Reader;
use esker_model::graph_read::{AnswerSink, GraphCall, GraphCallAs};
use esker_model::namespace::Namespace as _;
use esker_model::object::ObjectRead as _;
use esker_model::traversal::StopReason;
use esker_model::wire::{self, Wire};
use esker_model::{Cancel, Error, Flow, GraphRead, Result};
use rustix::net::RecvFlags;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Destination of one response.
pub(super) struct Answer<'a> {
    stream: &'a UnixStream,
    connections: &'a Connections,
    chunk: Vec<u8>,
    /// Bytes after the request that were already read from the socket.
    read_ahead: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        stream: &'a UnixStream,
        connections: &'a Connections,
        read_ahead: &'a [u8],
    ) -> Self {
        Self {
            stream,
            connections,
            chunk: frame::start(),
            read_ahead,
        }
    }

    fn send(&mut self, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut out = frame::start();
        fill(&mut out);
        let mut stream = self.stream;
        frame::send(&mut stream, kind, &mut out)
    }

    /// Adds an item to the chunk; sends a full chunk.
    fn item(&mut self, item: &impl Wire) -> io::Result<()> {
        item.put(&mut self.chunk);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.len() > frame::start().len() {
            let mut stream = self.stream;
            frame::send(&mut stream, Kind::Items, &mut self.chunk)?;
            self.chunk.truncate(frame::start().len());
        }
        Ok(())
    }

    fn done(&mut self, value: &impl Wire) -> io::Result<()> {
        self.flush()?;
        self.send(Kind::Done, |out| value.put(out))
    }

    /// Sends the error of a failed request.
    pub(super) fn failed(&mut self, why: &Error) -> io::Result<()> {
        // If the closing owner has interrupted the request, the client must ask the next owner instead.
        if self.connections.cut() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.flush()?;
        self.send(Kind::Failed, |out| why.put(out))
    }

    fn end<T: Wire>(&mut self, outcome: Result<T>) -> io::Result<()> {
        self.end_encoded(outcome.map(|value| wire::encode(&value)))
    }

    fn end_encoded(&mut self, outcome: Result<Vec<u8>>) -> io::Result<()> {
        match outcome {
            Ok(_) if self.connections.cut() => Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(value) => {
                self.flush()?;
                self.send(Kind::Done, |out| out.extend_from_slice(&value))
            }
            Err(e) => self.failed(&e),
        }
    }

    fn all<T: Wire>(&mut self, outcome: Result<Vec<T>>) -> io::Result<()> {
        match outcome {
            Ok(items) => {
                items.iter().try_for_each(|i| self.item(i))?;
                self.done(&())
            }
            Err(e) => self.failed(&e),
        }
    }

    /// Answers a read of the graph.
    fn graph(&mut self, graph: &dyn GraphRead, call: &GraphCall) -> io::Result<()> {
        let watch = self.watch();
        let mut items = Items {
            answer: self,
            broken: None,
        };
        let outcome = call.answer(graph, &watch, &mut items);
        match items.broken {
            Some(e) => Err(e),
            None => self.end_encoded(outcome),
        }
    }

    /// Runs a scan whose sink sends each item.
    fn stream<T: Wire>(
        &mut self,
        scan: impl FnOnce(&mut dyn FnMut(&T) -> Flow) -> Result<()>,
    ) -> io::Result<()> {
        let mut items = Items {
            answer: self,
            broken: None,
        };
        let outcome = scan(&mut |item| items.item(item));
        match items.broken {
            Some(e) => Err(e),
            None => self.end(outcome),
        }
    }

    fn watch(&self) -> Watch<'a> {
        Watch {
            stream: self.stream,
            connections: self.connections,
            reason: parse_cancel(self.read_ahead).map_or_else(OnceLock::new, OnceLock::from),
            last_check: Mutex::new(Instant::now()),
        }
    }
}

/// The items of an answer, and the error after which no more can be sent.
struct Items<'a, 'b> {
    answer: &'a mut Answer<'b>,
    broken: Option<io::Error>,
}

impl AnswerSink for Items<'_, '_> {
    fn item(&mut self, item: &impl Wire) -> Flow {
        match self.answer.item(item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                self.broken = Some(e);
                ControlFlow::Break(())
            }
        }
    }
}

/// Detects cancellation by the client: peeks at the socket at intervals, without consuming bytes.
struct Watch<'a> {
    stream: &'a UnixStream,
    connections: &'a Connections,
    /// Reason of the cancellation, once there is one.
    reason: OnceLock<StopReason>,
    last_check: Mutex<Instant>,
}

/// Parses a cancellation: a frame with one byte, the reason. A client sends nothing else while it waits.
fn parse_cancel(bytes: &[u8]) -> Option<StopReason> {
    let payload = bytes.get(frame::start().len()..)?;
    StopReason::take(&mut Reader::new(payload)).ok()
}

impl Cancel for Watch<'_> {
    fn cancelled(&self) -> bool {
        if self.reason.get().is_some() {
            return true;
        }
        // If the lock is taken, another thread is checking.
        let Ok(mut last_check) = self.last_check.try_lock() else {
            return false;
        };
        if last_check.elapsed() < CANCEL_POLL {
            return false;
        }
        *last_check = Instant::now();
        let reason = if self.connections.closing() {
            self.connections.cut().then_some(StopReason::Interrupted)
        } else {
            let mut bytes = [0; 6];
            match rustix::net::recv(
                self.stream,
                &mut bytes[..],
                RecvFlags::PEEK | RecvFlags::DONTWAIT,
            ) {
                // The client has closed the connection.
                Ok((_, 0)) => Some(StopReason::Interrupted),
                Ok(_) => parse_cancel(&bytes),
                Err(_) => None,
            }
        };
        let Some(reason) = reason else { return false };
        let _ = self.reason.set(reason);
        true
    }

    fn reason(&self) -> StopReason {
        self.reason
            .get()
            .copied()
            .unwrap_or(StopReason::Interrupted)
    }
}

/// Executes a request and sends its response. After an error the connection is unusable.
pub(super) fn answer(core: &Core, request: Request, out: &mut Answer<'_>) -> io::Result<()> {
    if let Err(e) = core.usable() {
        return out.failed(&e);
    }
    let engine = &*core.engine;
    match request {
        Request::Graph(call) => out.graph(engine, &call),
        Request::GraphAs(GraphCallAs { call, principal }) => {
            out.graph(&View::new(engine, Some(&principal)), &call)
        }
        Request::FileIds(principal, paths) => out.all(engine.ids(principal.as_ref(), &paths)),
        Request::Apply(batch) => out.end(core.apply(batch)),
        Request::Define(changes) => out.end(core.define(&changes).map(|s| (*s).clone())),
        Request::Stats => out.end(engine.stats()),
        Request::Check(options) => {
            let watch = out.watch();
            let mut broken = false;
            let report = engine.check(&options, &watch, &mut |rows| {
                broken = broken || out.send(Kind::Progress, |o| rows.put(o)).is_err();
            });
            out.end(report)
        }
        Request::Compact(retain_after) => {
            let watch = out.watch();
            out.end(core.compact(retain_after, &watch))
        }
        Request::Backup => out.end(core.backup_inside()),
        Request::Persist => out.end(core.persist()),
        Request::ReadObjects(keys, principal) => {
            out.all(engine.read_objects(&keys, principal.as_ref()))
        }
        Request::Find(find) => {
            let watch = out.watch();
            let mut items = Items {
                answer: out,
                broken: None,
            };
            let report = engine.find(&find, &watch, &mut |found| items.item(&found));
            match items.broken {
                Some(e) => Err(e),
                None => out.end(report),
            }
        }
        Request::Tags(principal) => out.all(engine.tags(principal.as_ref())),
        Request::TagWhere(change) => {
            let watch = out.watch();
            out.end(core.tag_where(&change, &watch))
        }
        Request::SetIndex(name, on) => out.end(core.set_index(&name, on)),
        Request::Stat(principal, path, follow) => {
            out.end(engine.stat(principal.as_ref(), &path, follow))
        }
        Request::Look(principal, path, how) => {
            let last_check = engine.resolve_open(principal.as_ref(), &path, how);
            out.end(last_check.and_then(|l| core.seal_looked(principal.as_ref(), l)))
        }
        Request::List(principal, path, after) => out.stream(|sink| {
            engine.list(principal.as_ref(), &path, after, &mut |cookie, entry| {
                sink(&(cookie, entry))
            })
        }),
        Request::Walk(principal, path) => {
            let watch = out.watch();
            out.stream(|sink| {
                engine.walk(principal.as_ref(), &path, &watch, &mut |path, inode| {
                    sink(&(path.clone(), inode.clone()))
                })
            })
        }
        Request::Change(changes) => out.all(core.change_once(&changes)),
        Request::Usage(principal, path, below) => {
            out.end(engine.usage(principal.as_ref(), &path, below))
        }
        Request::Usages(principal, path) => {
            let watch = out.watch();
            out.stream(|sink| {
                engine.usages(principal.as_ref(), &path, &watch, &mut |path, usage| {
                    sink(&(path.clone(), *usage))
                })
            })
        }
        Request::Share(principal, call) => {
            let watch = out.watch();
            out.all(core.call_shares(principal.as_ref(), &call, &watch))
        }
        Request::Space(by) => out.all(engine.space(by)),
        Request::Partitions(path) => out.all(engine.partitions(&path)),
    }
}
