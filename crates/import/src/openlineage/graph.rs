//! Conversion of an event to facts of the graph.

use super::event::{DataUse, Event, JobOrDataset, Run, RunState, uuid};
use super::facets;
use super::{NAME, NAMESPACE};
use crate::jobs::job_number;
use esker_model::{
    EdgeTypeId, Mutation, Op, Properties, Schema, SchemaChange, SchemaError, Value, Version,
    VertexId, VertexName, VertexRef, VertexTypeId,
};
use serde_json::{Map, Value as Json};

/// Schema types required for events, looked up once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types {
    pub(super) execution: VertexTypeId,
    /// Type of a scheduler's jobs.
    pub(super) job: VertexTypeId,
    pub(super) file: VertexTypeId,
    /// Type of jobs, of which runs are executions.
    pub plan: VertexTypeId,
    /// Type of datasets that are not files of this site.
    pub dataset: VertexTypeId,
    /// Type of the namespaces of jobs and datasets.
    pub namespace: VertexTypeId,
    pub(super) run: RunTypes,
    /// Edge from a plan to data that its runs read.
    pub consumes: EdgeTypeId,
    /// Edge from a plan to data that its runs wrote.
    pub produces: EdgeTypeId,
    /// Edge from a namespace to its contents.
    pub has: EdgeTypeId,
}

/// Edge types that leave a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunTypes {
    pub(super) exe: EdgeTypeId,
    pub(super) read: EdgeTypeId,
    pub(super) write: EdgeTypeId,
    pub(super) belongs: EdgeTypeId,
}

impl Types {
    /// Looks up the types in a schema.
    ///
    /// # Errors
    /// Fails if the schema lacks one of them: see [`Types::changes`].
    pub fn resolve(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self {
            execution: schema.vertex_type_id("Execution")?,
            job: schema.vertex_type_id("Job")?,
            file: schema.vertex_type_id("File")?,
            plan: schema.vertex_type_id("Plan")?,
            dataset: schema.vertex_type_id("Dataset")?,
            namespace: schema.vertex_type_id("Namespace")?,
            run: RunTypes {
                exe: schema.edge_type_id("exe")?,
                read: schema.edge_type_id("read")?,
                write: schema.edge_type_id("write")?,
                belongs: schema.edge_type_id("belongs")?,
            },
            consumes: schema.edge_type_id("consumes")?,
            produces: schema.edge_type_id("produces")?,
            has: schema.edge_type_id("has")?,
        })
    }

    /// Returns the schema changes that a default schema requires for events. Applying them again has no effect.
    pub fn changes() -> Vec<SchemaChange> {
        let vertex = |name: &str, parent: &str| SchemaChange::VertexType {
            name: name.to_owned(),
            parent: Some(parent.to_owned()),
            attributes: Vec::new(),
        };
        let edge = |name: &str, inverse: &str| SchemaChange::EdgeType {
            name: name.to_owned(),
            inverse: inverse.to_owned(),
            source: "Plan".to_owned(),
            destination: "DataObject".to_owned(),
        };
        vec![
            vertex("Plan", "Executable"),
            vertex("Dataset", "DataObject"),
            vertex("Namespace", "DataObject"),
            edge("consumes", "consumedBy"),
            edge("produces", "producedBy"),
        ]
    }
}

/// Returns the key for a namespace and a name.
fn key(namespace: &str, name: &str) -> String {
    if name.starts_with('/') && namespace.contains("://") {
        return format!("{namespace}{name}");
    }
    format!("{namespace}/{name}")
}

/// Returns whether a namespace is that of this site's files.
fn is_files(namespace: &str) -> bool {
    matches!(namespace, "file" | "file:" | "file://" | "file:///")
}

/// Vertex type of a dataset that is a file of this site.
pub(super) const FILE: &str = "File";

/// Returns the vertex of a dataset. A file is named by its path, without a trailing `/`.
pub fn data_name(namespace: &str, name: &str) -> VertexName {
    let (type_name, key) = if is_files(namespace) && name.starts_with('/') {
        let plain = name.trim_end_matches('/');
        (FILE, if plain.is_empty() { "/" } else { plain }.to_owned())
    } else {
        ("Dataset", key(namespace, name))
    };
    VertexName {
        type_name: type_name.to_owned(),
        key,
    }
}

/// Returns the vertex of a job.
pub fn job_name(namespace: &str, name: &str) -> VertexName {
    VertexName {
        type_name: "Plan".to_owned(),
        key: key(namespace, name),
    }
}

/// Returns the vertex of a run; `None` if `id` is not a UUID.
pub fn run_name(id: &str) -> Option<VertexName> {
    Some(VertexName {
        type_name: "Execution".to_owned(),
        key: uuid(id)?,
    })
}

/// Property of a `read` or `write` edge with the time of its facets.
pub(super) const FACETS_TIME: &str = "reported";
/// Name of that property in databases that versions before 0.2 filled.
pub(super) const FORMER_FACETS_TIME: &str = "told";

/// Rule for merging a fact with existing data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MergeRule {
    /// Merged as any other fact.
    Plain,
    /// An edge without content: it only exists.
    There,
    /// A use of data by a run. `done`: the run has ended, so its output exists.
    Use { done: bool },
}

