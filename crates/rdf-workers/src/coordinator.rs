//! The coordinator: it splits a query into components, has the workers solve these, and computes the answer from their results.

use crate::column::ResultColumn;
use crate::error::{Error, Result};
use crate::gather::{Fetch, fetches};
use crate::leaf::{StarCodec, StarExec};
use crate::plan::plan;
use crate::rewrite::{Component, Out, Rewritten, rewrite};
use crate::secret::{Channels, REFUSED, Secret};
use crate::table::LeafTable;
use crate::worker::WorkerInfo;
use datafusion::common::{DataFusionError, exec_err};
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    ChannelResolver, DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt,
    GetWorkerInfoRequest, RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, SessionStateBuilderExt, WorkerResolver, display_plan_ascii,
};
use esker_rdf::dictionary::Key;
use esker_rdf::spargebra::algebra::QueryDataset;
use esker_rdf::{Dataset, Graphs, InputBindings, NamedNode, Query};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use url::Url;

/// Settings of a coordinator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Secret shared with the workers.
    pub secret: Secret,
    /// Timeout for a worker's description of its part.
    pub patience: Duration,
    /// Limit of solutions in the coordinator's memory, in bytes.
    pub memory: usize,
    /// Partitions per worker that are joined in parallel.
    pub partitions: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            secret: Secret::default(),
            patience: Duration::from_secs(10),
            memory: 4 << 30,
            partitions: 2,
        }
    }
}

