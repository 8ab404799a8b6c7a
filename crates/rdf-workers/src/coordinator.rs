//! The process that is asked: it takes queries apart, has the workers solve the parts, and puts the answer together.

use crate::column::Back;
use crate::error::{Error, Result};
use crate::gather::{Fetch, fetches};
use crate::leaf::{StarCodec, StarExec};
use crate::plan::plan;
use crate::rewrite::{Component, Out, Rewritten, rewrite};
use crate::secret::{Channels, REFUSED, Secret};
use crate::table::LeafTable;
use crate::worker::About;
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
use esker_rdf::{Dataset, Given, Graphs, NamedNode, Query};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use url::Url;

/// How a coordinator asks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The workers' secret.
    pub secret: Secret,
    /// How long a worker may take to say what it holds.
    pub patience: Duration,
    /// Bytes of solutions that the coordinator may hold.
    pub memory: usize,
    /// Streams of each worker that are joined in parallel.
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

/// Asks workers.
pub struct Coordinator {
    runtime: Runtime,
    state: SessionState,
    settings: Settings,
    of: usize,
    about: Vec<(String, About)>,
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coordinator")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// A query whose patterns were solved: what is left is asked of [`Self::data`], with [`Self::given`] in the options.
#[derive(Debug)]
pub struct Prepared {
    /// Terms of the solutions, or triples that were fetched.
    pub data: Dataset,
    /// What is left.
    pub query: Query,
    /// Solutions that stand in it.
    pub given: Vec<Given>,
    /// How it was solved, line by line, if that was asked for.
    pub notes: Vec<String>,
}

/// Addresses of the workers, by their parts.
#[derive(Clone)]
struct Urls(Arc<Vec<Url>>);

impl WorkerResolver for Urls {
    fn get_urls(&self) -> std::result::Result<Vec<Url>, DataFusionError> {
        Ok((*self.0).clone())
    }
}

/// Whether to stop, and why.
pub(crate) type Stop<'a> = dyn Fn() -> Option<&'static str> + Sync + 'a;

/// How often it is asked whether to stop.
const LOOK: Duration = Duration::from_millis(20);

impl Coordinator {
    /// Finds out what each of these workers (HOST:PORT) holds: together they must hold all parts, each once.
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
        let of = found.len();
        let state = state(&urls, channels, settings.partitions);
        Ok(Self {
            runtime,
            state,
            settings,
            of,
            about: found.into_iter().map(|(a, about, _)| (a, about)).collect(),
        })
    }

    /// The workers' addresses and what they hold, by their parts.
    pub fn workers(&self) -> &[(String, About)] {
        &self.about
    }

