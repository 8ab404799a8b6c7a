//! Copies of a whole cluster, made while clients continue and servers crash: each complete copy is a cluster that
//! returns what the original returned as of the copy's version.

use super::blocking_client::BlockingClient;
use super::cluster::{Cluster, Shape};
use super::exec::Shared;
use super::request::{ClientRequest, ClientResponse};
use crate::compare;
use crate::model::GraphModel;
use crate::rng::Rng;
use crate::test_graph::TestGraph;
use esker_cluster::ServerId;
use esker_model::{EdgeSelect, Flow, Result, Version, Versions};
use esker_store::memory::MemoryStore;
use esker_store::{Durability, KeyRange, Read as _, Store as _, Table, WriteBatch};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One minute of simulated time, in microseconds.
const MINUTE: u64 = 60_000_000;
/// Number of copies of a run that are checked.
const CHECKED_MAX: usize = 2;

/// Copied stores, by the copy's name and server.
#[derive(Default)]
pub struct Copies(Mutex<CopiesState>);

#[derive(Default)]
struct CopiesState {
    parts: BTreeMap<String, BTreeMap<ServerId, MemoryStore>>,
    complete: Vec<(String, Version)>,
}

/// Copies a store with all rows.
pub(super) fn copy(of: &MemoryStore) -> Result<MemoryStore> {
    let to = MemoryStore::new();
    for table in Table::ALL {
        let mut batch = WriteBatch::default();
        of.scan(table, &KeyRange::ALL, &mut |key, value| {
            batch.put(table, key, value);
            Flow::Continue(())
        })?;
        to.commit(batch, Durability::Sync)?;
    }
    Ok(to)
}

impl Copies {
    fn state(&self) -> MutexGuard<'_, CopiesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a server's part of a copy.
    pub(super) fn take(&self, name: String, server: ServerId, store: &MemoryStore) -> Result<()> {
        let copied = copy(store)?;
        self.state()
            .parts
            .entry(name)
            .or_default()
            .insert(server, copied);
        Ok(())
    }

    /// Returns the number of complete copies.
    pub fn made(&self) -> usize {
        self.state().complete.len()
    }
}

/// Lets servers make copies repeatedly until `stop` is set.
pub async fn make(cluster: Rc<Cluster>, mut rng: Rng, stop: Rc<Cell<bool>>) {
    let shared = Arc::clone(cluster.shared());
    let mut number = 0;
    while !stop.get() {
        shared
            .sleep(500_000 + rng.number_below(5_000_000) as u64)
            .await;
        let at = rng.number_below(cluster.len());
        let (Some(node), Some(group)) = (cluster.node(at), cluster.group(at)) else {
            continue;
        };
        number += 1;
        let name = format!("copy {number}");
        let (copies, response) = (
            Arc::clone(cluster.net.copies()),
            Arc::<Shared>::clone(&shared),
        );
        cluster.exec.spawn(
            group,
            Box::pin(async move {
                let made = node.copy_all(&name).await;
                response.note(|| format!("{name}, made by server {at}: {made:?}"));
                if let Ok((_, version)) = made {
                    copies.state().complete.push((name, version));
                }
            }),
        );
    }
}

/// Checks that the latest copies show the state as of their versions.
pub fn check(
    cluster: &Cluster,
    model: &GraphModel,
    graph: &TestGraph,
    seed: u64,
) -> compare::Compared {
    let latest: Vec<(String, Version)> = {
        let state = cluster.net.copies().state();
        state
            .complete
            .iter()
            .rev()
            .take(CHECKED_MAX)
            .cloned()
            .collect()
    };
    for (name, version) in latest {
        check_copy(cluster, model, graph, (&name, version, seed))
            .map_err(|why| format!("{name}, as of {version:?}: {why}"))?;
    }
    Ok(())
}

fn check_copy(
    cluster: &Cluster,
    model: &GraphModel,
    graph: &TestGraph,
    (name, version, seed): (&str, Version, u64),
) -> compare::Compared {
    let parts = {
        let state = cluster.net.copies().state();
        state.parts.get(name).cloned().unwrap_or_default()
    };
    if parts.len() != cluster.len() {
        return Err(format!("it has {} parts of {}", parts.len(), cluster.len()));
    }
    let shape = Shape {
        processes: 0,
        ..cluster.shape
    };
    let restored = Cluster::new(seed ^ 0x0063_6f70, shape, false);
    restored.fill(parts.into_values());
    restored.start_all().map_err(|e| e.to_string())?;
    let joined = restored.exec.block_on(restored.joined(), MINUTE);
    joined.map_err(|e| format!("its servers do not join: {e:?}"))?;
    let client_view = BlockingClient::new(&restored, seed);
    client_view.seen.set(version);
    compare::as_of(&client_view, model, graph, version)?;
    // The copy must contain nothing later.
    let ids = graph.ids();
    let select = |versions| EdgeSelect {
        types: Vec::new(),
        versions,
        properties: true,
        after: None,
    };
    let requests = |time: Version| {
        [
            ClientRequest::Vertices(ids.clone(), time),
            ClientRequest::Scan(ids.clone(), select(Versions::AsOf(time)), usize::MAX),
        ]
    };
    for (now, then) in requests(Version::MAX).into_iter().zip(requests(version)) {
        let response = |request: &ClientRequest| -> std::result::Result<ClientResponse, String> {
            client_view.call(request).map_err(|e| e.to_string())
        };
        if response(&now)? != response(&then)? {
            return Err(format!("it holds something later: {now:?}"));
        }
    }
    Ok(())
}