/// Client of a set of workers.
pub struct Coordinator {
    runtime: Runtime,
    state: SessionState,
    settings: Settings,
    parts: usize,
    about: Vec<(String, WorkerInfo)>,
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coordinator")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// A query whose basic graph patterns are solved. The rest is to be evaluated on [`Self::data`], with
/// [`Self::input_bindings`] in the options.
#[derive(Debug)]
pub struct Prepared {
    /// Terms of the solutions, or the triples that were fetched.
    pub data: Dataset,
    /// Rest of the query.
    pub query: Query,
    /// Input bindings that the query refers to.
    pub input_bindings: Vec<InputBindings>,
    /// Execution plan, line by line, if requested.
    pub notes: Vec<String>,
}

/// Addresses of the workers, in the order of their parts.
#[derive(Clone)]
struct Urls(Arc<Vec<Url>>);

impl WorkerResolver for Urls {
    fn get_urls(&self) -> std::result::Result<Vec<Url>, DataFusionError> {
        Ok((*self.0).clone())
    }
}

/// Cancellation check: returns the reason to stop, or `None`.
pub(crate) type Stop<'a> = dyn Fn() -> Option<&'static str> + Sync + 'a;

/// Interval of cancellation checks while no batch arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Coordinator {
    /// Asks each worker (HOST:PORT) for its part. The workers must hold all parts, each part once.
    pub fn connect(addresses: &[String], settings: Settings) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("workers")
            .build()
            .map_err(|e| Error::Solving(e.to_string()))?;
        let channels = settings.secret.channels();
        let mut found = runtime.block_on(try_join_all(
            addresses
                .iter()
                .map(|a| about(a, channels.clone(), settings.patience)),
        ))?;
        found.sort_by_key(|(_, about, _)| about.part.index());
        complete(&found)?;
        let urls = Urls(Arc::new(found.iter().map(|f| f.2.clone()).collect()));
        let parts = found.len();
        let state = state(&urls, channels, settings.partitions);
        Ok(Self {
            runtime,
            state,
            settings,
            parts,
            about: found.into_iter().map(|(a, about, _)| (a, about)).collect(),
        })
    }

    /// Returns the workers' addresses and descriptions, in the order of their parts.
    pub fn workers(&self) -> &[(String, WorkerInfo)] {
        &self.about
    }

    /// Has the workers solve the components of a query. With `explain`, returns only the plan as notes and runs nothing.
    pub fn prepare(
        &self,
        query: &Query,
        graphs: Option<&Graphs>,
        explain: bool,
        stop: &Stop<'_>,
    ) -> Result<Prepared> {
        // Streams spawn tasks when they are created.
        let _inside = self.runtime.enter();
        let mut query = query.clone();
        if let Some(graphs) = graphs {
            set_dataset(&mut query, graphs)?;
        }
        // Parsers and writers of the SPARQL library are recursive; the caller's stack must be large enough for them.
        match rewrite(&query) {
            Some(rewritten) => self.solve(rewritten, explain, stop),
            None => self.gather(query, explain, stop),
        }
    }

    fn solve(&self, rewritten: Rewritten, explain: bool, stop: &Stop<'_>) -> Result<Prepared> {
        let Rewritten { query, components } = rewritten;
        let dataset = query.dataset().cloned();
        let plans = self.runtime.block_on(try_join_all(
            components
                .iter()
                .map(|c| self.physical(c, dataset.as_ref())),
        ))?;
        let mut prepared = Prepared {
            data: Dataset::default(),
            query,
            input_bindings: Vec::new(),
            notes: Vec::new(),
        };
        if explain {
            prepared.notes = explained(&prepared.query, &components, &plans);
            return Ok(prepared);
        }
        let mut memory_used = 0;
        for (component, plan) in components.iter().zip(plans) {
            let mut input_bindings = InputBindings::new(component.names());
            let stream = execute_stream(plan, self.state.task_ctx())?;
            self.rows(stream, stop, &mut memory_used, &mut |row| {
                Ok(input_bindings.push(&mut prepared.data, row.iter().copied().map(Some))?)
            })?;
            prepared.input_bindings.push(input_bindings);
        }
        Ok(prepared)
    }

    async fn physical(
        &self,
        component: &Component,
        dataset: Option<&QueryDataset>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan(component, dataset, self.parts, self.settings.partitions)?;
        Ok(self.state.create_physical_plan(&plan).await?)
    }

    /// Fetches all triples that the query can match; the coordinator then evaluates the whole query on them.
    fn gather(&self, query: Query, explain: bool, stop: &Stop<'_>) -> Result<Prepared> {
        let fetches = fetches(&query);
        let mut prepared = Prepared {
            data: Dataset::default(),
            query,
            input_bindings: Vec::new(),
            notes: Vec::new(),
        };
        if explain {
            prepared.notes = vec![
                "answered by the coordinator alone, of the triples that the workers give it for"
                    .into(),
            ];
            prepared
                .notes
                .extend(fetches.into_iter().map(|f| format!("  {}", f.query)));
            return Ok(prepared);
        }
        let mut quads = Vec::new();
        let mut memory_used = 0;
        for fetch in &fetches {
            let stream = self.fetch(fetch)?;
            self.rows(stream, stop, &mut memory_used, &mut |row| {
                if let Some(([s, p, o], g)) = fetch.quad(row) {
                    let mut number = |key: &Key<'_>| prepared.data.dictionary.intern(key);
                    quads.push((
                        esker_rdf::quads::Quad {
                            s: number(&s)?,
                            p: number(&p)?,
                            o: number(&o)?,
                            g: match g {
                                Some(g) => number(&g)?,
                                None => esker_rdf::id::UNBOUND,
                            },
                        },
                        true,
                    ));
                }
                Ok(())
            })?;
        }
        prepared.data.change(&quads);
        prepared.data.compact();
        Ok(prepared)
    }

    fn fetch(&self, fetch: &Fetch) -> Result<SendableRecordBatchStream> {
        use crate::column::{Column, Kind};
        let columns = fetch
            .vars
            .iter()
            .map(|v| Column {
                var: v.as_str().to_owned(),
                kind: Kind::Text,
            })
            .collect();
        let leaf = StarExec::new(
            0,
            fetch.query.clone(),
            columns,
            self.parts,
            self.settings.partitions,
        );
        let plan = LeafTable::plan(leaf)?;
        let plan = self
            .runtime
            .block_on(self.state.create_physical_plan(&plan))?;
        Ok(execute_stream(plan, self.state.task_ctx())?)
    }

    /// Calls `see` for each row of a stream. Fails when cancelled or when the rows exceed the memory limit.
    fn rows(
        &self,
        mut stream: SendableRecordBatchStream,
        stop: &Stop<'_>,
        memory_used: &mut usize,
        see: &mut dyn FnMut(&[Key<'_>]) -> Result<()>,
    ) -> Result<()> {
        self.runtime.block_on(async {
            loop {
                let next = tokio::select! {
                    next = stream.next() => next,
                    () = tokio::time::sleep(POLL_INTERVAL) => {
                        if let Some(why) = stop() {
                            return Err(esker_rdf::Error::Stopped(why).into());
                        }
                        continue;
                    }
                };
                let Some(batch) = next.transpose()? else {
                    return Ok(());
                };
                if let Some(why) = stop() {
                    return Err(esker_rdf::Error::Stopped(why).into());
                }
                *memory_used += batch.get_array_memory_size();
                if *memory_used > self.settings.memory {
                    return Err(esker_rdf::Error::Memory {
                        rows: batch.num_rows(),
                        columns: batch.num_columns(),
                        limit: self.settings.memory,
                    }
                    .into());
                }
                let columns = ResultColumn::of(&batch).ok_or_else(|| {
                    Error::Solving("a worker gave columns of no known type".into())
                })?;
                let mut row = Vec::with_capacity(columns.len());
                for at in 0..batch.num_rows() {
                    row.clear();
                    for column in &columns {
                        row.push(column.key(at).ok_or_else(|| {
                            Error::Solving("a worker gave a text that is not a term".into())
                        })?);
                    }
                    see(&row)?;
                }
            }
        })
    }
}

/// Asks the worker at an address for its description.
async fn about(
    address: &str,
    channels: Channels,
    patience: Duration,
) -> Result<(String, WorkerInfo, Url)> {
    let wrong = |why: String| Error::Worker {
        address: address.to_owned(),
        why,
    };
    let url = Url::parse(&format!("http://{address}"))
        .ok()
        .filter(|u| u.host().is_some() && u.port().is_some() && u.path() == "/")
        .ok_or_else(|| wrong("expected HOST:PORT, as in 127.0.0.1:7611".into()))?;
    let ask = async {
        let mut client = channels.get_worker_client_for_url(&url).await?;
        client.get_worker_info(GetWorkerInfoRequest {}).await
    };
    let said = tokio::time::timeout(patience, ask)
        .await
        .map_err(|_| wrong(format!("no answer within {} s", patience.as_secs())))?
        .map_err(|e| wrong(reason(&e)))?;
    let about = WorkerInfo::read(&said.version).map_err(wrong)?;
    Ok((address.to_owned(), about, url))
}

/// Returns the root cause of an error as a user message.
fn reason(e: &DataFusionError) -> String {
    let root = e.find_root().to_string();
    if root.contains(REFUSED) {
        return REFUSED.into();
    }
    if root.contains("Connection refused") {
        return "nothing listens there; start one with `esker rdf worker`".into();
    }
    root
}

/// Checks that each part is held exactly once.
fn complete(found: &[(String, WorkerInfo, Url)]) -> Result<()> {
    let of = found.first().map_or(0, |f| f.1.part.of());
    if let Some((address, about, _)) = found.iter().find(|f| f.1.part.of() != of) {
        return Err(Error::Parts(format!(
            "the worker {address} holds part {}, another one a part of {of}: they belong to different data",
            about.part
        )));
    }
    for pair in found.windows(2) {
        if let [(a, x, _), (b, y, _)] = pair
            && x.part == y.part
        {
            return Err(Error::Parts(format!(
                "the workers {a} and {b} both hold part {}; name one of them",
                x.part
            )));
        }
    }
    if found.len() != of {
        let missing: Vec<String> = (0..of)
            .filter(|i| !found.iter().any(|f| f.1.part.index() == *i))
            .map(|i| (i + 1).to_string())
            .collect();
        return Err(Error::Parts(format!(
            "no worker holds part {} of {of}; name all workers",
            missing.join(", ")
        )));
    }
    if of < 2 {
        return Err(Error::Parts(
            "one part is all of the data: query its folder directly, without a worker".into(),
        ));
    }
    Ok(())
}

/// Returns the `DataFusion` session state with which plans are made.
fn state(urls: &Urls, channels: Channels, partitions: usize) -> SessionState {
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    let options = config.options_mut();
    // A star's rows come in one stream per worker and are hash-partitioned before a join, so round-robin repartitioning is useless.
    options.optimizer.enable_round_robin_repartition = false;
    let route = {
        let urls = urls.clone();
        move |event: RouteTasksEvent<'_>| {
            let urls = urls.0.iter().take(event.task_count).cloned().collect();
            Some(Ok(RouteTasksEventResponse::new(urls)))
        }
    };
    SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_distributed_worker_resolver(urls.clone())
        .with_distributed_channel_resolver(channels)
        .with_distributed_planner()
        .with_distributed_user_codec(StarCodec)
        .with_distributed_desired_task_count_handler(one_task_per_worker)
        .with_distributed_scale_up_leaf_node_handler(require_all_workers)
        .with_distributed_route_tasks_handler(route)
        .build()
}

