//! All numbers read from the 18 logs of the `darshan` wheel equal those of `PyDarshan`.

use std::collections::BTreeMap;
use std::process::Command;

use esker_import::darshan::{Log, Module, ModuleRecord, ParseOptions, Span, parse};
use serde_json::{Map, Value, json};

use crate::corpus;

fn span(span: Span) -> Value {
    json!([span.start.to_bits(), span.end.to_bits()])
}

/// Returns a record as `pydarshan_dump.py` prints it.
fn record(record: &ModuleRecord) -> Value {
    let mut row = json!({
        "record": record.record,
        "rank": record.rank,
        "opens": record.opens,
        "reads": record.reads,
        "writes": record.writes,
    });
    let mut put = |name: &str, value: Value| row[name] = value;
    let has_offsets = matches!(record.module, Module::Posix | Module::Stdio);
    if has_offsets {
        put("seeks", json!(record.seeks));
    }
    if matches!(record.module, Module::Posix | Module::Dfs) {
        put("stats", json!(record.stats));
    }
    if record.module == Module::Posix {
        put("mmaps", json!(record.mmaps));
    }
    put("bytes_read", json!(record.bytes_read));
    put("bytes_written", json!(record.bytes_written));
    if has_offsets {
        put("max_byte_read", json!(record.max_byte_read));
        put("max_byte_written", json!(record.max_byte_written));
    }
    if record.module == Module::Posix {
        put("rename_targets", json!(record.rename_targets));
        put("renamed_from", json!(record.renamed_from));
    }
    put("open", span(record.open));
    put("read", span(record.read));
    put("write", span(record.write));
    put("close", span(record.close));
    row
}

fn dump(path: &str, log: &Log) -> Value {
    let mut records = Map::new();
    for module in Module::ALL {
        if log.modules.iter().any(|entry| entry.id == module.id()) {
            let rows = log
                .records
                .iter()
                .filter(|row| row.module == module)
                .map(record);
            records.insert(module.id().to_string(), rows.collect());
        }
    }
    let modules: Map<String, Value> = log
        .modules
        .iter()
        .map(|m| {
            let entry = json!({"version": m.record_version, "len": m.len, "partial": m.partial});
            (m.id.to_string(), entry)
        })
        .collect();
    let names: Map<String, Value> = log
        .names
        .iter()
        .map(|(id, name)| (id.to_string(), json!(name)))
        .collect();
    let job = &log.job;
    json!({
        "path": path,
        "job": {
            "uid": job.uid,
            "start_time_sec": job.start.seconds,
            "start_time_nsec": job.start.nanoseconds,
            "end_time_sec": job.end.seconds,
            "end_time_nsec": job.end.nanoseconds,
            "nprocs": job.processes,
            "jobid": job.job_id,
        },
        "metadata": job.metadata.iter().cloned().collect::<BTreeMap<_, _>>(),
        "exe": job.command,
        "mounts": job.mounts.iter().map(|m| json!([m.path, m.kind])).collect::<Value>(),
        "names": names,
        "modules": modules,
        "records": records,
    })
}

/// `PyDarshan` sorts mounts by length only, so that equal lengths come in any order.
fn sort_mounts(value: &mut Value) {
    let mounts = value["mounts"].as_array_mut().unwrap();
    mounts.sort_by_key(ToString::to_string);
}

#[test]
fn every_number_is_pydarshans() {
    let mut logs = corpus::logs();
    logs.extend(corpus::more_logs());
    let output = Command::new(corpus::oracle())
        .arg(std::path::absolute("tests/oracle/pydarshan_dump.py").unwrap())
        .args(logs.iter().map(|(path, _)| path))
        .output()
        .expect("the oracle's Python; run crates/import/tests/fetch-darshan.sh");
    assert!(
        output.status.success(),
        "oracle: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let oracle: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter::<Value>()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(oracle.len(), logs.len());
    let mut compared = 0;
    for ((path, bytes), mut theirs) in logs.iter().zip(oracle) {
        let log = parse(bytes, &ParseOptions::default()).unwrap();
        assert_eq!(log.damages, [], "{}", path.display());
        let mut ours = dump(path.to_str().unwrap(), &log);
        sort_mounts(&mut ours);
        sort_mounts(&mut theirs);
        // Darshan's library returns no command line if no mount table follows; this reader does.
        if log.job.mounts.is_empty() && theirs["exe"] == "" {
            theirs["exe"] = ours["exe"].clone();
        }
        for part in ["job", "metadata", "exe", "mounts", "modules", "names"] {
            assert_eq!(ours[part], theirs[part], "{part} of {}", path.display());
        }
        for module in Module::ALL {
            let name = module.id().to_string();
            let (ours, theirs) = (&ours["records"][&name], &theirs["records"][&name]);
            let (Some(ours), Some(theirs)) = (ours.as_array(), theirs.as_array()) else {
                assert_eq!(ours, theirs, "{name} of {}", path.display());
                continue;
            };
            assert_eq!(ours.len(), theirs.len(), "{name} of {}", path.display());
            for (n, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                assert_eq!(ours, theirs, "{name} record {n} of {}", path.display());
                compared += 1;
            }
        }
        assert_eq!(
            log.records.len(),
            ours["records"]
                .as_object()
                .unwrap()
                .values()
                .map(|rows| rows.as_array().unwrap().len())
                .sum::<usize>()
        );
    }
    assert!(compared > 4000, "only {compared} records compared");
}
