//! Requests of clients as data, and the services that answer them: a server of a cluster, or an embedded engine in its place.

use super::exec::LocalFuture;
use super::names::NamespaceResponse;
use esker_cluster::Node;
use esker_cluster::node::Caller;
use esker_engine::Engine;
use esker_model::namespace::{Call, Inode, NamePath, Usage};
use esker_model::object::{
    Find, FindReport, Found, ObjectKey, ObjectRead as _, ObjectWrite as _, Principal, TagReport,
    TagWhere,
};
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Batch, Commit, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect,
    EdgeTypeId, Error, Flow, GraphRead, GraphWrite, NeverCancel, Result, Schema, SchemaChange,
    Traversal, Version, VersionRange, Vertex, VertexEvent, VertexId, VertexSelect,
};
use std::sync::Arc;

/// A call of `GraphRead` or `GraphWrite`.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientRequest {
    /// A call of `apply`.
    Apply(Batch),
    /// A call of `define`.
    Define(Vec<SchemaChange>),
    /// A call of `read_vertices`.
    Vertices(Vec<VertexId>, Version),
    /// A call of `read_edges`.
    Edges(Vec<EdgeKey>, Version),
    /// A call of `scan_edges` with a sink that stops after a number of edges.
    Scan(Vec<VertexId>, EdgeSelect, usize),
    /// A call of `scan_vertices` with a sink that stops after a number of vertices.
    Type(VertexSelect, usize),
    /// A call of `vertex_history`.
    VertexHistory(VertexId, VersionRange),
    /// A call of `edge_history`.
    EdgeHistory(EdgeKey, VersionRange),
    /// A call of `degrees`.
    Degrees(Vec<(VertexId, EdgeTypeId)>),
    /// A call of `top_degrees`.
    Top(Option<EdgeTypeId>, usize),
    /// A call of `counts`.
    Counts,
    /// A call of `diff` with a sink that stops after a number of differences.
    Diff(DiffSelect, usize),
    /// A call of `travel`.
    Travel(Traversal, Budget),
    /// A call of `applied`.
    Applied(Vec<u8>),
    /// A call of `read_objects` without a principal.
    Objects(Vec<ObjectKey>),
    /// A call of `find`.
    Find(Find),
    /// A call of `tag_where`.
    TagWhere(TagWhere),
    /// A call about the namespace.
    Names(Box<Call>),
    /// A call of `usages` for a principal.
    Usages(Principal, NamePath),
    /// A read of the graph for a principal.
    As(Principal, Box<ClientRequest>),
    /// A file's attributes with a lease on them.
    Leased(NamePath),
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientResponse {
    /// Response to an `Apply` request.
    Commit(Commit),
    /// Response to a `Define` request.
    Schema(Arc<Schema>),
    /// Response to a `Vertices` request.
    Vertices(Vec<Option<Vertex>>),
    /// Response to an `Edges` request.
    Edges(Vec<Option<Edge>>),
    /// Response to a `Scan` request.
    Scanned(Vec<(usize, Edge)>),
    /// Response to a `Type` request.
    Type(Vec<Vertex>),
    /// Response to a `VertexHistory` request.
    VertexHistory(Vec<VertexEvent>),
    /// Response to an `EdgeHistory` request.
    EdgeHistory(Vec<EdgeEvent>),
    /// Response to a `Degrees` request.
    Degrees(Vec<u64>),
    /// Response to a `Top` request.
    Top(Vec<Degree>),
    /// Response to a `Counts` request.
    Counts(Counts),
    /// Response to a `Diff` request.
    Diff(Vec<Difference>),
    /// Response to a `Travel` request.
    Travel(Box<TravelResult>),
    /// Response to an `Applied` request.
    Applied(bool),
    /// Response to an `Objects` request.
    Objects(Vec<Option<Found>>),
    /// Response to a `Find` request.
    Found(Vec<Found>, FindReport),
    /// Response to a `TagWhere` request.
    Tagged(TagReport),
    /// Response to a `Names` request.
    Names(NamespaceResponse),
    /// Response to a `Usages` request.
    Usages(Vec<(NamePath, Usage)>),
    /// Response to a `Leased` request: attributes, and the duration of the lease in milliseconds.
    Leased(Box<Inode>, u32),
}

