//! Checks which batches were applied, when, and whether their clients got correct responses.

use super::Findings;
use crate::model::GraphModel;
use crate::sim::client::Record;
use crate::sim::request::{ClientRequest, ClientResponse};
use crate::sim::workload::{TAG, WorkloadParams, number_of_key, tag_of};
use esker_model::{
    Batch, Edge, ErrorKind, Op, Schema, Value, Version, VertexChange, VertexEvent, VertexId,
};
use std::collections::{BTreeMap, BTreeSet};

/// Versions at which the tag of each batch was found.
#[derive(Debug, Clone, Default)]
pub struct Tags(pub BTreeMap<u64, Vec<Version>>);

impl Tags {
    /// Adds tags from all versions of edges that leave the vertices reserved for tags.
    pub fn edges(&mut self, found: &[(usize, Edge)]) {
        for (_, edge) in found {
            if let Some(number) = tag_of(&edge.properties).filter(|_| !edge.deleted) {
                self.0.entry(number).or_default().push(edge.version);
            }
        }
    }

    /// Adds tags from the history of a vertex whose attribute is a tag.
    pub fn vertex(&mut self, events: &[VertexEvent]) {
        for event in events {
            if let VertexChange::Set(name, Value::I64(number)) = &event.change
                && name == TAG
            {
                let versions = self.0.entry(*number as u64).or_default();
                versions.push(event.version);
            }
        }
    }
}

/// A batch that was applied.
#[derive(Debug, Clone)]
pub struct AppliedBatch {
    /// Version of the commit.
    pub version: Version,
    /// Batch that was applied.
    pub batch: Batch,
    /// Response to the client, if it says more than that the batch had been applied, and no concurrent client wrote
    /// the same items.
    pub response: Option<esker_model::Commit>,
}

/// All applied batches, in order.
#[derive(Debug)]
pub struct Order {
    /// Applied batches by version.
    pub applied: Vec<AppliedBatch>,
    /// State of the model after all batches.
    pub model: GraphModel,
}

fn number_of(batch: &Batch) -> Option<u64> {
    number_of_key(batch.idempotency_key.as_deref()?)
}

/// Orders all batches and records contradictions to the clients' responses. `faultless`: there were no faults, so
/// responses are complete.
pub fn order(
    schema: &Schema,
    records: &[Record],
    tags: &Tags,
    params: &WorkloadParams,
    faultless: bool,
    findings: &mut Findings,
) -> Order {
    let dated = params.dated;
    let mut applied = Vec::new();
    let mut known = BTreeSet::new();
    for record in records {
        let ClientRequest::Apply(batch) = &record.request else {
            continue;
        };
        let Some(number) = number_of(batch) else {
            continue;
        };
        known.insert(number);
        let versions = tags.0.get(&number).map_or(&[][..], Vec::as_slice);
        if versions.len() > 1 {
            findings.push(format!(
                "batch {number} was applied {} times: at {versions:?}",
                versions.len()
            ));
        }
        let at = versions.first().copied();
        match (&record.response, at) {
            (Ok(ClientResponse::Commit(commit)), Some(at)) => {
                check_commit(number, record, commit, at, (dated, faultless), findings);
                applied.push(AppliedBatch {
                    version: at,
                    batch: batch.clone(),
                    response: Some(*commit)
                        .filter(|_| commit.applied && faultless && undisturbed(record, records)),
                });
            }
            (Ok(response), None) => findings.push(format!(
                "batch {number} was acknowledged and is lost: {response:?}"
            )),
            (Err(e), Some(at)) => findings.push(format!(
                "batch {number} was refused ({}) and left something at {at:?}",
                e.message
            )),
            (Err(e), None) if matches!(e.kind, ErrorKind::Missing | ErrorKind::Invalid) => {}
            (Err(e), None) => findings.push(format!("batch {number} failed: {}", e.message)),
            (Ok(response), Some(_)) => {
                findings.push(format!("batch {number} was told {response:?}"));
            }
        }
    }
    for number in tags.0.keys().filter(|number| !known.contains(number)) {
        findings.push(format!("nobody knows of batch {number}"));
    }
    applied.sort_by_key(|p| p.version);
    for pair in applied.windows(2) {
        if let [a, b] = pair
            && a.version == b.version
            && let Some(what) = touched(&a.batch).intersection(&touched(&b.batch)).next()
        {
            findings.push(format!(
                "batches {:?} and {:?} change the same ({what:?}) at one version, {:?}",
                number_of(&a.batch),
                number_of(&b.batch),
                a.version
            ));
        }
    }
    let model = if params.conflict_free {
        replay(schema, &applied, records, dated, findings)
    } else {
        GraphModel::new(schema.clone())
    };
    Order { applied, model }
}

