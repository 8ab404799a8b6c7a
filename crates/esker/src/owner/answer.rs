//! One request, answered: items in chunks as they are found, then the end.

use super::core::Core;
use super::server::Connections;
use crate::engine::View;
use crate::limits::{CANCEL_POLL, CHUNK_BYTES};
use crate::wire::encoding::Wire;
use crate::wire::frame::{self, Kind};
use crate::wire::namespace::Outcome;
use crate::wire::request::Request;
use crate::wire::{error, travel};
use esker_model::codec::Reader;
use esker_model::namespace::Namespace as _;
use esker_model::object::ObjectRead as _;
use esker_model::traversal::StopReason;
use esker_model::{Cancel, Error, Flow, GraphRead, Result};
use rustix::net::RecvFlags;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Where an answer goes.
pub(super) struct Answer<'a> {
    stream: &'a UnixStream,
    connections: &'a Connections,
    chunk: Vec<u8>,
    /// What the client has sent behind its request and this process has read already.
    behind: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        stream: &'a UnixStream,
        connections: &'a Connections,
        behind: &'a [u8],
    ) -> Self {
        Self {
            stream,
            connections,
            chunk: frame::start(),
            behind,
        }
    }

    fn send(&mut self, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut out = frame::start();
        fill(&mut out);
        let mut stream = self.stream;
        frame::send(&mut stream, kind, &mut out)
    }

    /// One more item.
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

    /// The request failed.
    pub(super) fn failed(&mut self, why: &Error) -> io::Result<()> {
        // An owner that goes has interrupted it, not the client: the next owner is to be asked.
        if self.connections.cut() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.flush()?;
        self.send(Kind::Failed, |out| error::put(why, out))
    }

    fn end<T: Wire>(&mut self, outcome: Result<T>) -> io::Result<()> {
        match outcome {
            Ok(_) if self.connections.cut() => Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(value) => self.done(&value),
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

    /// Runs a scan whose sink sends each item.
    fn stream<T: Wire>(
        &mut self,
        scan: impl FnOnce(&mut dyn FnMut(&T) -> Flow) -> Result<()>,
    ) -> io::Result<()> {
        let mut broken = None;
        let outcome = scan(&mut |item| match self.item(item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                broken = Some(e);
                ControlFlow::Break(())
            }
        });
        match broken {
            Some(e) => Err(e),
            None => self.end(outcome),
        }
    }

    fn watch(&self) -> Watch<'a> {
        Watch {
            stream: self.stream,
            connections: self.connections,
            reason: asked(self.behind).map_or_else(OnceLock::new, OnceLock::from),
            looked: Mutex::new(Instant::now()),
        }
    }
}

/// Whether the client wants its answer still: looks at the socket now and then, without taking anything from it.
struct Watch<'a> {
    stream: &'a UnixStream,
    connections: &'a Connections,
    /// Set once it does not.
    reason: OnceLock<StopReason>,
    looked: Mutex<Instant>,
}

/// What a client sends while it waits can only be a cancellation: a frame of one byte, the reason.
fn asked(bytes: &[u8]) -> Option<StopReason> {
    let payload = bytes.get(frame::start().len()..)?;
    StopReason::take(&mut Reader::new(payload)).ok()
}

