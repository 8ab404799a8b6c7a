//! Conversion of logs: keys, edges, numbers and versions.

use std::collections::{BTreeMap, BTreeSet};

use esker_import::darshan::{
    GraphCounts, GraphOptions, GraphTypes, Log, LogIdentity, Module, ModuleRecord, ParseOptions,
    Span, graph, log_key, parse,
};
use esker_model::{Batch, Op, Properties, Schema, Value, Version, VertexRef};

use crate::rewrite::widen;
use crate::{corpus, darshan_formats};

fn types() -> GraphTypes {
    GraphTypes::resolve(&Schema::default()).unwrap()
}

fn batches(log: &Log, identity: &LogIdentity, options: &GraphOptions) -> (Vec<Batch>, GraphCounts) {
    let mut all = Vec::new();
    let counts = graph(log, identity, &types(), options, &mut |batch| {
        all.push(batch);
    });
    (all, counts)
}

/// An edge with readable names.
#[derive(Debug, Clone, PartialEq)]
struct NamedEdge {
    source: String,
    edge_type: String,
    destination: String,
    version: Version,
    properties: Properties,
}

/// Returns all edges of some batches, with the names of their ends.
fn edges(batches: &[Batch]) -> Vec<NamedEdge> {
    let schema = Schema::default();
    let mut names = BTreeMap::<VertexRef, String>::new();
    for mutation in batches.iter().flat_map(|batch| &batch.mutations) {
        if let Op::PutVertex { vertex, key, .. } | Op::EnsureVertex { vertex, key } = &mutation.op {
            names.insert(*vertex, format!("{}:{key}", schema.prefix(vertex.type_id)));
        }
    }
    batches
        .iter()
        .flat_map(|batch| &batch.mutations)
        .filter_map(|mutation| match &mutation.op {
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties,
            } => Some(NamedEdge {
                source: names[source].clone(),
                edge_type: schema.edge_type(*edge_type).unwrap().name.clone(),
                destination: names[destination].clone(),
                version: mutation.version.unwrap(),
                properties: properties.clone(),
            }),
            _ => None,
        })
        .collect()
}

fn integer(properties: &Properties, name: &str) -> Option<i64> {
    match properties.get(name)? {
        Value::I64(value) => Some(*value),
        other => panic!("{name} is {other:?}"),
    }
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap()
}

/// Returns the edges of the six logs of the `darshan-graph` example.
fn example() -> Vec<NamedEdge> {
    corpus::logs()
        .into_iter()
        .filter(|(path, _)| path.to_string_lossy().contains("darshan-graph"))
        .flat_map(|(_, bytes)| {
            let log = parse(&bytes, &ParseOptions::default()).unwrap();
            edges(&batches(&log, &LogIdentity::of(&bytes), &GraphOptions::default()).0)
        })
        .collect()
}

/// Returns the lineage of a file at a time: the newest write until then, that job's reads, and so on.
fn lineage(all: &[NamedEdge], file: &str, until: Version) -> String {
    let writes = all
        .iter()
        .filter(|edge| edge.edge_type == "write" && edge.destination == file);
    let Some(write) = writes
        .filter(|edge| edge.version <= until)
        .max_by_key(|edge| edge.version)
    else {
        return base(file).to_owned();
    };
    let exe = all
        .iter()
        .find(|edge| edge.edge_type == "exe" && edge.source == write.source)
        .unwrap();
    let mut inputs: Vec<String> = all
        .iter()
        .filter(|edge| edge.edge_type == "read" && edge.source == write.source)
        .map(|edge| lineage(all, &edge.destination, edge.version))
        .collect();
    inputs.sort();
    let inputs = if inputs.is_empty() {
        String::new()
    } else {
        format!(" <- {{{}}}", inputs.join(", "))
    };
    format!("{} <- {}{inputs}", base(file), base(&exe.destination))
}

#[test]
fn lineage_of_c_in_the_example() {
    let all = example();
    let c = all
        .iter()
        .map(|edge| &edge.destination)
        .find(|name| name.ends_with("darshan-graph/C"))
        .unwrap();
    assert_eq!(
        lineage(&all, c, Version::MAX),
        "C <- app_readAB_writeC <- {A <- app_write, B <- app_write}"
    );
    let facts: BTreeSet<_> = all
        .iter()
        .filter(|edge| edge.edge_type == "read" || edge.edge_type == "write")
        .map(|edge| {
            let exe = all
                .iter()
                .find(|e| e.edge_type == "exe" && e.source == edge.source)
                .unwrap();
            let bytes = integer(&edge.properties, "bytes_read")
                .or(integer(&edge.properties, "bytes_written"));
            (
                base(&exe.destination),
                edge.edge_type.as_str(),
                base(&edge.destination),
                bytes.unwrap(),
            )
        })
        .collect();
    // No lock tests, no shared segment, no terminal.
    let expected = [
        ("app_read", "read", "A", 10000),
        ("app_read", "read", "C", 2300),
        ("app_readAB_writeC", "read", "A", 10000),
        ("app_readAB_writeC", "read", "B", 10000),
        ("app_readAB_writeC", "write", "C", 8000),
        ("app_write", "write", "A", 10000),
        ("app_write", "write", "B", 10000),
        ("app_write", "write", "Z", 10000),
    ];
    assert_eq!(facts, expected.into_iter().collect());
}

