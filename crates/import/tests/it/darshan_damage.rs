//! Real logs with changed bytes and truncated ends: no panic, no silent loss, and everything before the damage is kept.

use esker_import::darshan::{
    GraphOptions, GraphTypes, LogError, LogIdentity, ParseOptions, Region, graph, parse,
};
use esker_model::Schema;

use crate::{corpus, darshan_formats};

/// `SplitMix64`: the same numbers in every run.
struct Random(u64);

impl Random {
    fn less_than(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}

/// Small limits, so that a forged length does not slow the test down; the default limits are tested elsewhere.
const OPTIONS: ParseOptions = ParseOptions {
    region_bytes_max: 4 << 20,
    records_max: 10_000,
};

fn originals() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = corpus::logs()
        .into_iter()
        .filter(|(_, bytes)| bytes.len() < 20_000)
        .map(|(path, bytes)| (path.display().to_string(), bytes))
        .collect();
    for (version, big) in [
        ("2.06", true),
        ("2.04", false),
        ("1.24", true),
        ("2.02", true),
    ] {
        let log = darshan_formats::sample(version, big);
        all.push((format!("{version} gzip"), log.gzip()));
        all.push((format!("{version} bzip2"), log.bzip2()));
        all.push((format!("{version} plain"), log.plain()));
    }
    all
}

#[test]
fn changed_bytes_never_panic() {
    let (mut whole, mut damaged, mut refused) = (0, 0, 0);
    let types = GraphTypes::resolve(&Schema::default()).unwrap();
    for (n, (name, original)) in originals().into_iter().enumerate() {
        for round in 0..150 {
            let mut random = Random((n as u64) << 32 | round);
            let mut bytes = original.clone();
            for _ in 0..=random.less_than(4) {
                // Half of the changes hit the header, which is small but determines all offsets.
                let header = bytes.len().min(1328);
                let span = if random.less_than(2) == 0 {
                    header
                } else {
                    bytes.len()
                };
                let at = random.less_than(span);
                bytes[at] = match random.less_than(4) {
                    0 => 0,
                    1 => 0xff,
                    2 => bytes[at] ^ (1 << random.less_than(8)),
                    _ => u8::try_from(random.less_than(256)).unwrap(),
                };
            }
            let log = parse(&bytes, &OPTIONS);
            if let Ok(log) = &log {
                // Any numbers that were read can be converted to batches.
                let options = GraphOptions {
                    processes: true,
                    ..GraphOptions::default()
                };
                graph(
                    log,
                    &LogIdentity::of(&bytes),
                    &types,
                    &options,
                    &mut |batch| {
                        assert!(batch.idempotency_key.is_some());
                    },
                );
            }
            match log {
                Ok(log) if log.damages.is_empty() => whole += 1,
                Ok(log) => {
                    damaged += 1;
                    for damage in &log.damages {
                        assert!(!damage.what.is_empty(), "{name}, round {round}");
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(
                        error.to_string().starts_with("byte "),
                        "{name}, round {round}: {error}"
                    );
                }
            }
        }
    }
    assert!(
        whole > 0 && damaged > 100 && refused > 100,
        "{whole} {damaged} {refused}"
    );
}

#[test]
fn every_cut_is_noticed() {
    for (name, original) in originals() {
        let whole = parse(&original, &OPTIONS).unwrap();
        let step = (original.len() / 200).max(1);
        for len in (0..original.len()).step_by(step) {
            match parse(&original[..len], &OPTIONS) {
                Err(LogError::Empty) => assert_eq!(len, 0),
                Err(error) => assert!(
                    error.to_string().starts_with("byte "),
                    "{name} cut at {len}: {error}"
                ),
                Ok(log) => {
                    // A plain 2.x log cut between two records, or a log cut in a skipped module, looks complete.
                    let between = name.ends_with("plain")
                        && (len - log_header(&log.version))
                            .is_multiple_of(record_bytes(&log.version));
                    let skipped = log.records.len() == whole.records.len();
                    assert!(
                        !log.damages.is_empty() || between || skipped,
                        "{name} cut at {len} looks whole"
                    );
                    assert!(log.records.len() <= whole.records.len());
                    assert_eq!(
                        log.records[..],
                        whole.records[..log.records.len()],
                        "{name} cut at {len}"
                    );
                    for damage in &log.damages {
                        assert!(damage.byte <= len as u64, "{name} cut at {len}: {damage}");
                    }
                }
            }
        }
    }
}

fn log_header(version: &str) -> usize {
    if version >= "2.04" { 4096 } else { 1024 }
}

fn record_bytes(version: &str) -> usize {
    if version.starts_with("1.") {
        32 + (140 + 14) * 8
    } else {
        1328
    }
}

/// A log with a damaged MPI-IO region still has its POSIX and STDIO records.
#[test]
fn damage_in_one_module_leaves_the_others() {
    let (_, bytes) = corpus::logs()
        .into_iter()
        .find(|(path, _)| path.to_string_lossy().contains("pq_app_readAB_writeC"))
        .unwrap();
    let whole = parse(&bytes, &OPTIONS).unwrap();
    let entry = whole
        .modules
        .iter()
        .find(|entry| entry.id.to_string() == "MPI-IO")
        .unwrap();
    let mut bytes = bytes;
    let at = usize::try_from(entry.offset).unwrap() + 1;
    bytes[at] ^= 0x20;
    let log = parse(&bytes, &OPTIONS).unwrap();
    let [damage] = log.damages.as_slice() else {
        panic!("{:?}", log.damages)
    };
    assert_eq!(damage.region, Region::Module(entry.id));
    assert!(
        (entry.offset..entry.offset + entry.len).contains(&damage.byte),
        "{damage}"
    );
    assert!(damage.to_string().contains("MPI-IO region"), "{damage}");
    let count = |log: &esker_import::darshan::Log, name: &str| {
        log.records
            .iter()
            .filter(|record| record.module.id().to_string() == name)
            .count()
    };
    assert_eq!(count(&log, "POSIX"), count(&whole, "POSIX"));
    assert_eq!(count(&log, "STDIO"), count(&whole, "STDIO"));
    assert_eq!(count(&log, "MPI-IO"), 0);
}

#[test]
fn bounds_hold() {
    let (_, bytes) = corpus::logs()
        .into_iter()
        .find(|(path, _)| path.ends_with("sample-badost.darshan"))
        .unwrap();
    let options = ParseOptions {
        records_max: 100,
        ..ParseOptions::default()
    };
    let log = parse(&bytes, &options).unwrap();
    assert_eq!(log.records.len(), 100);
    assert!(
        log.damages[0].what.contains("more records"),
        "{:?}",
        log.damages
    );
    let options = ParseOptions {
        region_bytes_max: 1 << 20,
        ..ParseOptions::default()
    };
    let log = parse(&bytes, &options).unwrap();
    assert!(
        log.damages[0].what.contains("REGION_BYTES_MAX"),
        "{:?}",
        log.damages
    );
    let stdio = log.modules.last().unwrap().records.unwrap();
    assert_eq!(log.records.len() as u64, (1 << 20) / 664 + stdio);
}
