//! Overhead of the store interface over bare fjall, and effect of the settings: rows of 35-byte keys and 140-byte
//! values in random key order, like edges.
//!
//! `cargo run --release -p esker-store-fjall --example seam_bench -- [rows] [memory MiB] [directory]
//! [batches|memory|open]`
//!
//! Both sides do the same work in turn in one process. CPU seconds (of all threads) are printed with the elapsed ones,
//! because flushes and merges run behind the writer and because a shared machine stretches only the elapsed time.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program to be read, run by hand"
)]

use esker_store::{Durability, KeyRange, Read, Store, StoreSettings, Table, WriteBatch};
use esker_store_fjall::{FjallStore, raw::Raw};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

const BATCH: u64 = 1000;
const VALUE: usize = 140;

type Key = [u8; 35];

/// splitmix64: returns the n-th of a sequence of distinct numbers.
fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns an edge's key: source, kind, type, destination. Sixteen edges share a source.
fn key(n: u64) -> Key {
    let mut key = [0; 35];
    let source = mix(n % 65_536 * 3 + n / 1_048_576);
    key[..8].copy_from_slice(&source.to_be_bytes());
    key[8..16].copy_from_slice(&mix(source).to_be_bytes());
    key[16] = 3;
    key[18] = 1;
    key[19..27].copy_from_slice(&mix(n).to_be_bytes());
    key[27..].copy_from_slice(&mix(n + 1).to_be_bytes());
    key
}

fn value(n: u64) -> [u8; VALUE] {
    let mut value = [0; VALUE];
    for (at, chunk) in value.chunks_mut(8).enumerate() {
        let bytes = mix(n + at as u64).to_be_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
    value
}

/// Returns the CPU seconds of this process, user and system.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..]
        .split_whitespace()
        .collect();
    let ticks = |n: usize| fields[n].parse::<f64>().unwrap();
    (ticks(12) + ticks(13)) / 100.0
}

fn status(field: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line[field.len()..].trim().to_owned()
}

/// Runs and prints one measure; returns operations per CPU second.
fn measure(what: &str, operations: u64, run: impl FnOnce()) -> f64 {
    let (start, before) = (Instant::now(), cpu());
    run();
    let (elapsed, used) = (start.elapsed().as_secs_f64(), cpu() - before);
    println!(
        "{what:<44} {:>10.0}/s {:>7.2} us {:>7.2} cpu us",
        operations as f64 / elapsed,
        elapsed / operations as f64 * 1e6,
        used / operations as f64 * 1e6
    );
    operations as f64 / elapsed
}

/// Returns CPU seconds by thread name.
fn threads() -> std::collections::BTreeMap<String, f64> {
    let mut threads = std::collections::BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let Ok(stat) = std::fs::read_to_string(task.unwrap().path().join("stat")) else {
            continue;
        };
        let end = stat.rfind(')').unwrap();
        let name = stat[stat.find('(').unwrap() + 1..end].to_owned();
        let fields: Vec<&str> = stat[end..].split_whitespace().collect();
        let ticks: f64 = fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap();
        *threads.entry(name).or_default() += ticks / 100.0;
    }
    threads
}