/// Job starts are whole seconds here, so that `app_read` seems to have read A before `app_write` wrote it. The edges record this
/// uncertainty.
#[test]
fn doubtful_times_are_marked() {
    let all = example();
    for edge in all
        .iter()
        .filter(|e| e.edge_type == "read" || e.edge_type == "write")
    {
        assert_eq!(
            integer(&edge.properties, "time_resolution_ms"),
            Some(999),
            "{edge:?}"
        );
    }
    let (_, bytes) = corpus::logs().swap_remove(0);
    let log = parse(&widen(&bytes), &ParseOptions::default()).unwrap();
    let made = batches(&log, &LogIdentity::of(&bytes), &GraphOptions::default()).0;
    let exact = edges(&made);
    assert!(exact.iter().any(|e| e.edge_type == "read"));
    assert!(
        exact
            .iter()
            .all(|e| e.properties.get("time_resolution_ms").is_none())
    );
}

#[test]
fn the_write_of_c_shows_which_module_saw_it() {
    let all = example();
    let write = all
        .iter()
        .find(|e| e.edge_type == "write" && e.destination.ends_with("/C"))
        .unwrap();
    assert_eq!(
        integer(&write.properties, "mpiio_bytes_written"),
        Some(8000)
    );
    assert_eq!(integer(&write.properties, "posix_bytes_written"), Some(0));
    assert_eq!(integer(&write.properties, "stdio_bytes_written"), None);
    assert_eq!(integer(&write.properties, "writes"), Some(8));
    assert_eq!(integer(&write.properties, "ranks"), Some(4));
    // Job start 1596152058 s, first write 75.245 ms and last 79.420 ms after it.
    assert_eq!(
        write.properties.get("start"),
        Some(&Value::Timestamp(1_596_152_058_075_245_194))
    );
    assert_eq!(
        write.properties.get("end"),
        Some(&Value::Timestamp(1_596_152_058_079_420_469))
    );
    assert_eq!(write.version.millis(), 1_596_152_058_079);
    assert!(
        write.source.starts_with("job:71326-1596152058-"),
        "{}",
        write.source
    );
}

