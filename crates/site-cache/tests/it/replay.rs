//! Replays: deterministic, and checked against results computed by hand.

use esker_site_cache::predict::PredictorKind;
use esker_site_cache::replay::{Pace, ReplaySettings, Report, SimulatedOrigin, Size, Tiers, run};
use esker_site_cache::trace::{Traces, yahoo};

fn replay(text: &str, settings: &ReplaySettings) -> Report {
    let mut traces = Traces::new();
    let trace = traces
        .read(text.as_bytes(), None, false, None)
        .unwrap()
        .unwrap();
    let origin = SimulatedOrigin::before(&trace.events, &traces);
    run(settings, &trace.events, &[], &mut traces, &origin, &|| {
        false
    })
}

fn line(t: f64, op: &str, path: &str) -> String {
    format!("{{\"t\":{t},\"client\":\"c\",\"op\":\"{op}\",\"path\":\"{path}\"}}\n")
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn three_reads_by_hand() {
    let text = [
        line(0.0, "list", "/a"),
        line(1.0, "list", "/b"),
        line(2.0, "list", "/a"),
    ]
    .concat();
    for (tiers, far) in [(Tiers::EdgeCloud, 38.0), (Tiers::EdgeFogCloud, 42.0)] {
        let report = replay(
            &text,
            &ReplaySettings {
                predictor: PredictorKind::Lru,
                tiers,
                ..ReplaySettings::default()
            },
        );
        assert_eq!(
            (report.reads, report.hits, report.fetched, report.prefetched),
            (3, 1, 2, 0)
        );
        assert!(
            near(report.mean_latency_ms, (2.0 * far + 1.0) / 3.0),
            "{report:?}"
        );
        assert_eq!(report.at_origin, 2);
    }
    // Two identical requests within a round trip are sent once: the second waits for the rest of it.
    let text = [line(0.0, "list", "/a"), line(0.010, "list", "/a")].concat();
    let report = replay(
        &text,
        &ReplaySettings {
            predictor: PredictorKind::Lru,
            ..ReplaySettings::default()
        },
    );
    assert_eq!((report.hits, report.at_origin), (0, 1));
    assert!(near(report.mean_latency_ms, 33.0), "{report:?}");
}

#[test]
fn dls_by_hand() {
    // Misses on 1, 2 and 3 pass T = 2: the parent is listed, then 4 and 5 are fetched.
    let text: String = (1..=5)
        .map(|i| line(f64::from(i), "list", &format!("/p/{i}")))
        .collect();
    let report = replay(
        &text,
        &ReplaySettings {
            predictor: PredictorKind::Dls,
            ..ReplaySettings::default()
        },
    );
    assert_eq!((report.reads, report.hits, report.fetched), (5, 2, 3));
    assert_eq!((report.prefetched, report.prefetched_used), (3, 2));
    assert!(
        near(report.mean_latency_ms, (3.0 * 38.0 + 2.0) / 5.0),
        "{report:?}"
    );
    // Guarded DLS lists after one miss less.
    let report = replay(
        &text,
        &ReplaySettings {
            predictor: PredictorKind::Guarded,
            ..ReplaySettings::default()
        },
    );
    assert_eq!(
        (report.hits, report.prefetched, report.prefetched_used),
        (3, 4, 3)
    );
}

#[test]
fn one_listing_serves_stats_and_absences() {
    let mut text: String = (1..=6)
        .map(|i| line(f64::from(i), "stat", &format!("/p/{i}")))
        .collect();
    text.push_str("{\"t\":9,\"op\":\"stat\",\"path\":\"/p/none\",\"found\":false}\n");
    let report = replay(
        &text,
        &ReplaySettings {
            predictor: PredictorKind::Guarded,
            ..ReplaySettings::default()
        },
    );
    // Two misses, one listing.
    assert_eq!(
        (report.fetched, report.prefetched, report.prefetched_used),
        (2, 1, 1)
    );
    assert_eq!((report.hits, report.by_listing, report.absent), (5, 5, 1));
}

#[test]
fn what_is_deleted_is_gone_and_what_is_made_is_there() {
    let text = [
        line(0.0, "list", "/d"),
        line(1.0, "create", "/d/new"),
        line(2.0, "stat", "/d/new"),
        line(3.0, "delete", "/d/new"),
        line(4.0, "stat", "/d/new"),
        line(5.0, "list", "/d"),
    ]
    .concat();
    for edges in [1, 3] {
        let report = replay(
            &text,
            &ReplaySettings {
                predictor: PredictorKind::Lru,
                edges,
                ..ReplaySettings::default()
            },
        );
        // Only the first is fetched: later changes arrive as publications.
        assert_eq!(
            (report.reads, report.hits, report.fetched),
            (4, 3, 1),
            "{report:?}"
        );
        assert_eq!(report.absent, 1);
    }
}

#[test]
fn a_closed_loop_waits_for_answers() {
    let text: String = (0..10)
        .map(|i| line(0.0, "stat", &format!("/{i}/x")))
        .collect();
    let open = replay(
        &text,
        &ReplaySettings {
            predictor: PredictorKind::Lru,
            ..ReplaySettings::default()
        },
    );
    let closed = replay(
        &text,
        &ReplaySettings {
            predictor: PredictorKind::Lru,
            pace: Pace::Closed,
            ..ReplaySettings::default()
        },
    );
    assert!(
        near(open.seconds, 0.038) && near(closed.seconds, 0.38),
        "{open:?} {closed:?}"
    );
    assert!(near(open.mean_latency_ms, 38.0) && near(closed.mean_latency_ms, 38.0));
    // One service takes one request at a time.
    let one = replay(
        &text,
        &ReplaySettings {
            predictor: PredictorKind::Lru,
            services: 1,
            ..ReplaySettings::default()
        },
    );
    assert!(near(one.seconds, 0.018 + 0.2), "{one:?}");
}

#[test]
fn a_replay_follows_from_its_trace() {
    let once = |predictor| {
        let mut traces = Traces::new();
        let settings = yahoo::GeneratorSettings::of(4_000);
        let before = yahoo::make(&mut traces, settings).unwrap();
        let events =
            yahoo::make(&mut traces, yahoo::GeneratorSettings { day: 1, ..settings }).unwrap();
        let origin = SimulatedOrigin::before(&events, &traces);
        let bytes = Size::Percent(10.0).bytes(&events, &traces);
        let settings = ReplaySettings {
            predictor,
            edge_bytes: bytes,
            fog_bytes: 3 * bytes,
            tiers: Tiers::EdgeFogCloud,
            edges: 2,
            services: 20,
            ..ReplaySettings::default()
        };
        let report = run(&settings, &events, &before, &mut traces, &origin, &|| false);
        assert!(report.edge_bytes_most <= bytes);
        assert_eq!(report.failed, 0);
        report
    };
    for predictor in PredictorKind::ALL {
        assert_eq!(once(predictor), once(predictor), "{predictor}");
    }
}

/// The paper's figure at a small scale: predictors rank in its order.
#[test]
fn directories_beat_sequences_beat_nothing_on_a_trace_like_yahoos() {
    let mut traces = Traces::new();
    let settings = yahoo::GeneratorSettings::of(30_000);
    let before = yahoo::make(&mut traces, settings).unwrap();
    let events = yahoo::make(&mut traces, yahoo::GeneratorSettings { day: 1, ..settings }).unwrap();
    let origin = SimulatedOrigin::before(&events, &traces);
    let bytes = Size::Percent(10.0).bytes(&events, &traces);
    let mut rate = |predictor, trained: bool| {
        let settings = ReplaySettings {
            predictor,
            edge_bytes: bytes,
            ..ReplaySettings::default()
        };
        let training = if trained { &before[..] } else { &[] };
        run(&settings, &events, training, &mut traces, &origin, &|| {
            false
        })
    };
    let lru = rate(PredictorKind::Lru, false);
    assert!((0.12..0.16).contains(&lru.hit_rate()), "{lru:?}");
    let nexus = rate(PredictorKind::Nexus, false);
    assert!(
        (nexus.hit_rate() - lru.hit_rate()).abs() < 0.02,
        "{nexus:?}"
    );
    let amp = rate(PredictorKind::Amp, true);
    assert!((0.45..0.75).contains(&amp.hit_rate()), "{amp:?}");
    let guarded = rate(PredictorKind::Guarded, false);
    assert!(guarded.hit_rate() > 0.72, "{guarded:?}");
    assert!(guarded.prefetched < guarded.reads, "{guarded:?}");
    assert!(
        guarded.mean_latency_ms * 2.0 < lru.mean_latency_ms,
        "{guarded:?}"
    );
}

/// The documented figures of 90,000 reads, of which the prefetched entries and the listings together exceed a cache of 10 %.
/// Story: listings and entries that had been read displaced prefetched ones, which were prefetched again: 74 % of hits with 1.2
/// prefetches for each read.
#[test]
fn guarded_has_the_documented_hits_where_listings_and_entries_exceed_the_cache() {
    let mut traces = Traces::new();
    let events = yahoo::make(&mut traces, yahoo::GeneratorSettings::of(90_000)).unwrap();
    let origin = SimulatedOrigin::before(&events, &traces);
    let settings = ReplaySettings {
        predictor: PredictorKind::Guarded,
        edge_bytes: Size::Percent(10.0).bytes(&events, &traces),
        ..ReplaySettings::default()
    };
    let report = run(&settings, &events, &[], &mut traces, &origin, &|| false);
    assert!(report.hit_rate() > 0.86, "{report:?}");
    assert!(report.prefetched < report.reads, "{report:?}");
    assert!(report.edge_bytes_most <= settings.edge_bytes, "{report:?}");
}

/// Directories of 60 names, each listed whole and in turn, five times. A name that was listed before is not prefetched again, unless
/// that pays: here each of them is.
#[test]
fn guarded_prefetches_again_what_is_listed_again() {
    let names = (0..5).flat_map(|_| (0..20).flat_map(|d| (0..60).map(move |n| (d, n))));
    let text: String = (0_u32..)
        .zip(names)
        .map(|(t, (d, n))| line(f64::from(t), "list", &format!("/d{d}/n{n}")))
        .collect();
    let report = replay(&text, &twentieth(PredictorKind::Guarded, 6_000));
    assert!(report.hit_rate() > 0.9, "{report:?}");
    assert!(report.prefetched < report.reads, "{report:?}");
}

/// Names of 40 directories at random, so that a request tells nothing of the next one.
#[test]
fn guarded_prefetches_little_where_siblings_are_no_hint() {
    let mut state = 1_u32;
    let text: String = (0..6_000)
        .map(|t| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = state >> 16;
            let path = format!("/d{}/n{}", at % 40, at / 40 % 500);
            line(f64::from(t), "list", &path)
        })
        .collect();
    let lru = replay(&text, &twentieth(PredictorKind::Lru, 6_000));
    let guarded = replay(&text, &twentieth(PredictorKind::Guarded, 6_000));
    assert!(guarded.hits + 60 > lru.hits, "{lru:?} {guarded:?}");
    assert!(10 * guarded.prefetched < guarded.reads, "{guarded:?}");
}

/// A cache for a twentieth of the entries that `reads` requests for short names return.
fn twentieth(predictor: PredictorKind, reads: u64) -> ReplaySettings {
    ReplaySettings {
        predictor,
        edge_bytes: reads * 163 / 20,
        ..ReplaySettings::default()
    }
}
