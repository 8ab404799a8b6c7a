//! A cluster in a box, from seeds.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "everything here is a test; figures of what was played are for people"
)]

use esker_testkit::sim::alone;
use esker_testkit::sim::cluster::Subject;
use esker_testkit::sim::liar::Lie;
use esker_testkit::sim::moving::Moves;
use esker_testkit::sim::names;
use esker_testkit::sim::objects;
use esker_testkit::sim::play::{Played, Scenario, Weather, explain, play_or_explain};
use esker_testkit::sim::workload::Ground;
use std::ops::Range;

fn play(weather: Weather, seeds: Range<u64>) {
    play_with(weather, seeds, false);
}

/// `windows`: stores die with their servers, but for what was persisted.
fn play_with(weather: Weather, seeds: Range<u64>, windows: bool) {
    let mut total = Played::default();
    let runs = seeds.end - seeds.start;
    for seed in seeds {
        let mut scenario = Scenario::of(seed, weather, Subject::Nodes);
        scenario.shape.windows = windows;
        let played = play_or_explain(&scenario);
        total.records += played.records;
        total.applied += played.applied;
        total.messages += played.messages;
    }
    println!(
        "{runs} runs, {weather:?}: {} calls, {} batches applied, {} messages",
        total.records, total.applied, total.messages
    );
    assert!(total.applied as u64 > 8 * runs, "runs that do nothing");
}

fn play_objects(weather: Weather, seeds: Range<u64>) {
    play_objects_by(objects::play, weather, seeds);
}

fn play_objects_by(play: fn(u64, Weather, bool) -> Played, weather: Weather, seeds: Range<u64>) {
    let world = Ground::new(1).world;
    let mut total = Played::default();
    let runs = seeds.end - seeds.start;
    for seed in seeds {
        let name = format!("objects, seed {seed}, {weather:?}");
        let played = explain(&name, &world, 100, &|tracing| play(seed, weather, tracing));
        total.records += played.records;
        total.applied += played.applied;
        total.messages += played.messages;
    }
    println!(
        "{runs} runs of objects, {weather:?}: {} calls, {} batches applied, {} messages",
        total.records, total.applied, total.messages
    );
    assert!(total.applied as u64 > 4 * runs, "runs that do nothing");
}

fn play_files(weather: Weather, seeds: Range<u64>) {
    let world = Ground::new(1).world;
    let mut total = Played::default();
    let runs = seeds.end - seeds.start;
    for seed in seeds {
        let name = format!("files, seed {seed}, {weather:?}");
        let played = explain(&name, &world, 100, &|tracing| {
            names::together::play(seed, weather, tracing)
        });
        total.records += played.records;
        total.applied += played.applied;
        total.messages += played.messages;
        total.promises += played.promises;
        total.tables += played.tables;
    }
    println!(
        "{runs} runs of files, {weather:?}: {} calls, {} changes done, {} messages, {} promises, {} tables read",
        total.records, total.applied, total.messages, total.promises, total.tables
    );
    assert!(total.applied as u64 > 8 * runs, "runs that do nothing");
    assert!(
        weather == Weather::Flood || total.promises as u64 > runs,
        "runs that promise nothing"
    );
}

fn play_back(seeds: Range<u64>) {
    let world = Ground::new(1).world;
    let mut tables = 0;
    for seed in seeds {
        let name = format!("files that come back, seed {seed}");
        let play = |tracing| names::together::play_back(seed, tracing);
        tables += explain(&name, &world, 100, &play).tables;
    }
    println!("{tables} tables read");
    assert!(tables > 0, "runs that move nothing");
}

fn play_alone(seeds: Range<u64>) {
    let world = Ground::new(5).world;
    for seed in seeds {
        explain(&format!("seed {seed}, alone"), &world, 100, &|tracing| {
            alone::play(seed, Subject::Nodes, tracing)
        });
    }
}

#[test]
fn one_client_is_answered_as_by_the_model() {
    play_alone(0..60);
}

#[test]
fn one_client_is_answered_about_files_as_by_one_engine() {
    let world = Ground::new(1).world;
    let (mut splits, mut rows, mut tables) = (0, 0, 0);
    // The last ones found attributes of `/` that were old, and groups that merged trees did not take over.
    for seed in (0..40).chain([44, 52, 99, 148]) {
        let played = explain(
            &format!("files, seed {seed}, alone"),
            &world,
            100,
            &|tracing| names::alone::play(seed, tracing),
        );
        splits += played.records;
        rows += played.applied;
        tables += played.tables;
    }
    println!("{splits} directories had split, {rows} rows, {tables} tables read");
    assert!(splits > 40 && rows > 400, "runs that do nothing");
}

#[test]
fn clients_together() {
    play(Weather::Calm, 0..70);
}

#[test]
fn messages_are_lost_late_and_repeated() {
    play(Weather::Rain, 0..70);
}

#[test]
fn servers_stand_still_and_do_not_hear_each_other() {
    play(Weather::Wind, 0..60);
}

#[test]
fn servers_die() {
    play(Weather::Storm, 0..60);
}

