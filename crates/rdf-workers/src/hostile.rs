//! Invariants for arbitrary bytes between coordinators and workers. Fuzz targets call these functions.

use crate::leaf::StarCodec;
use crate::part::WorkerData;
use crate::secret::Secret;
use crate::worker::{ALLOWED_OPERATORS, WorkerInfo, state, worker};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DistributedCodec, MaybeEncoded, SetPlanRequest, TaskKey, Worker, WorkerQueryContext,
};
use datafusion_proto::bytes::physical_plan_from_bytes_with_proto_converter;
use datafusion_proto::physical_plan::{
    DeduplicatingProtoConverter, DefaultPhysicalProtoConverter, PhysicalExtensionCodec as _,
};
use esker_rdf::{Dataset, Part};
use futures_util::StreamExt as _;
use http::HeaderMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use tokio::runtime::Runtime;
use url::Url;

/// Plans after which a new worker is made: a worker remembers refused plans for some minutes.
const PLANS_MAX: usize = 1000;

/// A worker without connections.
pub struct WorkerUnderTest {
    runtime: Runtime,
    worker_data: WorkerData,
    context: Arc<TaskContext>,
    worker: Option<Worker>,
    plans: usize,
}

impl Default for WorkerUnderTest {
    fn default() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let part = Part::new(0, 2).expect("a part");
        let worker_data = WorkerData::new(Arc::new(Dataset::default()), part);
        let session = WorkerQueryContext {
            builder: SessionStateBuilder::new().with_default_features(),
            headers: HeaderMap::new(),
        };
        let secret = Secret::default();
        Self {
            runtime: runtime.expect("a runtime"),
            context: state(session, Arc::new(worker_data.clone()), secret.channels()).task_ctx(),
            worker: None,
            worker_data,
            plans: 0,
        }
    }
}

impl WorkerUnderTest {
    /// Decodes a plan. It must be read or refused without a crash, and accepted only if all its operators are in the allowlist.
    pub fn plan(&mut self, bytes: &[u8]) {
        let codec = DistributedCodec::new_combined_with_user(self.context.session_config());
        let read = unless_it_panics(|| {
            physical_plan_from_bytes_with_proto_converter(
                bytes,
                &self.context,
                &codec,
                &DeduplicatingProtoConverter::default(),
            )
        });
        // The worker decodes the plan in the same way, but takes longer to start.
        let Some(Ok(plan)) = read else {
            return;
        };
        let mut known = true;
        let looked = plan.apply(|node| {
            known &= ALLOWED_OPERATORS.contains(&node.name());
            Ok(TreeNodeRecursion::Continue)
        });
        looked.expect("nothing is refused here");
        let taken = self.sent(bytes);
        assert_eq!(taken, known, "{plan:?}");
    }

    /// Returns whether the worker accepts a plan.
    #[expect(
        clippy::default_trait_access,
        reason = "what numbers a query is of a crate that is nothing else here"
    )]
    fn sent(&mut self, bytes: &[u8]) -> bool {
        self.plans += 1;
        if self.plans.is_multiple_of(PLANS_MAX) {
            self.worker = None;
        }
        let new = || worker(self.worker_data.clone(), &Secret::default());
        let worker = self.worker.get_or_insert_with(new).clone();
        let request = SetPlanRequest {
            task_key: TaskKey {
                query_id: Default::default(),
                stage_id: self.plans,
                task_number: 0,
            },
            task_count: 2,
            plan: MaybeEncoded::Encoded(bytes.to_vec()),
            work_unit_feed_declarations: Vec::new(),
            target_worker_url: Url::parse("http://127.0.0.1:1").expect("a URL"),
            query_start_time_ns: 0,
        };
        self.runtime.block_on(async {
            let nothing = futures_util::stream::empty().boxed();
            let response = worker.coordinator_channel(HeaderMap::new(), request, nothing);
            match response.await {
                // The plan is dropped when this stream ends.
                Ok(response) => {
                    response.collect::<Vec<_>>().await;
                    true
                }
                Err(e) => {
                    assert!(!e.to_string().is_empty());
                    false
                }
            }
        })
    }

    /// Decodes a star; an accepted one must survive encoding and decoding.
    pub fn star(&self, bytes: &[u8]) {
        let converter = DefaultPhysicalProtoConverter {};
        let read = |bytes: &[u8]| StarCodec.try_decode(bytes, &[], &self.context, &converter);
        let write = |star: Arc<dyn ExecutionPlan>| {
            let mut out = Vec::new();
            let done = StarCodec.try_encode(star, &mut out, &converter);
            done.expect("a star is written");
            out
        };
        match read(bytes) {
            Ok(star) => {
                let once = write(star);
                let again = read(&once).expect("what is written is read");
                assert_eq!(write(again), once);
            }
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
}

/// Returns a function's result, or `None` if it panics. `DataFusion` panics on some plans while decoding them (a window without
/// expressions): that ends the task of the request that sent the plan, and nothing is run.
fn unless_it_panics<T>(function: impl FnOnce() -> T) -> Option<T> {
    // The panic hook of libFuzzer ends the process.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let given = panic::catch_unwind(AssertUnwindSafe(function));
    panic::set_hook(hook);
    given.ok()
}

/// Decodes a worker's description; an accepted one must survive encoding and decoding.
pub fn about(text: &str) {
    match WorkerInfo::read(text) {
        Ok(about) => assert_eq!(WorkerInfo::read(&about.write()), Ok(about)),
        Err(why) => assert!(!why.is_empty()),
    }
}
