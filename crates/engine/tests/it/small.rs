//! A database in memory with helper methods for tests.

use esker_engine::{CheckOptions, Engine, Settings};
use esker_model::{
    Batch, Commit, EdgeKey, GraphRead, GraphWrite, Mutation, NeverCancel, Op, Properties, Result,
    Schema, Version, Vertex, VertexId, VertexName, VertexRef,
};
use esker_store::Store;
use esker_store::fault::FaultStore;
use esker_store::memory::MemoryStore;
use esker_testkit::archive::MemoryArchive;
use esker_testkit::clock::SimClock;
use esker_testkit::test_graph::schema_changes;
use std::sync::Arc;

/// An engine over a store with fault injection.
pub(crate) struct Small {
    pub(crate) engine: Engine,
    pub(crate) fault: Arc<FaultStore<MemoryStore>>,
    pub(crate) clock: SimClock,
    pub(crate) archive: Arc<MemoryArchive>,
    settings: Settings,
    schema: Arc<Schema>,
}

impl Small {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let fault = Arc::new(FaultStore::new(MemoryStore::new()).unwrap());
        let clock = SimClock::at(1_000_000);
        let archive = Arc::new(MemoryArchive::default());
        let engine = open(&fault, &clock, &archive, settings).unwrap();
        let schema = engine.define(&schema_changes()).unwrap();
        Self {
            engine,
            fault,
            clock,
            archive,
            settings,
            schema,
        }
    }

    /// Returns the database after a power failure that kept `kept` unsynced commits.
    pub(crate) fn after_crash(&self, kept: usize) -> Self {
        let image = self.fault.crash_image(kept).unwrap();
        let fault = Arc::new(FaultStore::new(image).unwrap());
        let engine = open(&fault, &self.clock, &self.archive, self.settings).unwrap();
        let schema = engine.schema().unwrap();
        let (clock, archive, settings) =
            (self.clock.clone(), Arc::clone(&self.archive), self.settings);
        Self {
            engine,
            fault,
            clock,
            archive,
            settings,
            schema,
        }
    }

    pub(crate) fn name(&self, name: &str) -> (VertexRef, String) {
        let name = VertexName::parse(name).unwrap();
        (name.resolve(&self.schema).unwrap(), name.key)
    }

    pub(crate) fn id(&self, name: &str) -> VertexId {
        self.name(name).0.id
    }

    pub(crate) fn key(&self, source: &str, edge_type: &str, destination: &str) -> EdgeKey {
        EdgeKey {
            source: self.id(source),
            edge_type: self.schema.edge_type_id(edge_type).unwrap(),
            destination: self.id(destination),
        }
    }

    pub(crate) fn insertion(&self, name: &str, attributes: &[(&str, i64)]) -> Op {
        let (vertex, key) = self.name(name);
        Op::PutVertex {
            vertex,
            key,
            attributes: properties(attributes),
        }
    }

    pub(crate) fn insurance(&self, name: &str) -> Op {
        let (vertex, key) = self.name(name);
        Op::EnsureVertex { vertex, key }
    }

    pub(crate) fn deletion(&self, name: &str) -> Op {
        Op::DeleteVertex {
            vertex: self.name(name).0,
        }
    }

    pub(crate) fn edge(
        &self,
        source: &str,
        edge_type: &str,
        destination: &str,
        p: &[(&str, i64)],
    ) -> Op {
        Op::PutEdge {
            source: self.name(source).0,
            edge_type: self.schema.edge_type_id(edge_type).unwrap(),
            destination: self.name(destination).0,
            properties: properties(p),
        }
    }

    pub(crate) fn edge_deletion(&self, source: &str, edge_type: &str, destination: &str) -> Op {
        Op::DeleteEdge {
            source: self.name(source).0,
            edge_type: self.schema.edge_type_id(edge_type).unwrap(),
            destination: self.name(destination).0,
        }
    }

    pub(crate) fn batch(&self, version: Option<Version>, ops: Vec<Op>) -> Result<Commit> {
        let mutations = ops.into_iter().map(|op| Mutation { version, op }).collect();
        self.engine.apply(Batch {
            mutations,
            idempotency_key: None,
        })
    }

    pub(crate) fn bulk(&self, ops: Vec<(Option<Version>, Op)>) -> Result<esker_engine::BulkReport> {
        let mut mutations = ops
            .into_iter()
            .map(|(version, op)| Ok(Mutation { version, op }));
        self.engine.bulk_load(&mut mutations, &mut |_| {})
    }

    pub(crate) fn put(
        &self,
        at: Option<Version>,
        name: &str,
        attributes: &[(&str, i64)],
    ) -> Commit {
        self.batch(at, vec![self.insertion(name, attributes)])
            .unwrap()
    }

    pub(crate) fn ensure(&self, at: Option<Version>, name: &str) -> Commit {
        self.batch(at, vec![self.insurance(name)]).unwrap()
    }

    pub(crate) fn delete(&self, at: Option<Version>, name: &str) -> Commit {
        self.batch(at, vec![self.deletion(name)]).unwrap()
    }

    pub(crate) fn set(
        &self,
        at: Option<Version>,
        name: &str,
        attribute: &str,
        value: i64,
    ) -> Result<Commit> {
        let set = properties(&[(attribute, value)]);
        let vertex = self.name(name).0;
        self.batch(
            at,
            vec![Op::SetAttributes {
                vertex,
                set,
                remove: Vec::new(),
            }],
        )
    }

    pub(crate) fn unset(&self, at: Option<Version>, name: &str, attribute: &str) -> Result<Commit> {
        let (vertex, set) = (self.name(name).0, Properties::new());
        self.batch(
            at,
            vec![Op::SetAttributes {
                vertex,
                set,
                remove: vec![attribute.to_owned()],
            }],
        )
    }

    pub(crate) fn vertex(&self, name: &str) -> Option<Vertex> {
        self.vertex_as_of(name, Version::MAX)
    }

    pub(crate) fn vertex_as_of(&self, name: &str, as_of: Version) -> Option<Vertex> {
        self.engine
            .read_vertices(&[self.id(name)], as_of)
            .unwrap()
            .remove(0)
    }

    pub(crate) fn degree(&self, name: &str, edge_type: &str) -> u64 {
        let edge_type = self.schema.edge_type_id(edge_type).unwrap();
        self.engine.degrees(&[(self.id(name), edge_type)]).unwrap()[0]
    }

    pub(crate) fn count_of(&self, vertex_type: &str) -> u64 {
        let wanted = self.schema.vertex_type_id(vertex_type).unwrap();
        let counts = self.engine.counts().unwrap();
        counts
            .vertices
            .iter()
            .find(|(t, _)| *t == wanted)
            .unwrap()
            .1
    }

    pub(crate) fn chain_of_campaigns(&self, length: usize) {
        for n in 0..length {
            self.ensure(None, &format!("campaign:{n}"));
            if n > 0 {
                let edge = self.edge(
                    &format!("campaign:{}", n - 1),
                    "follows",
                    &format!("campaign:{n}"),
                    &[],
                );
                self.batch(None, vec![edge]).unwrap();
            }
        }
    }

    pub(crate) fn check_is_clean(&self) {
        let report = self
            .engine
            .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
            .unwrap();
        assert!(report.complete && report.problems_total == 0, "{report:?}");
    }
}

fn open(
    fault: &Arc<FaultStore<MemoryStore>>,
    clock: &SimClock,
    archive: &Arc<MemoryArchive>,
    settings: Settings,
) -> Result<Engine> {
    let store: Arc<dyn Store> = Arc::clone(fault) as Arc<dyn Store>;
    Engine::open(
        store,
        Arc::new(clock.clone()),
        Arc::clone(archive) as _,
        settings,
    )
}

fn properties(pairs: &[(&str, i64)]) -> Properties {
    pairs
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).into()))
        .collect()
}
