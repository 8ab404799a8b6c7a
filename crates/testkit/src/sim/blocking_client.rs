//! The cluster as one database, for comparison with the model: each call runs the simulation until it is answered,
//! each time by another server.

use super::cluster::Cluster;
use super::request::{ClientRequest, ClientResponse, newest_seen};
use crate::reads::Reads;
use crate::rng::Rng;
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Counts, Degree, DiffSelect, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId,
    Error, Flow, Result, Traversal, Version, VersionRange, Vertex, VertexEvent, VertexId,
    VertexSelect,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// One minute in microseconds: without faults nothing takes that long.
const CALL_TIMEOUT: u64 = 60_000_000;

/// A client whose calls block.
pub struct BlockingClient {
    cluster: Rc<Cluster>,
    rng: RefCell<Rng>,
    /// Newest version that the client has seen.
    pub seen: Cell<Version>,
}

impl BlockingClient {
    /// Creates a client of a cluster whose servers all serve.
    pub fn new(cluster: &Rc<Cluster>, seed: u64) -> Self {
        Self {
            cluster: Rc::clone(cluster),
            rng: RefCell::new(Rng::new(seed)),
            seen: Cell::new(Version::ZERO),
        }
    }

    /// Sends a request to a random server.
    pub fn call(&self, request: &ClientRequest) -> Result<ClientResponse> {
        let at = self.rng.borrow_mut().number_below(self.cluster.len());
        self.call_at(at, request)
    }

    /// Sends a request to that server.
    pub fn call_at(&self, at: usize, request: &ClientRequest) -> Result<ClientResponse> {
        let shared = self.cluster.shared();
        shared.note(|| {
            format!(
                "asked of server {at} (seen {:?}): {request:?}",
                self.seen.get()
            )
        });
        let asking = self
            .cluster
            .call(at, request.clone(), self.seen.get(), CALL_TIMEOUT);
        let response = self
            .cluster
            .exec
            .block_on(asking, 2 * CALL_TIMEOUT)
            .map_err(|e| {
                Error::Unavailable(format!(
                    "server {at} has not answered after a minute: {e:?}"
                ))
            })?;
        shared.note(|| format!("said by server {at}: {response:?}"));
        if let Ok(response) = &response {
            self.seen
                .set(self.seen.get().max(newest_seen(request, response)));
        }
        response
    }

    /// Returns the microseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.cluster.shared().now()
    }

    /// Lets `micros` microseconds pass.
    pub fn wait(&self, micros: u64) {
        let sleep = self.cluster.shared().sleep(micros);
        // The sleep itself is a timer, so it cannot get stuck.
        let _ = self.cluster.exec.block_on(sleep, 2 * micros);
    }
}

fn unexpected<T>(response: &ClientResponse) -> Result<T> {
    Err(Error::Invalid(format!(
        "a response of another kind than the request's: {response:?}"
    )))
}

macro_rules! response {
    ($response:expr, $variant:ident) => {
        match $response {
            ClientResponse::$variant(found) => Ok(found),
            other => unexpected(&other),
        }
    };
}

impl Reads for BlockingClient {
    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        response!(
            self.call(&ClientRequest::Vertices(ids.to_vec(), as_of))?,
            Vertices
        )
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        response!(
            self.call(&ClientRequest::Edges(keys.to_vec(), as_of))?,
            Edges
        )
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let request = ClientRequest::Scan(frontier.to_vec(), select.clone(), usize::MAX);
        for (i, edge) in response!(self.call(&request)?, Scanned)? {
            if sink(i, edge).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn scan_vertices(
        &self,
        select: &VertexSelect,
        sink: &mut dyn FnMut(Vertex) -> Flow,
    ) -> Result<()> {
        for vertex in response!(self.call(&ClientRequest::Type(*select, usize::MAX))?, Type)? {
            if sink(vertex).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        response!(
            self.call(&ClientRequest::VertexHistory(id, range))?,
            VertexHistory
        )
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        response!(
            self.call(&ClientRequest::EdgeHistory(key, range))?,
            EdgeHistory
        )
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        response!(self.call(&ClientRequest::Degrees(of.to_vec()))?, Degrees)
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        response!(self.call(&ClientRequest::Top(edge_type, limit))?, Top)
    }

    fn counts(&self) -> Result<Counts> {
        response!(self.call(&ClientRequest::Counts)?, Counts)
    }

    fn diff(&self, select: &DiffSelect, sink: &mut dyn FnMut(Difference) -> Flow) -> Result<()> {
        let request = ClientRequest::Diff(*select, usize::MAX);
        for difference in response!(self.call(&request)?, Diff)? {
            if sink(difference).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn travel(&self, traversal: &Traversal, budget: &Budget) -> Result<TravelResult> {
        let request = ClientRequest::Travel(traversal.clone(), *budget);
        response!(self.call(&request)?, Travel).map(|found| *found)
    }

    fn applied(&self, idempotency_key: &[u8]) -> Result<bool> {
        response!(
            self.call(&ClientRequest::Applied(idempotency_key.to_vec()))?,
            Applied
        )
    }
}
