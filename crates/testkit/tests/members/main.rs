//! Membership under fire, from seeds.

#![allow(
    clippy::print_stdout,
    reason = "everything here is a test; figures of what was played are for people"
)]

use esker_testkit::members::{Figures, Members};
use std::ops::Range;

fn play(seeds: Range<u64>) {
    let count = seeds.end - seeds.start;
    let mut all = Figures::default();
    for seed in seeds {
        match Members::run(seed) {
            Ok(figures) => {
                all.acknowledged += figures.acknowledged;
                all.reads += figures.reads;
                all.withheld += figures.withheld;
                all.fenced += figures.fenced;
                all.opened += figures.opened;
            }
            Err(what) => {
                let (_, log) = Members::told(seed);
                let tail = log.iter().skip(log.len().saturating_sub(400));
                let tail: Vec<&str> = tail.map(String::as_str).collect();
                panic!("seed {seed}: {what}\n{}", tail.join("\n"));
            }
        }
    }
    println!("{count} runs: {all:?}");
    assert!(all.acknowledged > 100 * count && all.withheld > count && all.fenced > 0);
}

/// `SEED=17` plays one again.
#[test]
fn nothing_is_lost_whoever_fails() {
    match std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        Some(seed) => play(seed..seed + 1),
        None => play(0..2_000),
    }
}

#[test]
#[ignore = "takes minutes"]
fn very_many_seeds() {
    play(1_000_000..1_100_000);
}

#[test]
fn one_seed_is_one_history() {
    for seed in 0..3 {
        assert_eq!(Members::told(seed), Members::told(seed));
    }
}
