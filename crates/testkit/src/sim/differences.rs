//! Differences between two versions, in pages: a cluster answers as one engine does, and its messages stay small.

use super::blocking_client::BlockingClient;
use super::cluster::{Cluster, Shape, Subject};
use super::net::{PageSize, Times};
use super::request::{ClientRequest, ClientResponse, call_engine};
use super::scenario::{FaultLevel, RunReport, Scenario, started};
use crate::history::{START_MILLIS, batch};
use crate::names::people;
use crate::rng::Rng;
use crate::test_graph::{TestGraph, schema_changes};
use esker_engine::{Engine, NoArchive};
use esker_model::filter::Expr;
use esker_model::object::{Find, Identity};
use esker_model::{
    Batch, DiffSelect, Difference, EdgeTypeId, Error, GraphWrite as _, Mutation, Op, Properties,
    Result, Value, Version, VertexId, VertexRef,
};
use esker_store::memory::MemoryStore;
use std::rc::Rc;
use std::sync::Arc;

/// Number of batches that are applied.
const BATCHES: u64 = 40;

/// Creates a cluster without faults.
fn cluster(seed: u64, servers: u32, page_rows: u32, tracing: bool) -> Rc<Cluster> {
    let shape = Shape {
        servers,
        vnodes: 16,
        page_rows,
        times: Times {
            delay_min: 1,
            delay_max: 20,
            wait: 2_000_000,
        },
        skew: 0,
        ..Scenario::of(seed, FaultLevel::Faultless, Subject::Nodes).shape
    };
    Cluster::new(seed, shape, tracing)
}

/// Applies the same dated batches to a cluster and to an engine, and compares the differences between their versions:
/// whole and in pages of several sizes.
pub fn run(seed: u64, servers: u32, page_rows: u32, tracing: bool) -> RunReport {
    let cluster = cluster(seed, servers, page_rows, tracing);
    let mut report = RunReport::default();
    match compare(&cluster, seed) {
        Ok(applied) => report.applied = applied,
        Err(why) => report.findings.push(why),
    }
    report.collect(&cluster);
    report
}

fn text(e: &Error) -> String {
    e.to_string()
}

fn compare(cluster: &Rc<Cluster>, seed: u64) -> Result<usize, String> {
    let client = started(cluster, seed)?;
    let engine = Engine::open(
        Arc::new(MemoryStore::new()),
        cluster.clock(0).ok_or("server 0 is not there")?,
        Arc::new(NoArchive),
        cluster.shape.engine,
    )
    .map_err(|e| text(&e))?;
    engine.define(&schema_changes()).map_err(|e| text(&e))?;
    let graph = TestGraph::new();
    let mut rng = Rng::new(seed ^ 0x6469_6666);
    let mut versions = vec![Version::ZERO, Version::MAX];
    for number in 0..BATCHES {
        let version = Version::new(START_MILLIS / 2 + number, 0);
        let mut batch = batch(&graph, &mut rng);
        for mutation in &mut batch.mutations {
            mutation.version = Some(version);
        }
        let here = engine.apply(batch.clone());
        let there = client.call(&ClientRequest::Apply(batch.clone()));
        if here.is_ok() != there.is_ok() {
            return Err(format!("{batch:?}: told {there:?}, expected {here:?}"));
        }
        versions.extend(here.is_ok().then_some(version));
    }
    client.wait(60_000_000);
    for _ in 0..20 {
        let select = DiffSelect::between(*rng.pick(&versions), *rng.pick(&versions));
        let all = diff_of(call_engine(
            &engine,
            ClientRequest::Diff(select, usize::MAX),
        ))?;
        for most in [usize::MAX, 1 + rng.number_below(4), 1 + all.len() / 2] {
            let (got, expected) = (
                in_pages(select, most, |request| client.call(&request))?,
                in_pages(select, most, |request| call_engine(&engine, request))?,
            );
            if got != all || expected != all {
                return Err(format!(
                    "{select:?} in pages of {most}: told {got:#?}, one engine {expected:#?}, expected {all:#?}"
                ));
            }
        }
    }
    Ok(versions.len() - 2)
}

/// Reads differences in pages of up to `most`.
fn in_pages(
    mut select: DiffSelect,
    most: usize,
    call: impl Fn(ClientRequest) -> Result<ClientResponse>,
) -> Result<Vec<Difference>, String> {
    let mut all = Vec::new();
    loop {
        let page = diff_of(call(ClientRequest::Diff(select, most)))?;
        let ends = page.len() < most;
        if page.len() > most {
            return Err(format!("{} differences, not up to {most}", page.len()));
        }
        if let Some(last) = page.last() {
            select.start_after = last.key();
        }
        all.extend(page);
        if ends {
            return Ok(all);
        }
    }
}

