//! Simulations of membership under faults, from seeds.

#![allow(
    clippy::print_stdout,
    reason = "everything here is a test; figures of what was played are for people"
)]

use esker_testkit::members::{Members, MembershipStats};
use std::ops::Range;

fn run(seeds: Range<u64>) {
    let count = seeds.end - seeds.start;
    let mut all = MembershipStats::default();
    for seed in seeds {
        match Members::run(seed) {
            Ok(stats) => {
                all.acknowledged += stats.acknowledged;
                all.reads += stats.reads;
                all.withheld += stats.withheld;
                all.fenced += stats.fenced;
                all.opened += stats.opened;
            }
            Err(what) => {
                let (_, log) = Members::run_with_log(seed);
                let tail = log.iter().skip(log.len().saturating_sub(400));
                let tail: Vec<&str> = tail.map(String::as_str).collect();
                panic!("seed {seed}: {what}\n{}", tail.join("\n"));
            }
        }
    }
    println!("{count} runs: {all:?}");
    assert!(all.acknowledged > 100 * count && all.withheld > count && all.fenced > 0);
}

/// `SEED=17` repeats one run.
#[test]
fn no_acknowledged_write_is_lost() {
    match std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        Some(seed) => run(seed..seed + 1),
        None => run(0..2_000),
    }
}

#[test]
#[ignore = "takes minutes"]
fn very_many_seeds() {
    run(1_000_000..1_100_000);
}

#[test]
fn one_seed_is_one_history() {
    for seed in 0..3 {
        assert_eq!(Members::run_with_log(seed), Members::run_with_log(seed));
    }
}
