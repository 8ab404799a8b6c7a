//! Client calls: keys, transactions, leases and watches.

use crate::connect::{Link, Times, Transport};
use crate::proto::kv_client::KvClient;
use crate::proto::lease_client::LeaseClient;
use crate::proto::watch_client::WatchClient;
use crate::proto::watch_request::RequestUnion;
use crate::proto::{
    DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest,
    PutRequest, RangeRequest, ResponseHeader, WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::txn::Txn;
use esker_config::etcd::EtcdTrust;
use esker_model::{Error, Result};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Response, Status, Streaming};

/// A connection to etcd. Clones share the connection.
#[derive(Clone)]
pub struct Etcd {
    link: Link,
    /// Endpoints, for messages.
    at: Arc<str>,
    answer_max: Duration,
}

/// Keys with a common prefix, as of one revision of etcd.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Revision of etcd at which the keys were read.
    pub revision: u64,
    /// Keys and values in key order.
    pub pairs: Vec<Pair>,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Name of the key.
    pub key: String,
    /// Value of the key.
    pub value: String,
    /// Lease of the key; 0 for none.
    pub lease: u64,
    /// Revision that created the key.
    pub created: u64,
    /// Revision that last changed the key.
    pub modified: u64,
}

/// A stream of changes of keys.
#[derive(Debug)]
pub struct Watch {
    answers: Streaming<WatchResponse>,
    /// Sender of requests; dropping it ends the watch.
    _requests: mpsc::Sender<WatchRequest>,
    at: Arc<str>,
}

fn number(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn revision(header: Option<ResponseHeader>) -> u64 {
    header.map_or(0, |h| number(h.revision))
}

pub(crate) fn put_request(key: &str, value: &str, lease: Option<u64>) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: value.into(),
        lease: lease.map_or(0, signed),
    }
}

/// End of the range of all keys with a prefix: the smallest key after them. etcd reads a zero byte as "to the end".
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

impl Pair {
    /// Converts a key; `None` if key or value is not UTF-8, because Esker writes only text.
    fn read(kv: KeyValue) -> Option<Self> {
        Some(Self {
            key: String::from_utf8(kv.key).ok()?,
            value: String::from_utf8(kv.value).ok()?,
            lease: number(kv.lease),
            created: number(kv.create_revision),
            modified: number(kv.mod_revision),
        })
    }
}

impl Etcd {
    /// Connects to any of `endpoints` and logs in, if `trust` names an account.
    ///
    /// # Errors
    /// If a file that `trust` names cannot be read, etcd refuses the account, or an endpoint is not an address. Without an
    /// account, an unreachable etcd is detected by the first call.
    pub async fn connect(endpoints: &[String], trust: &EtcdTrust, times: Times) -> Result<Self> {
        let etcd = Self {
            link: Link::new(endpoints, trust, times)?,
            at: endpoints.join(" ").into(),
            answer_max: times.answer,
        };
        etcd.bounded(etcd.link.log_in()).await?;
        Ok(etcd)
    }

    fn kv(&self) -> KvClient<Transport> {
        KvClient::new(self.link.transport())
    }

    fn leases(&self) -> LeaseClient<Transport> {
        LeaseClient::new(self.link.transport())
    }

