//! What clients ask, as data, and who can answer it: a node of a cluster, or an embedded engine in its place.

use super::exec::LocalFuture;
use super::names::NamesTold;
use esker_cluster::Node;
use esker_cluster::node::Caller;
use esker_engine::Engine;
use esker_model::namespace::{Call, Inode, NamePath};
use esker_model::object::{
    Asker, Find, FindReport, Found, ObjectKey, ObjectRead as _, ObjectWrite as _, TagReport,
    TagWhere,
};
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Batch, Commit, Counts, Degree, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId,
    Error, Flow, GraphRead, GraphWrite, NeverCancel, Result, Schema, SchemaChange, Traversal,
    Version, VersionRange, Vertex, VertexEvent, VertexId, VertexSelect,
};
use std::sync::Arc;

/// A call of `GraphRead` or `GraphWrite`.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// `apply`.
    Apply(Batch),
    /// `define`.
    Define(Vec<SchemaChange>),
    /// `read_vertices`.
    Vertices(Vec<VertexId>, Version),
    /// `read_edges`.
    Edges(Vec<EdgeKey>, Version),
    /// `scan_edges`, with a sink that has enough after so many.
    Scan(Vec<VertexId>, EdgeSelect, usize),
    /// `scan_vertices`, with a sink that has enough after so many.
    Type(VertexSelect, usize),
    /// `vertex_history`.
    VertexHistory(VertexId, VersionRange),
    /// `edge_history`.
    EdgeHistory(EdgeKey, VersionRange),
    /// `degrees`.
    Degrees(Vec<(VertexId, EdgeTypeId)>),
    /// `top_degrees`.
    Top(Option<EdgeTypeId>, usize),
    /// `counts`.
    Counts,
    /// `diff`.
    Diff(Version, Version),
    /// `travel`.
    Travel(Traversal, Budget),
    /// `applied`.
    Applied(Vec<u8>),
    /// `read_objects`, for nobody in particular.
    Objects(Vec<ObjectKey>),
    /// `find`.
    Find(Find),
    /// `tag_where`.
    TagWhere(TagWhere),
    /// About files.
    Names(Box<Call>),
    /// A read of the graph, on somebody's behalf.
    As(Asker, Box<Ask>),
    /// A file's attributes, with a promise that they stay so.
    Promised(NamePath),
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Of [`Ask::Apply`].
    Commit(Commit),
    /// Of [`Ask::Define`].
    Schema(Arc<Schema>),
    /// Of [`Ask::Vertices`].
    Vertices(Vec<Option<Vertex>>),
    /// Of [`Ask::Edges`].
    Edges(Vec<Option<Edge>>),
    /// Of [`Ask::Scan`].
    Scanned(Vec<(usize, Edge)>),
    /// Of [`Ask::Type`].
    Type(Vec<Vertex>),
    /// Of [`Ask::VertexHistory`].
    VertexHistory(Vec<VertexEvent>),
    /// Of [`Ask::EdgeHistory`].
    EdgeHistory(Vec<EdgeEvent>),
    /// Of [`Ask::Degrees`].
    Degrees(Vec<u64>),
    /// Of [`Ask::Top`].
    Top(Vec<Degree>),
    /// Of [`Ask::Counts`].
    Counts(Counts),
    /// Of [`Ask::Diff`].
    Diff(Vec<Difference>),
    /// Of [`Ask::Travel`].
    Travel(Box<TravelResult>),
    /// Of [`Ask::Applied`].
    Applied(bool),
    /// Of [`Ask::Objects`].
    Objects(Vec<Option<Found>>),
    /// Of [`Ask::Find`].
    Found(Vec<Found>, FindReport),
    /// Of [`Ask::TagWhere`].
    Tagged(TagReport),
    /// Of [`Ask::Names`].
    Names(NamesTold),
    /// Of [`Ask::Promised`]: for how many milliseconds.
    Promised(Box<Inode>, u32),
}

