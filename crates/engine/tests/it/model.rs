//! Random histories: after every few steps all reads are compared with the model's.
//!
//! `ESKER_SEEDS=5000` runs more of them, `ESKER_SEEDS=17..18` replays one.

use esker_engine::Settings;
use esker_store::Durability;
use esker_testkit::history::History;
use esker_testkit::run::{Run, RunStats, run_or_explain, seeds};
use proptest::test_runner::{Config, TestRunner};

const STEPS: usize = 60;

fn settings(adjacency_bytes: u64, pending_counters_max: usize, durability: Durability) -> Settings {
    Settings {
        adjacency_bytes,
        durability,
        pending_counters_max,
        group_commits: true,
        index_objects_least: 4,
        ..Settings::default()
    }
}

fn run(variable_default: u64, first: u64, settings: Settings) {
    let mut total = RunStats::default();
    let mut histories = 0;
    for seed in seeds("ESKER_SEEDS", variable_default) {
        let figures = run_or_explain(first + seed, STEPS, &|| Run::in_memory(settings).unwrap());
        histories += 1;
        total.applied += figures.applied;
        total.refused += figures.refused;
        total.grouped += figures.grouped;
        total.bulk += figures.bulk;
        total.archived += figures.archived;
        total.opened += figures.opened;
        total.compared += figures.compared;
    }
    println!("{histories} histories: {total:?}");
    // Guards against histories that change nothing.
    if histories >= 20 {
        assert!(total.applied > 10 * histories, "{total:?}");
        assert!(
            total.refused > 0 && total.grouped > 0 && total.bulk > 0 && total.archived > 0,
            "{total:?}"
        );
    }
}

#[test]
fn everything_fits_in_the_cache() {
    run(100, 0, settings(64 << 20, 1 << 18, Durability::Relaxed));
}

#[test]
fn nothing_fits_in_the_cache() {
    run(60, 1_000_000, settings(0, 1, Durability::Relaxed));
}

#[test]
fn the_cache_is_always_full() {
    run(60, 2_000_000, settings(1500, 3, Durability::Sync));
}

/// Random histories through proptest, which shrinks failures in its own way.
#[test]
fn histories_of_proptest() {
    let config = Config {
        cases: 60,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let outcome = runner.run(&History::strategy(50), |history| {
        let mut run = Run::in_memory(settings(1 << 20, 64, Durability::Sync)).unwrap();
        run.run(&history)
            .map_err(proptest::test_runner::TestCaseError::fail)
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}