    async fn bounded<T>(
        &self,
        answer: impl Future<Output = std::result::Result<T, Status>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.answer_max, answer).await {
            Ok(answer) => answer.map_err(|status| failed(&self.at, &status)),
            Err(_) => Err(Error::Unavailable(format!(
                "etcd at {} does not answer within {} s: is it running there?",
                self.at,
                self.answer_max.as_secs()
            ))),
        }
    }

    /// Makes a call; repeats it once with a new token if etcd has forgotten the token of this client.
    async fn call<T, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<Response<T>, Status>>,
    {
        let answer = async {
            match call().await {
                Err(status) if is_about_token(&status) && self.link.log_in().await? => call().await,
                answer => answer,
            }
        };
        Ok(self.bounded(answer).await?.into_inner())
    }

    async fn range(&self, key: &str, range_end: Vec<u8>) -> Result<Listing> {
        let request = RangeRequest {
            key: key.into(),
            range_end,
        };
        let answer = self.call(|| {
            let (mut kv, request) = (self.kv(), request.clone());
            async move { kv.range(request).await }
        });
        let answer = answer.await?;
        Ok(Listing {
            revision: revision(answer.header),
            pairs: answer.kvs.into_iter().filter_map(Pair::read).collect(),
        })
    }

    /// Reads the value of a key.
    ///
    /// # Errors
    /// As for all calls: if etcd does not respond in time, or refuses the call.
    pub async fn get(&self, key: &str) -> Result<Option<Pair>> {
        Ok(self.range(key, Vec::new()).await?.pairs.pop())
    }

    /// Lists all keys that begin with `prefix`.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn list(&self, prefix: &str) -> Result<Listing> {
        self.range(prefix, end_of(prefix)).await
    }

    /// Sets a key, under a lease if one is given.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn put(&self, key: &str, value: &str, lease: Option<u64>) -> Result<()> {
        let request = put_request(key, value, lease);
        let answer = self.call(|| {
            let (mut kv, request) = (self.kv(), request.clone());
            async move { kv.put(request).await }
        });
        answer.await.map(drop)
    }

    /// Deletes a key; an absent key is no error.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn delete(&self, key: &str) -> Result<()> {
        let request = DeleteRangeRequest { key: key.into() };
        let answer = self.call(|| {
            let (mut kv, request) = (self.kv(), request.clone());
            async move { kv.delete_range(request).await }
        });
        answer.await.map(drop)
    }

    /// Commits a transaction. Returns its revision, or `None` if the conditions were not met.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn commit(&self, txn: Txn) -> Result<Option<u64>> {
        let request = txn.into_request();
        let answer = self.call(|| {
            let (mut kv, request) = (self.kv(), request.clone());
            async move { kv.txn(request).await }
        });
        let answer = answer.await?;
        Ok(answer.succeeded.then(|| revision(answer.header)))
    }

    /// Creates a lease, which ends after `seconds` seconds without [`Self::keep_alive`].
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn grant(&self, seconds: u64) -> Result<u64> {
        let request = LeaseGrantRequest {
            ttl: signed(seconds),
        };
        let answer = self.call(|| {
            let mut leases = self.leases();
            async move { leases.lease_grant(request).await }
        });
        Ok(number(answer.await?.id))
    }

    /// Ends a lease and deletes the keys under it.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn revoke(&self, lease: u64) -> Result<()> {
        let request = LeaseRevokeRequest { id: signed(lease) };
        let answer = self.call(|| {
            let mut leases = self.leases();
            async move { leases.lease_revoke(request).await }
        });
        answer.await.map(drop)
    }

    /// Renews a lease. False if the lease does not exist.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn keep_alive(&self, lease: u64) -> Result<bool> {
        let request = LeaseKeepAliveRequest { id: signed(lease) };
        let answer = self.call(|| {
            let mut leases = self.leases();
            async move {
                let answers = leases.lease_keep_alive(tokio_stream::once(request)).await?;
                let first = answers.into_inner().message().await?;
                Ok(Response::new(first.is_some_and(|answer| answer.ttl > 0)))
            }
        });
        answer.await
    }

    /// Watches all keys that begin with `prefix` for changes after a revision.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn watch(&self, prefix: &str, after: u64) -> Result<Watch> {
        let create = WatchCreateRequest {
            key: prefix.into(),
            range_end: end_of(prefix),
            start_revision: signed(after).saturating_add(1),
        };
        let request = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        };
        let answer = self.call(|| {
            let mut client = WatchClient::new(self.link.transport());
            let (requests, receiver) = mpsc::channel(1);
            // The channel has capacity for one request.
            let _ = requests.try_send(request.clone());
            async move {
                let answers = client.watch(ReceiverStream::new(receiver)).await?;
                Ok(Response::new((answers.into_inner(), requests)))
            }
        });
        let (answers, requests) = answer.await?;
        Ok(Watch {
            answers,
            _requests: requests,
            at: Arc::clone(&self.at),
        })
    }
}

impl Watch {
    /// Waits for the next changes; false if etcd has ended the watch, for example because the start revision was compacted.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn changed(&mut self) -> Result<bool> {
        loop {
            let answer = self.answers.message().await;
            match answer.map_err(|status| failed(&self.at, &status))? {
                None => return Ok(false),
                Some(answer) if answer.canceled => return Ok(false),
                Some(answer) if answer.events.is_empty() => {}
                Some(_) => return Ok(true),
            }
        }
    }
}

/// Whether a new token may help: etcd forgets tokens after some minutes without a call, and when accounts change.
fn is_about_token(status: &Status) -> bool {
    status.code() == Code::Unauthenticated
        || (status.code() == Code::InvalidArgument
            && (status.message().contains("user name is empty")
                || status.message().contains("revision of auth store is old")))
}

fn failed(at: &str, status: &Status) -> Error {
    Error::Unavailable(format!(
        "etcd at {at} does not answer as it should ({}): is it running there, and is it etcd?",
        cause(status)
    ))
}

/// The innermost cause of an error, without the library's text around it.
fn cause(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_key() {
        assert_eq!(end_of("/esker/"), b"/esker0");
        assert_eq!(end_of(""), [0]);
        let end = end_of("a\u{10ffff}");
        assert!(end.as_slice() > "a\u{10ffff}zzz".as_bytes() && end.as_slice() < b"b".as_slice());
    }
}
