//! Sources that know the same job, imported in many orders: Slurm's records, Darshan logs, recorded runs, `OpenLineage` events.

use crate::cases::darshan_logs;
use crate::openlineage::{Rng, contents, opened, take};
use esker::Database;
use esker::lineage::{LineageOptions, TreeStyle, lineage, render_tree};
use esker_import::darshan::{self, GraphOptions, GraphTypes, Log, LogIdentity, ParseOptions};
use esker_import::jobs::{LinkTypes, delete_foreign, settle};
use esker_import::openlineage::{Types, event};
use esker_import::slurm::{self, JobTypes};
use esker_model::namespace::FileRefResolver;
use esker_model::{GraphRead as _, GraphWrite as _, NeverCancel, VertexId};
use esker_record::{Ended, Run, Slurm, deliver_one};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const SECOND: i64 = 1_000_000_000;
/// 2020-07-30T23:34:00Z; the log of job 71326 begins 18 seconds later.
const BEGIN: i64 = 1_596_152_040 * SECOND;
const YEAR: i64 = 366 * 86_400 * SECOND;

/// A source of one import.
enum Source {
    Log(Box<Log>, LogIdentity),
    Record(String),
    Run(Box<Run>),
    Event(serde_json::Value),
}

fn log(folder: &Path, program: &str) -> Source {
    let files = fs::read_dir(folder.join("darshan/examples/darshan-graph")).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    let bytes = fs::read(
        paths
            .find(|p| p.to_string_lossy().contains(program))
            .unwrap(),
    )
    .unwrap();
    let mut log = darshan::parse(&bytes, &ParseOptions::default()).unwrap();
    // A job runs several programs, each of which writes a log under the job's number.
    log.job.job_id = 71_326;
    Source::Log(Box::new(log), LogIdentity::of(&bytes))
}

fn record(day: &str, state: &str) -> Source {
    Source::Record(
        json!({
            "jobid": 71_326, "user_id": 1000, "username": "ada", "job_name": "graph", "account": "climate", "state": state,
            "nodes": "n1", "ntasks": 2, "@submit": format!("{day}T23:33:00"), "@start": format!("{day}T23:34:00"),
            "@end": format!("{day}T23:35:00"), "script": "#!/bin/sh\nsrun ./app_readAB_writeC\n",
        })
        .to_string(),
    )
}

fn run(id: &str, start: i64) -> Source {
    Source::Run(Box::new(Run {
        id: id.into(),
        name: "plot".into(),
        command: vec!["./plot".into()],
        uid: 1000,
        start,
        slurm: Some(Slurm {
            job: "71326".into(),
            ..Slurm::default()
        }),
        ended: Some(Ended {
            at: start + SECOND,
            exit: Some(0),
            ..Ended::default()
        }),
        ..Run::default()
    }))
}

fn openlineage(state: &str, second: u32) -> Source {
    Source::Event(json!({
        "eventType": state, "eventTime": format!("2020-07-30T23:34:{second}Z"), "producer": "test",
        "run": {"runId": "01912a4b-0000-7000-8000-000000000001", "facets": {"environmentVariables": {
            "environmentVariables": [{"name": "SLURM_JOB_ID", "value": "71326"}]}}},
        "job": {"namespace": "ns", "name": "job"},
    }))
}

fn import(database: &Database, types: &Types, source: &Source) {
    let schema = database.schema().unwrap();
    let links = LinkTypes::resolve(&schema).unwrap();
    match source {
        Source::Log(log, identity) => {
            let types = GraphTypes::resolve(&schema).unwrap();
            let mut batches = Vec::new();
            let options = GraphOptions::default();
            darshan::graph(log, identity, &types, &options, &mut |b| batches.push(b));
            batches.push(darshan::job_link(log, identity, &types, None));
            let mut resolver = FileRefResolver::default();
            for mut batch in batches {
                let mutations = &mut batch.mutations;
                resolver
                    .resolve_mutations(database, &schema, mutations)
                    .unwrap();
                delete_foreign(database, &links, links.job, mutations).unwrap();
                database.apply(batch).unwrap();
            }
        }
        Source::Record(text) => {
            let job = slurm::document(text.as_bytes()).unwrap();
            let types = JobTypes::resolve(&schema).unwrap();
            database.apply(slurm::batch(&job, &types, None)).unwrap();
            let vertex = slurm::vertex(&job, None);
            database
                .apply(settle(database, &links, &[vertex]).unwrap())
                .unwrap();
        }
        Source::Run(run) => deliver_one(database, run).unwrap(),
        Source::Event(json) => {
            take(database, types, &[event(json).unwrap()]);
        }
    }
}

