//! `OpenLineage` events in any order, repeated, singly or in batches: the resulting graph is the same.

use esker::{Database, OpenOptions};
use esker_import::openlineage::{Event, Types, batch, event};
use esker_model::{EdgeSelect, GraphRead as _, GraphWrite as _, Version, Versions, VertexSelect};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A portable random number generator: `SplitMix64`.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next_below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Facets never return to an earlier value, since then the result would depend on the order.
fn data(rng: &mut Rng, time: u64, facets: &str) -> Json {
    let (space, name) = match rng.next_below(4) {
        0 => ("file", "/data/a.csv"),
        1 => ("s3://lake", "x/y.parquet"),
        2 => ("hdfs://nn:8020", "/warehouse/t"),
        _ => ("postgres://db:5432", "public.t"),
    };
    let mut out = json!({"namespace": space, "name": name, "facets": {}});
    if rng.next_below(2) == 0 {
        out["facets"]["documentation"] = json!({"description": format!("{name} {}", time / 3)});
    }
    if rng.next_below(3) == 0 {
        out[facets] = json!({"inputStatistics": {"rowCount": rng.next_below(3)}});
    }
    out
}

/// Events with distinct times, so that the order of events is well-defined.
fn events(rng: &mut Rng) -> Vec<Json> {
    let mut out = Vec::new();
    for i in 0..2 + rng.next_below(12) {
        let time = format!("2026-01-01T00:{:02}:{:02}Z", i, rng.next_below(60));
        let job = json!({"namespace": "ns", "name": format!("job{}", rng.next_below(2)),
                         "facets": {"sql": {"query": format!("select {}", i / 4)}}});
        let mut event = json!({"eventTime": time, "producer": "test"});
        match rng.next_below(6) {
            0 => event["dataset"] = data(rng, i, "none"),
            1 => event["job"] = job,
            kind => {
                let state = match kind {
                    2 => "START",
                    3 => "RUNNING",
                    4 => "COMPLETE",
                    _ => "FAIL",
                };
                event["eventType"] = state.into();
                let id = rng.next_below(3);
                event["run"] = json!({"runId": format!("01912a4b-0000-7000-8000-00000000000{id}"),
                                      "facets": {"nominalTime": {"n": i / 2}}});
                if id == 2 {
                    event["run"]["facets"]["parent"] = json!({
                        "run": {"runId": "01912a4b-0000-7000-8000-0000000000ff"}, "job": {"namespace": "ns", "name": "dag"}});
                }
                // Each run belongs to one job.
                event["job"] = job;
                event["job"]["name"] = format!("job{}", id % 2).into();
            }
        }
        if event.get("dataset").is_none() {
            event["inputs"] = (0..rng.next_below(3))
                .map(|_| data(rng, i, "inputFacets"))
                .collect();
            event["outputs"] = (0..rng.next_below(3))
                .map(|_| data(rng, i, "outputFacets"))
                .collect();
        }
        out.push(event);
    }
    out
}

/// Returns all vertices and edges as text.
pub(crate) fn contents(database: &Database) -> BTreeMap<String, String> {
    let schema = database.schema().unwrap();
    let (mut out, mut ids) = (BTreeMap::new(), Vec::new());
    for (type_id, declared) in schema.vertex_types() {
        if declared.parent.is_some() {
            continue;
        }
        database
            .scan_vertices(&VertexSelect::of(type_id), &mut |v| {
                let user: Vec<_> = v.user.iter().map(|a| (&a.name, &a.value)).collect();
                out.insert(v.name(&schema), format!("{:?} {user:?}", v.attributes));
                ids.push((v.id, v.name(&schema)));
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    let select = EdgeSelect {
        types: Vec::new(),
        versions: Versions::NOW,
        properties: true,
        after: None,
    };
    let names: BTreeMap<_, _> = ids.iter().cloned().collect();
    let frontier: Vec<_> = ids.iter().map(|(id, _)| *id).collect();
    database
        .scan_edges(&frontier, &select, &mut |_, e| {
            let of = &schema.edge_type(e.key.edge_type).unwrap().name;
            let key = format!(
                "{} {of} {}",
                names[&e.key.source], names[&e.key.destination]
            );
            out.insert(key, format!("{:?}", e.properties));
            ControlFlow::Continue(())
        })
        .unwrap();
    out
}

pub(crate) fn opened(folder: &std::path::Path) -> (Database, Types) {
    let options = OpenOptions::new().create(true).memory_bytes(16 << 20);
    let database = options.open(folder.to_str().unwrap()).unwrap();
    let schema = database.define(&Types::changes()).unwrap();
    let types = Types::resolve(&schema).unwrap();
    (database, types)
}

pub(crate) fn take(database: &Database, types: &Types, events: &[Event]) -> u64 {
    let schema = database.schema().unwrap();
    let batch = batch(events, types, &schema, database, database).unwrap();
    if batch.is_empty() {
        return 0;
    }
    let commit = database.apply(batch).unwrap();
    commit.vertices_created + commit.edges_created
}

#[test]
fn the_order_of_events_is_no_matter() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..40_u64 {
        let mut rng = Rng(seed);
        let events: Vec<Event> = events(&mut rng).iter().map(|e| event(e).unwrap()).collect();
        let (first, types) = opened(&folder.path().join(format!("{seed}-a")));
        for one in &events {
            take(&first, &types, std::slice::from_ref(one));
        }
        let expected = contents(&first);
        // Some events repeated, in another order, in batches of any size.
        let mut mixed: Vec<Event> = events.clone();
        mixed.extend(events.iter().filter(|_| rng.next_below(2) == 0).cloned());
        for i in (1..mixed.len()).rev() {
            mixed.swap(i, rng.next_below(i as u64 + 1) as usize);
        }
        let (second, types) = opened(&folder.path().join(format!("{seed}-b")));
        let mut rest = mixed.as_slice();
        while !rest.is_empty() {
            let (chunk, tail) = rest.split_at(1 + rng.next_below(rest.len() as u64) as usize);
            take(&second, &types, chunk);
            rest = tail;
        }
        same(&contents(&second), &expected, seed);
        // Sent once more: nothing changes, in the present or the past.
        let past = history(&first);
        assert_eq!(take(&first, &types, &events), 0, "seed {seed}");
        assert_eq!(contents(&first), expected, "seed {seed}");
        assert_eq!(history(&first), past, "seed {seed}");
    }
}

fn same(got: &BTreeMap<String, String>, expected: &BTreeMap<String, String>, seed: u64) {
    let names = got.keys().chain(expected.keys());
    for name in names {
        assert_eq!(got.get(name), expected.get(name), "seed {seed}: {name}");
    }
}

/// Returns the total number of versions.
fn history(database: &Database) -> usize {
    let schema = database.schema().unwrap();
    let mut ids = Vec::new();
    for (type_id, declared) in schema.vertex_types() {
        if declared.parent.is_none() {
            database
                .scan_vertices(&VertexSelect::of(type_id), &mut |v| {
                    ids.push(v.id);
                    ControlFlow::Continue(())
                })
                .unwrap();
        }
    }
    let range = esker_model::VersionRange {
        from: Version::ZERO,
        until: Version::MAX,
    };
    let select = EdgeSelect {
        types: Vec::new(),
        versions: Versions::Range(range),
        properties: true,
        after: None,
    };
    let mut count = 0;
    database
        .scan_edges(&ids, &select, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    for id in ids {
        count += database.vertex_history(id, range).unwrap().len();
    }
    count
}
