//! The complete cluster as one database, for threads that may block.

use super::{Cluster, ClusterNames};
use crate::service::Service;
use esker::Database;
use esker::filtered_stats;
use esker_cluster::node::Caller;
use esker_model::namespace::Namespace;
use esker_model::object::{
    Find, FindReport, Found, ObjectKey, ObjectRead, Principal, TagInfo, TagReport, TagWhere,
};
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Cancel, Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect,
    EdgeTypeId, Flow, GraphRead, Result, Schema, SchemaChange, Traversal, Version, VersionRange,
    Vertex, VertexEvent, VertexId, VertexSelect,
};
use std::ops::Deref;
use std::sync::Arc;

/// The graph that clients' calls read: the folder's database, or that of the cluster.
pub(crate) enum Graph<'a> {
    /// The database of a single server.
    Single(&'a Database),
    /// The database of a single server, on behalf of a principal.
    OnBehalf(Database),
    /// The graph of a cluster.
    Cluster(ClusterGraph<'a>),
}

impl<'a> Deref for Graph<'a> {
    type Target = dyn ObjectRead + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Single(database) => *database,
            Self::OnBehalf(database) => database,
            Self::Cluster(graph) => graph,
        }
    }
}

/// The namespace that clients' calls about files use.
pub(crate) enum Names<'a> {
    /// The namespace of a single server.
    Single(&'a Database),
    /// The namespace of a cluster.
    Cluster(ClusterNames<'a>),
}

impl<'a> Deref for Names<'a> {
    type Target = dyn Namespace + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Single(database) => *database,
            Self::Cluster(names) => names,
        }
    }
}

impl Service {
    /// Returns the namespace for a client that has seen a version.
    pub(crate) fn names(&self, seen: Version) -> Names<'_> {
        match &self.cluster {
            None => Names::Single(&self.database),
            Some(cluster) => Names::Cluster(ClusterNames { cluster, seen }),
        }
    }

    /// Returns the namespace for a caller without a version.
    pub(crate) fn names_now(&self) -> Names<'_> {
        let seen = self.cluster.as_ref().map(|c| c.node.newest());
        self.names(seen.unwrap_or(Version::ZERO))
    }

    /// Returns the graph for a client that has seen a version, on behalf of a principal.
    pub(crate) fn graph(&self, seen: Version, principal: Option<&Principal>) -> Graph<'_> {
        match (&self.cluster, principal) {
            (None, None) => Graph::Single(&self.database),
            (None, principal) => Graph::OnBehalf(self.database.on_behalf_of(principal)),
            (Some(cluster), principal) => Graph::Cluster(ClusterGraph {
                cluster,
                seen,
                principal: principal.cloned(),
            }),
        }
    }

    /// Returns the graph for a caller without a version.
    pub(crate) fn graph_now(&self) -> Graph<'_> {
        self.graph_as(None)
    }

    /// Returns the graph for a caller without a version, on behalf of a principal.
    pub(crate) fn graph_as(&self, principal: Option<&Principal>) -> Graph<'_> {
        let seen = self.cluster.as_ref().map(|c| c.node.newest());
        self.graph(seen.unwrap_or(Version::ZERO), principal)
    }

    /// Returns the schema. Does not block in a cluster.
    pub(crate) fn schema(&self) -> Result<Arc<Schema>> {
        match &self.cluster {
            None => self.database.schema(),
            Some(cluster) => cluster.node.schema(),
        }
    }
}

/// The databases of all servers.
pub(crate) struct ClusterGraph<'a> {
    cluster: &'a Cluster,
    seen: Version,
    /// Principal of the calls, if there is one.
    principal: Option<Principal>,
}

impl ClusterGraph<'_> {
    fn caller(&self) -> Caller<'_> {
        Caller {
            seen: self.seen,
            principal: self.principal.as_ref(),
        }
    }

    /// Whether data may be hidden from the principal.
    fn is_limited(&self) -> bool {
        self.principal.as_ref().is_some_and(|a| a.uid != 0)
    }

    pub(crate) fn define(cluster: &Cluster, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        cluster.wait(cluster.node.define(changes))
    }

    pub(crate) fn tag_where(
        cluster: &Cluster,
        change: &TagWhere,
        _: &dyn Cancel,
    ) -> Result<TagReport> {
        // Servers that have begun complete their share.
        cluster.wait(cluster.node.tag_where(change, cluster.node.newest()))
    }

    pub(crate) fn set_index(cluster: &Cluster, name: &str, on: bool) -> Result<bool> {
        cluster.wait(cluster.node.set_index(name, on))
    }
}

impl GraphRead for ClusterGraph<'_> {
    fn schema(&self) -> Result<Arc<Schema>> {
        self.cluster.node.schema()
    }

    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        let work = self.cluster.node.read_vertices(ids, as_of, self.caller());
        self.cluster.wait(work)
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        let work = self.cluster.node.read_edges(keys, as_of, self.caller());
        self.cluster.wait(work)
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let node = &self.cluster.node;
        self.cluster
            .wait(node.scan_edges(frontier, select, self.caller(), sink))
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        let node = &self.cluster.node;
        self.cluster
            .wait(node.scan_vertices(select, self.caller(), sink))
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        let work = self.cluster.node.vertex_history(id, range, self.caller());
        self.cluster.wait(work)
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        let work = self.cluster.node.edge_history(key, range, self.caller());
        self.cluster.wait(work)
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        if self.is_limited() {
            return filtered_stats::degrees(self, of);
        }
        self.cluster.wait(self.cluster.node.degrees(of, self.seen))
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        if self.is_limited() {
            return filtered_stats::top_degrees(self, edge_type, limit);
        }
        let work = self.cluster.node.top_degrees(edge_type, limit, self.seen);
        self.cluster.wait(work)
    }

    fn counts(&self) -> Result<Counts> {
        let counts = self.cluster.wait(self.cluster.node.counts(self.seen))?;
        if self.is_limited() {
            return filtered_stats::counts(self, counts);
        }
        Ok(counts)
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        let node = &self.cluster.node;
        self.cluster.wait(node.diff(select, self.caller(), sink))
    }

    fn travel(
        &self,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
    ) -> Result<TravelResult> {
        let node = &self.cluster.node;
        self.cluster
            .wait(node.travel(traversal, budget, cancel, self.caller()))
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        self.cluster
            .wait(self.cluster.node.applied(idempotency_key))
    }
}

impl ObjectRead for ClusterGraph<'_> {
    fn read_objects(
        &self,
        keys: &[ObjectKey],
        principal: Option<&Principal>,
    ) -> Result<Vec<Option<Found>>> {
        let work = self.cluster.node.read_objects(keys, principal, self.seen);
        self.cluster.wait(work)
    }

    fn find(
        &self,
        find: &Find,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(Found) -> Flow,
    ) -> Result<FindReport> {
        let node = &self.cluster.node;
        self.cluster.wait(node.find(find, self.seen, cancel, sink))
    }

    fn tags(&self, principal: Option<&Principal>) -> Result<Vec<TagInfo>> {
        self.cluster
            .wait(self.cluster.node.tags(principal, self.seen))
    }
}
