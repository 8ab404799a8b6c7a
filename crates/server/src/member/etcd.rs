//! Requests of members to etcd, each with a time limit.

use esker_cluster::member::view::{Claim, Member, Pair, View, prefix};
use esker_config::etcd::EtcdTrust;
use esker_etcd::{Times, Txn, Watch};
use esker_model::{Error, Result};
use std::time::Duration;

/// Time limit of an answer to a member, which then asks again.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Time limit of an answer to a person.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit of connecting.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Interval of keep-alive probes on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// A connection to etcd, with the prefix of the cluster's keys.
#[derive(Clone)]
pub(crate) struct Etcd {
    client: esker_etcd::Etcd,
    prefix: String,
}

impl Etcd {
    pub(crate) async fn connect(
        endpoints: &[String],
        trust: &EtcdTrust,
        cluster: &str,
        patience: Duration,
    ) -> Result<Self> {
        let times = Times {
            connect: CONNECT_MAX,
            keep_alive: KEEP_ALIVE,
            answer: patience,
        };
        let etcd = Self {
            client: esker_etcd::Etcd::connect(endpoints, trust, times).await?,
            prefix: prefix(cluster),
        };
        // The connection is made by the first request.
        etcd.view().await?;
        Ok(etcd)
    }

    fn key(&self, below: &str) -> String {
        format!("{}{below}", self.prefix)
    }

    /// Reads the state of the cluster.
    pub(crate) async fn view(&self) -> Result<View> {
        let found = self.client.list(&self.prefix).await?;
        let pairs = found.pairs.iter().filter_map(|pair| {
            Some(Pair {
                key: pair.key.strip_prefix(&self.prefix)?,
                value: &pair.value,
                lease: pair.lease,
                created: pair.created,
            })
        });
        Ok(View::read(found.revision, pairs))
    }

    /// Watches the changes after a revision.
    pub(crate) async fn watch(&self, after: u64) -> Result<Watch> {
        self.client.watch(&self.prefix, after).await
    }

    /// Takes a lease of `seconds` and lists a member under it; returns the lease and the revision. Fails if a member of that name is
    /// listed.
    pub(crate) async fn grant(
        &self,
        seconds: u64,
        id: &str,
        member: &Member,
    ) -> Result<(u64, u64)> {
        let lease = self.client.grant(seconds).await?;
        let key = self.key(&format!("members/{id}"));
        let txn = Txn::new()
            .when_absent(&key)
            .put(&key, &member.text(), Some(lease));
        if let Some(revision) = self.client.commit(txn).await? {
            return Ok((lease, revision));
        }
        let _ = self.client.revoke(lease).await;
        Err(Error::InUse(format!(
            "another process is still member {id} of the cluster: if that one has ended, its lease \
             will within seconds; if not, give this one another address"
        )))
    }

    /// Extends a lease; false if it does not exist.
    pub(crate) async fn keep_alive(&self, lease: u64) -> Result<bool> {
        self.client.keep_alive(lease).await
    }

    pub(crate) async fn revoke(&self, lease: u64) -> Result<()> {
        self.client.revoke(lease).await
    }

    /// Puts a value under a lease, or permanently.
    pub(crate) async fn put(&self, below: &str, value: &str, lease: Option<u64>) -> Result<()> {
        self.client.put(&self.key(below), value, lease).await
    }

    pub(crate) async fn delete(&self, below: &str) -> Result<()> {
        self.client.delete(&self.key(below)).await
    }

    /// Puts a value unless the key exists; returns the present value.
    pub(crate) async fn put_if_absent(&self, below: &str, value: &str) -> Result<String> {
        let key = self.key(below);
        let txn = Txn::new().when_absent(&key).put(&key, value, None);
        if self.client.commit(txn).await?.is_some() {
            return Ok(value.to_owned());
        }
        let there = self.client.get(&key).await?;
        Ok(there.map_or_else(String::new, |pair| pair.value))
    }

    /// Claims a store at a new epoch; returns the epoch and the revision, or `None` if another member has the store.
    pub(crate) async fn claim(
        &self,
        store: u32,
        least: u64,
        lease: u64,
        member: &str,
    ) -> Result<Option<(u64, u64)>> {
        let (claimed, epochs) = (
            self.key(&format!("stores/{store}")),
            self.key(&format!("epochs/{store}")),
        );
        let last = self.client.get(&epochs).await?;
        let changed = last.as_ref().map_or(0, |pair| pair.modified);
        let last = last.and_then(|pair| pair.value.parse::<u64>().ok());
        let epoch = last.unwrap_or(0).max(least) + 1;
        let claim = Claim {
            member: member.to_owned(),
            lease,
            epoch,
        };
        let txn = Txn::new()
            .when_absent(&claimed)
            .when_modified_at(&epochs, changed)
            .put(&claimed, &claim.text(), Some(lease))
            .put(&epochs, &epoch.to_string(), None);
        let done = self.client.commit(txn).await?;
        Ok(done.map(|revision| (epoch, revision)))
    }

    /// Releases a claim, if it is under that lease.
    pub(crate) async fn release(&self, store: u32, lease: u64) -> Result<()> {
        let key = self.key(&format!("stores/{store}"));
        let txn = Txn::new().when_under_lease(&key, lease).delete(&key);
        self.client.commit(txn).await.map(drop)
    }
}