/// A fact stated by an event.
#[derive(Debug, Clone)]
pub(super) struct Fact {
    pub(super) mutation: Mutation,
    pub(super) how: MergeRule,
}

/// Derives a version from an event's time: events of a run within one millisecond are ordered by state.
fn version(event: &Event) -> Version {
    let about = match (&event.run, &event.job, &event.dataset) {
        (Some(run), ..) => run.id.clone(),
        (_, Some(named), _) | (_, _, Some(named)) => key(&named.namespace, &named.name),
        _ => String::new(),
    };
    let [high, low, ..] = *blake3::hash(about.as_bytes()).as_bytes();
    let within = u16::from_be_bytes([high, low]) >> 2;
    let order = match event.run.as_ref().map(|run| run.state) {
        Some(RunState::Start) | None => 0,
        Some(RunState::Running) => 1,
        Some(RunState::Other) => 2,
        Some(_) => 3,
    };
    let millis = u64::try_from(event.time / 1_000_000).unwrap_or(0);
    Version::new(millis, order << 14 | within)
}

/// Collector of facts.
struct FactCollector<'a> {
    types: &'a Types,
    at: Version,
    facts: Vec<Fact>,
}

impl FactCollector<'_> {
    fn push(&mut self, op: Op, how: MergeRule) {
        self.facts.push(Fact {
            mutation: Mutation {
                version: Some(self.at),
                op,
            },
            how,
        });
    }

    fn ensure(&mut self, type_id: VertexTypeId, name: VertexName) -> VertexRef {
        let vertex = VertexRef {
            id: VertexId::of(&name.type_name, &name.key),
            type_id,
        };
        let key = name.key;
        self.push(Op::EnsureVertex { vertex, key }, MergeRule::Plain);
        vertex
    }

    fn set(&mut self, vertex: VertexRef, set: Properties, remove: Vec<String>) {
        if !set.is_empty() || !remove.is_empty() {
            let op = Op::SetAttributes {
                vertex,
                set,
                remove,
            };
            self.push(op, MergeRule::Plain);
        }
    }

    fn change(&mut self, vertex: VertexRef, set: Properties) {
        let remove = Vec::new();
        let op = Op::ChangeVertex {
            vertex,
            set,
            remove,
        };
        self.push(op, MergeRule::Plain);
    }

    fn edge(
        &mut self,
        (source, edge_type, destination): (VertexRef, EdgeTypeId, VertexRef),
        properties: Properties,
        how: MergeRule,
    ) {
        let op = Op::PutEdge {
            source,
            edge_type,
            destination,
            properties: properties.with("evidence", "declared"),
        };
        self.push(op, how);
    }

    /// Adds a job or a dataset with its facets, in its namespace.
    fn named(
        &mut self,
        type_id: VertexTypeId,
        name: VertexName,
        named: &JobOrDataset,
    ) -> VertexRef {
        let vertex = self.ensure(type_id, name);
        let (mut set, remove) = facets::attributes(&named.facets);
        set.set(NAMESPACE, named.namespace.as_str());
        set.set(NAME, named.name.as_str());
        self.set(vertex, set, remove);
        let space = VertexName {
            type_name: "Namespace".to_owned(),
            key: named.namespace.clone(),
        };
        let space = self.ensure(self.types.namespace, space);
        let (has, nothing) = (self.types.has, Properties::new());
        self.edge((space, has, vertex), nothing, MergeRule::There);
        vertex
    }

    fn data(&mut self, named: &JobOrDataset) -> VertexRef {
        let name = data_name(&named.namespace, &named.name);
        let type_id = match name.type_name.as_str() {
            FILE => self.types.file,
            _ => self.types.dataset,
        };
        self.named(type_id, name, named)
    }

    fn job(&mut self, named: &JobOrDataset) -> VertexRef {
        let name = job_name(&named.namespace, &named.name);
        let vertex = self.named(self.types.plan, name, named);
        self.change(vertex, Properties::new().with("name", named.name.as_str()));
        vertex
    }

    fn execution(&mut self, id: &str) -> VertexRef {
        let name = VertexName {
            type_name: "Execution".to_owned(),
            key: id.to_owned(),
        };
        self.ensure(self.types.execution, name)
    }

    /// Adds edges for `parent`: the run that contains this run, and the root run.
    fn parents(&mut self, run: VertexRef, id: &str, facets: &Map<String, Json>) {
        let Some(parent) = facets.get("parent").or_else(|| facets.get("parentRun")) else {
            return;
        };
        let belongs = self.types.run.belongs;
        let Some((of, above)) = self.one_parent(parent) else {
            return;
        };
        if of != id {
            self.edge((run, belongs, above), Properties::new(), MergeRule::There);
        }
        let root = parent.get("root").and_then(|root| self.one_parent(root));
        if let Some((top, root)) = root.filter(|(top, _)| *top != of && top != id) {
            let _ = top;
            self.edge((above, belongs, root), Properties::new(), MergeRule::There);
        }
    }

    /// Adds edges to the Slurm job of a run, and from there to the job's array, if the run's environment variables are known.
    fn slurm_job(&mut self, run: VertexRef, facets: &Map<String, Json>) {
        let variables = facets
            .get("environmentVariables")
            .and_then(|facet| facet.get("environmentVariables")?.as_array());
        let variable = |name: &str| {
            let named = |one: &&Json| one.get("name").and_then(Json::as_str) == Some(name);
            let found = variables?.iter().find(named)?;
            job_number(found.get("value")?.as_str()?).map(str::to_owned)
        };
        let mut part = run;
        for number in [variable("SLURM_JOB_ID"), variable("SLURM_ARRAY_JOB_ID")] {
            let Some(key) = number else { return };
            let vertex = VertexRef {
                id: VertexId::of("Job", &key),
                type_id: self.types.job,
            };
            if vertex == part {
                return;
            }
            self.push(Op::EnsureVertex { vertex, key }, MergeRule::Plain);
            let belongs = self.types.run.belongs;
            self.edge((part, belongs, vertex), Properties::new(), MergeRule::There);
            part = vertex;
        }
    }

    fn one_parent(&mut self, parent: &Json) -> Option<(String, VertexRef)> {
        let text = |value: &Json, key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let id = uuid(&text(parent.get("run")?, "runId")?)?;
        let run = self.execution(&id);
        let job = parent.get("job");
        let named = job.and_then(|job| {
            Some(JobOrDataset {
                namespace: text(job, "namespace").filter(|t| !t.is_empty())?,
                name: text(job, "name").filter(|t| !t.is_empty())?,
                facets: Map::new(),
            })
        });
        if let Some(named) = named {
            self.change(run, Properties::new().with("name", named.name.as_str()));
            let job = self.job(&named);
            let exe = self.types.run.exe;
            self.edge((run, exe, job), Properties::new(), MergeRule::There);
        }
        Some((id, run))
    }

    fn run(&mut self, event: &Event, run: &Run, job: &JobOrDataset) -> VertexRef {
        let vertex = self.execution(&run.id);
        let mut first = Properties::new().with("name", job.name.as_str());
        if run.state == RunState::Start {
            first.set("start", Value::Timestamp(event.time));
        }
        if run.state.is_end() {
            first.set("end", Value::Timestamp(event.time));
        }
        self.change(vertex, first);
        let (mut set, remove) = facets::attributes(&run.facets);
        if let Some(word) = run.state.word() {
            set.set("state", word);
        }
        if let Some(producer) = &event.producer {
            set.set("producer", producer.as_str());
        }
        let message = run
            .facets
            .get("errorMessage")
            .and_then(|f| f.get("message"));
        if let Some(Json::String(message)) = message
            && matches!(run.state, RunState::Fail | RunState::Abort)
        {
            let line = message.lines().next().unwrap_or_default();
            set.set("ended", line.chars().take(200).collect::<String>());
        }
        self.set(vertex, set, remove);
        self.parents(vertex, &run.id, &run.facets);
        self.slurm_job(vertex, &run.facets);
        vertex
    }
}

