//! The pool of tiers above as etcd keeps it (section III-B-1: services run across M machines).
//!
//! A member puts its address under `/esker/site/POOL/` with a lease, which ends a few seconds after the member does. A tier below reads
//! the addresses and watches for others. While etcd cannot be reached, who was known last is who is known: whether a member
//! lives is told by its link, not by etcd.

use super::Parents;
use etcd_client::{Client, ConnectOptions, Error, GetOptions, PutOptions, WatchOptions};
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How long a lease lasts without its member, in seconds.
const LEASE: i64 = 5;
/// How often it is prolonged.
const PROLONG: Duration = Duration::from_millis(1500);
/// How long etcd may take for one answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between attempts to reach it.
const REST: Duration = Duration::from_secs(1);

fn prefix(pool: &str) -> String {
    format!("/esker/site/{pool}/")
}

async fn connect(etcd: &[String]) -> Result<Client, Error> {
    let options = ConnectOptions::new()
        .with_connect_timeout(PATIENCE)
        .with_keep_alive(PROLONG, PATIENCE)
        .with_keep_alive_while_idle(true);
    Client::connect(etcd, Some(options)).await
}

/// Keeps this tier's address in the pool until it is to end, and takes it out then.
pub(crate) async fn register(
    etcd: Vec<String>,
    pool: String,
    url: String,
    mut stopped: watch::Receiver<bool>,
) {
    while !*stopped.borrow() {
        let ended = tokio::select! {
            ended = member(&etcd, &pool, &url) => ended,
            () = crate::serve::ended(&mut stopped) => break,
        };
        if let Err(error) = ended {
            tracing::warn!(pool, %error, "etcd does not keep this tier's address");
        }
        tokio::select! {
            () = sleep(REST) => {}
            () = crate::serve::ended(&mut stopped) => break,
        }
    }
    let leave = async {
        let mut client = connect(&etcd).await?;
        client.delete(format!("{}{url}", prefix(&pool)), None).await
    };
    // Where that fails, the lease ends soon.
    drop(timeout(PATIENCE, leave).await);
}

/// For as long as the lease can be prolonged.
async fn member(etcd: &[String], pool: &str, url: &str) -> Result<(), Error> {
    let mut client = connect(etcd).await?;
    let lease = client.lease_grant(LEASE, None).await?.id();
    let options = PutOptions::new().with_lease(lease);
    client
        .put(format!("{}{url}", prefix(pool)), url, Some(options))
        .await?;
    tracing::info!(pool, url, "a member of the pool");
    let (mut keeper, mut kept) = client.lease_keep_alive(lease).await?;
    loop {
        keeper.keep_alive().await?;
        let answer = timeout(PATIENCE, kept.message()).await;
        let late = || Error::LeaseKeepAliveError("etcd does not answer".into());
        match answer.map_err(|_| late())?? {
            Some(answer) if answer.ttl() > 0 => sleep(PROLONG).await,
            _ => return Ok(()),
        }
    }
}

/// Tells the tiers below who is in the pool, for as long as they want to know.
pub(crate) async fn follow(etcd: Vec<String>, pool: String, parents: Weak<Parents>) {
    while parents.strong_count() > 0 {
        if let Err(error) = watch(&etcd, &pool, &parents).await {
            tracing::warn!(pool, %error, "etcd does not say who is in the pool");
        }
        sleep(REST).await;
    }
}

async fn watch(etcd: &[String], pool: &str, parents: &Weak<Parents>) -> Result<(), Error> {
    let mut client = connect(etcd).await?;
    let prefix = prefix(pool);
    loop {
        let all = client.get(prefix.clone(), Some(GetOptions::new().with_prefix()));
        let all = timeout(PATIENCE, all)
            .await
            .map_err(|_| Error::WatchError("etcd does not answer".into()))??;
        let revision = all
            .header()
            .map_or(0, etcd_client::ResponseHeader::revision);
        let mut urls: Vec<String> = all
            .kvs()
            .iter()
            .filter_map(|kv| kv.value_str().ok().map(str::to_owned))
            .filter(|url| url.starts_with("http://"))
            .collect();
        urls.sort();
        urls.dedup();
        let Some(parents) = parents.upgrade() else {
            return Ok(());
        };
        parents.set(&urls);
        drop(parents);
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(revision + 1);
        let mut changes = client.watch(prefix.clone(), Some(options)).await?;
        // Whatever changed, all is read anew: members are few.
        loop {
            match changes.message().await? {
                None => return Ok(()),
                Some(change) if change.canceled() => return Ok(()),
                Some(change) if change.events().is_empty() => {}
                Some(_) => break,
            }
        }
    }
}
