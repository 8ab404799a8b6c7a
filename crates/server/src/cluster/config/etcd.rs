//! What a cluster's file says where stores move between its servers.

use super::ClusterConfig;
use crate::member::take;
use esker_cluster::ServerId;
use esker_model::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// In the storage of such a cluster: which one it is, as etcd knows it.
pub(crate) const ID_FILE: &str = "ID";
/// How long a member that says nothing counts as there; and what etcd can tell apart at the least.
const LEASE_DEFAULT: Duration = Duration::from_secs(5);
pub(super) const LEASE_LEAST: Duration = Duration::from_secs(2);
/// How many stores move between members.
const STORES_DEFAULT: u32 = 16;

/// A cluster whose stores move between its members, as etcd says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `http://HOST:PORT` of each server of etcd; none if `cluster up` starts one.
    pub endpoints: Vec<String>,
    /// How long a member that says nothing counts as there.
    pub lease: Duration,
    /// How many stores there are, for ever.
    pub stores: u32,
    /// Whether stores move for balance by themselves.
    pub even: bool,
}

/// What the file says under `[etcd]`.
#[derive(Default)]
pub(super) struct WrittenEtcd {
    pub(super) endpoints: Option<Vec<String>>,
    pub(super) lease: Option<Duration>,
    pub(super) even: Option<bool>,
}

impl WrittenEtcd {
    /// With its defaults, if the file says any of it.
    pub(super) fn whole(self, stores: Option<u32>) -> Option<EtcdConfig> {
        let any = stores.is_some()
            || self.endpoints.is_some()
            || self.lease.is_some()
            || self.even.is_some();
        any.then(|| EtcdConfig {
            endpoints: self.endpoints.unwrap_or_default(),
            lease: self.lease.unwrap_or(LEASE_DEFAULT),
            stores: stores.unwrap_or(STORES_DEFAULT),
            even: self.even.unwrap_or(true),
        })
    }
}

impl ClusterConfig {
    /// What the file says of etcd; an error if it says nothing.
    pub(crate) fn moving(&self) -> Result<&EtcdConfig> {
        self.etcd.as_ref().ok_or_else(|| {
            Error::Target(format!(
                "the stores of cluster `{}` do not move: its file has neither `stores` nor `[etcd]`",
                self.name
            ))
        })
    }

    /// The folder that a store is in now, while nobody serves it.
    pub fn present_folder(&self, store: ServerId) -> Result<PathBuf> {
        if self.etcd.is_none() {
            return Ok(self.folder(store));
        }
        Ok(match take::newest(&self.storage, store.0)? {
            0 => self.folder(store),
            epoch => take::folder(&self.storage, store.0, epoch),
        })
    }

    /// Refuses a storage whose stores move to servers that know nothing of that: they would find none of the data.
    pub(super) fn check_coordinated(&self) -> Result<()> {
        if self.etcd.is_some() || !self.storage.join(ID_FILE).is_file() {
            return Ok(());
        }
        Err(Error::Target(format!(
            "the stores in `{}` move between servers as etcd says, and the cluster file says nothing of that: put `stores` and \
             `[etcd]` back, or give it another `storage`",
            self.storage.display()
        )))
    }

    /// Where an etcd writes that `cluster up` starts: `url`, and its data.
    pub fn etcd_folder(&self) -> PathBuf {
        self.storage.join("etcd")
    }

    /// Where etcd is: as the file says, or where `cluster up` has started one.
    pub fn etcd_endpoints(&self) -> Result<Vec<String>> {
        let etcd = self.moving()?;
        if !etcd.endpoints.is_empty() {
            return Ok(etcd.endpoints.clone());
        }
        let file = self.etcd_folder().join("url");
        match std::fs::read_to_string(&file) {
            Ok(url) => Ok(vec![url.trim().to_owned()]),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Error::Target(format!(
                "the file of cluster `{}` names no etcd, and `esker cluster up` has started none (there is no `{}`): say \
                 where one is, as in [etcd] endpoints = [\"http://127.0.0.1:2379\"]",
                self.name,
                file.display()
            ))),
            Err(e) => Err(Error::io(format!("reading `{}`", file.display()), e)),
        }
    }
}
