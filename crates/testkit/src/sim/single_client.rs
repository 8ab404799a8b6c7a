//! A single client without faults: the cluster must answer exactly as the model does. Batches may contain anything,
//! dated in the past and in the future, and be refused.

use super::blocking_client::BlockingClient;
use super::check::{Findings, rows};
use super::cluster::{Cluster, Shape, Subject};
use super::net::Times;
use super::request::{ClientRequest, ClientResponse};
use super::scenario::{FaultLevel, RunReport, Scenario, started};
use super::workload::{WorkloadGraph, WrittenItems, tag_of};
use crate::compare;
use crate::history::{START_MILLIS, batch};
use crate::model::GraphModel;
use crate::rng::Rng;
use crate::test_graph::TestGraph;
use esker_model::{
    Batch, Commit, EdgeKey, ErrorKind, Op, Value, Version, VersionRange, VertexChange,
};

/// Number of batches that are applied.
const BATCHES: u64 = 40;

/// Runs the simulation of a seed.
pub fn run(seed: u64, subject: Subject, tracing: bool) -> RunReport {
    let mut scenario = Scenario::of(seed, FaultLevel::Faultless, subject);
    // Fast enough for dated changes to be near the present.
    scenario.shape = Shape {
        times: Times {
            delay_min: 1,
            delay_max: 20,
            wait: 2_000_000,
        },
        skew: 0,
        ..scenario.shape
    };
    let cluster = Cluster::new(seed, scenario.shape, tracing);
    let mut report = RunReport::default();
    let graph = WorkloadGraph::new(scenario.files.min(5));
    let run = || -> Result<(usize, Findings), String> {
        let client_view = started(&cluster, seed)?;
        let mut client = SingleClient {
            client_view,
            model: GraphModel::new(graph.graph.schema.clone()),
            own: graph.own(),
            rng: Rng::new(seed ^ 0x616c_6f6e),
            last: Version::ZERO,
            applied: 0,
            known: WrittenItems::new(0, 1),
            graph,
        };
        let mut params = scenario.params;
        params.conflict_free = false;
        for number in 0..BATCHES {
            let batch = client.batch(&params, number);
            client
                .apply(&batch, number)
                .map_err(|e| format!("batch {number}, {batch:?}: {e}"))?;
            // Only servers that have heard of a change dated in the future see it, so servers need not agree before that.
            if client.rng.percent(15) && client.all_is_past() {
                client.now()?;
            }
        }
        client.client_view.wait(60_000_000);
        client.compare()?;
        let mut findings = Findings::new();
        if subject == Subject::Nodes {
            let schema = &client.graph.graph.schema;
            rows::check(&cluster, &client.client_view, schema, &mut findings);
        }
        Ok((client.applied, findings))
    };
    match run() {
        Ok((applied, findings)) => {
            report.applied = applied;
            report.findings = findings;
        }
        Err(why) => report.findings.push(why),
    }
    report.collect(&cluster);
    report
}

struct SingleClient {
    client_view: BlockingClient,
    model: GraphModel,
    graph: WorkloadGraph,
    /// The test graph without tags.
    own: TestGraph,
    known: WrittenItems,
    rng: Rng,
    /// Version of the last commit.
    last: Version,
    applied: usize,
}

impl SingleClient {
    fn all_is_past(&self) -> bool {
        let now = START_MILLIS + 10 + self.client_view.now() / 1000;
        let newest = self.model.versions().last().copied();
        newest.is_none_or(|newest| newest.millis() < now)
    }

    fn batch(&mut self, params: &super::workload::WorkloadParams, number: u64) -> Batch {
        if self.rng.percent(50) {
            return self.graph.batch(&mut self.rng, params, number, &self.known);
        }
        let mut batch = batch(&self.own, &mut self.rng);
        self.graph.tag(&mut self.rng, &mut batch, number);
        batch
    }

    fn apply(&mut self, batch: &Batch, number: u64) -> Result<(), String> {
        let answer = self.client_view.call(&ClientRequest::Apply(batch.clone()));
        match answer {
            Ok(ClientResponse::Commit(commit)) if commit.applied => {
                let tick = self.tag(batch, number)?;
                let done = self
                    .model
                    .apply(batch, tick)
                    .map_err(|kind| format!("should have been refused: {kind:?}"))?;
                self.last = tick;
                self.applied += 1;
                self.known.learn(batch);
                let wanted = Commit {
                    version: done.version,
                    applied: done.applied,
                    vertices_created: done.vertices_created,
                    edges_created: done.edges_created,
                    unchanged: commit.unchanged,
                };
                if commit == wanted {
                    Ok(())
                } else {
                    Err(format!("told {commit:?}, expected {wanted:?}"))
                }
            }
            Ok(ClientResponse::Commit(_)) => {
                let idempotency_key = batch.idempotency_key.as_ref();
                if idempotency_key.is_some_and(|m| self.model.applied_keys.contains(m)) {
                    Ok(())
                } else {
                    Err("is said to have been applied before".into())
                }
            }
            Ok(other) => Err(format!("{other:?}")),
            Err(e) => {
                // The approximate version of the refusal.
                let now = START_MILLIS + 10 + self.client_view.now() / 1000;
                let tick = self.last.next().max(Version::new(now, 0));
                match self.model.clone().apply(batch, tick) {
                    // The cluster may find a different one of several reasons first.
                    Err(_) if matches!(e.kind(), ErrorKind::Missing | ErrorKind::Invalid) => Ok(()),
                    other => Err(format!("refused: {e}; expected {other:?}")),
                }
            }
        }
    }

    /// Reads the version of the commit from its tag.
    fn tag(&self, batch: &Batch, number: u64) -> Result<Version, String> {
        let response = match batch.mutations.last().map(|m| &m.op) {
            Some(Op::PutEdge {
                source,
                edge_type,
                destination,
                ..
            }) => {
                let key = EdgeKey {
                    source: source.id,
                    edge_type: *edge_type,
                    destination: destination.id,
                };
                self.client_view
                    .call(&ClientRequest::EdgeHistory(key, VersionRange::ALL))
            }
            Some(Op::SetAttributes { vertex, .. }) => self
                .client_view
                .call(&ClientRequest::VertexHistory(vertex.id, VersionRange::ALL)),
            _ => return Err("it has no tag".into()),
        };
        let found = match response.map_err(|e| format!("its tag: {e}"))? {
            ClientResponse::EdgeHistory(events) => events
                .iter()
                .find(|e| tag_of(&e.edge.properties) == Some(number))
                .map(|e| e.edge.version),
            ClientResponse::VertexHistory(events) => events
                .iter()
                .find(|e| {
                    matches!(&e.change, VertexChange::Set(_, Value::I64(n)) if *n == number as i64)
                })
                .map(|e| e.version),
            _ => None,
        };
        found.ok_or_else(|| "its tag is not found".into())
    }

    /// Compares the present state.
    fn now(&mut self) -> Result<(), String> {
        let (client_view, model, graph) = (&self.client_view, &self.model, &self.graph.graph);
        compare::as_of(client_view, model, graph, Version::MAX)?;
        compare::counters(client_view, model, graph, &mut self.rng)
    }

    /// Compares all reads.
    fn compare(&mut self) -> Result<(), String> {
        let (client_view, model, graph) = (&self.client_view, &self.model, &self.graph.graph);
        compare::compare(client_view, model, graph, &mut self.rng)
    }
}