/// Requests one task per worker for a star.
fn one_task_per_worker(
    event: DesiredTaskCountEvent<'_>,
) -> Option<std::result::Result<DesiredTaskCountEventResponse, DataFusionError>> {
    let star = event.plan.downcast_ref::<StarExec>()?;
    Some(Ok(DesiredTaskCountEventResponse::desired(star.parts())))
}

/// Fails unless a star runs on all workers: with fewer, solutions would be missing.
fn require_all_workers(
    event: ScaleUpLeafNodeEvent<'_>,
) -> Option<std::result::Result<ScaleUpLeafNodeEventResponse, DataFusionError>> {
    let star = event.plan.downcast_ref::<StarExec>()?;
    if star.parts() != event.task_count {
        return Some(exec_err!(
            "a star of {} parts was planned for {} workers",
            star.parts(),
            event.task_count
        ));
    }
    Some(Ok(ScaleUpLeafNodeEventResponse::new(Arc::clone(
        event.plan,
    ))))
}

/// Replaces the query's dataset by the graphs of the request.
fn set_dataset(query: &mut Query, graphs: &Graphs) -> Result<()> {
    let names = |list: &[String]| {
        list.iter()
            .map(|iri| {
                NamedNode::new(iri).map_err(|e| {
                    Error::Query(esker_rdf::Error::Refused(format!(
                        "`{iri}` is not an IRI: {e}"
                    )))
                })
            })
            .collect::<Result<Vec<_>>>()
    };
    let chosen = QueryDataset {
        default: names(&graphs.default)?,
        named: Some(names(&graphs.named)?),
    };
    let (Query::Select { dataset, .. }
    | Query::Construct { dataset, .. }
    | Query::Describe { dataset, .. }
    | Query::Ask { dataset, .. }) = query;
    *dataset = Some(chosen);
    Ok(())
}

/// Returns the plan as text.
fn explained(
    query: &Query,
    components: &[Component],
    plans: &[Arc<dyn ExecutionPlan>],
) -> Vec<String> {
    let mut notes = Vec::new();
    for (n, (component, plan)) in components.iter().zip(plans).enumerate() {
        let what = match &component.out {
            Out::Variables(_) => "solutions",
            Out::Counts(..) => "counts of solutions",
        };
        let stars = component.stars.len();
        notes.push(format!(
            "given:{n}, {what} by the workers: {stars} {}",
            if stars == 1 { "star" } else { "stars joined" }
        ));
        notes.extend(
            display_plan_ascii(plan.as_ref(), false)
                .lines()
                .map(|l| format!("  {}", l.trim_end())),
        );
    }
    notes.push(format!("by the coordinator: {query}"));
    notes
}
