//! Random histories on fjall, with closing and reopening: it must behave as the in-memory store does.
//!
//! `ESKER_FJALL_SEEDS=200` runs more of them.

use esker_engine::Settings;
use esker_store::{Durability, Store, StoreSettings};
use esker_store_fjall::FjallStore;
use esker_testkit::run::{Run, run_or_explain, seeds};
use std::sync::Arc;

#[test]
fn histories_on_fjall() {
    let settings = Settings {
        adjacency_bytes: 1 << 20,
        durability: Durability::Relaxed,
        pending_counters_max: 20,
        group_commits: true,
        index_objects_least: 4,
        ..Settings::default()
    };
    let mut opened = 0;
    for seed in seeds("ESKER_FJALL_SEEDS", 6) {
        let stats = run_or_explain(3_000_000 + seed, 40, &|| {
            let folder = tempfile::tempdir().unwrap();
            let store = StoreSettings {
                memory_bytes: 32 << 20,
                threads: 1,
            };
            // The folder lives as long as the run.
            let open = move || -> esker_model::Result<Arc<dyn Store>> {
                Ok(Arc::new(FjallStore::open(folder.path(), &store, true)?))
            };
            Run::opened(Box::new(open), settings).unwrap()
        });
        opened += stats.opened;
    }
    assert!(opened > 6, "{opened}");
}
