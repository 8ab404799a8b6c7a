//! Combines all rows of a cluster's servers in one engine: each row must be on one server, and together they must be
//! consistent.

use crate::sim::cluster::Cluster;
use esker_engine::{Absent, CheckOptions, Engine, SideWrites};
use esker_model::key::names::NamesKey;
use esker_model::key::{Counter, Measure, SpaceKey};
use esker_model::namespace::SpaceBy;
use esker_model::{Flow, NeverCancel, Version, VertexId};
use esker_store::memory::MemoryStore;
use esker_store::{KeyRange, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads every server, adds up their counters, and checks the combined engine; returns the number of rows.
pub fn check(cluster: &Cluster, findings: &mut Vec<String>) -> Result<usize, String> {
    let text = |e: esker_model::Error| e.to_string();
    let mut rows = BTreeMap::<Vec<u8>, (usize, Vec<u8>)>::new();
    let mut counters = BTreeMap::<Counter, i64>::new();
    for at in 0..cluster.len() {
        let engine = cluster.engine_of(at).ok_or("a server is not there")?;
        engine
            .store()
            .scan(Table::Names, &KeyRange::ALL, &mut |key, value| {
                if let Some((other, _)) = rows.insert(key.to_vec(), (at, value.to_vec())) {
                    findings.push(format!("servers {other} and {at} both have row {key:02x?}"));
                }
                Flow::Continue(())
            })
            .map_err(text)?;
    }
    let directories: Vec<VertexId> = directories(&rows);
    for at in 0..cluster.len() {
        let engine = cluster.engine_of(at).ok_or("a server is not there")?;
        let mut add = |counter: Counter, n: i64| {
            let sum = counters.entry(counter).or_default();
            *sum = match counter {
                Counter::Space(_, Measure::Changed) => (*sum).max(n),
                _ => sum.wrapping_add(n),
            };
        };
        for by in [
            SpaceBy::User,
            SpaceBy::Group,
            SpaceBy::Kind,
            SpaceBy::Ending,
            SpaceBy::Day,
        ] {
            for (counter, n) in engine.partial_namespace().space(by).map_err(text)? {
                add(counter, n);
            }
        }
        let sums = engine
            .partial_namespace()
            .sums(&directories)
            .map_err(text)?;
        for (id, sums) in directories.iter().zip(sums) {
            for measure in [
                Measure::Files,
                Measure::Directories,
                Measure::Bytes,
                Measure::Blocks,
                Measure::Changed,
            ] {
                let counter = Counter::Space(SpaceKey::Directory(*id), measure);
                add(counter, sums.of(measure));
            }
        }
    }
    let one = Engine::open(
        Arc::new(MemoryStore::new()),
        cluster.clock(0).ok_or("a server is not there")?,
        Arc::new(esker_engine::NoArchive),
        esker_engine::Settings::default(),
    )
    .map_err(text)?;
    let count = rows.len();
    let side_writes = SideWrites {
        rows: rows
            .into_iter()
            .map(|(key, (_, value))| (Table::Names, key, Some(value)))
            .collect(),
        counters: counters.into_iter().filter(|(_, n)| *n != 0).collect(),
        ..SideWrites::default()
    };
    one.apply_part(Version(1 << 20), &[], Absent::Refuse, side_writes)
        .map_err(text)?;
    let report = one
        .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
        .map_err(text)?;
    if !report.complete {
        findings.push("the check did not end".into());
    }
    findings.extend(report.problems.iter().map(|p| format!("{p:?}")));
    Ok(count)
}

/// All directories that occur in rows.
fn directories(rows: &BTreeMap<Vec<u8>, (usize, Vec<u8>)>) -> Vec<VertexId> {
    let mut all = vec![esker_model::namespace::root()];
    for key in rows.keys() {
        // A directory has a location record or entries.
        if let Ok(key @ (NamesKey::Dentry(..) | NamesKey::Location(_))) = NamesKey::decode(key) {
            all.push(key.id());
        }
    }
    all.sort_unstable();
    all.dedup();
    all.retain(|id| *id != VertexId::default());
    all
}