/// A record and a log of one job once made two vertices without an edge between them, so that the lineage of a file did not reach the job's
/// state. Another job had the number a year before; its record and its run come in between.
#[test]
fn the_order_of_sources_of_one_job_is_no_matter() {
    let Some(logs) = darshan_logs() else {
        eprintln!("skipped: no Darshan logs; run crates/import/tests/fetch-darshan.sh");
        return;
    };
    let sources = [
        log(&logs, "app_readAB_writeC"),
        log(&logs, "app_write_id71296"),
        record("2020-07-30", "COMPLETED"),
        run("now", BEGIN + 20 * SECOND),
        openlineage("START", 20),
        openlineage("COMPLETE", 25),
        record("2019-07-30", "FAILED"),
        run("earlier", BEGIN - YEAR),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut expected = None;
    for seed in 0..60_u64 {
        let mut rng = Rng(seed);
        let mut order: Vec<usize> = (0..sources.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.next_below(i as u64 + 1) as usize);
        }
        let (database, types) = opened(&folder.path().join(seed.to_string()));
        for i in &order {
            import(&database, &types, &sources[*i]);
        }
        let found = contents(&database);
        // Once more, from the last to the first: nothing changes.
        for i in order.iter().rev() {
            import(&database, &types, &sources[*i]);
        }
        assert_eq!(contents(&database), found, "order {order:?}");
        let expected = expected.get_or_insert_with(|| {
            check(&database);
            found.clone()
        });
        let names: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
        for name in names {
            assert_eq!(
                found.get(name),
                expected.get(name),
                "order {order:?}: {name}"
            );
        }
    }
}

/// Checks the links, and that the lineage of a file shows the record of its job.
fn check(database: &Database) {
    let all = contents(database);
    let parts = all
        .keys()
        .filter_map(|name| name.strip_prefix("job:71326 contains "));
    let parts: Vec<_> = parts.map(|name| name.split('-').next().unwrap()).collect();
    assert_eq!(
        parts,
        [
            "execution:01912a4b",
            "execution:now",
            "job:71326",
            "job:71326"
        ]
    );
    assert!(all["job:71326"].contains("COMPLETED"), "{all:?}");
    let schema = database.schema().unwrap();
    let c = all.keys().find(|name| name.ends_with("darshan-graph/C"));
    let c = VertexId::of("File", c.unwrap().strip_prefix("file:").unwrap());
    let found = lineage(database, c, &LineageOptions::default(), &NeverCancel).unwrap();
    let tree = render_tree(&found, &schema, &TreeStyle::default());
    for shown in [
        "in job:71326  graph  2020-07-30T23:34:00Z to 2020-07-30T23:35:00Z  COMPLETED  account climate",
        "srun ./app_readAB_writeC",
    ] {
        assert!(tree.contains(shown), "{tree}");
    }
}

/// An earlier release imported logs without links and skipped them from then on.
#[test]
fn a_log_of_an_earlier_release_gets_its_link() {
    let Some(logs) = darshan_logs() else {
        eprintln!("skipped: no Darshan logs; run crates/import/tests/fetch-darshan.sh");
        return;
    };
    let (folder, logs) = (
        tempfile::tempdir().unwrap(),
        logs.join("darshan/examples/darshan-graph"),
    );
    let path = folder.path().join("lab.esker");
    let (database, _) = opened(&path);
    let types = GraphTypes::resolve(&database.schema().unwrap()).unwrap();
    for entry in fs::read_dir(&logs).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let (log, identity) = (
            darshan::parse(&bytes, &ParseOptions::default()).unwrap(),
            LogIdentity::of(&bytes),
        );
        let options = GraphOptions::default();
        darshan::graph(&log, &identity, &types, &options, &mut |mut batch| {
            batch.idempotency_key = Some([b"darshan-log\0", &identity.0[..]].concat());
            database.apply(batch).unwrap();
        });
    }
    let before = contents(&database).len();
    drop(database);
    for new in [6, 0] {
        let out = Command::new(env!("CARGO_BIN_EXE_esker"))
            .args(["import", "darshan", "--format", "json"])
            .args([&path, &logs])
            .output()
            .unwrap();
        let said: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(said["edges_created"], new, "{said}");
    }
    let (database, _) = opened(&path);
    // A job, its edge and the inverse for each of the six logs.
    assert_eq!(contents(&database).len(), before + 18);
}
