//! A worker: a gRPC server of the distributed engine that holds one part.

use crate::leaf::StarCodec;
use crate::part::Held;
use crate::secret::Secret;
use crate::wire;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion_distributed::{
    DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse,
    WorkerQueryContext,
};
use esker_rdf::Part;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The part that it holds.
    pub part: Part,
    /// Quads in it.
    pub quads: u64,
}

/// The version of what coordinators and workers say to each other.
const PROTOCOL: u64 = 1;

impl About {
    fn of(held: &Held) -> Self {
        Self {
            part: held.part,
            quads: held.data.len() as u64,
        }
    }

    pub(crate) fn write(&self) -> String {
        serde_json::json!({
            "esker": PROTOCOL,
            "part": self.part.to_string(),
            "quads": self.quads,
        })
        .to_string()
    }

    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|_| "it is no worker of Esker".to_owned())?;
        let protocol = value["esker"].as_u64().unwrap_or_default();
        if protocol != PROTOCOL {
            return Err(format!(
                "it speaks version {protocol} of this protocol, here is version {PROTOCOL}"
            ));
        }
        Ok(Self {
            part: value["part"].as_str().unwrap_or_default().parse()?,
            quads: value["quads"].as_u64().unwrap_or_default(),
        })
    }
}

/// Where a worker listens.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds an address; port 0 takes a free one.
    pub async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address, with its port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers coordinators and other workers until `end`.
    pub async fn serve(
        self,
        held: Held,
        secret: Secret,
        end: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let worker = worker(held, &secret);
        let incoming = wire::accepted(self.listener, &secret).map_err(|e| e.to_string())?;
        tonic::transport::Server::builder()
            .layer(tonic::service::InterceptorLayer::new(secret.check()))
            .add_service(worker.into_worker_server())
            .serve_with_incoming_shutdown(incoming, end)
            .await
            .map_err(|e| e.to_string())
    }
}

/// A worker that holds a part.
pub(crate) fn worker(held: Held, secret: &Secret) -> Worker {
    let about = About::of(&held);
    let held = Arc::new(held);
    let channels = secret.channels();
    let session = move |ctx: WorkerQueryContext| {
        let (held, channels) = (Arc::clone(&held), channels.clone());
        async move { Ok::<SessionState, DataFusionError>(state(ctx, held, channels)) }
    };
    Worker::from_session_builder(session).with_version(about.write())
}

pub(crate) fn state(
    mut ctx: WorkerQueryContext,
    held: Arc<Held>,
    channels: crate::secret::Channels,
) -> SessionState {
    let config = ctx.builder.config().take().unwrap_or_default();
    ctx.builder
        .with_config(config.with_extension(held))
        .with_distributed_user_codec(StarCodec)
        .with_distributed_worker_plan_rewrite_handler(only_known)
        .with_distributed_channel_resolver(channels)
        .build()
}

/// What plans of coordinators consist of. The engine itself knows more: files that are read, and written.
pub(crate) const KNOWN: [&str; 19] = [
    "AggregateExec",
    "BroadcastExec",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "DistributedLeafExec",
    "EmptyExec",
    "GlobalLimitExec",
    "HashJoinExec",
    "LocalLimitExec",
    "NetworkBroadcastExec",
    "NetworkCoalesceExec",
    "NetworkShuffleExec",
    "ProjectionExec",
    "RepartitionExec",
    "SortExec",
    "SortMergeJoinExec",
    "SortPreservingMergeExec",
    "StarExec",
];

/// Refuses plans that do anything else than a coordinator's.
fn only_known(
    event: WorkerPlanRewriteEvent<'_>,
) -> Result<WorkerPlanRewriteEventResponse, DataFusionError> {
    let plan = event.plan;
    plan.apply(|node| {
        if KNOWN.contains(&node.name()) {
            Ok(TreeNodeRecursion::Continue)
        } else {
            exec_err!("a worker does not run {}", node.name())
        }
    })?;
    Ok(WorkerPlanRewriteEventResponse::new(plan))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

    use super::*;
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
    use datafusion::prelude::SessionConfig;

    #[test]
    fn plans_of_others_are_refused() {
        let config = SessionConfig::new();
        let run = |leaf: Arc<dyn ExecutionPlan>| {
            let plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(leaf));
            only_known(WorkerPlanRewriteEvent {
                plan,
                session_config: &config,
            })
            .map(drop)
        };
        let schema = Arc::new(Schema::empty());
        run(Arc::new(EmptyExec::new(Arc::clone(&schema)))).unwrap();
        let said = run(Arc::new(PlaceholderRowExec::new(schema))).unwrap_err();
        assert!(
            said.to_string().contains("does not run PlaceholderRowExec"),
            "{said}"
        );
    }

    #[test]
    fn what_a_worker_says_of_itself_is_read_again() {
        let about = About {
            part: Part::new(1, 3).unwrap(),
            quads: 7,
        };
        assert_eq!(About::read(&about.write()), Ok(about));
        for other in ["", "{}", "{\"esker\":2,\"part\":\"1/2\"}", "{\"esker\":1}"] {
            assert!(About::read(other).is_err(), "{other}");
        }
    }
}
