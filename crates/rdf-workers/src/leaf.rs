//! The leaf operator of a distributed plan: a star, which each worker solves on its own part with the operators of `esker-rdf`.

use crate::column::{Column, Kind, Terms, schema};
use crate::part::WorkerData;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::DistributedTaskContext;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use esker_rdf::{Found, Options};
use prost::Message;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Capacity of the channel of result batches.
const WAITING: usize = 4;

/// A star, solved by every worker on its part.
#[derive(Debug, Clone)]
pub(crate) struct StarExec {
    /// Number of the star in its component, part of its columns' names.
    star: usize,
    /// SPARQL query that a worker runs on its part.
    query: String,
    columns: Vec<Column>,
    /// Number of parts of the data.
    parts: usize,
    /// Output partitions per worker; all rows are in the first. More than one lets the engine join in parallel above this leaf.
    partitions: usize,
    properties: Arc<PlanProperties>,
}

impl StarExec {
    pub(crate) fn new(
        star: usize,
        query: String,
        columns: Vec<Column>,
        parts: usize,
        partitions: usize,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema(star, &columns)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self {
            star,
            query,
            columns,
            parts,
            partitions,
            properties,
        }
    }

    /// Returns the number of parts; each must be queried once.
    pub(crate) const fn parts(&self) -> usize {
        self.parts
    }
}

impl DisplayAs for StarExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StarExec: {}", self.query)
    }
}

impl ExecutionPlan for StarExec {
    fn name(&self) -> &'static str {
        "StarExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.properties.eq_properties.schema();
        let Some(worker_data) = context.session_config().get_extension::<WorkerData>() else {
            return exec_err!("a star query was sent to a process that holds no part of the data");
        };
        let task = DistributedTaskContext::from_ctx(&context);
        if (task.task_index, task.task_count) != (worker_data.part.index(), worker_data.part.of()) {
            return exec_err!(
                "this worker holds part {}, but was asked for part {} of {}",
                worker_data.part,
                task.task_index + 1,
                task.task_count
            );
        }
        let (to, from) = mpsc::channel(WAITING);
        if partition == 0 {
            let (query, columns) = (self.query.clone(), self.columns.clone());
            let of = Arc::clone(schema);
            tokio::task::spawn_blocking(move || {
                if let Err(e) = solve(&worker_data, &query, &columns, &of, &to) {
                    // The receiver is gone if the query has ended.
                    let _ = to.blocking_send(Err(e));
                }
            });
        }
        let batches = tokio_stream::wrappers::ReceiverStream::new(from);
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(schema),
            batches,
        )))
    }
}

/// Solves a star on the part that this process holds.
fn solve(
    worker_data: &WorkerData,
    query: &str,
    columns: &[Column],
    schema: &SchemaRef,
    to: &mpsc::Sender<Result<RecordBatch>>,
) -> Result<()> {
    let stop = || to.is_closed().then_some("no client waits for it any more");
    let mut options = Options::new(esker_rdf::DateTime::now(), 0);
    options.memory = worker_data.memory;
    options.threads = worker_data.threads;
    options.stop = &stop;
    let refused = |e: esker_rdf::Error| DataFusionError::Execution(e.to_string());
    let parsed = esker_rdf::syntax::query(query, None).map_err(refused)?;
    let answer =
        esker_rdf::answer(&worker_data.data, &parsed, None, false, &options).map_err(refused)?;
    let Found::Solutions(names, table) = &answer.found else {
        return internal_err!("a star is a SELECT");
    };
    let places = columns
        .iter()
        .map(|c| {
            let at = names.iter().position(|n| *n == c.var)?;
            Some((at, c.kind))
        })
        .collect::<Option<Vec<_>>>();
    let Some(places) = places else {
        return internal_err!("a column of {columns:?} is not in {query}");
    };
    let mut terms = Terms::default();
    let mut at = 0;
    while at < table.len() {
        let end = table.len().min(at + worker_data.batch);
        let batch = terms.batch(&answer, table, at..end, &places, schema)?;
        if to.blocking_send(Ok(batch)).is_err() {
            break;
        }
        at = end;
    }
    Ok(())
}

/// Wire format of a star.
#[derive(Clone, PartialEq, Message)]
struct StarMessage {
    #[prost(uint64, tag = "1")]
    star: u64,
    #[prost(string, tag = "2")]
    query: String,
    #[prost(message, repeated, tag = "3")]
    columns: Vec<ColumnMessage>,
    #[prost(uint64, tag = "4")]
    of: u64,
    #[prost(uint64, tag = "5")]
    partitions: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ColumnMessage {
    #[prost(string, tag = "1")]
    var: String,
    #[prost(bool, tag = "2")]
    text: bool,
}

/// Limit of partitions in a plan.
const PARTITIONS_MAX: u64 = 1024;

/// Codec of [`StarExec`] in plans.
#[derive(Debug)]
pub(crate) struct StarCodec;

impl PhysicalExtensionCodec for StarCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sent = StarMessage::decode(bytes)
            .map_err(|e| DataFusionError::Execution(format!("a star that cannot be read: {e}")))?;
        if sent.partitions == 0 || sent.partitions > PARTITIONS_MAX {
            return exec_err!("a star with {} partitions", sent.partitions);
        }
        let columns = sent
            .columns
            .into_iter()
            .map(|c| Column {
                var: c.var,
                kind: if c.text { Kind::Text } else { Kind::Key },
            })
            .collect();
        Ok(Arc::new(StarExec::new(
            sent.star as usize,
            sent.query,
            columns,
            sent.of as usize,
            sent.partitions as usize,
        )))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        to: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(star) = node.downcast_ref::<StarExec>() else {
            return internal_err!("{} is not a star", node.name());
        };
        let sent = StarMessage {
            star: star.star as u64,
            query: star.query.clone(),
            columns: star
                .columns
                .iter()
                .map(|c| ColumnMessage {
                    var: c.var.clone(),
                    text: c.kind == Kind::Text,
                })
                .collect(),
            of: star.parts as u64,
            partitions: star.partitions as u64,
        };
        sent.encode(to)
            .map_err(|e| DataFusionError::Execution(e.to_string()))
    }
}