/// Measures the memory of one store under writes, gets and a scan, with nothing else in the process.
fn memory_alone(root: &Path, settings: &StoreSettings, rows: u64) {
    let store = FjallStore::open(root, settings, true).unwrap();
    measure("writes", rows, || {
        for batch in 0..rows / BATCH {
            let mut writes = WriteBatch::default();
            for n in batch * BATCH..(batch + 1) * BATCH {
                writes.put(Table::Rows, key(n), value(n));
            }
            store.commit(writes, Durability::Relaxed).unwrap();
        }
    });
    println!("memory at most {}", status("VmHWM:"));
    measure("gets", rows / 4, || {
        for n in 0..rows / 4 {
            assert!(
                store
                    .get_with(Table::Rows, &key(mix(n) % rows), &mut |_| {})
                    .unwrap()
            );
        }
    });
    println!(
        "memory at most {}, now {}",
        status("VmHWM:"),
        status("VmRSS:")
    );
    println!("{:?}", store.stats().unwrap());
    measure("close", 1, || drop(store));
    measure("open", 1, || {
        drop(FjallStore::open(root, settings, false).unwrap());
    });
    std::fs::remove_dir_all(root).unwrap();
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().map_or(1_000_000, |a| a.parse().unwrap());
    let memory: u64 = arguments.next().map_or(256, |a| a.parse().unwrap());
    let root = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    if std::env::args().any(|a| a == "open") {
        // The directory of a killed run: the log is replayed.
        let settings = StoreSettings {
            memory_bytes: memory << 20,
            threads: 2,
        };
        let mut store = None;
        measure("open", 1, || {
            store = Some(FjallStore::open(&root, &settings, false).unwrap());
        });
        println!("{:?}", store.unwrap().stats().unwrap());
        return;
    }
    let root = root.join(format!("esker-seam-bench-{}", std::process::id()));
    let settings = StoreSettings {
        memory_bytes: memory << 20,
        threads: 2,
    };
    println!("{rows} rows, {memory} MiB, {}", root.display());
    let mut ratios = Vec::new();
    if std::env::args().any(|a| a == "memory") {
        memory_alone(&root, &settings, rows);
        return;
    }
    let before = threads();

    let raw = Raw::open(&root.join("raw"), &settings).unwrap();
    let bare = measure("raw: batches of 1,000", rows, || {
        for batch in 0..rows / BATCH {
            let rows: Vec<_> = (batch * BATCH..(batch + 1) * BATCH)
                .map(|n| (key(n), value(n)))
                .collect();
            raw.write(
                rows.iter().map(|(k, v)| (&k[..], &v[..])),
                Durability::Relaxed,
            )
            .unwrap();
        }
    });
    for (name, seconds) in threads() {
        let used = seconds - before.get(&name).unwrap_or(&0.0);
        println!("    of it {name}: {:.2} cpu us", used / rows as f64 * 1e6);
    }
    if std::env::args().any(|a| a == "batches") {
        drop(raw);
        std::fs::remove_dir_all(&root).unwrap();
        return;
    }
    let store = FjallStore::open(&root.join("seam"), &settings, true).unwrap();
    let write = |store: &FjallStore, table, from: u64, rows: u64, look: bool| {
        for batch in from / BATCH..(from + rows) / BATCH {
            let mut writes = WriteBatch::default();
            for n in batch * BATCH..(batch + 1) * BATCH {
                let key = key(n);
                if look && n % 2 == 0 {
                    assert!(!store.get_with(table, &key, &mut |_| {}).unwrap());
                }
                writes.put(table, key, value(n));
            }
            store.commit(writes, Durability::Relaxed).unwrap();
        }
    };
    let seam = measure("seam: batches of 1,000", rows, || {
        write(&store, Table::Rows, 0, rows, false);
    });
    ratios.push(("batches", seam / bare));
    let looking = measure("seam: batches, a get of an absent key per 2", rows, || {
        write(&store, Table::History, 0, rows, true);
    });
    ratios.push(("batches with gets", looking / bare));

    let bare = measure("raw: single rows", 100_000, || {
        for n in rows..rows + 100_000 {
            raw.put(&key(n), &value(n)).unwrap();
        }
    });
    let seam = measure("seam: single rows", 100_000, || {
        for n in rows..rows + 100_000 {
            let mut batch = WriteBatch::default();
            batch.put(Table::Rows, key(n), value(n));
            store.commit(batch, Durability::Relaxed).unwrap();
        }
    });
    ratios.push(("single rows", seam / bare));
    measure("seam: single rows, synced", 200, || {
        for n in rows..rows + 200 {
            let mut batch = WriteBatch::default();
            batch.put(Table::Rows, key(n), value(n));
            store.commit(batch, Durability::Sync).unwrap();
        }
    });

    for state in ["as written", "merged"] {
        let gets = 200_000;
        let bare = measure(&format!("raw: gets of present keys, {state}"), gets, || {
            for n in 0..gets {
                assert_eq!(raw.get(&key(mix(n) % rows)).unwrap(), Some(VALUE));
            }
        });
        let seam = measure(
            &format!("seam: gets of present keys, {state}"),
            gets,
            || {
                for n in 0..gets {
                    assert!(
                        store
                            .get_with(Table::Rows, &key(mix(n) % rows), &mut |_| {})
                            .unwrap()
                    );
                }
            },
        );
        ratios.push(("gets", seam / bare));
        measure(&format!("raw: gets of absent keys, {state}"), gets, || {
            for n in 0..gets {
                assert_eq!(raw.get(&key(rows * 2 + n)).unwrap(), None);
            }
        });
        measure(&format!("seam: gets of absent keys, {state}"), gets, || {
            for n in 0..gets {
                assert!(
                    !store
                        .get_with(Table::Rows, &key(rows * 2 + n), &mut |_| {})
                        .unwrap()
                );
            }
        });
        let mut bytes = [0usize; 3];
        let bare = measure(&format!("raw: scan, {state}"), rows, || {
            raw.scan(&[], |k, v| {
                bytes[0] += k.len() + v.len();
                ControlFlow::Continue(())
            })
            .unwrap();
        });
        let seam = measure(&format!("seam: scan, {state}"), rows, || {
            store
                .scan(Table::Rows, &KeyRange::ALL, &mut |k, v| {
                    bytes[1] += k.len() + v.len();
                    ControlFlow::Continue(())
                })
                .unwrap();
        });
        measure(&format!("seam: cursor, {state}"), rows, || {
            let mut cursor = store.cursor(Table::Rows, &KeyRange::ALL).unwrap();
            while cursor.advance().unwrap() {
                bytes[2] += cursor.key().len() + cursor.value().len();
            }
        });
        assert!(bytes[0] == bytes[1] && bytes[1] == bytes[2]);
        ratios.push(("scan", seam / bare));
        let scans = 50_000;
        let short = |n: u64| key(mix(n) % rows)[..19].to_vec();
        let bare = measure(&format!("raw: scans of one source, {state}"), scans, || {
            for n in 0..scans {
                let prefix = short(n);
                raw.scan(&prefix, |k, _| {
                    if k.starts_with(&prefix) {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })
                .unwrap();
            }
        });
        let seam = measure(
            &format!("seam: scans of one source, {state}"),
            scans,
            || {
                for n in 0..scans {
                    let range = KeyRange::prefix(&short(n));
                    store
                        .scan(Table::Rows, &range, &mut |_, _| ControlFlow::Continue(()))
                        .unwrap();
                }
            },
        );
        ratios.push(("scans of one source", seam / bare));
        if state == "as written" {
            measure("seam: compact (all tables)", rows, || {
                store.compact().unwrap();
            });
            raw.compact().unwrap();
        }
    }

    let mut sorted: Vec<_> = (rows..2 * rows).map(|n| (key(n), n)).collect();
    sorted.sort_unstable();
    let bare = measure("raw: bulk load", rows, || {
        let rows: Vec<_> = sorted.iter().map(|(k, n)| (*k, value(*n))).collect();
        raw.load(rows.iter().map(|(k, v)| (&k[..], &v[..])))
            .unwrap();
    });
    let seam = measure("seam: bulk load", rows, || {
        let mut load = store.bulk_load(Table::Rows).unwrap();
        for (key, n) in &sorted {
            load.push(key, &value(*n)).unwrap();
        }
        load.finish().unwrap();
    });
    ratios.push(("bulk load", seam / bare));
    measure("seam: checkpoint", 1, || {
        store.checkpoint(&root.join("checkpoint")).unwrap();
    });
    println!("{:?}", store.stats().unwrap());
    measure("close", 1, || drop((store, raw)));
    measure("open", 1, || {
        drop(FjallStore::open(&root.join("seam"), &settings, false).unwrap());
    });
    measure("open the checkpoint", 1, || {
        drop(FjallStore::open(&root.join("checkpoint"), &settings, false).unwrap());
    });
    println!("memory at most {}", status("VmHWM:"));
    for (what, ratio) in ratios {
        println!("seam / raw, {what}: {:.0} %", ratio * 100.0);
    }
    std::fs::remove_dir_all(&root).unwrap();
}