/// What servers have told each other, and clients that keep nothing, survives their stores.
#[test]
fn servers_die_with_their_stores() {
    play_with(Weather::Storm, 0..60, true);
}

#[test]
fn objects_while_servers_die_with_their_stores() {
    play_objects_by(objects::play_windows, Weather::Storm, 0..60);
}

#[test]
fn servers_become_more_or_fewer() {
    play(Weather::Flood, 0..60);
}

#[test]
fn objects_while_servers_become_more_or_fewer() {
    play_objects(Weather::Flood, 0..60);
}

/// The whole of a living cluster: nodes, membership, etcd and storage.
fn play_tide(what: &str, play: &dyn Fn(u64, bool) -> Played, seeds: Range<u64>) {
    let world = Ground::new(16).world;
    let runs = seeds.end - seeds.start;
    let (mut applied, mut copies, mut all) = (0, 0, Moves::default());
    for seed in seeds {
        let name = format!("{what}, seed {seed}, servers move");
        let played = explain(&name, &world, 300, &|tracing| play(seed, tracing));
        applied += played.applied as u64;
        copies += played.copies;
        all.opened += played.moves.opened;
        all.withheld += played.moves.withheld;
        all.killed += played.moves.killed;
    }
    println!("{runs} runs of {what} that move: {applied} changes, {copies} copies, {all:?}");
    assert!(
        what != "batches" || copies as u64 > runs,
        "runs of which no copies are made"
    );
    assert!(applied > 8 * runs, "runs that do nothing");
    assert!(
        all.opened > 20 * runs && all.killed > runs && all.withheld > 0,
        "runs in which nothing moves"
    );
}

#[test]
fn servers_move_between_processes() {
    let play = |seed, tracing| Scenario::of(seed, Weather::Tide, Subject::Nodes).play(tracing);
    play_tide("batches", &play, 0..120);
}

/// Where nobody looks at leases and epochs, what was acknowledged gets lost, and the checks say so.
#[test]
fn servers_that_heed_no_lease_are_caught() {
    let mut caught = 0;
    for seed in 0..80 {
        let mut scenario = Scenario::of(seed, Weather::Tide, Subject::Nodes);
        scenario.shape.heedless = true;
        let findings = scenario.play(false).findings;
        caught += u32::from(findings.iter().any(|f| f.contains("is lost")));
        if caught == 2 {
            return;
        }
    }
    panic!("of 80 careless clusters {caught} were caught");
}

#[test]
fn objects_while_servers_move() {
    let play = |seed, tracing| objects::play(seed, Weather::Tide, tracing);
    play_tide("objects", &play, 0..60);
}

#[test]
fn files_while_servers_move() {
    let play = |seed, tracing| names::together::play(seed, Weather::Tide, tracing);
    play_tide("files", &play, 0..60);
}

#[test]
fn files_of_clients_together() {
    play_files(Weather::Calm, 0..60);
}

#[test]
fn files_while_messages_are_lost() {
    play_files(Weather::Rain, 0..60);
}

#[test]
fn files_come_back_to_servers_that_have_given_them() {
    play_back(0..60);
}

#[test]
fn files_while_servers_stand_still() {
    play_files(Weather::Wind, 0..40);
}

#[test]
fn files_while_servers_become_more_or_fewer() {
    play_files(Weather::Flood, 0..60);
}

#[test]
fn files_while_servers_die() {
    play_files(Weather::Storm, 0..60);
}

#[test]
fn objects_of_clients_together() {
    play_objects(Weather::Calm, 0..60);
}

#[test]
fn objects_while_messages_are_lost() {
    play_objects(Weather::Rain, 0..60);
}

#[test]
fn objects_while_servers_stand_still() {
    play_objects(Weather::Wind, 0..40);
}

#[test]
fn objects_while_servers_die() {
    play_objects(Weather::Storm, 0..60);
}

/// Seeds that found something once. Whoever changes what a seed stands for makes them ordinary ones.
const FOUND: [(Weather, u64); 8] = [
    // Counters of parts with older versions were lost when the engine was opened again.
    (Weather::Storm, 21),
    (Weather::Storm, 55),
    (Weather::Storm, 89),
    // A part that came late, of a coordinator that had been started anew, stayed prepared for ever.
    (Weather::Storm, 47),
    (Weather::Storm, 83),
    // A split that was under way forgot a partition that was adopted meanwhile.
    (Weather::Storm, 54),
    (Weather::Wind, 54),
    // What a client had had acknowledged, and one server had not done yet, was missing for the client's next batch.
    (Weather::Wind, 55),
];

/// The same for objects.
const FOUND_OBJECTS: [(Weather, u64); 4] = [
    // A batch that was refused came a second time, late, and was applied.
    (Weather::Rain, 117),
    (Weather::Wind, 2074),
    // What ID attributes named had a change pending that the client had had acknowledged.
    (Weather::Rain, 203),
    (Weather::Wind, 393),
];