    /// Has the workers solve what of a query they can. With `notes` it is said how; with `explain`, nothing is solved.
    pub fn prepare(
        &self,
        query: &Query,
        graphs: Option<&Graphs>,
        explain: bool,
        stop: &Stop<'_>,
    ) -> Result<Prepared> {
        // Streams spawn what they need as they begin.
        let _inside = self.runtime.enter();
        let mut query = query.clone();
        if let Some(graphs) = graphs {
            set_dataset(&mut query, graphs)?;
        }
        // The library's parsers and writers call themselves; the caller's stack is large enough for them.
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
            given: Vec::new(),
            notes: Vec::new(),
        };
        if explain {
            prepared.notes = explained(&prepared.query, &components, &plans);
            return Ok(prepared);
        }
        let mut held = 0;
        for (component, plan) in components.iter().zip(plans) {
            let mut given = Given::new(component.names());
            let stream = execute_stream(plan, self.state.task_ctx())?;
            self.rows(stream, stop, &mut held, &mut |row| {
                Ok(given.push(&mut prepared.data, row.iter().copied().map(Some))?)
            })?;
            prepared.given.push(given);
        }
        Ok(prepared)
    }

    async fn physical(
        &self,
        component: &Component,
        dataset: Option<&QueryDataset>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan(component, dataset, self.of, self.settings.partitions)?;
        Ok(self.state.create_physical_plan(&plan).await?)
    }

    /// Fetches what the query may ask, and leaves it to be answered here.
    fn gather(&self, query: Query, explain: bool, stop: &Stop<'_>) -> Result<Prepared> {
        let fetches = fetches(&query);
        let mut prepared = Prepared {
            data: Dataset::default(),
            query,
            given: Vec::new(),
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
        let mut held = 0;
        for fetch in &fetches {
            let stream = self.fetch(fetch)?;
            self.rows(stream, stop, &mut held, &mut |row| {
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
        prepared.data.settle();
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
            self.of,
            self.settings.partitions,
        );
        let plan = LeafTable::plan(leaf)?;
        let plan = self
            .runtime
            .block_on(self.state.create_physical_plan(&plan))?;
        Ok(execute_stream(plan, self.state.task_ctx())?)
    }

    /// Shows each row of a stream; ends when it shall stop, or when rows become too many.
    fn rows(
        &self,
        mut stream: SendableRecordBatchStream,
        stop: &Stop<'_>,
        held: &mut usize,
        see: &mut dyn FnMut(&[Key<'_>]) -> Result<()>,
    ) -> Result<()> {
        self.runtime.block_on(async {
            loop {
                let next = tokio::select! {
                    next = stream.next() => next,
                    () = tokio::time::sleep(LOOK) => {
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
                *held += batch.get_array_memory_size();
                if *held > self.settings.memory {
                    return Err(esker_rdf::Error::Memory {
                        rows: batch.num_rows(),
                        columns: batch.num_columns(),
                        limit: self.settings.memory,
                    }
                    .into());
                }
                let columns = Back::of(&batch).ok_or_else(|| {
                    Error::Solving("a worker gave columns of no known type".into())
                })?;
                let mut row = Vec::with_capacity(columns.len());
                for at in 0..batch.num_rows() {
                    row.clear();
                    for column in &columns {
                        row.push(column.key(at).ok_or_else(|| {
                            Error::Solving("a worker gave a text that is no term".into())
                        })?);
                    }
                    see(&row)?;
                }
            }
        })
    }
}

/// What the worker at an address says of itself.
async fn about(
    address: &str,
    channels: Channels,
    patience: Duration,
) -> Result<(String, About, Url)> {
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
    let about = About::read(&said.version).map_err(wrong)?;
    Ok((address.to_owned(), about, url))
}

/// The cause of an error, for people.
fn reason(e: &DataFusionError) -> String {
    let root = e.find_root().to_string();
    if root.contains(REFUSED) {
        return REFUSED.into();
    }
    if root.contains("Connection refused") {
        return "nobody listens there; start one with `esker rdf worker`".into();
    }
    root
}

/// Whether each part is there once.
fn complete(found: &[(String, About, Url)]) -> Result<()> {
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
            "one part is all of the data: ask its folder itself, without a worker".into(),
        ));
    }
    Ok(())
}

/// What plans are made with.
fn state(urls: &Urls, channels: Channels, partitions: usize) -> SessionState {
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    let options = config.options_mut();
    // Rows of a star come from one stream for each worker: they are shared out before they are joined.
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
        .with_distributed_desired_task_count_handler(tasks)
        .with_distributed_scale_up_leaf_node_handler(spread)
        .with_distributed_route_tasks_handler(route)
        .build()
}

/// A star is a task of each worker.
fn tasks(
    event: DesiredTaskCountEvent<'_>,
) -> Option<std::result::Result<DesiredTaskCountEventResponse, DataFusionError>> {
    let star = event.plan.downcast_ref::<StarExec>()?;
    Some(Ok(DesiredTaskCountEventResponse::desired(star.parts())))
}

/// A star that is not asked of all workers would lack solutions.
fn spread(
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

/// The graphs of a request become those of the query.
fn set_dataset(query: &mut Query, graphs: &Graphs) -> Result<()> {
    let names = |list: &[String]| {
        list.iter()
            .map(|iri| {
                NamedNode::new(iri).map_err(|e| {
                    Error::Query(esker_rdf::Error::Refused(format!("`{iri}` is no IRI: {e}")))
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

/// What would be done, for people.
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
