//! One server of a cluster: its own engine, what it knows of the others, and what it does for clients and for its peers.
//!
//! Everything that waits is a future; whoever runs it is the [`Host`]: threads and sockets in a server, a simulated network
//! and clock in tests. Nothing here starts a thread or looks at a clock.

use crate::peer::{Answer, Question};
use crate::placement::Kind;
use crate::vnode::ServerId;
use esker_engine::{Clock, Engine};
use esker_model::key::EdgeKey;
use esker_model::traversal::{Budget, TravelResult, Traversal};
use esker_model::{
    Batch, Cancel, Commit, Counts, Degree, Difference, Edge, EdgeEvent, EdgeSelect, EdgeTypeId,
    Flow, Result, Schema, SchemaChange, Version, VersionRange, Vertex, VertexEvent, VertexId,
    VertexSelect,
};
use std::pin::Pin;
use std::sync::Arc;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a node needs of the world.
pub trait Host: Send + Sync {
    /// Carries a question to another server and the answer back. Fails with [`esker_model::Error::Unavailable`] if there is
    /// none: nobody knows then whether the question arrived. A host bounds how long it waits.
    fn call(&self, to: ServerId, question: Question) -> BoxFuture<'static, Result<Answer>>;

    /// Ends after so many milliseconds.
    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()>;

    /// Runs a future beside the others.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// What can be chosen about a cluster; the same on all its servers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This server.
    pub id: ServerId,
    /// All of them, this one included.
    pub servers: Vec<ServerId>,
    /// How many vnodes there are: a power of two.
    pub vnodes: u32,
    /// Where edges lie.
    pub placement: Kind,
    /// Edges that a partition holds at most before it splits.
    pub threshold: u64,
}

/// A server of a cluster.
pub struct Node {}

impl Node {
    /// Opens a node over its engine. It serves once [`Self::join`] has ended.
    pub fn open(
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        host: Arc<dyn Host>,
        settings: Settings,
    ) -> Result<Arc<Self>> {
        unimplemented!()
    }

    /// Tells all others that it is there, and learns what was decided while it was not. Waits for those that do not answer,
    /// for as long as it takes; `waiting` is told whom it waits for.
    pub async fn join(self: &Arc<Self>, waiting: &(dyn Fn(ServerId) + Sync)) -> Result<()> {
        unimplemented!()
    }

    /// Answers another server. Never panics; what is wrong is in the answer.
    pub async fn handle(self: &Arc<Self>, question: Question) -> Answer {
        unimplemented!()
    }

    /// The newest version that it knows of. A client that has seen a later one gives it with its calls (`seen`).
    pub fn newest(&self) -> Version {
        unimplemented!()
    }

    // What clients ask. `seen`: the answer sees all that has this version or an older one. Errors as those of GraphRead and
    // GraphWrite.
    pub fn schema(&self) -> Arc<Schema> {
        unimplemented!()
    }
    pub async fn apply(self: &Arc<Self>, batch: Batch, seen: Version) -> Result<Commit> {
        unimplemented!()
    }
    pub async fn define(self: &Arc<Self>, changes: &[SchemaChange]) -> Result<Arc<Schema>> {
        unimplemented!()
    }
    pub async fn read_vertices(
        self: &Arc<Self>,
        ids: &[VertexId],
        as_of: Version,
        seen: Version,
    ) -> Result<Vec<Option<Vertex>>> {
        unimplemented!()
    }
    pub async fn read_edges(
        self: &Arc<Self>,
        keys: &[EdgeKey],
        as_of: Version,
        seen: Version,
    ) -> Result<Vec<Option<Edge>>> {
        unimplemented!()
    }
    pub async fn scan_edges(
        self: &Arc<Self>,
        frontier: &[VertexId],
        select: &EdgeSelect,
        seen: Version,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        unimplemented!()
    }
    pub async fn scan_vertices(
        self: &Arc<Self>,
        select: &VertexSelect,
        seen: Version,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        unimplemented!()
    }
    pub async fn vertex_history(
        self: &Arc<Self>,
        id: VertexId,
        range: VersionRange,
        seen: Version,
    ) -> Result<Vec<VertexEvent>> {
        unimplemented!()
    }
    pub async fn edge_history(
        self: &Arc<Self>,
        key: EdgeKey,
        range: VersionRange,
        seen: Version,
    ) -> Result<Vec<EdgeEvent>> {
        unimplemented!()
    }
    pub async fn degrees(
        self: &Arc<Self>,
        of: &[(VertexId, EdgeTypeId)],
        seen: Version,
    ) -> Result<Vec<u64>> {
        unimplemented!()
    }
    pub async fn top_degrees(
        self: &Arc<Self>,
        edge_type: Option<EdgeTypeId>,
        limit: usize,
        seen: Version,
    ) -> Result<Vec<Degree>> {
        unimplemented!()
    }
    pub async fn counts(self: &Arc<Self>, seen: Version) -> Result<Counts> {
        unimplemented!()
    }
    pub async fn diff(
        self: &Arc<Self>,
        before: Version,
        after: Version,
        seen: Version,
        sink: &mut dyn FnMut(Difference) -> Flow,
    ) -> Result<()> {
        unimplemented!()
    }
    pub async fn travel(
        self: &Arc<Self>,
        traversal: &Traversal,
        budget: &Budget,
        cancel: &dyn Cancel,
        seen: Version,
    ) -> Result<TravelResult> {
        unimplemented!()
    }
    pub async fn applied(self: &Arc<Self>, once: &[u8]) -> Result<bool> {
        unimplemented!()
    }
    /// How a vertex has split, as the whole cluster knows it; `SplitState` encoded. None: it has not.
    pub async fn splits(
        self: &Arc<Self>,
        id: VertexId,
    ) -> Result<Option<crate::placement::SplitState>> {
        unimplemented!()
    }
    pub fn map(&self) -> &crate::VnodeMap {
        unimplemented!()
    }
    pub fn settings(&self) -> &Settings {
        unimplemented!()
    }
}
