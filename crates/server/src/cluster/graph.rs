//! The whole cluster as one database, for threads that may wait.

use super::{Cluster, ClusterNames};
use crate::service::Service;
use esker::Database;
use esker::seen;
use esker_cluster::node::Caller;
use esker_model::namespace::Namespace;
use esker_model::object::{
    Asker, Find, FindReport, Found, ObjectKey, ObjectRead, TagInfo, TagReport, TagWhere,
};
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Cancel, Counts, Degree, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId, Flow,
    GraphRead, Result, Schema, SchemaChange, Traversal, Version, VersionRange, Vertex, VertexEvent,
    VertexId, VertexSelect,
};
use std::ops::Deref;
use std::sync::Arc;

/// What clients' calls read: the folder's database, or all of the cluster's.
pub(crate) enum Graph<'a> {
    /// A server that stands alone.
    Here(&'a Database),
    /// The same, on somebody's behalf.
    As(Database),
    /// One of several.
    Everywhere(ClusterGraph<'a>),
}

impl<'a> Deref for Graph<'a> {
    type Target = dyn ObjectRead + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Here(database) => *database,
            Self::As(database) => database,
            Self::Everywhere(graph) => graph,
        }
    }
}

/// What clients' calls about files ask.
pub(crate) enum Names<'a> {
    /// A server that stands alone.
    Here(&'a Database),
    /// One of several.
    Everywhere(ClusterNames<'a>),
}

impl<'a> Deref for Names<'a> {
    type Target = dyn Namespace + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Here(database) => *database,
            Self::Everywhere(names) => names,
        }
    }
}

impl Service {
    /// The namespace, for a client that has seen that version.
    pub(crate) fn names(&self, seen: Version) -> Names<'_> {
        match &self.cluster {
            None => Names::Here(&self.database),
            Some(cluster) => Names::Everywhere(ClusterNames { cluster, seen }),
        }
    }

    /// The same for callers that remember nothing.
    pub(crate) fn names_now(&self) -> Names<'_> {
        let seen = self.cluster.as_ref().map(|c| c.node.newest());
        self.names(seen.unwrap_or(Version::ZERO))
    }

    /// What a call reads whose client has seen that version.
    pub(crate) fn graph(&self, seen: Version, asker: Option<&Asker>) -> Graph<'_> {
        match (&self.cluster, asker) {
            (None, None) => Graph::Here(&self.database),
            (None, asker) => Graph::As(self.database.on_behalf_of(asker)),
            (Some(cluster), asker) => Graph::Everywhere(ClusterGraph {
                cluster,
                seen,
                asker: asker.cloned(),
            }),
        }
    }

    /// The same for callers that remember nothing.
    pub(crate) fn graph_now(&self) -> Graph<'_> {
        self.graph_as(None)
    }

    /// The same on somebody's behalf.
    pub(crate) fn graph_as(&self, asker: Option<&Asker>) -> Graph<'_> {
        let seen = self.cluster.as_ref().map(|c| c.node.newest());
        self.graph(seen.unwrap_or(Version::ZERO), asker)
    }

    /// The schema. Does not wait in a cluster.
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
    /// On whose behalf.
    asker: Option<Asker>,
}

impl ClusterGraph<'_> {
    fn caller(&self) -> Caller<'_> {
        Caller {
            seen: self.seen,
            asker: self.asker.as_ref(),
        }
    }

    /// Whether something may be hidden.
    fn hides(&self) -> bool {
        self.asker.as_ref().is_some_and(|a| a.uid != 0)
    }

    pub(crate) fn define(cluster: &Cluster, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        cluster.wait(cluster.node.define(changes))
    }

    pub(crate) fn tag_where(
        cluster: &Cluster,
        change: &TagWhere,
        _: &dyn Cancel,
    ) -> Result<TagReport> {
        // Servers that have begun do their share whole.
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
        if self.hides() {
            return seen::degrees(self, of);
        }
        self.cluster.wait(self.cluster.node.degrees(of, self.seen))
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        if self.hides() {
            return seen::top_degrees(self, edge_type, limit);
        }
        let work = self.cluster.node.top_degrees(edge_type, limit, self.seen);
        self.cluster.wait(work)
    }

    fn counts(&self) -> Result<Counts> {
        let counts = self.cluster.wait(self.cluster.node.counts(self.seen))?;
        if self.hides() {
            return seen::counts(self, counts);
        }
        Ok(counts)
    }

    fn diff(
        &self,
        before: Version,
        after: Version,
        sink: &mut dyn FnMut(Difference) -> Flow,
    ) -> Result<()> {
        let node = &self.cluster.node;
        self.cluster
            .wait(node.diff(before, after, self.caller(), sink))
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

    fn applied(&self, once: &[u8]) -> Result<bool> {
        self.cluster.wait(self.cluster.node.applied(once))
    }
}

impl ObjectRead for ClusterGraph<'_> {
    fn read_objects(
        &self,
        keys: &[ObjectKey],
        asker: Option<&Asker>,
    ) -> Result<Vec<Option<Found>>> {
        let work = self.cluster.node.read_objects(keys, asker, self.seen);
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

    fn tags(&self, asker: Option<&Asker>) -> Result<Vec<TagInfo>> {
        self.cluster.wait(self.cluster.node.tags(asker, self.seen))
    }
}