/// Copies numbers of common interest from facets that the specification defines.
fn figures(used: &DataUse, out: &mut Properties) {
    let known = [
        ("outputStatistics", "rowCount", "rows"),
        ("outputStatistics", "size", "bytes"),
        ("inputStatistics", "rowCount", "rows"),
        ("inputStatistics", "size", "bytes"),
        ("dataQualityMetrics", "rowCount", "rows"),
        ("dataQualityMetrics", "bytes", "bytes"),
    ];
    for (facet, key, name) in known {
        let number = used.facets.get(facet).and_then(|f| f.get(key)?.as_i64());
        if let Some(number) = number.filter(|_| out.get(name).is_none()) {
            out.set(name, number);
        }
    }
}

/// Returns the facts of an event, in the order in which they must be written.
pub(super) fn facts(event: &Event, types: &Types) -> Vec<Fact> {
    let mut w = FactCollector {
        types,
        at: version(event),
        facts: Vec::new(),
    };
    if let Some(dataset) = &event.dataset {
        w.data(dataset);
    }
    let Some(job) = &event.job else {
        return w.facts;
    };
    let plan = w.job(job);
    let run = event
        .run
        .as_ref()
        .map(|run| (w.run(event, run, job), run.state));
    if let Some((run, _)) = run {
        w.edge(
            (run, types.run.exe, plan),
            Properties::new(),
            MergeRule::There,
        );
    }
    let both = [
        (&event.inputs, types.run.read, types.consumes),
        (&event.outputs, types.run.write, types.produces),
    ];
    for (uses, used, plans) in both {
        for one in uses {
            let data = w.data(&one.data);
            w.edge((plan, plans, data), Properties::new(), MergeRule::There);
            let Some((run, state)) = run else {
                continue;
            };
            let (mut properties, _) = facets::attributes(&one.facets);
            figures(one, &mut properties);
            if !properties.is_empty() {
                properties.set(FACETS_TIME, Value::Timestamp(event.time));
            }
            let done = used == types.run.write && state.is_end();
            w.edge((run, used, data), properties, MergeRule::Use { done });
        }
    }
    w.facts
}
