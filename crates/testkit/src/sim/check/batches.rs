//! Which batches were applied, when, and whether their clients were told the truth.

use super::Findings;
use crate::model::GraphModel;
use crate::sim::ask::{Ask, Told};
use crate::sim::client::Record;
use crate::sim::workload::{TAG, Taste, tag_of};
use esker_model::{
    Batch, Edge, ErrorKind, Op, Schema, Value, Version, VertexChange, VertexEvent, VertexId,
};
use std::collections::{BTreeMap, BTreeSet};

/// By batch: the versions at which its tag was found.
#[derive(Debug, Clone, Default)]
pub struct Tags(pub BTreeMap<u64, Vec<Version>>);

impl Tags {
    /// Of edges over all versions, as they leave the vertices that only tags lead from.
    pub fn edges(&mut self, found: &[(usize, Edge)]) {
        for (_, edge) in found {
            if let Some(number) = tag_of(&edge.properties).filter(|_| !edge.deleted) {
                self.0.entry(number).or_default().push(edge.version);
            }
        }
    }

    /// Of the history of a vertex whose attribute is a tag.
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
pub struct Placed {
    /// When: its commit's own version.
    pub version: Version,
    /// What.
    pub batch: Batch,
    /// What its client was told, if it was told more than that it had been applied, and nobody else was at the same.
    pub told: Option<esker_model::Commit>,
}

/// Everything that was applied, in order.
#[derive(Debug)]
pub struct Order {
    /// By version.
    pub placed: Vec<Placed>,
    /// What comes of it.
    pub model: GraphModel,
}

fn number_of(batch: &Batch) -> Option<u64> {
    let once = batch.once.as_deref()?;
    Some(u64::from_be_bytes(once.try_into().ok()?))
}

/// Puts all batches in order and notes what contradicts what clients were told. `calm`: nothing went wrong, so that what
/// they were told is complete.
pub fn order(
    schema: &Schema,
    records: &[Record],
    tags: &Tags,
    taste: &Taste,
    calm: bool,
    findings: &mut Findings,
) -> Order {
    let dated = taste.dated;
    let mut placed = Vec::new();
    let mut known = BTreeSet::new();
    for record in records {
        let Ask::Apply(batch) = &record.ask else {
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
        match (&record.told, at) {
            (Ok(Told::Commit(commit)), Some(at)) => {
                told_truly(number, record, commit, at, (dated, calm), findings);
                placed.push(Placed {
                    version: at,
                    batch: batch.clone(),
                    told: Some(*commit)
                        .filter(|_| commit.applied && calm && undisturbed(record, records)),
                });
            }
            (Ok(told), None) => findings.push(format!(
                "batch {number} was acknowledged and is lost: {told:?}"
            )),
            (Err(e), Some(at)) => findings.push(format!(
                "batch {number} was refused ({}) and left something at {at:?}",
                e.said
            )),
            (Err(e), None) if matches!(e.kind, ErrorKind::Missing | ErrorKind::Invalid) => {}
            (Err(e), None) => findings.push(format!("batch {number} failed: {}", e.said)),
            (Ok(told), Some(_)) => findings.push(format!("batch {number} was told {told:?}")),
        }
    }
    for number in tags.0.keys().filter(|number| !known.contains(number)) {
        findings.push(format!("nobody knows of batch {number}"));
    }
    placed.sort_by_key(|p| p.version);
    for pair in placed.windows(2) {
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
    let model = if taste.polite {
        play(schema, &placed, records, dated, findings)
    } else {
        GraphModel::new(schema.clone())
    };
    Order { placed, model }
}

fn told_truly(
    number: u64,
    record: &Record,
    commit: &esker_model::Commit,
    at: Version,
    (dated, calm): (bool, bool),
    findings: &mut Findings,
) {
    let wrong = if commit.applied && !dated {
        commit.version != at
    } else {
        // Of one that had been applied before, its own version or any later one lets its client read what it wrote.
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
    // Servers hand batches on, and repeat that where an answer is lost.
    if !commit.applied && record.attempts == 1 && calm {
        findings.push(format!(
            "batch {number} was sent once and is said to have been applied before"
        ));
    }
}

/// Whether nobody else wrote the same while this was under way: who of two is first to make an edge, is told, and versions
/// may be the other way round.
fn undisturbed(record: &Record, records: &[Record]) -> bool {
    let Ask::Apply(batch) = &record.ask else {
        return false;
    };
    let mine = touched(batch);
    !records.iter().any(|other| {
        let together = other.begin <= record.end && record.begin <= other.end;
        together
            && other.client != record.client
            && matches!(&other.ask, Ask::Apply(batch) if !touched(batch).is_disjoint(&mine))
    })
}

/// What a batch changes, roughly: vertices by id, edges by both ends.
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
        Op::CreateObject { identity, .. } => (identity.prefix().place(), None),
        Op::MoveObject { object, .. } => (object.vertex(), None),
    };
    batch.mutations.iter().map(|m| of(&m.op)).collect()
}

/// Plays batches into the model, and asks of each refusal whether there was a time for it.
fn play(
    schema: &Schema,
    placed: &[Placed],
    records: &[Record],
    dated: bool,
    findings: &mut Findings,
) -> GraphModel {
    let mut model = GraphModel::new(schema.clone());
    let mut refused: Vec<&Record> = records
        .iter()
        .filter(|r| matches!(r.ask, Ask::Apply(_)) && r.told.is_err())
        .collect();
    let mut now = Version::ZERO;
    let mut states = placed.iter();
    loop {
        let next = states.next();
        // The state from `now` on, until the next version.
        let until = next.map_or(Version::MAX, |p| p.version);
        if until > now {
            refused.retain(|record| {
                // Who has seen something dated in the future has not seen all that was written until then.
                let seen = if dated { Version::ZERO } else { record.seen };
                !(until > seen && refuses(&model, record, now.max(seen)))
            });
        }
        let Some(p) = next else { break };
        now = p.version;
        let number = number_of(&p.batch);
        match (model.apply(&p.batch, p.version), &p.told) {
            (Err(kind), _) => findings.push(format!(
                "batch {number:?} was applied at {:?}, where it should have been refused ({kind:?}): {:?}",
                p.version, p.batch
            )),
            (Ok(done), Some(told)) => {
                let wrong = told.vertices_created != done.vertices_created
                    || told.edges_created != done.edges_created
                    || dated && told.version != done.version;
                if wrong {
                    findings.push(format!(
                        "batch {number:?} at {:?}: told {told:?}, should be {done:?}: {:?}",
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
    match (&record.ask, &record.told) {
        (Ask::Apply(batch), Err(e)) => {
            let tried = model.clone().apply(batch, tick.next());
            tried.is_err_and(|kind| kind == e.kind)
        }
        _ => false,
    }
}