fn check_commit(
    number: u64,
    record: &Record,
    commit: &esker_model::Commit,
    at: Version,
    (dated, faultless): (bool, bool),
    findings: &mut Findings,
) {
    let wrong = if commit.applied && !dated {
        commit.version != at
    } else {
        // For a batch that had been applied before, its own version or any later one lets the client read what it wrote.
        commit.version < at
    };
    if wrong {
        findings.push(format!(
            "batch {number} has the version {at:?}; its client was told {commit:?}"
        ));
    }
    if commit.applied && !dated && at <= record.seen {
        findings.push(format!(
            "batch {number} has the version {at:?}, not later than what its client had seen, {:?}",
            record.seen
        ));
    }
    // Servers forward batches, and repeat that if a response is lost.
    if !commit.applied && record.attempts == 1 && faultless {
        findings.push(format!(
            "batch {number} was sent once and is said to have been applied before"
        ));
    }
}

/// Whether no other client wrote the same items during the request. Otherwise the response says which client was
/// first to make an edge, and versions may be in the other order.
fn undisturbed(record: &Record, records: &[Record]) -> bool {
    let ClientRequest::Apply(batch) = &record.request else {
        return false;
    };
    let mine = touched(batch);
    !records.iter().any(|other| {
        let together = other.begin <= record.end && record.begin <= other.end;
        together
            && other.client != record.client
            && matches!(&other.request, ClientRequest::Apply(batch) if !touched(batch).is_disjoint(&mine))
    })
}

/// The items that a batch changes, approximately: vertices by id, edges by both ends.
fn touched(batch: &Batch) -> BTreeSet<(VertexId, Option<VertexId>)> {
    let of = |op: &Op| match op {
        Op::PutVertex { vertex, .. }
        | Op::EnsureVertex { vertex, .. }
        | Op::ChangeVertex { vertex, .. }
        | Op::SetAttributes { vertex, .. }
        | Op::DeleteVertex { vertex } => (vertex.id, None),
        Op::PutEdge {
            source,
            destination,
            ..
        }
        | Op::DeleteEdge {
            source,
            destination,
            ..
        } => (
            source.id.min(destination.id),
            Some(source.id.max(destination.id)),
        ),
        Op::CreateObject { identity, .. } => (identity.prefix().home_vertex(), None),
        Op::MoveObject { object, .. } => (object.vertex(), None),
    };
    batch.mutations.iter().map(|m| of(&m.op)).collect()
}

/// Replays batches in the model, and checks that each refusal was correct at some version.
fn replay(
    schema: &Schema,
    applied: &[AppliedBatch],
    records: &[Record],
    dated: bool,
    findings: &mut Findings,
) -> GraphModel {
    let mut model = GraphModel::new(schema.clone());
    let mut refused: Vec<&Record> = records
        .iter()
        .filter(|r| matches!(r.request, ClientRequest::Apply(_)) && r.response.is_err())
        .collect();
    let mut now = Version::ZERO;
    let mut states = applied.iter();
    loop {
        let next = states.next();
        // The state from `now` until the next version.
        let until = next.map_or(Version::MAX, |p| p.version);
        if until > now {
            refused.retain(|record| {
                // A client that has seen a change dated in the future has not seen everything written until then.
                let seen = if dated { Version::ZERO } else { record.seen };
                !(until > seen && refuses(&model, record, now.max(seen)))
            });
        }
        let Some(p) = next else { break };
        now = p.version;
        let number = number_of(&p.batch);
        match (model.apply(&p.batch, p.version), &p.response) {
            (Err(kind), _) => findings.push(format!(
                "batch {number:?} was applied at {:?}, where it should have been refused ({kind:?}): {:?}",
                p.version, p.batch
            )),
            (Ok(done), Some(response)) => {
                let wrong = response.vertices_created != done.vertices_created
                    || response.edges_created != done.edges_created
                    || dated && response.version != done.version;
                if wrong {
                    findings.push(format!(
                        "batch {number:?} at {:?}: told {response:?}, should be {done:?}: {:?}",
                        p.version, p.batch
                    ));
                }
            }
            (Ok(_), None) => {}
        }
    }
    for record in refused {
        findings.push(format!(
            "there was no time at which this would have been refused: {record:?}"
        ));
    }
    model
}

fn refuses(model: &GraphModel, record: &Record, tick: Version) -> bool {
    match (&record.request, &record.response) {
        (ClientRequest::Apply(batch), Err(e)) => {
            let tried = model.clone().apply(batch, tick.next());
            tried.is_err_and(|kind| kind == e.kind)
        }
        _ => false,
    }
}
