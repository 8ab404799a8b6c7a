//! One client at a time, and nothing goes wrong: the cluster answers as the model does, to the letter. Here batches may do
//! everything to everything, dated in the past and in the future, and be refused.

use super::ask::{Ask, Told};
use super::check::{Findings, rows};
use super::cluster::{Cluster, Shape, Subject};
use super::facade::Facade;
use super::net::Times;
use super::play::{Played, Scenario, Weather, started};
use super::workload::{Ground, Known, tag_of};
use crate::compare;
use crate::history::{START_MILLIS, batch};
use crate::model::GraphModel;
use crate::rng::Rng;
use crate::world::World;
use esker_model::{
    Batch, Commit, EdgeKey, ErrorKind, Op, Value, Version, VersionRange, VertexChange,
};

/// How many batches are applied.
const BATCHES: u64 = 40;

/// Plays a seed.
pub fn play(seed: u64, subject: Subject, tracing: bool) -> Played {
    let mut scenario = Scenario::of(seed, Weather::Calm, subject);
    // So fast that the times of dated changes are near.
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
    let mut played = Played::default();
    let ground = Ground::new(scenario.files.min(5));
    let run = || -> Result<(usize, Findings), String> {
        let facade = started(&cluster, seed)?;
        let mut alone = Alone {
            facade,
            model: GraphModel::new(ground.world.schema.clone()),
            own: ground.own(),
            rng: Rng::new(seed ^ 0x616c_6f6e),
            last: Version::ZERO,
            applied: 0,
            known: Known::new(0, 1),
            ground,
        };
        let mut taste = scenario.taste;
        taste.polite = false;
        for number in 0..BATCHES {
            let batch = alone.batch(&taste, number);
            alone
                .apply(&batch, number)
                .map_err(|e| format!("batch {number}, {batch:?}: {e}"))?;
            // What is dated in the future is seen by servers that have heard of it: then no two need to agree.
            if alone.rng.percent(15) && alone.all_is_past() {
                alone.now()?;
            }
        }
        alone.facade.wait(60_000_000);
        alone.compare()?;
        let mut findings = Findings::new();
        if subject == Subject::Nodes {
            let schema = &alone.ground.world.schema;
            rows::check(&cluster, &alone.facade, schema, &mut findings);
        }
        Ok((alone.applied, findings))
    };
    match run() {
        Ok((applied, findings)) => {
            played.applied = applied;
            played.findings = findings;
        }
        Err(why) => played.findings.push(why),
    }
    played.sum_up(&cluster);
    played
}

struct Alone {
    facade: Facade,
    model: GraphModel,
    ground: Ground,
    /// The world without the tags.
    own: World,
    known: Known,
    rng: Rng,
    /// The last commit's own version.
    last: Version,
    applied: usize,
}

impl Alone {
    fn all_is_past(&self) -> bool {
        let now = START_MILLIS + 10 + self.facade.now() / 1000;
        let newest = self.model.versions().last().copied();
        newest.is_none_or(|newest| newest.millis() < now)
    }

    fn batch(&mut self, taste: &super::workload::Taste, number: u64) -> Batch {
        if self.rng.percent(50) {
            return self.ground.batch(&mut self.rng, taste, number, &self.known);
        }
        let mut batch = batch(&self.own, &mut self.rng);
        self.ground.tag(&mut self.rng, &mut batch, number);
        batch
    }

    fn apply(&mut self, batch: &Batch, number: u64) -> Result<(), String> {
        let answer = self.facade.ask(&Ask::Apply(batch.clone()));
        match answer {
            Ok(Told::Commit(commit)) if commit.applied => {
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
            Ok(Told::Commit(_)) => {
                let marker = batch.once.as_ref();
                if marker.is_some_and(|m| self.model.markers.contains(m)) {
                    Ok(())
                } else {
                    Err("is said to have been applied before".into())
                }
            }
            Ok(other) => Err(format!("{other:?}")),
            Err(e) => {
                // About when it was refused.
                let now = START_MILLIS + 10 + self.facade.now() / 1000;
                let tick = self.last.next().max(Version::new(now, 0));
                match self.model.clone().apply(batch, tick) {
                    // Of several reasons the cluster may find another one first.
                    Err(_) if matches!(e.kind(), ErrorKind::Missing | ErrorKind::Invalid) => Ok(()),
                    other => Err(format!("refused: {e}; expected {other:?}")),
                }
            }
        }
    }

    /// The commit's own version: its tag has it.
    fn tag(&self, batch: &Batch, number: u64) -> Result<Version, String> {
        let told = match batch.mutations.last().map(|m| &m.op) {
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
                self.facade.ask(&Ask::EdgeHistory(key, VersionRange::ALL))
            }
            Some(Op::SetAttributes { vertex, .. }) => self
                .facade
                .ask(&Ask::VertexHistory(vertex.id, VersionRange::ALL)),
            _ => return Err("it has no tag".into()),
        };
        let found = match told.map_err(|e| format!("its tag: {e}"))? {
            Told::EdgeHistory(events) => events
                .iter()
                .find(|e| tag_of(&e.edge.properties) == Some(number))
                .map(|e| e.edge.version),
            Told::VertexHistory(events) => events
                .iter()
                .find(|e| {
                    matches!(&e.change, VertexChange::Set(_, Value::I64(n)) if *n == number as i64)
                })
                .map(|e| e.version),
            _ => None,
        };
        found.ok_or_else(|| "its tag is not found".into())
    }

    /// Compares what is now.
    fn now(&mut self) -> Result<(), String> {
        let (facade, model, world) = (&self.facade, &self.model, &self.ground.world);
        compare::as_of(facade, model, world, Version::MAX)?;
        compare::counters(facade, model, world, &mut self.rng)
    }

    /// Compares everything.
    fn compare(&mut self) -> Result<(), String> {
        let (facade, model, world) = (&self.facade, &self.model, &self.ground.world);
        compare::compare(facade, model, world, &mut self.rng)
    }
}
