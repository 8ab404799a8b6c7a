//! A server is added to a busy cluster: delays for clients, and balance afterwards.

use super::super::ClusterBench;
use super::super::args::AddArgs;
use super::super::report::{Bound, number, ratio};
use super::load::{WriteLatency, run_under_load};
use super::members::{Layout, Members};
use super::{conclude, load, open, percentile};
use crate::report::median;
use esker_terminal::output::Cell;
use serde_json::json;
use std::time::Duration;

const COLUMNS: &[&str] = &[
    "when",
    "seconds",
    "writes",
    "writes_per_s",
    "p50_ms",
    "p99_ms",
    "max_ms",
    "p99_ratio",
];
/// Calls that waited for the last moved store end up to this long after the store is served; they count as made during the move.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// Maximum ratio of the 99th percentile of writes during the move to the one before.
const SLOWER_MAX: f64 = 3.0;
/// Maximum relative deviation of the fullest and emptiest server from the mean.
const UNEVEN_MAX: f64 = 0.1;

pub(in super::super) fn run(bench: &mut ClusterBench<'_>, args: &AddArgs) -> anyhow::Result<bool> {
    let moving = &args.moving;
    bench.report.columns = COLUMNS;
    let layout = Layout {
        servers: moving.servers,
        spare: 1,
        stores: moving.stores,
        lease: moving.lease,
        relays: false,
    };
    let mut members = Members::start(bench, &layout)?;
    let targets = members.targets();
    let writers = open(bench, &targets, moving.writers)?;
    let readers = open(bench, &targets, moving.readers)?;
    let Some(first) = writers.first() else {
        anyhow::bail!("there is no client");
    };
    let load = load(first, moving, true)?;
    let (from, to) = run_under_load(&load, &writers, &readers, || {
        // The first writes fill empty caches and logs.
        wait(bench, args.phase / 2)?;
        let warm = load.now();
        wait(bench, args.phase)?;
        bench.say("a server is added");
        let from = load.now();
        members.add()?;
        members.settle(bench)?;
        let settled = load.now();
        wait(bench, AFTERWARDS)?;
        let to = load.now();
        bench.say(&format!(
            "it has its share after {:.1} s",
            settled.saturating_sub(from).as_secs_f64()
        ));
        wait(bench, args.phase)?;
        Ok(((warm, from), to))
    })?;
    let (warm, from) = from;
    let samples = load.samples();
    let end = load.now();
    let phases = [
        ("before", warm, from),
        ("while", from, to),
        ("after", to, end),
    ];
    let figures: Vec<LatencySummary> = phases
        .iter()
        .map(|(_, from, to)| LatencySummary::of(&samples, *from, *to))
        .collect();
    let base = figures.first().map_or(0.0, |f| f.p99);
    for ((when, from, to), f) in phases.iter().zip(&figures) {
        let seconds = to.saturating_sub(*from).as_secs_f64();
        bench.report.rows.push(vec![
            (*when).into(),
            number(seconds, 1),
            Cell::Count(f.count),
            number(f.count as f64 / seconds, 0),
            number(f.p50, 2),
            number(f.p99, 2),
            number(f.max, 1),
            ratio(f.p99, base),
        ]);
    }
    let (servers, ..) = members.now()?;
    let stores: Vec<f64> = servers.iter().map(|m| m.stores.len() as f64).collect();
    let vertices = members.vertices()?;
    let rows: Vec<f64> = vertices.values().map(|n| *n as f64).collect();
    bench.report.settings = json!({
        "servers": moving.servers,
        "stores": moving.stores,
        "lease_s": moving.lease.as_secs_f64(),
        "writers": moving.writers,
        "readers": moving.readers,
        "stores_by_server": stores,
        "vertices_by_server": vertices,
    });
    let during = figures.get(1).map_or(0.0, |f| f.p99);
    bench.report.wish(
        "p99 of a write while it is added, beside before",
        during / base,
        Bound::AtMost(SLOWER_MAX),
    );
    bench.report.wish(
        "stores: how far a server is from the mean, at most, as a part of it",
        uneven(&stores),
        Bound::AtMost(UNEVEN_MAX),
    );
    bench.report.notes.push(format!(
        "vertices and objects by server: {} (at most {:.0} % from the mean)",
        vertices
            .values()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        uneven(&rows) * 100.0
    ));
    conclude(bench.report, &load, first)
}

/// Latencies of writes between two times, in milliseconds.
struct LatencySummary {
    count: u64,
    p50: f64,
    p99: f64,
    max: f64,
}

impl LatencySummary {
    fn of(samples: &[WriteLatency], from: Duration, to: Duration) -> Self {
        let within = samples.iter().filter(|s| s.at >= from && s.at < to);
        let took: Vec<f64> = within.map(|s| s.took.as_secs_f64() * 1e3).collect();
        Self {
            count: took.len() as u64,
            p50: median(took.clone()),
            p99: percentile(&took, 0.99),
            max: percentile(&took, 1.0),
        }
    }
}

fn uneven(parts: &[f64]) -> f64 {
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    let far = parts.iter().map(|part| (part - mean).abs() / mean);
    far.fold(0.0, f64::max)
}

fn wait(bench: &ClusterBench<'_>, time: Duration) -> anyhow::Result<()> {
    let until = std::time::Instant::now() + time;
    while std::time::Instant::now() < until {
        bench.check_interrupt()?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::uneven;

    #[test]
    fn how_uneven() {
        assert!(uneven(&[8.0, 8.0, 8.0]).abs() < 1e-9);
        assert!((uneven(&[12.0, 9.0, 9.0]) - 0.2).abs() < 1e-9);
    }
}