impl ClientResponse {
    /// Returns the newest version in the response, which the session has seen afterwards.
    pub fn newest(&self) -> Version {
        let edge = |e: &Edge| e.version;
        let newest = match self {
            Self::Commit(commit) => Some(commit.version),
            Self::Vertices(found) => found.iter().flatten().map(|v| v.version).max(),
            Self::Edges(found) => found.iter().flatten().map(edge).max(),
            Self::Scanned(found) => found.iter().map(|(_, e)| e.version).max(),
            Self::Type(found) => found.iter().map(|v| v.version).max(),
            Self::VertexHistory(found) => found.iter().map(|e| e.version).max(),
            Self::EdgeHistory(found) => found.iter().map(|e| e.edge.version).max(),
            Self::Diff(found) => found.iter().flat_map(versions_of).max(),
            Self::Objects(found) => found.iter().flatten().map(|f| f.modified).max(),
            Self::Found(found, _) => found.iter().map(|f| f.modified).max(),
            Self::Tagged(report) => Some(report.version),
            Self::Names(NamespaceResponse::Changed(_, newest)) => Some(newest.0),
            Self::Travel(_)
            | Self::Schema(_)
            | Self::Degrees(_)
            | Self::Top(_)
            | Self::Counts(_)
            | Self::Applied(_)
            | Self::Names(_)
            | Self::Usages(_)
            | Self::Leased(..) => None,
        };
        newest.unwrap_or(Version::ZERO)
    }
}

/// Returns the newest version that a client has seen after this request and response. A traversal of the present has
/// seen everything up to its version.
pub fn newest_seen(request: &ClientRequest, response: &ClientResponse) -> Version {
    match (request, response) {
        (ClientRequest::Travel(chain, _), ClientResponse::Travel(result)) => {
            let now = chain.versions.is_none() && chain.as_of.is_none_or(|t| t == Version::MAX);
            if now { result.as_of } else { Version::ZERO }
        }
        _ => response.newest(),
    }
}

fn versions_of(difference: &Difference) -> Vec<Version> {
    match difference {
        Difference::Vertex(a, b) => [a, b].into_iter().flatten().map(|v| v.version).collect(),
        Difference::Edge(a, b) => [a, b].into_iter().flatten().map(|e| e.version).collect(),
    }
}

/// A service that clients can call.
pub trait Service {
    /// Handles a request of a client that has seen version `seen`.
    fn call(
        &self,
        request: ClientRequest,
        seen: Version,
    ) -> LocalFuture<'static, Result<ClientResponse>>;
}

fn go_on(enough: bool) -> Flow {
    if enough {
        Flow::Break(())
    } else {
        Flow::Continue(())
    }
}

impl Service for Arc<Node> {
    fn call(
        &self,
        request: ClientRequest,
        seen: Version,
    ) -> LocalFuture<'static, Result<ClientResponse>> {
        let node = Self::clone(self);
        Box::pin(async move {
            let (request, principal) = match request {
                ClientRequest::As(principal, request) => (*request, Some(principal)),
                request => (request, None),
            };
            let caller = Caller {
                seen,
                principal: principal.as_ref(),
            };
            Ok(match request {
                ClientRequest::As(..) => {
                    return Err(Error::Invalid(
                        "a call on behalf of a principal within another one".into(),
                    ));
                }
                ClientRequest::Apply(batch) => {
                    ClientResponse::Commit(node.apply(batch, seen).await?)
                }
                ClientRequest::Define(changes) => {
                    ClientResponse::Schema(node.define(&changes).await?)
                }
                ClientRequest::Vertices(ids, as_of) => {
                    ClientResponse::Vertices(node.read_vertices(&ids, as_of, caller).await?)
                }
                ClientRequest::Edges(keys, as_of) => {
                    ClientResponse::Edges(node.read_edges(&keys, as_of, caller).await?)
                }
                ClientRequest::Scan(frontier, select, most) => {
                    let mut found = Vec::new();
                    let mut sink = |i, edge| {
                        found.push((i, edge));
                        go_on(found.len() >= most)
                    };
                    node.scan_edges(&frontier, &select, caller, &mut sink)
                        .await?;
                    ClientResponse::Scanned(found)
                }
                ClientRequest::Type(select, most) => {
                    let mut found = Vec::new();
                    let mut sink = |vertex| {
                        found.push(vertex);
                        go_on(found.len() >= most)
                    };
                    node.scan_vertices(&select, caller, &mut sink).await?;
                    ClientResponse::Type(found)
                }
                ClientRequest::VertexHistory(id, range) => {
                    ClientResponse::VertexHistory(node.vertex_history(id, range, caller).await?)
                }
                ClientRequest::EdgeHistory(key, range) => {
                    ClientResponse::EdgeHistory(node.edge_history(key, range, caller).await?)
                }
                ClientRequest::Degrees(of) => {
                    ClientResponse::Degrees(node.degrees(&of, seen).await?)
                }
                ClientRequest::Top(edge_type, limit) => {
                    ClientResponse::Top(node.top_degrees(edge_type, limit, seen).await?)
                }
                ClientRequest::Counts => ClientResponse::Counts(node.counts(seen).await?),
                ClientRequest::Diff(select, most) => {
                    let mut found = Vec::new();
                    let mut sink = |difference| {
                        found.push(difference);
                        go_on(found.len() >= most)
                    };
                    node.diff(&select, caller, &mut sink).await?;
                    ClientResponse::Diff(found)
                }
                ClientRequest::Travel(traversal, budget) => {
                    let travelled = node
                        .travel(&traversal, &budget, &NeverCancel, caller)
                        .await?;
                    ClientResponse::Travel(Box::new(travelled))
                }
                ClientRequest::Applied(idempotency_key) => {
                    ClientResponse::Applied(node.applied(&idempotency_key).await?)
                }
                ClientRequest::Objects(keys) => {
                    ClientResponse::Objects(node.read_objects(&keys, None, seen).await?)
                }
                ClientRequest::Find(find) => {
                    let mut found = Vec::new();
                    let mut sink = |object| {
                        found.push(object);
                        go_on(false)
                    };
                    let report = node.find(&find, seen, &NeverCancel, &mut sink).await?;
                    ClientResponse::Found(found, report)
                }
                ClientRequest::TagWhere(change) => {
                    ClientResponse::Tagged(node.tag_where(&change, seen).await?)
                }
                ClientRequest::Names(call) => {
                    ClientResponse::Names(node.names(*call, seen).await?.into())
                }
                ClientRequest::Usages(principal, path) => {
                    let usages = node.usages_of(Some(&principal), &path, &|| false);
                    ClientResponse::Usages(usages.await?)
                }
                ClientRequest::Leased(path) => {
                    let (inode, millis) = node.stat_with_lease(None, path, false, seen).await?;
                    ClientResponse::Leased(Box::new(inode), millis)
                }
            })
        })
    }
}

