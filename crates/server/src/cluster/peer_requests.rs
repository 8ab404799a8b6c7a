//! Requests of other servers and clients' batches, which run as tasks on the cluster's own runtime.

use super::{Cluster, convert};
use crate::call::Call;
use crate::limits::INLINE_DECODE_BYTES;
use crate::service::Service;
use crate::spans;
use crate::work::QueueFull;
use bytes::Bytes;
use esker_cluster::ServerId;
use esker_cluster::peer::{ApplyOptions, PeerRequest, Request};
use esker_model::limits::SMALL_BATCH_MUTATIONS_MAX;
use esker_model::wire::{decode, encode};
use esker_model::{Batch, Error};
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call as CallMessage;
use esker_rpc::trace::TraceContext;
use prost::Message as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Another server that greeted this one and was admitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerServer(ServerId);

impl Cluster {
    /// Checks that a greeting is from another server of this cluster; the error says why not.
    pub(crate) fn admit(&self, peer: &proto::Peer) -> Result<PeerServer, String> {
        match self.config.greeting_error(self.me, peer) {
            None => Ok(PeerServer(ServerId(peer.from))),
            Some(why) => Err(why),
        }
    }

    /// Answers a request of another server.
    pub(crate) fn answer_peer(
        self: &Arc<Self>,
        request: Bytes,
        peer: PeerServer,
        parent: Option<TraceContext>,
        mut call: Call,
    ) {
        let (node, cluster) = (Arc::clone(&self.node), Arc::clone(self));
        self.run(async move {
            if request.len() > INLINE_DECODE_BYTES {
                leave_thread().await;
            }
            let question = match proto::Request::decode(request) {
                Ok(proto::Request {
                    call: Some(CallMessage::Peer(peer)),
                }) => decode::<PeerRequest>(&peer.message)
                    .map_err(|e| Error::Invalid(format!("malformed message: `request.peer`: {e}"))),
                Ok(_) => Err(Error::Invalid("malformed message: `request.peer`".into())),
                Err(e) => Err(Error::Invalid(format!("malformed message: `request`: {e}"))),
            };
            match question {
                Ok(question) if question.from != peer.0 => call.failed(&Error::Invalid(format!(
                    "malformed message: `request.peer.from`: the greeting came from {}, the request from {}",
                    peer.0, question.from
                ))),
                // A server that lost its store must not decide anything, and one that lost its own must not act for others.
                Ok(question) if !cluster.accepts(&question) => {
                    call.failed_for_now(&crate::call::lease_ended_error());
                }
                Ok(question) => {
                    if !is_short(&question.request) {
                        leave_thread().await;
                    }
                    let span = spans::of_peer_request(parent, question.request.name());
                    call.trace(span.clone());
                    let answering = esker_telemetry::scope(span, node.handle(question));
                    let answer = encode(&answering.await);
                    call.done(Reply::Peer(proto::PeerMessage {
                        message: answer.into(),
                    }));
                }
                Err(e) => call.failed(&e),
            }
        });
    }
}

/// Whether a request takes little time unless it waits: one of a transaction.
fn is_short(request: &Request) -> bool {
    match request {
        Request::Prepare { part, .. } => part.ops.len() <= SMALL_BATCH_MUTATIONS_MAX,
        Request::Decide(delegated) => delegated.part.ops.len() <= SMALL_BATCH_MUTATIONS_MAX,
        Request::Apply { .. }
        | Request::Commit(_)
        | Request::Abort { .. }
        | Request::Outcome { .. }
        | Request::Ping => true,
        _ => false,
    }
}

/// Continues a task of [`Cluster::run`] in the runtime.
async fn leave_thread() {
    tokio::task::yield_now().await;
}

/// Counts a batch while it is in progress.
struct BatchInFlight(Arc<Cluster>);

impl Drop for BatchInFlight {
    fn drop(&mut self) {
        self.0.writes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Service {
    /// Applies a client's batch in a task; returns the call if there are too many.
    #[allow(
        clippy::result_large_err,
        reason = "a refused call goes back whole, to be answered"
    )]
    pub(crate) fn write_to_cluster(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        batch: Batch,
        sync: bool,
        how: ApplyOptions,
        call: Call,
    ) -> Result<(), (Call, QueueFull)> {
        let waiting = cluster.writes.fetch_add(1, Ordering::AcqRel);
        let under_way = BatchInFlight(Arc::clone(cluster));
        if waiting >= self.settings.limits.waiting {
            let after = Duration::from_millis(100);
            return Err((call, QueueFull { waiting, after }));
        }
        if sync && !cluster.is_sync() {
            call.failed(&cluster.refuse(
                "a write that is on disk when it is acknowledged",
                "set durability = \"sync\" in the cluster file, or write with --durability relaxed",
            ));
            return Ok(());
        }
        self.metrics.batches.record(batch.len() as u64);
        let (service, seen) = (Arc::clone(self), call.options.at_least.0);
        let span = call.span();
        cluster.run(esker_telemetry::scope(span, async move {
            if batch.len() > SMALL_BATCH_MUTATIONS_MAX {
                leave_thread().await;
            }
            let how = ApplyOptions {
                retained: how.retained && !sync,
                ..how
            };
            match under_way.0.node.apply_retained(batch, seen, how).await {
                Ok((commit, held)) => {
                    service.note_version(commit.version);
                    call.done(Reply::Apply(convert::commit_out(&commit, held)));
                }
                Err(e) => call.failed_for_now(&e),
            }
        }));
        Ok(())
    }
}