/// Every log of the wheel is converted to mutations that the default schema allows, in any order.
#[test]
fn all_logs_make_sound_mutations() {
    let schema = Schema::default();
    let mut versions = BTreeSet::new();
    for (path, bytes) in corpus::logs() {
        let log = parse(&bytes, &ParseOptions::default()).unwrap();
        let identity = LogIdentity::of(&bytes);
        let options = GraphOptions {
            processes: true,
            batch_mutations_max: 100,
            ..GraphOptions::default()
        };
        let (made, counts) = batches(&log, &identity, &options);
        let again = batches(&log, &identity, &options);
        assert_eq!(
            (&made, counts),
            (&again.0, again.1),
            "a second import makes the same mutations"
        );
        let markers: BTreeSet<_> = made
            .iter()
            .map(|batch| batch.idempotency_key.clone().unwrap())
            .collect();
        assert_eq!(markers.len(), made.len());
        let sum: usize = made.iter().map(Batch::len).sum();
        assert_eq!(sum as u64, counts.mutations);
        assert!(made.iter().all(|batch| batch.len() < 110));
        let mut born = BTreeMap::<VertexRef, Version>::new();
        for mutation in made.iter().flat_map(|batch| &batch.mutations) {
            let at = mutation.version.unwrap();
            versions.insert((at.logical(), identity));
            let start = u64::try_from(log.job.start.milliseconds()).unwrap();
            let end = u64::try_from(log.job.end.milliseconds()).unwrap() + 999;
            assert!(
                (start..=end).contains(&at.millis()),
                "{}: {mutation:?}",
                path.display()
            );
            match &mutation.op {
                Op::EnsureVertex { vertex, .. } => {
                    born.entry(*vertex)
                        .and_modify(|old| *old = at.min(*old))
                        .or_insert(at);
                }
                Op::PutVertex {
                    vertex, attributes, ..
                } => {
                    born.entry(*vertex)
                        .and_modify(|old| *old = at.min(*old))
                        .or_insert(at);
                    for (name, value) in attributes.iter() {
                        let declared = schema.attribute(vertex.type_id, name);
                        assert!(
                            declared.is_some_and(|d| d.kind.accepts(value)),
                            "{name}: {value:?}"
                        );
                    }
                }
                Op::PutEdge {
                    source,
                    edge_type,
                    destination,
                    ..
                } => {
                    schema
                        .check_ends(*edge_type, source.type_id, destination.type_id)
                        .unwrap();
                    assert!(
                        born[source] <= at && born[destination] <= at,
                        "{mutation:?}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }
    // Each log has its own logical part: the 14 different contents share none.
    let logical: BTreeSet<u16> = versions.iter().map(|(logical, _)| *logical).collect();
    let identities: BTreeSet<_> = versions.iter().map(|(_, identity)| *identity).collect();
    assert_eq!(logical.len(), identities.len());
}

/// The bytes of all edges equal those of the records, minus helpers and bytes counted by both MPI-IO and POSIX.
#[test]
fn bytes_are_those_of_the_records() {
    let (_, bytes) = corpus::logs()
        .into_iter()
        .find(|(path, _)| path.ends_with("sample-badost.darshan"))
        .unwrap();
    let log = parse(&bytes, &ParseOptions::default()).unwrap();
    let (made, counts) = batches(&log, &LogIdentity::of(&bytes), &GraphOptions::default());
    let edges = edges(&made);
    let sum = |name: &str| {
        edges
            .iter()
            .filter_map(|edge| integer(&edge.properties, name))
            .sum::<i64>()
    };
    let posix = |get: fn(&ModuleRecord) -> i64| -> i64 {
        log.records
            .iter()
            .filter(|r| r.module == Module::Posix)
            .map(get)
            .sum()
    };
    assert_eq!(sum("bytes_written"), posix(|r| r.bytes_written));
    assert_eq!(counts.files_written, 2048);
    let kept = GraphOptions {
        keep_helpers: true,
        ..GraphOptions::default()
    };
    let (_, with_helpers) = batches(&log, &LogIdentity::of(&bytes), &kept);
    assert_eq!(with_helpers.helpers_skipped, 0);
    assert!(counts.helpers_skipped > 0);
}

#[test]
fn old_logs_know_files_by_hash() {
    let bytes = darshan_formats::sample("2.06", true).gzip();
    let log = parse(&bytes, &ParseOptions::default()).unwrap();
    let identity = LogIdentity::of(&bytes);
    let (made, counts) = batches(&log, &identity, &GraphOptions::default());
    assert_eq!((counts.files_read, counts.files_written), (1, 2));
    let edges = edges(&made);
    let write = edges
        .iter()
        .find(|e| e.destination == "file:darshan2:fedcba9876543210")
        .unwrap();
    assert_eq!(write.edge_type, "write");
    assert_eq!(write.source, format!("job:{}", log_key(&log, &identity)));
    assert_eq!(
        integer(&write.properties, "bytes_written"),
        Some(5_000_000_000)
    );
    assert_eq!(integer(&write.properties, "mpiio_bytes_written"), Some(0));
    assert_eq!(
        integer(&write.properties, "max_offset"),
        Some(4_999_999_999)
    );
    assert_eq!(write.version.millis(), 1_357_000_009_250);
    let suffixes: Vec<_> = made[0]
        .mutations
        .iter()
        .filter_map(|mutation| match &mutation.op {
            Op::SetAttributes { set, .. } => set.get("name_suffix").cloned(),
            _ => None,
        })
        .collect();
    assert_eq!(
        suffixes,
        [Value::from("in.dat"), Value::from("/u/testfile")]
    );
    // Before 2.03 timestamps have no meaning, so the job's end is used.
    let bytes = darshan_formats::sample("2.02", true).gzip();
    let log = parse(&bytes, &ParseOptions::default()).unwrap();
    let made = batches(&log, &LogIdentity::of(&bytes), &GraphOptions::default()).0;
    let all = self::edges(&made);
    assert!(
        all.iter()
            .filter(|e| e.edge_type == "write")
            .all(|e| e.version.millis() == 1_357_000_600_000)
    );
}

/// Returns a handmade log: one process wrote, read and renamed.
fn by_hand(records: Vec<ModuleRecord>) -> Log {
    let bytes = darshan_formats::sample("2.06", false).gzip();
    Log {
        records,
        ..parse(&bytes, &ParseOptions::default()).unwrap()
    }
}

fn posix(record: u64, rank: i64) -> ModuleRecord {
    ModuleRecord {
        module: Module::Posix,
        record,
        rank,
        ..blank()
    }
}

fn blank() -> ModuleRecord {
    ModuleRecord {
        module: Module::Posix,
        record: 0,
        rank: 0,
        opens: 1,
        reads: 0,
        writes: 0,
        seeks: 0,
        stats: 0,
        mmaps: 0,
        bytes_read: 0,
        bytes_written: 0,
        max_byte_read: 0,
        max_byte_written: 0,
        rename_targets: 0,
        renamed_from: 0,
        open: Span::default(),
        read: Span::default(),
        write: Span::default(),
        close: Span::default(),
    }
}

#[test]
fn versions_are_the_ends_of_what_happened() {
    let update = ModuleRecord {
        reads: 1,
        bytes_read: 1,
        writes: 1,
        read: Span {
            start: 1.0,
            end: 2.0,
        },
        write: Span {
            start: 2.1,
            end: 2.5,
        },
        ..posix(7, 0)
    };
    let late = ModuleRecord {
        reads: 1,
        bytes_read: 1,
        read: Span {
            start: 1.0,
            end: 600.5,
        },
        ..posix(8, 0)
    };
    let wild = ModuleRecord {
        reads: 1,
        bytes_read: 1,
        read: Span {
            start: 1.0,
            end: 1e300,
        },
        ..posix(9, 0)
    };
    let made = batches(
        &by_hand(vec![update, late, wild]),
        &LogIdentity([1; 32]),
        &GraphOptions::default(),
    )
    .0;
    let all = edges(&made);
    let at = |file: &str, kind: &str| {
        let edge = all
            .iter()
            .find(|e| e.destination.ends_with(file) && e.edge_type == kind)
            .unwrap();
        edge.version.millis() - 1_357_000_000_000
    };
    assert_eq!((at("7", "read"), at("7", "write")), (2000, 2500));
    // The job ended in second 600: none of its accesses can have ended after that second.
    assert_eq!((at("8", "read"), at("9", "read")), (600_500, 600_999));
    assert!(all.iter().all(|edge| edge.version.logical() == 0x0101));
}

#[test]
fn a_rename_is_a_write_of_the_new_name() {
    let target = ModuleRecord {
        rename_targets: 1,
        renamed_from: 7,
        close: Span {
            start: -1.0,
            end: 3.0,
        },
        ..posix(8, 0)
    };
    let source = ModuleRecord {
        writes: 1,
        bytes_written: 9,
        ..posix(7, 0)
    };
    let (made, counts) = batches(
        &by_hand(vec![target, source]),
        &LogIdentity([1; 32]),
        &GraphOptions::default(),
    );
    assert_eq!(counts.files_written, 2);
    let all = edges(&made);
    let write = all
        .iter()
        .find(|e| e.destination == "file:darshan2:0000000000000008")
        .unwrap();
    assert_eq!(
        write.properties.get("renamed_from"),
        Some(&Value::from("file:darshan2:0000000000000007"))
    );
    assert_eq!(write.version.millis(), 1_357_000_003_000);
}

#[test]
fn processes_on_request() {
    let records = vec![
        ModuleRecord {
            reads: 1,
            bytes_read: 10,
            ..posix(7, 0)
        },
        ModuleRecord {
            reads: 1,
            bytes_read: 20,
            ..posix(7, 3)
        },
        ModuleRecord {
            writes: 1,
            bytes_written: 30,
            ..posix(8, -1)
        },
        posix(9, 3),
    ];
    let log = by_hand(records);
    let options = GraphOptions {
        processes: true,
        ..GraphOptions::default()
    };
    let (made, counts) = batches(&log, &LogIdentity([1; 32]), &options);
    assert_eq!(
        counts,
        GraphCounts {
            files_read: 1,
            files_written: 1,
            files_untouched: 1,
            helpers_skipped: 0,
            processes: 2,
            mutations: made[0].len() as u64,
        }
    );
    let all = edges(&made);
    let job = format!("job:{}", log_key(&log, &LogIdentity([1; 32])));
    let rows: Vec<_> = all
        .iter()
        .filter(|edge| edge.edge_type == "belongs" || edge.edge_type == "read")
        .map(|edge| (edge.source.clone(), integer(&edge.properties, "bytes_read")))
        .collect();
    let process = |rank: u8| format!("process:{}/{rank}", &job[4..]);
    assert_eq!(
        rows,
        [
            (job.clone(), Some(30)),
            (process(0), None),
            (process(0), Some(10)),
            (process(3), None),
            (process(3), Some(20)),
        ]
    );
    let without = batches(&log, &LogIdentity([1; 32]), &GraphOptions::default()).0;
    assert_ne!(
        made[0].idempotency_key, without[0].idempotency_key,
        "asking for processes later is not the same import"
    );
}
