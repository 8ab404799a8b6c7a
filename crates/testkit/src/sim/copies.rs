//! Copies of a whole cluster that are made while clients go on and servers die: each that was made is a cluster of its own, and shows what the
//! other showed as of its version.

use super::ask::{Ask, Told};
use super::cluster::{Cluster, Shape};
use super::exec::Shared;
use super::facade::Facade;
use crate::compare;
use crate::model::GraphModel;
use crate::rng::Rng;
use crate::world::World;
use esker_cluster::ServerId;
use esker_model::{EdgeSelect, Flow, Result, Version, Versions};
use esker_store::memory::MemoryStore;
use esker_store::{Durability, KeyRange, Read as _, Store as _, Table, WriteBatch};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A virtual minute.
const MINUTE: u64 = 60_000_000;
/// Of the copies of a run, so many are looked at.
const LOOKED_AT: usize = 2;

/// Stores that were copied, by the copy's name and server.
#[derive(Default)]
pub struct Copies(Mutex<State>);

#[derive(Default)]
struct State {
    parts: BTreeMap<String, BTreeMap<ServerId, MemoryStore>>,
    whole: Vec<(String, Version)>,
}

/// A store of its own with the same rows.
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server's part of a copy.
    pub(super) fn take(&self, name: String, server: ServerId, store: &MemoryStore) -> Result<()> {
        let copied = copy(store)?;
        self.state()
            .parts
            .entry(name)
            .or_default()
            .insert(server, copied);
        Ok(())
    }

    /// How many were made whole.
    pub fn made(&self) -> usize {
        self.state().whole.len()
    }
}

/// Has some server make copies, again and again, until it is told to stop.
pub async fn make(cluster: Rc<Cluster>, mut rng: Rng, stop: Rc<Cell<bool>>) {
    let shared = Arc::clone(cluster.shared());
    let mut number = 0;
    while !stop.get() {
        shared.sleep(500_000 + rng.below(5_000_000) as u64).await;
        let at = rng.below(cluster.len());
        let (Some(node), Some(group)) = (cluster.node(at), cluster.group(at)) else {
            continue;
        };
        number += 1;
        let name = format!("copy {number}");
        let (copies, told) = (
            Arc::clone(cluster.net.copies()),
            Arc::<Shared>::clone(&shared),
        );
        cluster.exec.spawn(
            group,
            Box::pin(async move {
                let made = node.copy_all(&name).await;
                told.note(|| format!("{name}, made by server {at}: {made:?}"));
                if let Ok((_, version)) = made {
                    copies.state().whole.push((name, version));
                }
            }),
        );
    }
}

/// Whether the latest copies are what was, as of their versions.
pub fn check(cluster: &Cluster, model: &GraphModel, world: &World, seed: u64) -> compare::Compared {
    let latest: Vec<(String, Version)> = {
        let state = cluster.net.copies().state();
        state.whole.iter().rev().take(LOOKED_AT).cloned().collect()
    };
    for (name, version) in latest {
        look(cluster, model, world, (&name, version, seed))
            .map_err(|why| format!("{name}, as of {version:?}: {why}"))?;
    }
    Ok(())
}

fn look(
    cluster: &Cluster,
    model: &GraphModel,
    world: &World,
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
    let facade = Facade::new(&restored, seed);
    facade.seen.set(version);
    compare::as_of(&facade, model, world, version)?;
    // And nothing later.
    let ids = world.ids();
    let select = |versions| EdgeSelect {
        types: Vec::new(),
        versions,
        properties: true,
    };
    let asks = |time: Version| {
        [
            Ask::Vertices(ids.clone(), time),
            Ask::Scan(ids.clone(), select(Versions::AsOf(time)), usize::MAX),
        ]
    };
    for (now, then) in asks(Version::MAX).into_iter().zip(asks(version)) {
        let told = |ask: &Ask| -> std::result::Result<Told, String> {
            facade.ask(ask).map_err(|e| e.to_string())
        };
        if told(&now)? != told(&then)? {
            return Err(format!("it holds something later: {now:?}"));
        }
    }
    Ok(())
}
