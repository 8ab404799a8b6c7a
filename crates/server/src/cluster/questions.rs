//! What other servers ask of this one, and clients' batches: both run beside on the cluster's own threads.

use super::{Cluster, wire};
use crate::call::Call;
use crate::service::Service;
use crate::work::Full;
use bytes::Bytes;
use esker_cluster::ServerId;
use esker_cluster::peer::Applying;
use esker_model::{Batch, Error};
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call as Asked;
use prost::Message as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Another server that greeted this one as it should.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker(ServerId);

impl Cluster {
    /// Whether a greeting is that of another server of this cluster; else why not.
    pub(crate) fn admit(&self, peer: &proto::Peer) -> Result<Asker, String> {
        match self.config.stranger(self.me, peer) {
            None => Ok(Asker(ServerId(peer.from))),
            Some(why) => Err(why),
        }
    }

    /// Answers another server.
    pub(crate) fn question(self: &Arc<Self>, request: Bytes, asker: Asker, call: Call) {
        let (node, cluster) = (Arc::clone(&self.node), Arc::clone(self));
        self.spawn(async move {
            let question = match proto::Request::decode(request) {
                Ok(proto::Request {
                    call: Some(Asked::Peer(question)),
                }) => wire::question_in(question).map_err(Error::from),
                Ok(_) => Err(Error::Invalid("malformed message: `request.peer`".into())),
                Err(e) => Err(Error::Invalid(format!("malformed message: `request`: {e}"))),
            };
            match question {
                Ok(question) if question.from != asker.0 => call.failed(&Error::Invalid(format!(
                    "malformed message: `request.peer.from`: {} greeted, {} asks",
                    asker.0, question.from
                ))),
                // Whoever has lost its store decides nothing any more; and one that has lost its own does nothing for others.
                Ok(question) if !cluster.heeds(&question) => {
                    call.failed_for_now(&crate::call::moved());
                }
                Ok(question) => {
                    let answer = node.handle(question).await;
                    call.done(Reply::Peer(wire::answer_out(answer)));
                }
                Err(e) => call.failed(&e),
            }
        });
    }
}

/// Counts a batch for as long as it is under way.
struct UnderWay(Arc<Cluster>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.writes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Service {
    /// Applies a client's batch, beside others; gives the call back if there are too many.
    #[allow(
        clippy::result_large_err,
        reason = "a refused call goes back whole, to be answered"
    )]
    pub(crate) fn write_everywhere(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        batch: Batch,
        sync: bool,
        how: Applying,
        call: Call,
    ) -> Result<(), (Call, Full)> {
        let waiting = cluster.writes.fetch_add(1, Ordering::AcqRel);
        let under_way = UnderWay(Arc::clone(cluster));
        if waiting >= self.settings.limits.waiting {
            let after = Duration::from_millis(100);
            return Err((call, Full { waiting, after }));
        }
        if sync && !cluster.is_sync() {
            call.failed(&cluster.refuse(
                "a write that is on disk when it is acknowledged",
                "set durability = \"sync\" in the cluster file, or write with --durability relaxed",
            ));
            return Ok(());
        }
        self.metrics.batches.record(batch.len() as u64);
        let (service, seen) = (Arc::clone(self), call.terms.at_least.0);
        cluster.spawn(async move {
            let how = Applying {
                hold: how.hold && !sync,
                ..how
            };
            match under_way.0.node.apply_held(batch, seen, how).await {
                Ok((commit, held)) => {
                    service.saw(commit.version);
                    call.done(Reply::Apply(wire::applied_out(&commit, held)));
                }
                Err(e) => call.failed_for_now(&e),
            }
        });
        Ok(())
    }
}