/// Answers a request from an engine, which depends on no other server and never waits.
pub fn call_engine(engine: &Engine, request: ClientRequest) -> Result<ClientResponse> {
    Ok(match request {
        ClientRequest::Apply(batch) => ClientResponse::Commit(engine.apply(batch)?),
        ClientRequest::Define(changes) => ClientResponse::Schema(engine.define(&changes)?),
        ClientRequest::Vertices(ids, as_of) => {
            ClientResponse::Vertices(engine.read_vertices(&ids, as_of)?)
        }
        ClientRequest::Edges(keys, as_of) => {
            ClientResponse::Edges(engine.read_edges(&keys, as_of)?)
        }
        ClientRequest::Scan(frontier, select, most) => {
            let mut found = Vec::new();
            engine.scan_edges(&frontier, &select, &mut |i, edge| {
                found.push((i, edge));
                go_on(found.len() >= most)
            })?;
            ClientResponse::Scanned(found)
        }
        ClientRequest::Type(select, most) => {
            let mut found = Vec::new();
            engine.scan_vertices(&select, &mut |vertex| {
                found.push(vertex);
                go_on(found.len() >= most)
            })?;
            ClientResponse::Type(found)
        }
        ClientRequest::VertexHistory(id, range) => {
            ClientResponse::VertexHistory(engine.vertex_history(id, range)?)
        }
        ClientRequest::EdgeHistory(key, range) => {
            ClientResponse::EdgeHistory(engine.edge_history(key, range)?)
        }
        ClientRequest::Degrees(of) => ClientResponse::Degrees(engine.degrees(&of)?),
        ClientRequest::Top(edge_type, limit) => {
            ClientResponse::Top(engine.top_degrees(edge_type, limit)?)
        }
        ClientRequest::Counts => ClientResponse::Counts(engine.counts()?),
        ClientRequest::Diff(select, most) => {
            let mut found = Vec::new();
            engine.diff(&select, &mut |difference| {
                found.push(difference);
                go_on(found.len() >= most)
            })?;
            ClientResponse::Diff(found)
        }
        ClientRequest::Travel(traversal, budget) => {
            let travelled = engine.travel(&traversal, &budget, &NeverCancel)?;
            ClientResponse::Travel(Box::new(travelled))
        }
        ClientRequest::Applied(idempotency_key) => {
            ClientResponse::Applied(engine.applied(&idempotency_key)?)
        }
        ClientRequest::Objects(keys) => ClientResponse::Objects(engine.read_objects(&keys, None)?),
        ClientRequest::Find(find) => {
            let mut found = Vec::new();
            let report = engine.find(&find, &NeverCancel, &mut |object| {
                found.push(object);
                go_on(false)
            })?;
            ClientResponse::Found(found, report)
        }
        ClientRequest::TagWhere(change) => {
            ClientResponse::Tagged(engine.tag_where(&change, &NeverCancel)?)
        }
        ClientRequest::Names(_)
        | ClientRequest::Usages(..)
        | ClientRequest::As(..)
        | ClientRequest::Leased(_) => {
            return Err(Error::Invalid("one engine is asked itself".into()));
        }
    })
}
