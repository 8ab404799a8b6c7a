//! Status of a cluster in etcd, for people and for administration.

use super::etcd::{Etcd, PATIENCE};
use crate::cluster::config::ClusterConfig;
use esker_cluster::member::plan::{moves, plan};
use esker_cluster::member::{MemberId, View};
use esker_model::{Error, Result};
use tokio::runtime::Runtime;

/// A client of etcd that reads and changes a cluster's assignment from outside.
pub struct MembershipClient {
    runtime: Runtime,
    etcd: Etcd,
    stores: u32,
    name: String,
}

impl std::fmt::Debug for MembershipClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MembershipClient")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Status of a member in etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Address of the member, `HOST:PORT`.
    pub member: MemberId,
    /// Process id of the member.
    pub pid: u32,
    /// Host name of the member's machine.
    pub host: String,
    /// Release that the member runs.
    pub version: String,
    /// Stores that it has.
    pub stores: Vec<u32>,
    /// Whether it is to have no stores.
    pub drained: bool,
    /// Whether it is about to end.
    pub leaving: bool,
}

/// Status of a store in etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStatus {
    /// Number of the store.
    pub store: u32,
    /// Member that has the store, if any.
    pub member: Option<MemberId>,
    /// Number of times that it was claimed.
    pub epoch: u64,
}

impl MembershipClient {
    /// Connects to the etcd of a cluster.
    pub fn connect(config: &ClusterConfig) -> Result<Self> {
        let endpoints = config.etcd_endpoints()?;
        let trust = config.etcd_trust()?;
        let stores = config.etcd_config()?.stores;
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

    /// Returns the status of members and stores, and the number of stores that have to move for balance.
    pub fn status(&self) -> Result<(Vec<MemberStatus>, Vec<StoreStatus>, usize)> {
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

    /// Marks a member to have no stores, or to accept stores again. Fails if there is no such member.
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
                "{member} is the only member that may run servers: add another member first"
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

    /// Requests a rebalance, or withdraws the request.
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
