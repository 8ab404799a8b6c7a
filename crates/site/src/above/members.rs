//! The pool of tiers above as etcd keeps it (section III-B-1: services run across M machines).
//!
//! A member puts its address under `/esker/site/POOL/` with a lease, which ends a few seconds after the member does. A tier below reads
//! the addresses and watches for others. While etcd cannot be reached, who was known last is who is known: whether a member
//! lives is told by its link, not by etcd.

use super::Parents;
use crate::address::TierAddress;
use esker_config::etcd::EtcdTrust;
use esker_etcd::{Etcd, Times};
use esker_model::Result;
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How long a lease lasts without its member, in seconds.
const LEASE: u64 = 5;
/// How often it is prolonged.
const PROLONG: Duration = Duration::from_millis(1500);
/// How long etcd may take for one answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between attempts to reach it.
const REST: Duration = Duration::from_secs(1);

fn prefix(pool: &str) -> String {
    format!("/esker/site/{pool}/")
}

/// Where a pool is kept, and how that etcd is known and knows its clients.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) etcd: Vec<String>,
    pub(crate) trust: EtcdTrust,
    pub(crate) pool: String,
}

async fn connect(kept: &Kept) -> Result<Etcd> {
    let times = Times {
        connect: PATIENCE,
        keep_alive: PATIENCE,
        answer: PATIENCE,
    };
    Etcd::connect(&kept.etcd, &kept.trust, times).await
}

/// Keeps this tier's address in the pool until it is to end, and takes it out then.
pub(crate) async fn register(kept: Kept, url: String, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        let ended = tokio::select! {
            ended = member(&kept, &url) => ended,
            () = crate::serve::ended(&mut stopped) => break,
        };
        if let Err(error) = ended {
            tracing::warn!(pool = kept.pool, %error, "etcd does not keep this tier's address");
        }
        tokio::select! {
            () = sleep(REST) => {}
            () = crate::serve::ended(&mut stopped) => break,
        }
    }
    let leave = async {
        let key = format!("{}{url}", prefix(&kept.pool));
        connect(&kept).await?.delete(&key).await
    };
    // Where that fails, the lease ends soon.
    drop(timeout(PATIENCE, leave).await);
}

/// For as long as the lease can be prolonged.
async fn member(kept: &Kept, url: &str) -> Result<()> {
    let pool = &*kept.pool;
    let etcd = connect(kept).await?;
    let lease = etcd.grant(LEASE).await?;
    let key = format!("{}{url}", prefix(pool));
    etcd.put(&key, url, Some(lease)).await?;
    tracing::info!(pool, url, "a member of the pool");
    while etcd.keep_alive(lease).await? {
        sleep(PROLONG).await;
    }
    Ok(())
}

/// Tells the tiers below who is in the pool, for as long as they want to know.
pub(crate) async fn follow(kept: Kept, parents: Weak<Parents>) {
    while parents.strong_count() > 0 {
        if let Err(error) = watch(&kept, &parents).await {
            tracing::warn!(pool = kept.pool, %error, "etcd does not say who is in the pool");
        }
        sleep(REST).await;
    }
}

/// Whether what stands in etcd may be a member's address. What is behind `?` would say which keys to trust, and that is this tier's
/// own file's to say; a socket is none of another machine's.
fn is_member(url: &str) -> bool {
    let address = TierAddress::parse(url).ok();
    let good = address.is_some_and(|a| !matches!(a, TierAddress::Unix(_)));
    if !good || TierAddress::has_options(url) {
        tracing::warn!(
            url,
            "etcd has something in the pool that is no member's address"
        );
        return false;
    }
    true
}

async fn watch(kept: &Kept, parents: &Weak<Parents>) -> Result<()> {
    let etcd = connect(kept).await?;
    let prefix = prefix(&kept.pool);
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
        // Whatever changed, all is read anew: members are few.
        if !etcd.watch(&prefix, all.revision).await?.changed().await? {
            return Ok(());
        }
    }
}
