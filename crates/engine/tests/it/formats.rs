//! Databases written by earlier builds.

use esker_engine::{Engine, FORMAT, Settings};
use esker_model::{Batch, GraphRead, GraphWrite, Mutation, Op, Properties, Result, VertexName};
use esker_store::memory::MemoryStore;
use esker_store::{Durability, Store, Table, WriteBatch};
use esker_testkit::archive::MemoryArchive;
use esker_testkit::clock::SimClock;
use std::sync::Arc;

fn open(store: &Arc<MemoryStore>) -> Result<Engine> {
    Engine::open(
        Arc::<MemoryStore>::clone(store),
        Arc::new(SimClock::at(1_000_000)),
        Arc::new(MemoryArchive::default()),
        Settings::default(),
    )
}

fn write_format(store: &MemoryStore, format: u32) {
    let mut batch = WriteBatch::default();
    batch.put(Table::Meta, b"format", format.to_be_bytes());
    store.commit(batch, Durability::Sync).unwrap();
}

#[test]
fn ids_of_files_were_others_before_format_4() {
    let store = Arc::new(MemoryStore::new());
    drop(open(&store).unwrap());
    write_format(&store, FORMAT - 1);
    let engine = open(&store).expect("an empty one becomes one of today's");
    let name = VertexName::parse("file:/scratch/a.h5").unwrap();
    let vertex = name.resolve(&engine.schema().unwrap()).unwrap();
    let key = name.key;
    let op = Op::PutVertex {
        vertex,
        key,
        attributes: Properties::new(),
    };
    engine
        .apply(Batch {
            mutations: vec![Mutation { version: None, op }],
            idempotency_key: None,
        })
        .unwrap();
    drop(engine);
    drop(open(&store).expect("today's"));
    write_format(&store, FORMAT - 1);
    let refused = open(&store).unwrap_err().to_string();
    assert!(
        refused.contains("written by an earlier Esker (format 3; this build reads 4)"),
        "{refused}"
    );
    write_format(&store, FORMAT + 1);
    let refused = open(&store).unwrap_err().to_string();
    assert!(refused.contains("newer Esker"), "{refused}");
}
