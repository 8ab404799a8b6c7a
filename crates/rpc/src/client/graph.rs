//! The graph traits over the network, and further calls on a database.

use super::{CallError, Client, Wait};
use crate::convert::{self, Assembly};
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use crate::resume::{EdgesResume, VerticesResume};
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Batch, Cancel, Commit, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey,
    EdgeSelect, EdgeTypeId, Flow, GraphRead, GraphWrite, Result, Schema, SchemaChange, Traversal,
    Version, VersionRange, Vertex, VertexEvent, VertexId, VertexRef, VertexSelect, VertexTypeId,
};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

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

    /// Runs a scan, and continues after the last item if the connection is lost.
    fn scan(
        &self,
        mut request: impl FnMut() -> Call,
        receive: &mut dyn FnMut(Reply) -> Result<Flow>,
    ) -> Result<()> {
        self.run(None, |connection| {
            let request = proto::Request {
                call: Some(request()),
            };
            self.exchange(connection, &request, LONG, receive)
        })
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

impl GraphRead for Client {
    fn schema(&self) -> Result<Arc<Schema>> {
        self.value(Call::Schema(proto::SchemaRequest {}), SHORT, |reply| {
            Ok(expected!(reply, Schema, schema => Some(Arc::new(convert::schema_in(schema)?))))
        })
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        let call = Call::ReadVertices(proto::ReadVerticesRequest {
            ids: convert::ids_out(ids),
            names: Vec::new(),
            as_of: convert::as_of_out(as_of),
        });
        let all: Vec<_> = self.collect(call, SHORT, |all, reply| {
            expected!(reply, ReadVertices, piece => extend(all, piece.items, |item| {
                item.vertex.map(convert::vertex_in).transpose()
            }))
        })?;
        self.check_count(all, ids.len())
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        let call = Call::ReadEdges(proto::ReadEdgesRequest {
            keys: keys.iter().map(|k| convert::edge_key_out(*k)).collect(),
            as_of: convert::as_of_out(as_of),
        });
        let all: Vec<_> = self.collect(call, SHORT, |all, reply| {
            expected!(reply, ReadEdges, piece => extend(all, piece.items, |item| {
                item.edge.map(convert::edge_in).transpose()
            }))
        })?;
        self.check_count(all, keys.len())
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let mut resume = EdgesResume::default();
        self.run(None, |connection| {
            let (from, rest, select) = resume.rest(frontier, select);
            let request = proto::Request {
                call: Some(Call::ScanEdges(convert::select_out(rest, &select))),
            };
            self.exchange(connection, &request, LONG, &mut |reply| {
                let Reply::ScanEdges(piece) = reply else {
                    return Err(self.wrong_reply());
                };
                each(
                    piece.edges,
                    |e| convert::scanned_in(e, rest),
                    |(i, e)| resume.pass(from + i, e, sink),
                )
            })
        })
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        let mut resume = VerticesResume::after(select.after);
        self.run(None, |connection| {
            let after = resume
                .position()
                .map(|(type_id, id)| convert::vertex_ref_out(VertexRef { id, type_id }));
            let request = proto::Request {
                call: Some(Call::ScanVertices(proto::ScanVerticesRequest {
                    r#type: select.type_id.0.into(),
                    type_name: String::new(),
                    after,
                    as_of: convert::as_of_out(select.as_of),
                    limit: 0,
                    deleted: select.deleted,
                })),
            };
            self.exchange(connection, &request, LONG, &mut |reply| {
                let Reply::ScanVertices(piece) = reply else {
                    return Err(self.wrong_reply());
                };
                each(piece.vertices, convert::vertex_in, |v| resume.pass(v, sink))
            })
        })
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        let type_id = VertexTypeId(0);
        let call = Call::VertexHistory(proto::VertexHistoryRequest {
            vertex: Some(convert::vertex_ref_out(VertexRef { id, type_id })),
            range: Some(convert::range_out(range)),
        });
        self.collect(call, LONG, |all, reply| {
            expected!(reply, VertexHistory, piece => extend(all, piece.events, convert::vertex_event_in))
        })
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let call = Call::EdgeHistory(proto::EdgeHistoryRequest {
            key: Some(convert::edge_key_out(key)),
            range: Some(convert::range_out(range)),
        });
        self.collect(call, LONG, |all, reply| {
            expected!(reply, EdgeHistory, piece => extend(all, piece.events, convert::edge_event_in))
        })
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        let call = Call::Degrees(proto::DegreesRequest {
            of: of
                .iter()
                .map(|(v, t)| convert::degree_of_out(*v, *t))
                .collect(),
        });
        let all: Vec<u64> = self.collect(
            call,
            SHORT,
            |all, reply| expected!(reply, Degrees, piece => extend(all, piece.degrees, Ok)),
        )?;
        self.check_count(all, of.len())
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        let call = Call::TopDegrees(proto::TopDegreesRequest {
            r#type: edge_type.map(|t| t.0.into()),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
        });
        self.collect(call, LONG, |all, reply| {
            expected!(reply, TopDegrees, piece => extend(all, piece.top, convert::degree_in))
        })
    }

    fn counts(&self) -> Result<Counts> {
        self.value(Call::Counts(proto::CountsRequest {}), LONG, |reply| {
            Ok(expected!(reply, Counts, counts => Some(convert::counts_in(counts)?)))
        })
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        // A repeated call continues after the last difference delivered.
        let rest = Cell::new(*select);
        let request = || Call::Diff(convert::diff_select_out(&rest.get(), 0));
        self.scan(request, &mut |reply| {
            let Reply::Diff(piece) = reply else {
                return Err(self.wrong_reply());
            };
            each(piece.differences, convert::difference_in, |difference| {
                rest.set(DiffSelect {
                    start_after: difference.key(),
                    ..*select
                });
                sink(difference)
            })
        })
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        let call = Call::Travel(convert::budget_out(traversal, budget));
        let assembly: Assembly =
            self.collect(call, cancellable(cancel), |all: &mut Assembly, reply| {
                let Reply::Travel(piece) = reply else {
                    return Ok(false);
                };
                all.take(piece)?;
                Ok(true)
            })?;
        let result = assembly.finish()?;
        self.record_version(result.as_of);
        Ok(result)
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        let idempotency_key = idempotency_key.to_vec();
        let call = Call::Applied(proto::AppliedRequest {
            once: idempotency_key,
        });
        self.value(call, SHORT, |reply| {
            Ok(expected!(reply, Applied, reply => Some(reply.applied)))
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
