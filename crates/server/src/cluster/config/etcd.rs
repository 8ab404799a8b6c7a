//! Settings for stores that move between servers.

use super::ClusterConfig;
use crate::member::takeover;
use esker_cluster::ServerId;
use esker_config::etcd::{EtcdTrust, URLS, is_url};
use esker_config::{Key, text, texts, time};
use esker_model::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// File in the storage with the id by which etcd knows the cluster.
pub(crate) const ID_FILE: &str = "ID";
/// Default and shortest time after which a silent member counts as gone. etcd cannot distinguish shorter times.
const LEASE_DEFAULT: Duration = Duration::from_secs(5);
const LEASE_LEAST: Duration = Duration::from_secs(2);
/// Default number of stores that move between members.
const STORES_DEFAULT: u32 = 16;

/// Configuration of a cluster whose stores are assigned to members through etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `https://HOST:PORT` or `http://HOST:PORT` of each server of etcd; empty if `cluster up` starts one.
    pub endpoints: Vec<String>,
    /// Certificates and account for etcd.
    pub trust: EtcdTrust,
    /// Time after which a silent member counts as gone.
    pub lease: Duration,
    /// Number of stores, which never changes.
    pub stores: u32,
    /// Whether stores move for balance automatically.
    pub even: bool,
}

/// Contents of the section `[etcd]`.
#[derive(Default)]
pub(super) struct EtcdSection {
    pub(super) endpoints: Option<Vec<String>>,
    pub(super) trust: EtcdTrust,
    pub(super) lease: Option<Duration>,
    pub(super) even: Option<bool>,
}

/// The keys of `[etcd]`.
pub(super) const KEYS: [Key<EtcdSection>; 8] = [
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

impl EtcdSection {
    /// Fills in defaults; `None` if the file has none of these settings, an error if they contradict each other.
    pub(super) fn complete(
        self,
        stores: Option<u32>,
        file: &Path,
    ) -> Result<Option<EtcdConfig>, String> {
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let trust = self.trust.resolve_relative_to(folder);
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
    /// Settings of etcd; an error if the file has none.
    pub(crate) fn etcd_config(&self) -> Result<&EtcdConfig> {
        self.etcd.as_ref().ok_or_else(|| {
            Error::Target(format!(
                "the stores of cluster `{}` do not move: its file has neither `stores` nor `[etcd]`",
                self.name
            ))
        })
    }

    /// Present folder of a store, while no member serves it.
    pub fn present_folder(&self, store: ServerId) -> Result<PathBuf> {
        if self.etcd.is_none() {
            return Ok(self.folder(store));
        }
        Ok(match takeover::newest(&self.storage, store.0)? {
            0 => self.folder(store),
            epoch => takeover::folder(&self.storage, store.0, epoch),
        })
    }

    /// Refuses a storage whose stores move if the configuration has no etcd: its servers would not find the data.
    pub(super) fn check_coordinated(&self) -> Result<()> {
        if self.etcd.is_some() || !self.storage.join(ID_FILE).is_file() {
            return Ok(());
        }
        Err(Error::Target(format!(
            "the stores in `{}` move between servers as etcd says, but the cluster file does not \
             say so: put `stores` and `[etcd]` back, or give it another `storage`",
            self.storage.display()
        )))
    }

    /// Certificates and account for etcd: those in the file, or those of the etcd that `cluster up` has started.
    pub(crate) fn etcd_trust(&self) -> Result<EtcdTrust> {
        let etcd = self.etcd_config()?;
        if !etcd.endpoints.is_empty() {
            return Ok(etcd.trust.clone());
        }
        // An etcd that an older release has started and that still runs.
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

    /// Folder for the etcd that `cluster up` starts: `url`, its certificates and its data. Accessible to its owner only.
    pub fn etcd_folder(&self) -> PathBuf {
        self.storage.join("etcd")
    }

    /// URLs of etcd: those in the file, or that of the etcd that `cluster up` has started.
    pub fn etcd_endpoints(&self) -> Result<Vec<String>> {
        let etcd = self.etcd_config()?;
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