impl Told {
    /// The newest version in it: what a session has seen afterwards.
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
            Self::Names(NamesTold::Changed(_, newest)) => Some(newest.0),
            Self::Travel(_)
            | Self::Schema(_)
            | Self::Degrees(_)
            | Self::Top(_)
            | Self::Counts(_)
            | Self::Applied(_)
            | Self::Names(_)
            | Self::Promised(..) => None,
        };
        newest.unwrap_or(Version::ZERO)
    }
}

/// The newest version that whoever asked this and was told that has seen. A chain that went through what is now has seen
/// everything up to then.
pub fn seen_by(ask: &Ask, told: &Told) -> Version {
    match (ask, told) {
        (Ask::Travel(chain, _), Told::Travel(result)) => {
            let now = chain.versions.is_none() && chain.as_of.is_none_or(|t| t == Version::MAX);
            // An embedded engine does not say when now is.
            if now && result.as_of < Version::MAX {
                result.as_of
            } else {
                Version::ZERO
            }
        }
        _ => told.newest(),
    }
}

fn versions_of(difference: &Difference) -> Vec<Version> {
    match difference {
        Difference::Vertex(a, b) => [a, b].into_iter().flatten().map(|v| v.version).collect(),
        Difference::Edge(a, b) => [a, b].into_iter().flatten().map(|e| e.version).collect(),
    }
}

/// Somebody whom clients can ask.
pub trait Service {
    /// Answers.
    fn ask(&self, ask: Ask, seen: Version) -> LocalFuture<'static, Result<Told>>;
}

fn go_on(enough: bool) -> Flow {
    if enough {
        Flow::Break(())
    } else {
        Flow::Continue(())
    }
}

impl Service for Arc<Node> {
    fn ask(&self, ask: Ask, seen: Version) -> LocalFuture<'static, Result<Told>> {
        let node = Self::clone(self);
        Box::pin(async move {
            let (ask, asker) = match ask {
                Ask::As(asker, ask) => (*ask, Some(asker)),
                ask => (ask, None),
            };
            let caller = Caller {
                seen,
                asker: asker.as_ref(),
            };
            Ok(match ask {
                Ask::As(..) => {
                    return Err(Error::Invalid("on behalf of somebody's somebody".into()));
                }
                Ask::Apply(batch) => Told::Commit(node.apply(batch, seen).await?),
                Ask::Define(changes) => Told::Schema(node.define(&changes).await?),
                Ask::Vertices(ids, as_of) => {
                    Told::Vertices(node.read_vertices(&ids, as_of, caller).await?)
                }
                Ask::Edges(keys, as_of) => {
                    Told::Edges(node.read_edges(&keys, as_of, caller).await?)
                }
                Ask::Scan(frontier, select, most) => {
                    let mut found = Vec::new();
                    let mut sink = |i, edge| {
                        found.push((i, edge));
                        go_on(found.len() >= most)
                    };
                    node.scan_edges(&frontier, &select, caller, &mut sink)
                        .await?;
                    Told::Scanned(found)
                }
                Ask::Type(select, most) => {
                    let mut found = Vec::new();
                    let mut sink = |vertex| {
                        found.push(vertex);
                        go_on(found.len() >= most)
                    };
                    node.scan_vertices(&select, caller, &mut sink).await?;
                    Told::Type(found)
                }
                Ask::VertexHistory(id, range) => {
                    Told::VertexHistory(node.vertex_history(id, range, caller).await?)
                }
                Ask::EdgeHistory(key, range) => {
                    Told::EdgeHistory(node.edge_history(key, range, caller).await?)
                }
                Ask::Degrees(of) => Told::Degrees(node.degrees(&of, seen).await?),
                Ask::Top(edge_type, limit) => {
                    Told::Top(node.top_degrees(edge_type, limit, seen).await?)
                }
                Ask::Counts => Told::Counts(node.counts(seen).await?),
                Ask::Diff(before, after) => {
                    let mut found = Vec::new();
                    let mut sink = |difference| {
                        found.push(difference);
                        go_on(false)
                    };
                    node.diff(before, after, caller, &mut sink).await?;
                    Told::Diff(found)
                }
                Ask::Travel(traversal, budget) => {
                    let travelled = node
                        .travel(&traversal, &budget, &NeverCancel, caller)
                        .await?;
                    Told::Travel(Box::new(travelled))
                }
                Ask::Applied(once) => Told::Applied(node.applied(&once).await?),
                Ask::Objects(keys) => Told::Objects(node.read_objects(&keys, None, seen).await?),
                Ask::Find(find) => {
                    let mut found = Vec::new();
                    let mut sink = |object| {
                        found.push(object);
                        go_on(false)
                    };
                    let report = node.find(&find, seen, &NeverCancel, &mut sink).await?;
                    Told::Found(found, report)
                }
                Ask::TagWhere(change) => Told::Tagged(node.tag_where(&change, seen).await?),
                Ask::Names(call) => Told::Names(node.names(*call, seen).await?.into()),
                Ask::Promised(path) => {
                    let (inode, millis) = node.stat_promised(None, path, false, seen).await?;
                    Told::Promised(Box::new(inode), millis)
                }
            })
        })
    }
}

