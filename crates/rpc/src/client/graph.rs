//! The graph traits over the network, and further calls on a database.

use super::connection::Connection;
use super::{CallError, Client, Wait};
use crate::convert;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::codec::{DecodeError, Reader};
use esker_model::graph_read::{GraphAttempts, GraphCall, GraphCallAs, GraphTransport, RemoteGraph};
use esker_model::wire;
use esker_model::{
    Batch, Cancel, Commit, Error, Flow, GraphRead, GraphWrite, Result, Schema, SchemaChange,
    Version, VertexRef,
};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const LONG: Wait<'static> = Wait {
    cancel: None,
    long: true,
};
pub(super) const SHORT: Wait<'static> = Wait {
    cancel: None,
    long: false,
};

pub(super) fn cancellable(cancel: &dyn Cancel) -> Wait<'_> {
    Wait {
        cancel: Some(cancel),
        long: true,
    }
}

/// Extracts the reply of the expected kind.
macro_rules! expected {
    ($reply:expr, $kind:ident, $value:ident => $read:expr) => {
        match $reply {
            Reply::$kind($value) => $read,
            _ => return Ok(Default::default()),
        }
    };
}
pub(super) use expected;

impl Client {
    /// Makes a call without effect, for measuring the cost of a call.
    pub fn ping(&self) -> Result<()> {
        self.value(Call::Ping(proto::PingRequest {}), SHORT, |reply| {
            Ok(matches!(reply, Reply::Ping(_)).then_some(()))
        })
    }

    /// Release and clock of the server; empty for servers that are too old to report them.
    pub fn about(&self) -> Result<proto::PingReply> {
        self.value(Call::Ping(proto::PingRequest {}), SHORT, |reply| {
            Ok(expected!(reply, Ping, about => Some(about)))
        })
    }

    /// Counts, sizes and cache statistics.
    pub fn stats(&self) -> Result<proto::StatsReply> {
        self.value(Call::Stats(proto::StatsRequest {}), LONG, |reply| {
            Ok(expected!(reply, Stats, stats => Some(stats)))
        })
    }

