//! The complete cluster as one database, for threads that may block.

use super::{Cluster, ClusterNames};
use crate::service::Service;
use esker::{Database, Stats};
use esker_cluster::node::{BlockOn, ClusterGraph};
use esker_model::namespace::Namespace;
use esker_model::object::{ObjectRead, Principal, TagReport, TagWhere};
use esker_model::{GraphRead, GraphWrite as _, Result, Schema, SchemaChange, Version};
use std::ops::Deref;
use std::sync::Arc;

/// The graph that clients' calls read: the folder's database, or that of the cluster.
pub(crate) enum Graph<'a> {
    /// The database of a single server.
    Single(&'a Database),
    /// The database of a single server, on behalf of a principal.
    OnBehalf(Database),
    /// The graph of a cluster.
    Cluster(ClusterGraph<'a, Cluster>),
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
                node: &cluster.node,
                runtime: &**cluster,
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

    /// Extends the schema of the complete graph.
    pub(crate) fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        match &self.cluster {
            None => self.database.define(changes),
            Some(cluster) => cluster.define(changes),
        }
    }

    /// Sizes of this server's disk and memory, with the counts of the complete graph.
    pub(crate) fn stats(
        &self,
        graph: &dyn GraphRead,
        principal: Option<&Principal>,
    ) -> Result<Stats> {
        if Principal::limited(principal).is_some() {
            // Sizes and the newest version would include hidden data.
            return Ok(Stats {
                counts: graph.counts()?,
                ..Stats::default()
            });
        }
        let mut stats = self.database.stats()?;
        if let Some(cluster) = &self.cluster {
            stats.counts = graph.counts()?;
            stats.newest = stats.newest.max(Some(cluster.node.newest()));
        }
        Ok(stats)
    }

    /// Returns the schema. Does not block in a cluster.
    pub(crate) fn schema(&self) -> Result<Arc<Schema>> {
        match &self.cluster {
            None => self.database.schema(),
            Some(cluster) => cluster.node.schema(),
        }
    }
}

impl BlockOn for Cluster {
    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.wait(work)
    }
}

impl Cluster {
    /// Adds definitions to the schema of all servers.
    pub(crate) fn define(&self, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        self.wait(self.node.define(changes))
    }

    /// Changes the tags of all objects that match a filter. Servers that have begun complete their share.
    pub(crate) fn tag_where(&self, change: &TagWhere) -> Result<TagReport> {
        self.wait(self.node.tag_where(change, self.node.newest()))
    }

    /// Enables or disables an index on a name.
    pub(crate) fn set_index(&self, name: &str, on: bool) -> Result<bool> {
        self.wait(self.node.set_index(name, on))
    }
}
