//! The cluster as one database, for whoever compares it with the model: each call runs the simulation until it is answered,
//! by another server each time.

use super::ask::{Ask, Told, seen_by};
use super::cluster::Cluster;
use crate::reads::Reads;
use crate::rng::Rng;
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{
    Counts, Degree, Difference, Edge, EdgeEvent, EdgeKey, EdgeSelect, EdgeTypeId, Error, Flow,
    Result, Traversal, Version, VersionRange, Vertex, VertexEvent, VertexId, VertexSelect,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A minute: nothing takes so long where nothing goes wrong.
const PATIENCE: u64 = 60_000_000;

/// A client that waits.
pub struct Facade {
    cluster: Rc<Cluster>,
    rng: RefCell<Rng>,
    /// The newest version that it has seen.
    pub seen: Cell<Version>,
}

impl Facade {
    /// Of a cluster where all serve.
    pub fn new(cluster: &Rc<Cluster>, seed: u64) -> Self {
        Self {
            cluster: Rc::clone(cluster),
            rng: RefCell::new(Rng::new(seed)),
            seen: Cell::new(Version::ZERO),
        }
    }

    /// Asks some server.
    pub fn ask(&self, ask: &Ask) -> Result<Told> {
        let at = self.rng.borrow_mut().below(self.cluster.len());
        self.ask_at(at, ask)
    }

    /// Asks that server.
    pub fn ask_at(&self, at: usize, ask: &Ask) -> Result<Told> {
        let shared = self.cluster.shared();
        shared.note(|| format!("asked of server {at} (seen {:?}): {ask:?}", self.seen.get()));
        let asking = self.cluster.ask(at, ask.clone(), self.seen.get(), PATIENCE);
        let told = self
            .cluster
            .exec
            .block_on(asking, 2 * PATIENCE)
            .map_err(|e| {
                Error::Unavailable(format!(
                    "server {at} has not answered after a minute: {e:?}"
                ))
            })?;
        shared.note(|| format!("said by server {at}: {told:?}"));
        if let Ok(told) = &told {
            self.seen.set(self.seen.get().max(seen_by(ask, told)));
        }
        told
    }

    /// Microseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.cluster.shared().now()
    }

    /// Lets so many microseconds pass.
    pub fn wait(&self, micros: u64) {
        let sleep = self.cluster.shared().sleep(micros);
        // Nobody can be stuck: the sleep itself is a timer.
        let _ = self.cluster.exec.block_on(sleep, 2 * micros);
    }
}

fn odd<T>(told: &Told) -> Result<T> {
    Err(Error::Invalid(format!(
        "an answer to something else: {told:?}"
    )))
}

macro_rules! told {
    ($told:expr, $variant:ident) => {
        match $told {
            Told::$variant(found) => Ok(found),
            other => odd(&other),
        }
    };
}

impl Reads for Facade {
    fn read_vertices(&self, ids: &[VertexId], as_of: Version) -> Result<Vec<Option<Vertex>>> {
        told!(self.ask(&Ask::Vertices(ids.to_vec(), as_of))?, Vertices)
    }

    fn read_edges(&self, keys: &[EdgeKey], as_of: Version) -> Result<Vec<Option<Edge>>> {
        told!(self.ask(&Ask::Edges(keys.to_vec(), as_of))?, Edges)
    }

    fn scan_edges(
        &self,
        frontier: &[VertexId],
        select: &EdgeSelect,
        sink: &mut dyn FnMut(usize, Edge) -> Flow,
    ) -> Result<()> {
        let ask = Ask::Scan(frontier.to_vec(), select.clone(), usize::MAX);
        for (i, edge) in told!(self.ask(&ask)?, Scanned)? {
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
        for vertex in told!(self.ask(&Ask::Type(*select, usize::MAX))?, Type)? {
            if sink(vertex).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn vertex_history(&self, id: VertexId, range: VersionRange) -> Result<Vec<VertexEvent>> {
        told!(self.ask(&Ask::VertexHistory(id, range))?, VertexHistory)
    }

    fn edge_history(&self, key: EdgeKey, range: VersionRange) -> Result<Vec<EdgeEvent>> {
        told!(self.ask(&Ask::EdgeHistory(key, range))?, EdgeHistory)
    }

    fn degrees(&self, of: &[(VertexId, EdgeTypeId)]) -> Result<Vec<u64>> {
        told!(self.ask(&Ask::Degrees(of.to_vec()))?, Degrees)
    }

    fn top_degrees(&self, edge_type: Option<EdgeTypeId>, limit: usize) -> Result<Vec<Degree>> {
        told!(self.ask(&Ask::Top(edge_type, limit))?, Top)
    }

    fn counts(&self) -> Result<Counts> {
        told!(self.ask(&Ask::Counts)?, Counts)
    }

    fn diff(
        &self,
        before: Version,
        after: Version,
        sink: &mut dyn FnMut(Difference) -> Flow,
    ) -> Result<()> {
        for difference in told!(self.ask(&Ask::Diff(before, after))?, Diff)? {
            if sink(difference).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn travel(&self, traversal: &Traversal, budget: &Budget) -> Result<TravelResult> {
        let ask = Ask::Travel(traversal.clone(), *budget);
        told!(self.ask(&ask)?, Travel).map(|found| *found)
    }

    fn applied(&self, once: &[u8]) -> Result<bool> {
        told!(self.ask(&Ask::Applied(once.to_vec()))?, Applied)
    }
}