/// What an engine would say: it needs nobody else, so it waits for nothing.
pub fn ask_engine(engine: &Engine, ask: Ask) -> Result<Told> {
    Ok(match ask {
        Ask::Apply(batch) => Told::Commit(engine.apply(batch)?),
        Ask::Define(changes) => Told::Schema(engine.define(&changes)?),
        Ask::Vertices(ids, as_of) => Told::Vertices(engine.read_vertices(&ids, as_of)?),
        Ask::Edges(keys, as_of) => Told::Edges(engine.read_edges(&keys, as_of)?),
        Ask::Scan(frontier, select, most) => {
            let mut found = Vec::new();
            engine.scan_edges(&frontier, &select, &mut |i, edge| {
                found.push((i, edge));
                go_on(found.len() >= most)
            })?;
            Told::Scanned(found)
        }
        Ask::Type(select, most) => {
            let mut found = Vec::new();
            engine.scan_vertices(&select, &mut |vertex| {
                found.push(vertex);
                go_on(found.len() >= most)
            })?;
            Told::Type(found)
        }
        Ask::VertexHistory(id, range) => Told::VertexHistory(engine.vertex_history(id, range)?),
        Ask::EdgeHistory(key, range) => Told::EdgeHistory(engine.edge_history(key, range)?),
        Ask::Degrees(of) => Told::Degrees(engine.degrees(&of)?),
        Ask::Top(edge_type, limit) => Told::Top(engine.top_degrees(edge_type, limit)?),
        Ask::Counts => Told::Counts(engine.counts()?),
        Ask::Diff(before, after) => {
            let mut found = Vec::new();
            engine.diff(before, after, &mut |difference| {
                found.push(difference);
                go_on(false)
            })?;
            Told::Diff(found)
        }
        Ask::Travel(traversal, budget) => {
            let travelled = engine.travel(&traversal, &budget, &NeverCancel)?;
            Told::Travel(Box::new(travelled))
        }
        Ask::Applied(once) => Told::Applied(engine.applied(&once)?),
        Ask::Objects(keys) => Told::Objects(engine.read_objects(&keys, None)?),
        Ask::Find(find) => {
            let mut found = Vec::new();
            let report = engine.find(&find, &NeverCancel, &mut |object| {
                found.push(object);
                go_on(false)
            })?;
            Told::Found(found, report)
        }
        Ask::TagWhere(change) => Told::Tagged(engine.tag_where(&change, &NeverCancel)?),
        Ask::Names(_) | Ask::As(..) | Ask::Promised(_) => {
            return Err(Error::Invalid("one engine is asked itself".into()));
        }
    })
}
