//! Membership of a pool of upstream tiers, kept in etcd (section III-B-1: services run across M machines).
//!
//! A member writes its address under `/esker/site/POOL/` with a lease, which expires a few seconds after the member stops. A downstream
//! tier reads the addresses and watches for changes. While etcd is unreachable, the last known members remain: whether a member is
//! alive is decided by its link, not by etcd.

use super::Parents;
use crate::address::TierAddress;
use esker_config::etcd::EtcdTrust;
use esker_etcd::{Etcd, Times};
use esker_model::Result;
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Time to live of a lease, in seconds.
const LEASE: u64 = 5;
/// Interval of lease renewals.
const PROLONG: Duration = Duration::from_millis(1500);
/// Timeout of one call to etcd.
const PATIENCE: Duration = Duration::from_secs(3);
/// Delay between attempts to reach etcd.
const RETRY_DELAY: Duration = Duration::from_secs(1);

fn prefix(pool: &str) -> String {
    format!("/esker/site/{pool}/")
}

/// Location of a pool in etcd, with the credentials for it.
#[derive(Debug, Clone)]
pub(crate) struct PoolConfig {
    pub(crate) etcd: Vec<String>,
    pub(crate) trust: EtcdTrust,
    pub(crate) pool: String,
}

async fn connect(config: &PoolConfig) -> Result<Etcd> {
    let times = Times {
        connect: PATIENCE,
        keep_alive: PATIENCE,
        answer: PATIENCE,
    };
    Etcd::connect(&config.etcd, &config.trust, times).await
}

/// Keeps this tier's address in the pool until `stopped`, then removes it.
pub(crate) async fn register(config: PoolConfig, url: String, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        let ended = tokio::select! {
            ended = member(&config, &url) => ended,
            () = crate::serve::ended(&mut stopped) => break,
        };
        if let Err(error) = ended {
            tracing::warn!(pool = config.pool, %error, "etcd does not keep this tier's address");
        }
        tokio::select! {
            () = sleep(RETRY_DELAY) => {}
            () = crate::serve::ended(&mut stopped) => break,
        }
    }
    let leave = async {
        let key = format!("{}{url}", prefix(&config.pool));
        connect(&config).await?.delete(&key).await
    };
    // If that fails, the lease expires soon.
    drop(timeout(PATIENCE, leave).await);
}

/// Registers the address and returns when its lease cannot be renewed.
async fn member(config: &PoolConfig, url: &str) -> Result<()> {
    let pool = &*config.pool;
    let etcd = connect(config).await?;
    let lease = etcd.grant(LEASE).await?;
    let key = format!("{}{url}", prefix(pool));
    etcd.put(&key, url, Some(lease)).await?;
    tracing::info!(pool, url, "a member of the pool");
    while etcd.keep_alive(lease).await? {
        sleep(PROLONG).await;
    }
    Ok(())
}

/// Keeps the upstream tiers equal to the members of the pool, as long as `parents` exists.
pub(crate) async fn follow(config: PoolConfig, parents: Weak<Parents>) {
    while parents.strong_count() > 0 {
        if let Err(error) = watch(&config, &parents).await {
            tracing::warn!(pool = config.pool, %error, "etcd does not say who is in the pool");
        }
        sleep(RETRY_DELAY).await;
    }
}

/// Whether a value from etcd may be a member's address. Options after `?` would select trusted keys, which only this tier's own file
/// may do; a Unix socket cannot belong to another machine.
fn is_member(url: &str) -> bool {
    let address = TierAddress::parse(url).ok();
    let good = address.is_some_and(|a| !matches!(a, TierAddress::Unix(_)));
    if !good || TierAddress::has_options(url) {
        tracing::warn!(
            url,
            "etcd has something in the pool that is not a member's address"
        );
        return false;
    }
    true
}

async fn watch(config: &PoolConfig, parents: &Weak<Parents>) -> Result<()> {
    let etcd = connect(config).await?;
    let prefix = prefix(&config.pool);
    loop {
        let all = etcd.list(&prefix).await?;
        let values = all.pairs.into_iter().map(|pair| pair.value);
        let mut urls: Vec<String> = values.filter(|url| is_member(url)).collect();
        urls.sort();
        urls.dedup();
        let Some(parents) = parents.upgrade() else {
            return Ok(());
        };
        parents.set(&urls);
        drop(parents);
        // All members are read again after any change: they are few.
        if !etcd.watch(&prefix, all.revision).await?.changed().await? {
            return Ok(());
        }
    }
}
