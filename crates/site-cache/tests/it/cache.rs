//! The cache compared with simple models: exact sizes under every policy, and LRU's order.

use esker_site_cache::cache::{Cache, Policy};
use esker_site_cache::path::{PathId, Paths};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn paths(n: usize) -> Vec<PathId> {
    let mut paths = Paths::new();
    let root = paths.origin("test:");
    (0..n)
        .map(|i| paths.child(root, i.to_string().as_bytes()).unwrap())
        .collect()
}

proptest! {
    #[test]
    fn no_policy_loses_count(
        policy in 0_usize..4,
        capacity in 0_u64..400,
        steps in prop::collection::vec((0_u8..5, 0_usize..24, 1_u64..120), 0..300),
    ) {
        let ids = paths(24);
        let mut cache = Cache::new(capacity, Policy::ALL[policy]);
        let mut model: BTreeMap<PathId, (usize, u64)> = BTreeMap::new();
        for (i, (what, path, bytes)) in steps.into_iter().enumerate() {
            let path = ids[path];
            let mut gone = Vec::new();
            match what {
                0 => {
                    let value = cache.remove(path).map(|(_, v)| v);
                    prop_assert_eq!(value, model.remove(&path).map(|m| m.0));
                }
                1 => prop_assert_eq!(cache.get(path).copied(), model.get(&path).map(|m| m.0)),
                2 => {
                    cache.set_bytes(path, bytes, &mut gone);
                    if let Some(entry) = model.get_mut(&path) {
                        entry.1 = bytes;
                    }
                }
                _ => {
                    cache.insert(path, i, bytes, &mut gone);
                    model.insert(path, (i, bytes));
                }
            }
            for (path, value) in gone {
                // A rejected value is returned itself; the previous value is evicted, too.
                let before = model.remove(&path);
                prop_assert!(before.is_none_or(|b| b.0 == value || what >= 3));
            }
            let bytes: u64 = model.values().map(|m| m.1).sum();
            prop_assert_eq!(cache.used(), bytes);
            prop_assert!(cache.used() <= capacity);
            prop_assert_eq!(cache.len(), model.len());
            for (path, (value, bytes)) in &model {
                prop_assert_eq!(cache.peek(*path), Some(value));
                prop_assert_eq!(cache.bytes_of(*path), Some(*bytes));
            }
            let mut held: Vec<_> = cache.paths().collect();
            held.sort();
            prop_assert!(held.iter().eq(model.keys()));
        }
    }

    #[test]
    fn lru_lets_the_oldest_go(
        capacity in 1_u64..200,
        steps in prop::collection::vec((any::<bool>(), 0_usize..20, 1_u64..60), 0..300),
    ) {
        let ids = paths(20);
        let mut cache = Cache::new(capacity, Policy::Lru);
        let mut model: Vec<(PathId, u64)> = Vec::new();
        for (read, path, bytes) in steps {
            let path = ids[path];
            let found = model.iter().position(|m| m.0 == path);
            if read {
                prop_assert_eq!(cache.get(path).is_some(), found.is_some());
                if let Some(at) = found {
                    let entry = model.remove(at);
                    model.push(entry);
                }
                continue;
            }
            cache.insert(path, (), bytes, &mut Vec::new());
            if let Some(at) = found {
                model.remove(at);
            }
            if bytes <= capacity {
                model.push((path, bytes));
            }
            while model.iter().map(|m| m.1).sum::<u64>() > capacity {
                model.remove(0);
            }
            let mut held: Vec<_> = cache.paths().collect();
            let mut expected: Vec<_> = model.iter().map(|m| m.0).collect();
            held.sort();
            expected.sort();
            prop_assert_eq!(held, expected);
        }
    }
}

/// Each policy has to keep a few hot values during a scan over many cold ones.
#[test]
fn modern_policies_withstand_a_scan() {
    let ids = paths(10_000);
    let mut hits = BTreeMap::new();
    for policy in Policy::ALL {
        let mut cache = Cache::new(100, policy);
        let mut found = 0;
        for (turn, once) in ids[50..].iter().enumerate() {
            let hot = ids[((turn * 2_654_435_761) >> 9) % 50];
            for path in [hot, *once, ids[50 + (turn * 7) % 9_000]] {
                if cache.get(path).is_some() {
                    found += u32::from(path == hot);
                } else {
                    cache.insert(path, (), 1, &mut Vec::new());
                }
            }
        }
        hits.insert(policy.name(), found);
    }
    assert!(hits["w-tinylfu"] * 4 > 5 * hits["lru"], "{hits:?}");
    assert!(hits["s3-fifo"] * 4 > 5 * hits["lru"], "{hits:?}");
    assert!(hits["sieve"] * 4 > 5 * hits["lru"], "{hits:?}");
}

#[test]
fn what_is_spared_stays_a_while() {
    let ids = paths(4);
    let mut cache = Cache::new(3, Policy::Lru);
    let mut gone = Vec::new();
    for path in &ids[..3] {
        cache.insert(*path, 0, 1, &mut gone);
    }
    let spare = |path, spared: &mut u32| {
        *spared += 1;
        path == ids[0]
    };
    cache.insert_sparing(ids[3], 0, 1, spare, &mut gone);
    assert_eq!(gone, [(ids[1], 1)]);
    assert!(cache.peek(ids[0]).is_some());
}