    /// Checks the consistency of all rows. `progress` receives the number of rows checked so far.
    pub fn check(
        &self,
        repair: bool,
        cancel: &dyn Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<proto::CheckReport> {
        let request = proto::CheckRequest {
            repair,
            part: false,
        };
        self.check_as(request, cancel, progress)
    }

    /// Checks the consistency of the rows on the called server of a cluster only.
    pub fn check_part(
        &self,
        repair: bool,
        cancel: &dyn Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<proto::CheckReport> {
        let request = proto::CheckRequest { repair, part: true };
        self.check_as(request, cancel, progress)
    }

    fn check_as(
        &self,
        check: proto::CheckRequest,
        cancel: &dyn Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<proto::CheckReport> {
        let request = proto::Request {
            call: Some(Call::Check(check)),
        };
        self.run(Some(cancel), |connection| {
            let mut report = None;
            self.exchange(connection, &request, cancellable(cancel), &mut |reply| {
                let Reply::Check(reply) = reply else {
                    return Err(self.wrong_reply());
                };
                match reply.report {
                    Some(done) => report = Some(done),
                    None => progress(reply.rows_so_far),
                }
                Ok(ControlFlow::Continue(()))
            })?;
            report.ok_or_else(|| CallError::Failed(self.wrong_reply()))
        })
    }

    /// Moves versions superseded before `retain_after` to the archive and compacts the store.
    pub fn compact(
        &self,
        retain_after: Option<Version>,
        cancel: &dyn Cancel,
    ) -> Result<proto::CompactReply> {
        let request = proto::CompactRequest {
            retain_after: retain_after.map(|v| v.0),
        };
        self.value(Call::Compact(request), cancellable(cancel), |reply| {
            Ok(expected!(reply, Compact, done => Some(done)))
        })
    }

    /// Syncs all earlier writes to disk, so that they survive a power failure.
    pub fn persist(&self) -> Result<()> {
        self.value(Call::Persist(proto::PersistRequest {}), LONG, |reply| {
            Ok(matches!(reply, Reply::Persist(_)).then_some(()))
        })?;
        self.flush()
    }

    /// Copies the database to a folder on the server's machine.
    pub fn backup(&self, directory: &str) -> Result<proto::BackupReply> {
        let directory = directory.to_owned();
        let request = Call::Backup(proto::BackupRequest { directory });
        self.value(request, LONG, |reply| {
            Ok(expected!(reply, Backup, done => Some(done)))
        })
    }

    /// Asks the server's process to stop or to restart; returns its process id.
    pub fn shutdown(&self, restart: bool) -> Result<u32> {
        let request = Call::Shutdown(proto::ShutdownRequest { restart });
        self.value(request, SHORT, |reply| {
            Ok(expected!(reply, Shutdown, done => Some(done.pid)))
        })
    }

    /// Describes the server's cluster; a single server lists no servers.
    pub fn cluster(&self) -> Result<proto::ClusterReply> {
        self.value(Call::Cluster(proto::ClusterRequest {}), SHORT, |reply| {
            Ok(expected!(reply, Cluster, cluster => Some(cluster)))
        })
    }

    /// Placement of a vertex's edges on the servers of a cluster.
    pub fn placement(&self, vertex: VertexRef) -> Result<proto::PlacementReply> {
        let request = proto::PlacementRequest {
            vertex: Some(convert::vertex_ref_out(vertex)),
        };
        self.value(Call::Placement(request), SHORT, |reply| {
            Ok(expected!(reply, Placement, placement => Some(placement)))
        })
    }

    /// Applies a batch; with `sync`, it survives a power failure before this returns.
    pub fn apply_with(&self, batch: Batch, sync: bool) -> Result<Commit> {
        self.begin(batch, sync)?.wait()
    }
}

/// Decodes items and passes them on one by one.
pub(super) fn each<M, T>(
    items: Vec<M>,
    decode: impl Fn(M) -> convert::Decoded<T>,
    mut sink: impl FnMut(T) -> Flow,
) -> Result<Flow> {
    for item in items {
        if sink(decode(item)?).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

pub(super) fn extend<M, T>(
    all: &mut Vec<T>,
    items: Vec<M>,
    decode: impl Fn(M) -> convert::Decoded<T>,
) -> Result<bool> {
    all.reserve(items.len());
    for item in items {
        all.push(decode(item)?);
    }
    Ok(true)
}

/// The transport of a read of the graph that is made once.
struct GraphAttempt<'a> {
    client: &'a Client,
    connection: &'a Arc<Connection>,
    /// Reason why the call failed, if it did.
    failed: Mutex<Option<CallError>>,
}

impl GraphAttempt<'_> {
    fn request(&self, call: GraphCall) -> proto::Request {
        let call = match &self.client.principal {
            Some(principal) if call.depends_on_principal() => {
                Call::GraphAs(wire::encode(&GraphCallAs {
                    call,
                    principal: (**principal).clone(),
                }))
            }
            _ => Call::Graph(wire::encode(&call)),
        };
        proto::Request { call: Some(call) }
    }
}

impl GraphTransport for GraphAttempt<'_> {
    fn exchange(
        &self,
        call: GraphCall,
        cancel: Option<&dyn Cancel>,
        item: &mut dyn FnMut(&mut Reader<'_>) -> Result<Flow, DecodeError>,
    ) -> Result<Vec<u8>> {
        let wait = Wait {
            cancel,
            long: call.is_long(),
        };
        let mut rest = Vec::new();
        let damaged = |e| Error::corrupt("answer of the server", e);
        let mut receive = |reply| {
            let Reply::Graph(piece) = reply else {
                return Err(self.client.wrong_reply());
            };
            let mut r = Reader::new(&piece.items);
            while r.remaining() > 0 {
                if item(&mut r).map_err(damaged)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            rest = piece.rest;
            Ok(ControlFlow::Continue(()))
        };
        let request = self.request(call);
        let sent = self
            .client
            .exchange(self.connection, &request, wait, &mut receive);
        sent.map_err(|e| {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            *failed = Some(e);
            // The caller gets the error in `failed`.
            self.client.wrong_reply()
        })?;
        Ok(rest)
    }

    fn record_version(&self, version: Version) {
        self.client.record_version(version);
    }
}

impl GraphAttempts for Client {
    fn attempt<T>(
        &self,
        cancel: Option<&dyn Cancel>,
        read: &mut dyn FnMut(&dyn GraphRead) -> Result<T>,
    ) -> Result<T> {
        self.run(cancel, |connection| {
            let attempt = GraphAttempt {
                client: self,
                connection,
                failed: Mutex::default(),
            };
            read(&RemoteGraph(&attempt)).map_err(|e| {
                let failed = attempt.failed.lock();
                let failed = failed.unwrap_or_else(PoisonError::into_inner).take();
                failed.unwrap_or(CallError::Failed(e))
            })
        })
    }
}

impl Client {
    /// Checks that a list has one answer per question.
    pub(super) fn check_count<T>(&self, answers: Vec<T>, questions: usize) -> Result<Vec<T>> {
        if answers.len() == questions {
            Ok(answers)
        } else {
            Err(self.wrong_reply())
        }
    }

    /// Adds types and attributes; with `sync`, they survive a power failure before this returns.
    pub fn define_with(&self, changes: &[SchemaChange], sync: bool) -> Result<Arc<Schema>> {
        let changes = changes.iter().map(convert::change_out).collect();
        let call = Call::Define(proto::DefineRequest { changes });
        let schema = self.value(call, SHORT, |reply| {
            Ok(expected!(reply, Schema, schema => Some(Arc::new(convert::schema_in(schema)?))))
        })?;
        if sync {
            self.persist()?;
        }
        Ok(schema)
    }
}

impl GraphWrite for Client {
    /// A batch without an idempotency key gets one, so that it can be sent again if the connection is lost before the
    /// response
    /// arrives. If the batch had been applied then, the counts of the [`Commit`] are zero, because they were lost with the
    /// response.
    fn apply(&self, batch: Batch) -> Result<Commit> {
        self.apply_with(batch, false)
    }

    fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        self.define_with(changes, false)
    }
}
