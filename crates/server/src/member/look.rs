//! What etcd says of a cluster, for people and for those who look after it.

use super::etcd::{Etcd, PATIENCE};
use crate::cluster::config::ClusterConfig;
use esker_cluster::member::plan::{moves, plan};
use esker_cluster::member::{MemberId, View};
use esker_model::{Error, Result};
use tokio::runtime::Runtime;

/// A look at a cluster from outside.
pub struct Look {
    runtime: Runtime,
    etcd: Etcd,
    stores: u32,
    name: String,
}

impl std::fmt::Debug for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Look")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A member, as etcd knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// `HOST:PORT`.
    pub member: MemberId,
    /// Its process.
    pub pid: u32,
    /// Its machine.
    pub host: String,
    /// Its release.
    pub version: String,
    /// Stores that it has.
    pub stores: Vec<u32>,
    /// It is to have none.
    pub drained: bool,
    /// It is about to end.
    pub leaving: bool,
}

/// A store, as etcd knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStatus {
    /// Which.
    pub store: u32,
    /// Who has it, if anybody does.
    pub member: Option<MemberId>,
    /// How often it was claimed.
    pub epoch: u64,
}

impl Look {
    /// Reaches etcd.
    pub fn at(config: &ClusterConfig) -> Result<Self> {
        let endpoints = config.etcd_endpoints()?;
        let trust = config.etcd_trust()?;
        let stores = config.moving()?.stores;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|e| Error::io("starting a thread", e))?;
        let etcd = runtime.block_on(Etcd::connect(&endpoints, &trust, &config.name, PATIENCE))?;
        Ok(Self {
            runtime,
            etcd,
            stores,
            name: config.name.clone(),
        })
    }

    fn view(&self) -> Result<View> {
        self.runtime.block_on(self.etcd.view())
    }

    /// Members and stores as they are now, and how many stores are to move for balance.
    pub fn now(&self) -> Result<(Vec<MemberStatus>, Vec<StoreStatus>, usize)> {
        let view = self.view()?;
        let stores: Vec<StoreStatus> = (0..self.stores)
            .map(|store| StoreStatus {
                store,
                member: view.holder(store).cloned(),
                epoch: view.epochs.get(&store).copied().unwrap_or(0),
            })
            .collect();
        let has = |member: &MemberId| {
            let mine = stores.iter().filter(|s| s.member.as_ref() == Some(member));
            mine.map(|s| s.store).collect()
        };
        let members = view.members.iter().map(|(id, m)| MemberStatus {
            member: id.clone(),
            pid: m.pid,
            host: m.host.clone(),
            version: m.version.clone(),
            stores: has(id),
            drained: view.drained.contains(id),
            leaving: m.leaving,
        });
        let moving = moves(&view, &plan(&view, self.stores, true));
        Ok((members.collect(), stores, moving))
    }

    /// Says that a member is to have nothing, or may have stores again. Fails if there is no such member.
    pub fn drain(&self, member: &str, drained: bool) -> Result<()> {
        let view = self.view()?;
        if !view.members.contains_key(member) && !view.drained.contains(member) {
            let all: Vec<&str> = view.members.keys().map(String::as_str).collect();
            return Err(Error::Invalid(format!(
                "cluster `{}` has no member {member}: it has {}",
                self.name,
                if all.is_empty() {
                    "none".to_owned()
                } else {
                    all.join(", ")
                }
            )));
        }
        let staying = view.takers().filter(|m| *m != member).count();
        if drained && staying == 0 {
            return Err(Error::Invalid(format!(
                "{member} is the only member that may have stores: add another one first"
            )));
        }
        let key = format!("drained/{member}");
        self.runtime.block_on(async {
            if drained {
                self.etcd.put(&key, "", None).await
            } else {
                self.etcd.delete(&key).await
            }
        })
    }

    /// Asks for balance, or takes that back.
    pub fn rebalance(&self, on: bool) -> Result<()> {
        self.runtime.block_on(async {
            if on {
                self.etcd.put("rebalance", "", None).await
            } else {
                self.etcd.delete("rebalance").await
            }
        })
    }
}