#[test]
fn what_was_found_once() {
    for (weather, seed) in FOUND {
        play_or_explain(&Scenario::of(seed, weather, Subject::Nodes));
    }
    for (weather, seed) in FOUND_OBJECTS {
        play_objects(weather, seed..seed + 1);
    }
}

#[test]
fn a_seed_tells_everything() {
    for seed in 0..5 {
        let scenario = Scenario::of(seed, Weather::Storm, Subject::Nodes);
        let (first, second) = (scenario.play(false), scenario.play(true));
        assert_eq!(first.digest, second.digest, "seed {seed}");
        assert_eq!(first.messages, second.messages, "seed {seed}");
    }
}

/// An engine in the cluster's place passes.
#[test]
fn the_checks_find_nothing_where_nothing_is() {
    for seed in 0..60 {
        for weather in [Weather::Calm, Weather::Rain, Weather::Storm] {
            play_or_explain(&Scenario::of(seed, weather, Subject::OneEngine));
        }
        let played = alone::play(seed, Subject::OneEngine, false);
        assert_eq!(played.findings, Vec::<String>::new(), "seed {seed}");
    }
}

/// One that lies does not.
#[test]
fn the_checks_notice_lies() {
    for lie in Lie::ALL {
        let mut noticed = 0;
        let mut runs = 0;
        for seed in 0..40 {
            let mut scenario = Scenario::of(seed, Weather::Calm, Subject::OneEngine);
            scenario.shape.lie = lie;
            (scenario.taste.dated, scenario.taste.polite) = (false, true);
            scenario.calls = 30;
            noticed += u64::from(!scenario.play(false).findings.is_empty());
            runs += 1;
        }
        println!("{lie:?}: noticed in {noticed} of {runs} runs");
        assert!(4 * noticed > runs, "{lie:?}: {noticed} of {runs}");
    }
}

/// Thousands of them.
#[test]
#[ignore = "takes many minutes"]
fn very_many_runs() {
    play_alone(10_000..11_000);
    for weather in [
        Weather::Calm,
        Weather::Rain,
        Weather::Wind,
        Weather::Storm,
        Weather::Flood,
        Weather::Tide,
    ] {
        play(weather, 10_000..12_000);
        play_objects(weather, 10_000..12_000);
        play_files(weather, 10_000..12_000);
    }
}

/// `ESKER_SIM=storm:100..200` plays those and counts what it finds, `objects-storm:100..200` the same with objects,
/// `files-storm:100..200` with files, `files-back:100..200` with those that come back, `windows-storm:100..200` with stores that die; one seed alone tells all its events.
#[test]
#[ignore = "for those who look for something"]
fn these_runs() {
    let what = std::env::var("ESKER_SIM").unwrap_or_else(|_| "storm:0..1".into());
    let (weather, seeds) = what.split_once(':').unwrap();
    let (from, until) = seeds.split_once("..").unwrap();
    let seeds: Range<u64> = from.parse().unwrap()..until.parse().unwrap();
    let events = if seeds.end - seeds.start == 1 {
        usize::MAX
    } else {
        20
    };
    let world = Ground::new(16).world;
    let mut bad = Vec::new();
    for seed in seeds {
        let begin = std::time::Instant::now();
        let of_objects = weather.strip_prefix("objects-");
        let of_files = weather.strip_prefix("files-");
        let of_windows = weather.strip_prefix("windows-");
        let kind = match of_objects.or(of_files).or(of_windows).unwrap_or(weather) {
            "alone" => None,
            "rain" => Some(Weather::Rain),
            "wind" => Some(Weather::Wind),
            "storm" => Some(Weather::Storm),
            "flood" => Some(Weather::Flood),
            "tide" => Some(Weather::Tide),
            _ => Some(Weather::Calm),
        };
        let mut scenario = kind.map(|kind| Scenario::of(seed, kind, Subject::Nodes));
        if let Some(scenario) = &mut scenario {
            scenario.shape.windows = of_windows.is_some();
        }
        let run = |tracing| match (&scenario, kind) {
            _ if weather == "files-back" => names::together::play_back(seed, tracing),
            (_, Some(kind)) if of_files.is_some() => names::together::play(seed, kind, tracing),
            (_, None) if of_files.is_some() => names::alone::play(seed, tracing),
            (_, Some(kind)) if of_files.is_some() => names::together::play(seed, kind, tracing),
            (Some(_), Some(kind)) if of_objects.is_some() => objects::play(seed, kind, tracing),
            (Some(scenario), _) => scenario.play(tracing),
            (None, _) => alone::play(seed, Subject::Nodes, tracing),
        };
        let name = format!("seed {seed} {weather} {scenario:?}");
        let played = std::panic::catch_unwind(|| explain(&name, &world, events, &run));
        match played {
            Ok(p) => println!(
                "{seed} ok: {} calls, {} applied, {} tables, {} polls, {} messages, {:?}",
                p.records,
                p.applied,
                p.tables,
                p.polls,
                p.messages,
                begin.elapsed()
            ),
            Err(_) => bad.push(seed),
        }
    }
    println!("bad: {bad:?}");
}