impl Cancel for Watch<'_> {
    fn cancelled(&self) -> bool {
        if self.reason.get().is_some() {
            return true;
        }
        // Someone else is looking if it is locked.
        let Ok(mut looked) = self.looked.try_lock() else {
            return false;
        };
        if looked.elapsed() < CANCEL_POLL {
            return false;
        }
        *looked = Instant::now();
        let reason = if self.connections.closing() {
            self.connections.cut().then_some(StopReason::Interrupted)
        } else {
            let mut bytes = [0; 6];
            match rustix::net::recv(
                self.stream,
                &mut bytes[..],
                RecvFlags::PEEK | RecvFlags::DONTWAIT,
            ) {
                // The client is gone.
                Ok((_, 0)) => Some(StopReason::Interrupted),
                Ok(_) => asked(&bytes),
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

/// Does what was asked and sends what came out. An error means that the connection is of no more use.
pub(super) fn answer(core: &Core, request: Request, out: &mut Answer<'_>) -> io::Result<()> {
    if let Err(e) = core.usable() {
        return out.failed(&e);
    }
    let engine = &*core.engine;
    let (asker, request) = match request {
        Request::As(asker, request) => (Some(asker), *request),
        request => (None, request),
    };
    let view = View::new(engine, asker.as_ref());
    match request {
        // Refused where it is read.
        Request::As(..) => out.failed(&Error::Invalid("a request within a request".into())),
        Request::FileIds(asker, paths) => out.all(engine.ids(asker.as_ref(), &paths)),
        Request::Schema => out.end(engine.schema().map(|s| (*s).clone())),
        Request::ReadVertices(ids, as_of) => out.all(view.read_vertices(&ids, as_of)),
        Request::ReadEdges(keys, as_of) => out.all(view.read_edges(&keys, as_of)),
        Request::ScanEdges(frontier, select) => {
            out.stream(|sink| view.scan_edges(&frontier, &select, &mut |i, edge| sink(&(i, edge))))
        }
        Request::ScanVertices(select) => {
            out.stream(|sink| view.scan_vertices(&select, &mut |v| sink(&v)))
        }
        Request::VertexHistory(id, range) => out.all(view.vertex_history(id, range)),
        Request::EdgeHistory(key, range) => out.all(view.edge_history(key, range)),
        Request::Degrees(of) => out.end(view.degrees(&of)),
        Request::TopDegrees(edge_type, limit) => out.all(view.top_degrees(edge_type, limit)),
        Request::Counts => out.end(view.counts()),
        Request::Diff(before, after) => {
            out.stream(|sink| view.diff(before, after, &mut |d| sink(&d)))
        }
        Request::Travel(traversal, budget) => {
            let watch = out.watch();
            match view.travel(&traversal, &budget, &watch) {
                Ok(result) => {
                    let rest = travel::pieces(result, |piece| out.item(piece))?;
                    out.end(Ok(rest))
                }
                Err(e) => out.failed(&e),
            }
        }
        Request::Applied(once) => out.end(engine.applied(&once)),
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
        Request::ReadObjects(keys, asker) => out.all(engine.read_objects(&keys, asker.as_ref())),
        Request::Find(find) => {
            let watch = out.watch();
            let mut broken = None;
            let report = engine.find(&find, &watch, &mut |found| match out.item(&found) {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => {
                    broken = Some(e);
                    ControlFlow::Break(())
                }
            });
            match broken {
                Some(e) => Err(e),
                None => out.end(report),
            }
        }
        Request::Tags(asker) => out.all(engine.tags(asker.as_ref())),
        Request::TagWhere(change) => {
            let watch = out.watch();
            out.end(core.tag_where(&change, &watch))
        }
        Request::SetIndex(name, on) => out.end(core.set_index(&name, on)),
        Request::Stat(asker, path, follow) => out.end(engine.stat(asker.as_ref(), &path, follow)),
        Request::Look(asker, path, how) => {
            let looked = engine.look(asker.as_ref(), &path, how);
            out.end(looked.and_then(|l| core.seal_looked(asker.as_ref(), l)))
        }
        Request::List(asker, path, after) => out.stream(|sink| {
            engine.list(asker.as_ref(), &path, after, &mut |cookie, entry| {
                sink(&(cookie, entry))
            })
        }),
        Request::Walk(asker, path) => {
            let watch = out.watch();
            out.stream(|sink| {
                engine.walk(asker.as_ref(), &path, &watch, &mut |path, inode| {
                    sink(&(path.clone(), inode.clone()))
                })
            })
        }
        Request::Change(changes) => {
            let done = core.change_once(&changes);
            out.all(done.map(|all| all.into_iter().map(Outcome).collect()))
        }
        Request::Usage(asker, path, below) => out.end(engine.usage(asker.as_ref(), &path, below)),
        Request::Usages(asker, path) => {
            let watch = out.watch();
            out.stream(|sink| {
                engine.usages(asker.as_ref(), &path, &watch, &mut |path, usage| {
                    sink(&(path.clone(), *usage))
                })
            })
        }
        Request::Space(by) => out.all(engine.space(by)),
        Request::Partitions(path) => out.all(engine.partitions(&path)),
    }
}
