//! What a cluster's file says where stores move between its servers.

use super::ClusterConfig;
use crate::member::take;
use esker_cluster::ServerId;
use esker_config::etcd::{EtcdTrust, URLS, is_url};
use esker_config::{Key, text, texts, time};
use esker_model::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// In the storage of such a cluster: which one it is, as etcd knows it.
pub(crate) const ID_FILE: &str = "ID";
/// How long a member that says nothing counts as there; and what etcd can tell apart at the least.
const LEASE_DEFAULT: Duration = Duration::from_secs(5);
const LEASE_LEAST: Duration = Duration::from_secs(2);
/// How many stores move between members.
const STORES_DEFAULT: u32 = 16;

/// A cluster whose stores move between its members, as etcd says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `https://HOST:PORT` or `http://HOST:PORT` of each server of etcd; none if `cluster up` starts one.
    pub endpoints: Vec<String>,
    /// How it is known, and knows its clients.
    pub trust: EtcdTrust,
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
    pub(super) trust: EtcdTrust,
    pub(super) lease: Option<Duration>,
    pub(super) even: Option<bool>,
}

/// The keys of `[etcd]`.
pub(super) const KEYS: [Key<WrittenEtcd>; 8] = [
    Key {
        path: "etcd.endpoints",
        expected: URLS,
        set: |d, v| {
            let list = texts(v)?;
            let good = !list.is_empty() && list.iter().all(|u| is_url(u));
            d.endpoints = Some(list).filter(|_| good);
            d.endpoints.is_some().then_some(())
        },
    },
    Key {
        path: "etcd.ca",
        expected: "the file of the certificates that etcd's must be signed by",
        set: |d, v| d.trust.take("ca", v),
    },
    Key {
        path: "etcd.certificate",
        expected: "the file of the certificate that is shown to etcd",
        set: |d, v| d.trust.take("certificate", v),
    },
    Key {
        path: "etcd.key",
        expected: "the file of that certificate's private key",
        set: |d, v| d.trust.take("key", v),
    },
    Key {
        path: "etcd.user",
        expected: "an account of etcd's",
        set: |d, v| d.trust.take("user", v),
    },
    Key {
        path: "etcd.password_file",
        expected: "the file of that account's password",
        set: |d, v| d.trust.take("password_file", v),
    },
    Key {
        path: "etcd.lease",
        expected: "a time from 2s to 1m",
        set: |d, v| {
            let range = LEASE_LEAST..=Duration::from_mins(1);
            d.lease = Some(time(v).filter(|t| range.contains(t))?);
            Some(())
        },
    },
    Key {
        path: "etcd.rebalance",
        expected: "\"auto\" or \"manual\"",
        set: |d, v| {
            d.even = Some(match text(v)? {
                "auto" => true,
                "manual" => false,
                _ => return None,
            });
            Some(())
        },
    },
];

impl WrittenEtcd {
    /// With its defaults, if the file says any of it; what does not go together is an error.
    pub(super) fn whole(
        self,
        stores: Option<u32>,
        file: &Path,
    ) -> Result<Option<EtcdConfig>, String> {
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let trust = self.trust.below(folder);
        if let Some(why) = trust.mistake(self.endpoints.as_deref().unwrap_or_default()) {
            return Err(format!("[etcd]: {why}"));
        }
        let any = stores.is_some()
            || trust != EtcdTrust::default()
            || self.endpoints.is_some()
            || self.lease.is_some()
            || self.even.is_some();
        Ok(any.then(|| EtcdConfig {
            endpoints: self.endpoints.unwrap_or_default(),
            trust,
            lease: self.lease.unwrap_or(LEASE_DEFAULT),
            stores: stores.unwrap_or(STORES_DEFAULT),
            even: self.even.unwrap_or(true),
        }))
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

    /// How etcd is known, and knows its clients: as the file says, or by the certificates of one that `cluster up` has started.
    pub(crate) fn etcd_trust(&self) -> Result<EtcdTrust> {
        let etcd = self.moving()?;
        if !etcd.endpoints.is_empty() {
            return Ok(etcd.trust.clone());
        }
        // One that an older release has started, and that runs still.
        let plain = |url: &String| url.starts_with("http://");
        if self.etcd_endpoints()?.iter().all(plain) {
            return Ok(EtcdTrust::default());
        }
        let folder = self.etcd_folder();
        Ok(EtcdTrust {
            ca: Some(folder.join("ca.pem")),
            certificate: Some(folder.join("client.pem")),
            key: Some(folder.join("client.key")),
            ..EtcdTrust::default()
        })
    }

    /// Where an etcd writes that `cluster up` starts: `url`, its certificates and its data. Its owner's alone.
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