fn diff_of(response: Result<ClientResponse>) -> Result<Vec<Difference>, String> {
    match response.map_err(|e| text(&e))? {
        ClientResponse::Diff(found) => Ok(found),
        other => Err(format!(
            "a response of another kind than the request's: {other:?}"
        )),
    }
}

/// Figures of [`measure`].
#[derive(Debug, Clone)]
pub struct DiffCost {
    /// Number of differences that the client received.
    pub differences: usize,
    /// Number of messages between the servers.
    pub messages: u64,
    /// Pages from another server.
    pub pages: Vec<PageSize>,
}

/// Measures differences of a cluster of two servers with `count` jobs that write as many objects, half of which a
/// limited principal may not read and a quarter of which are deleted. `note` bytes of text are in each job. The client
/// stops after `most` differences.
pub fn measure(
    (count, note): (usize, usize),
    page_rows: u32,
    limited: bool,
    most: usize,
) -> Result<DiffCost, String> {
    let cluster = cluster(1, 2, page_rows, false);
    let client = started(&cluster, 1)?;
    let graph = TestGraph::new();
    let type_id = |name: &str| graph.schema.vertex_type_id(name).map_err(|e| e.to_string());
    let (job, object) = (type_id("Job")?, type_id("Object")?);
    let write = graph.schema.edge_type_id("write");
    let write = write.map_err(|e| e.to_string())?;
    let note = "n".repeat(note);
    for from in (0..count).step_by(100) {
        apply(&client, (from..count.min(from + 100)).map(create))?;
    }
    let found = client.call(&ClientRequest::Find(Find::all(Expr::All)));
    let ClientResponse::Found(found, _) = found.map_err(|e| text(&e))? else {
        return Err("a response of another kind than the request's".into());
    };
    let objects: Vec<VertexRef> = found
        .iter()
        .map(|f| VertexRef {
            id: f.id.vertex(),
            type_id: object,
        })
        .collect();
    for (n, objects) in objects.chunks(100).enumerate() {
        let ops = objects.iter().enumerate().flat_map(|(i, object)| {
            let key = format!("{n}-{i}");
            let job = VertexRef {
                id: VertexId::of("job", &key),
                type_id: job,
            };
            link(job, key, &note, write, *object)
        });
        apply(&client, ops)?;
    }
    let deleted = objects.iter().step_by(4);
    apply(&client, deleted.map(|o| Op::DeleteVertex { vertex: *o }))?;
    client.wait(60_000_000);
    cluster.net.forget_pages();
    let before = cluster.net.sent();
    let select = DiffSelect::between(Version::ZERO, Version::MAX);
    let mut request = ClientRequest::Diff(select, most);
    if limited {
        let [_, principal, _] = people();
        request = ClientRequest::As(principal, Box::new(request));
    }
    let differences = diff_of(client.call_at(0, &request))?.len();
    Ok(DiffCost {
        differences,
        messages: cluster.net.sent() - before,
        pages: cluster.net.pages(),
    })
}

fn apply(client: &BlockingClient, ops: impl Iterator<Item = Op>) -> Result<(), String> {
    let mut batch = Batch::new();
    let mutation = |op| Mutation { version: None, op };
    batch.mutations = ops.map(mutation).collect();
    client
        .call(&ClientRequest::Apply(batch))
        .map_err(|e| text(&e))
        .map(|_| ())
}

/// An object that everybody may read, or its owner alone.
fn create(n: usize) -> Op {
    let mode = if n.is_multiple_of(2) { 0o644 } else { 0o600 };
    Op::CreateObject {
        identity: Identity {
            name: format!("o{n}"),
            app: String::new(),
            owner: 1002,
            step: 0,
        },
        attributes: Properties::new().with("mode", Value::I64(mode)),
        tags: Properties::new(),
    }
}

/// A job that writes an object.
fn link(
    job: VertexRef,
    key: String,
    note: &str,
    edge_type: EdgeTypeId,
    object: VertexRef,
) -> [Op; 3] {
    [
        Op::EnsureVertex { vertex: job, key },
        Op::SetAttributes {
            vertex: job,
            set: Properties::new().with("note", note),
            remove: Vec::new(),
        },
        Op::PutEdge {
            source: job,
            edge_type,
            destination: object,
            properties: Properties::new(),
        },
    ]
}
