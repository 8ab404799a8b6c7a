//! What members ask of etcd, each question bounded in time.

use esker_cluster::member::view::{Claim, Member, Pair, View, prefix};
use esker_model::{Error, Result};
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, GetOptions, KeyValue, PutOptions, ResponseHeader,
    Txn, TxnOp, WatchOptions, WatchStream,
};
use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

/// How long etcd may take for one answer to a member: it asks again.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(3);
/// … and to a person.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take to be reached.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How often a silent connection is asked whether etcd is there.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// A connection to etcd, and which cluster's keys are meant.
#[derive(Clone)]
pub(crate) struct Etcd {
    client: Client,
    prefix: String,
    /// For messages.
    at: String,
    /// How long one answer may take.
    patience: Duration,
}

fn revision(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |h| u64::try_from(h.revision()).unwrap_or(0))
}

fn number(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn lease_of(lease: u64) -> i64 {
    i64::try_from(lease).unwrap_or(0)
}

impl Etcd {
    pub(crate) async fn connect(
        endpoints: &[String],
        cluster: &str,
        patience: Duration,
    ) -> Result<Self> {
        let options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_MAX)
            .with_keep_alive(KEEP_ALIVE, KEEP_ALIVE)
            .with_keep_alive_while_idle(true);
        let at = endpoints.join(" ");
        let connected = Client::connect(endpoints, Some(options));
        let client = bounded(&at, patience, connected).await?;
        let etcd = Self {
            client,
            prefix: prefix(cluster),
            at,
            patience,
        };
        // A connection comes about with the first question.
        etcd.view().await?;
        Ok(etcd)
    }

    fn key(&self, below: &str) -> String {
        format!("{}{below}", self.prefix)
    }

    async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T> {
        bounded(&self.at, self.patience, answer).await
    }

    /// All that is known of the cluster.
    pub(crate) async fn view(&self) -> Result<View> {
        let mut kv = self.client.kv_client();
        let options = GetOptions::new().with_prefix();
        let answer = self
            .bounded(kv.get(self.prefix.clone(), Some(options)))
            .await?;
        let pairs = answer.kvs().iter().filter_map(|kv| self.pair(kv));
        Ok(View::read(revision(answer.header()), pairs))
    }

    fn pair<'a>(&self, kv: &'a KeyValue) -> Option<Pair<'a>> {
        Some(Pair {
            key: kv.key_str().ok()?.strip_prefix(&self.prefix)?,
            value: kv.value_str().ok()?,
            lease: number(kv.lease()),
            created: number(kv.create_revision()),
        })
    }

    /// What changes after that revision.
    pub(crate) async fn watch(&self, after: u64) -> Result<WatchStream> {
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(i64::try_from(after).unwrap_or(0) + 1);
        let mut client = self.client.watch_client();
        self.bounded(client.watch(self.prefix.clone(), Some(options)))
            .await
    }

    /// A lease of so many seconds with a member listed under it, and the revision with it. Fails if there is one of that name.
    pub(crate) async fn grant(
        &self,
        seconds: u64,
        id: &str,
        member: &Member,
    ) -> Result<(u64, u64)> {
        let mut leases = self.client.lease_client();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let lease = self.bounded(leases.grant(seconds, None)).await?.id();
        let key = self.key(&format!("members/{id}"));
        let put = PutOptions::new().with_lease(lease);
        let txn = Txn::new()
            .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.clone(), member.text(), Some(put))])
            .or_else([TxnOp::get(key, None)]);
        let mut kv = self.client.kv_client();
        let answer = self.bounded(kv.txn(txn)).await?;
        if answer.succeeded() {
            return Ok((number(lease), revision(answer.header())));
        }
        let _ = self.bounded(leases.revoke(lease)).await;
        Err(Error::Unavailable(format!(
            "another process is member {id} of the cluster still: if that one has ended, its lease will within seconds; if not, \
             give this one another address"
        )))
    }

    /// False if there is no such lease.
    pub(crate) async fn keep(&self, lease: u64) -> Result<bool> {
        let mut leases = self.client.lease_client();
        match tokio::time::timeout(self.patience, leases.keep_alive(lease_of(lease))).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(etcd_client::Error::LeaseKeepAliveError(why))) if why.contains("not found") => {
                Ok(false)
            }
            Ok(Err(e)) => Err(failed(&self.at, &e)),
            Err(_) => Err(silent(&self.at, self.patience)),
        }
    }

    pub(crate) async fn revoke(&self, lease: u64) -> Result<()> {
        let mut leases = self.client.lease_client();
        self.bounded(leases.revoke(lease_of(lease)))
            .await
            .map(|_| ())
    }

    /// Puts a text under a lease, or for ever.
    pub(crate) async fn put(&self, below: &str, value: &str, lease: Option<u64>) -> Result<()> {
        let options = lease.map(|lease| PutOptions::new().with_lease(lease_of(lease)));
        let mut kv = self.client.kv_client();
        self.bounded(kv.put(self.key(below), value, options))
            .await
            .map(|_| ())
    }

    pub(crate) async fn delete(&self, below: &str) -> Result<()> {
        let mut kv = self.client.kv_client();
        self.bounded(kv.delete(self.key(below), None))
            .await
            .map(|_| ())
    }

    /// Puts a text unless there is one; gives what is there.
    pub(crate) async fn put_first(&self, below: &str, value: &str) -> Result<String> {
        let key = self.key(below);
        let txn = Txn::new()
            .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.clone(), value, None)]);
        let mut kv = self.client.kv_client();
        if self.bounded(kv.txn(txn)).await?.succeeded() {
            return Ok(value.to_owned());
        }
        let there = self.bounded(kv.get(key, None)).await?;
        let there = there
            .kvs()
            .first()
            .and_then(|kv| kv.value_str().ok().map(str::to_owned));
        Ok(there.unwrap_or_default())
    }

    /// Claims a store at an epoch above all before it; the epoch and the revision, or nothing if somebody has it.
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
        let mut kv = self.client.kv_client();
        let last = self.bounded(kv.get(epochs.clone(), None)).await?;
        let last = last.kvs().first();
        let changed = last.map_or(0, KeyValue::mod_revision);
        let last = last.and_then(|kv| kv.value_str().ok()?.parse::<u64>().ok());
        let epoch = last.unwrap_or(0).max(least) + 1;
        let claim = Claim {
            member: member.to_owned(),
            lease,
            epoch,
        };
        let under = PutOptions::new().with_lease(lease_of(lease));
        let txn = Txn::new()
            .when([
                Compare::create_revision(claimed.clone(), CompareOp::Equal, 0),
                Compare::mod_revision(epochs.clone(), CompareOp::Equal, changed),
            ])
            .and_then([
                TxnOp::put(claimed, claim.text(), Some(under)),
                TxnOp::put(epochs, epoch.to_string(), None),
            ]);
        let answer = self.bounded(kv.txn(txn)).await?;
        Ok(answer
            .succeeded()
            .then(|| (epoch, revision(answer.header()))))
    }

    /// Gives a claim up, if it is that one.
    pub(crate) async fn release(&self, store: u32, lease: u64) -> Result<()> {
        let key = self.key(&format!("stores/{store}"));
        let txn = Txn::new()
            .when([Compare::lease(
                key.clone(),
                CompareOp::Equal,
                lease_of(lease),
            )])
            .and_then([TxnOp::delete(key, None)]);
        let mut kv = self.client.kv_client();
        self.bounded(kv.txn(txn)).await.map(|_| ())
    }
}

fn failed(at: &str, e: &etcd_client::Error) -> Error {
    Error::Unavailable(format!(
        "etcd at {at} does not answer as it should ({}): is it running there, and is it etcd?",
        plain(e)
    ))
}

/// What went wrong, without the library's own words around it: of a chain of causes the last.
fn plain(e: &etcd_client::Error) -> String {
    let (mut text, mut cause) = match e {
        etcd_client::Error::GRpcStatus(status) => {
            (status.message().to_owned(), StdError::source(status))
        }
        e => (e.to_string(), StdError::source(e)),
    };
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

fn silent(at: &str, patience: Duration) -> Error {
    Error::Unavailable(format!(
        "etcd at {at} does not answer within {} s: is it running there?",
        patience.as_secs()
    ))
}

async fn bounded<T>(
    at: &str,
    patience: Duration,
    answer: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T> {
    match tokio::time::timeout(patience, answer).await {
        Ok(answer) => answer.map_err(|e| failed(at, &e)),
        Err(_) => Err(silent(at, patience)),
    }
}
