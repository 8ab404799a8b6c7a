//! A worker: a gRPC server of the distributed engine that holds one part of the data.

use crate::leaf::StarCodec;
use crate::part::WorkerData;
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

/// Description of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Part that the worker holds.
    pub part: Part,
    /// Number of quads in the part.
    pub quads: u64,
}

/// Version of the protocol between coordinators and workers.
const PROTOCOL: u64 = 1;

impl WorkerInfo {
    fn of(worker_data: &WorkerData) -> Self {
        Self {
            part: worker_data.part,
            quads: worker_data.data.len() as u64,
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
            serde_json::from_str(text).map_err(|_| "it is not a worker of Esker".to_owned())?;
        let protocol = value["esker"].as_u64().unwrap_or_default();
        if protocol != PROTOCOL {
            return Err(format!(
                "it uses version {protocol} of this protocol, and this build version {PROTOCOL}"
            ));
        }
        Ok(Self {
            part: value["part"].as_str().unwrap_or_default().parse()?,
            quads: value["quads"].as_u64().unwrap_or_default(),
        })
    }
}

/// A bound listening socket of a worker.
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

    /// Returns the bound address, with its port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers coordinators and other workers until `end` resolves.
    pub async fn serve(
        self,
        worker_data: WorkerData,
        secret: Secret,
        end: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let worker = worker(worker_data, &secret);
        let incoming = wire::accepted(self.listener, &secret).map_err(|e| e.to_string())?;
        tonic::transport::Server::builder()
            .layer(tonic::service::InterceptorLayer::new(secret.check()))
            .add_service(worker.into_worker_server())
            .serve_with_incoming_shutdown(incoming, end)
            .await
            .map_err(|e| e.to_string())
    }
}

/// Returns the engine's worker for a part.
pub(crate) fn worker(worker_data: WorkerData, secret: &Secret) -> Worker {
    let about = WorkerInfo::of(&worker_data);
    let worker_data = Arc::new(worker_data);
    let channels = secret.channels();
    let session = move |ctx: WorkerQueryContext| {
        let (worker_data, channels) = (Arc::clone(&worker_data), channels.clone());
        async move { Ok::<SessionState, DataFusionError>(state(ctx, worker_data, channels)) }
    };
    Worker::from_session_builder(session).with_version(about.write())
}

pub(crate) fn state(
    mut ctx: WorkerQueryContext,
    worker_data: Arc<WorkerData>,
    channels: crate::secret::Channels,
) -> SessionState {
    let config = ctx.builder.config().take().unwrap_or_default();
    ctx.builder
        .with_config(config.with_extension(worker_data))
        .with_distributed_user_codec(StarCodec)
        .with_distributed_worker_plan_rewrite_handler(check_operators)
        .with_distributed_channel_resolver(channels)
        .build()
}

/// Operators that occur in plans of coordinators. The engine supports more, among them reading and writing files.
pub(crate) const ALLOWED_OPERATORS: [&str; 19] = [
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

/// Refuses plans with operators that no coordinator sends.
fn check_operators(
    event: WorkerPlanRewriteEvent<'_>,
) -> Result<WorkerPlanRewriteEventResponse, DataFusionError> {
    let plan = event.plan;
    plan.apply(|node| {
        if ALLOWED_OPERATORS.contains(&node.name()) {
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
            check_operators(WorkerPlanRewriteEvent {
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
        let about = WorkerInfo {
            part: Part::new(1, 3).unwrap(),
            quads: 7,
        };
        assert_eq!(WorkerInfo::read(&about.write()), Ok(about));
        for other in ["", "{}", "{\"esker\":2,\"part\":\"1/2\"}", "{\"esker\":1}"] {
            assert!(WorkerInfo::read(other).is_err(), "{other}");
        }
    }
}
