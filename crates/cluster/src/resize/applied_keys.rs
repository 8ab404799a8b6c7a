//! Idempotency keys of applied batches, for a changed set of servers.
//!
//! - A client's numbered batches are remembered by the servers that coordinated them. Each new server gets all of
//!   them: a batch that is sent again, to any server, is applied once.
//! - Idempotency keys of other forms are looked up on all servers, so they may be on any.
//! - Tagging by a filter is a commit on each server. If all servers had done it, all new ones have. If only some had,
//!   changed and unchanged objects are now mixed, and a repetition must do all of it again; it finds the tags as they
//!   should be then.

use crate::node::tagging::{parse_share, share};
use esker_engine::DatabaseMeta;
use esker_model::Version;
use esker_model::idempotency::ProducerKey;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;

/// Idempotency keys by the new server that gets them.
#[derive(Debug)]
pub(super) struct AppliedKeys(Vec<BTreeMap<Vec<u8>, Version>>);

impl AppliedKeys {
    /// Distributes the idempotency keys of all old servers.
    pub(super) fn of(memory: &mut DatabaseMeta, before: u32, after: u32) -> Self {
        let mut servers = vec![BTreeMap::new(); after as usize];
        let mut shares = BTreeMap::<Vec<u8>, (Version, BTreeSet<u32>)>::new();
        for (idempotency_key, version) in std::mem::take(&mut memory.idempotency_keys) {
            if let Some((whole, server)) = parse_share(&idempotency_key) {
                let (newest, had) = shares
                    .entry(whole.to_vec())
                    .or_insert((version, BTreeSet::new()));
                *newest = (*newest).max(version);
                had.insert(server.0);
                continue;
            }
            let index =
                FixedState::default().hash_one(&idempotency_key) % servers.len().max(1) as u64;
            if let Some(server) = servers.get_mut(index as usize) {
                server.insert(idempotency_key, version);
            }
        }
        for (whole, (version, had)) in shares {
            let all = (0..before).all(|server| had.contains(&server));
            match ProducerKey::parse(&whole) {
                // Numbered keys are among the client's batches, too.
                Ok(Some(numbered)) if !all => memory.forget(&numbered),
                Ok(Some(_)) => {}
                _ if all => {
                    for (k, server) in (0..).zip(&mut servers) {
                        let idempotency_key = share(whole.clone(), crate::vnode::ServerId(k));
                        server.insert(idempotency_key, version);
                    }
                }
                _ => {}
            }
        }
        Self(servers)
    }

    pub(super) fn of_server(&self, k: usize) -> BTreeMap<Vec<u8>, Version> {
        self.0.get(k).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::node::tagging::{note, share, share_of};
    use crate::placement::Kind;
    use crate::resize::{Plan, Resize};
    use crate::vnode::ServerId;
    use esker_engine::{
        Absent, Clock, Engine, NoArchive, Settings, SideWrites, idempotency_row_key,
    };
    use esker_model::idempotency::ProducerKey;
    use esker_model::{GraphRead as _, Version};
    use esker_store::memory::MemoryStore;
    use esker_store::{Durability, Table, WriteBatch};
    use std::sync::Arc;

    struct Noon;

    impl Clock for Noon {
        fn now_millis(&self) -> u64 {
            1_700_000_000_000
        }

        fn monotonic_micros(&self) -> u64 {
            0
        }
    }

    fn open(store: &MemoryStore) -> Arc<Engine> {
        let store = Arc::new(store.clone());
        let archive = Arc::new(NoArchive);
        Arc::new(Engine::open(store, Arc::new(Noon), archive, Settings::default()).unwrap())
    }

    fn numbered(number: u64) -> ProducerKey {
        ProducerKey {
            producer: [9; 16],
            sequence: number,
            settled_below: 0,
            created_millis: Noon.now_millis(),
        }
    }

    fn done(engine: &Engine, idempotency_key: Vec<u8>, rows: Vec<Vec<u8>>) {
        let row = |idempotency_key: Vec<u8>| {
            (
                Table::Meta,
                idempotency_row_key(&idempotency_key),
                Some(vec![0; 8]),
            )
        };
        let side_writes = SideWrites {
            idempotency_key: Some(idempotency_key),
            rows: rows.into_iter().map(row).collect(),
            ..SideWrites::default()
        };
        let version = Version(engine.newest_assigned().0 + 1);
        engine
            .apply_part(version, &[], Absent::Refuse, side_writes)
            .unwrap();
    }

    /// Counters that are summed up and not recounted would be lost silently.
    #[test]
    fn sums_of_another_kind_are_refused() {
        let store = MemoryStore::new();
        let old = [open(&store)];
        let plan = Plan {
            placement: Kind::Dido,
            vnodes: 16,
            servers: 3,
            now: Version(0),
        };
        Resize::read(&old, plan).unwrap();
        let mut batch = WriteBatch::default();
        batch.put(
            Table::Counts,
            [vec![0; 16], vec![200, 0, 0, 0, 7, 2]].concat(),
            [9],
        );
        old[0].store().commit(batch, Durability::Relaxed).unwrap();
        let refused = Resize::read(&old, plan).unwrap_err().to_string();
        assert!(refused.contains("counters other than"), "{refused}");
    }

    #[test]
    fn what_was_applied_counts_once_and_what_was_half_tagged_is_done_again() {
        let old = [open(&MemoryStore::new()), open(&MemoryStore::new())];
        let tag = |n: u64, of: &[usize]| {
            for k in of {
                let server = ServerId(*k as u32);
                let notes = vec![note(&numbered(n), server)];
                done(&old[*k], share_of(numbered(n).encode(), server), notes);
            }
        };
        // One batch on each server, tags on both servers, and tags on one server only.
        done(&old[0], numbered(0).encode(), vec![]);
        tag(1, &[0, 1]);
        tag(2, &[1]);
        done(&old[1], numbered(3).encode(), vec![]);
        for k in [0, 1] {
            let server = ServerId(k);
            done(&old[k as usize], share(b"both".to_vec(), server), vec![]);
        }
        done(&old[1], share(b"one".to_vec(), ServerId(1)), vec![]);
        done(&old[1], b"import/1".to_vec(), vec![]);

        let plan = Plan {
            placement: Kind::Dido,
            vnodes: 16,
            servers: 3,
            now: Version(0),
        };
        let resize = Resize::read(&old, plan).unwrap();
        let stores = [MemoryStore::new(), MemoryStore::new(), MemoryStore::new()];
        let mut imported = 0;
        for (k, store) in stores.iter().enumerate() {
            resize.begin(k, &open(store)).unwrap();
            let new = open(store);
            let has = |idempotency_key: &[u8]| new.applied(idempotency_key).unwrap();
            let numbers = [0, 1, 2, 3, 4].map(|n| has(&numbered(n).encode()));
            assert_eq!(numbers, [true, true, false, true, false], "server {k}");
            for server in 0..3 {
                let share = |of: &[u8]| share(of.to_vec(), ServerId(server));
                assert_eq!(has(&share(b"both")), server == k as u32);
                assert!(!has(&share(b"one")));
            }
            imported += u32::from(has(b"import/1"));
            assert!(new.newest_assigned() >= old[1].newest_assigned());
        }
        assert_eq!(imported, 1);
    }
}
