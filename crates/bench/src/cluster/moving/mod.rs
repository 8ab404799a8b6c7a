//! Clusters whose stores move, under faults: [`failover`] kills servers, [`add`] adds one, [`soak`] injects random
//! faults of all kinds.
//! [`members`] are the servers, [`load`] the clients, [`verify`] checks the final state.

pub(super) mod add;
pub(super) mod failover;
mod load;
mod members;
mod relay;
pub(super) mod soak;
mod verify;

use super::ClusterBench;
use super::args::MovingArgs;
use super::report::{Bound, ClusterReport, number};
use crate::report::median;
use esker::Database;
use esker_terminal::output::Cell;
use esker_terminal::units::counted;
use load::ClientLoad;
use std::time::Duration;

/// Allowed recovery time beyond the lease, in seconds (issue: lease + 2 s).
const BEYOND_LEASE: f64 = 2.0;
/// Maximum number of error messages shown.
const SHOWN: usize = 5;

/// Returns the figure below which `part` of all figures are, or the largest.
fn percentile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * part).ceil() as usize;
    let last = sorted.last().copied().unwrap_or_default();
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(last)
}

/// Returns a row of statistics of times in seconds.
fn times(what: &str, figures: &[f64]) -> Vec<Cell> {
    let of = |value: f64| {
        if figures.is_empty() {
            Cell::Empty
        } else {
            number(value, 3)
        }
    };
    vec![
        what.into(),
        Cell::Count(figures.len() as u64),
        of(percentile(figures, 0.0)),
        of(median(figures.to_vec())),
        of(percentile(figures, 0.95)),
        of(percentile(figures, 1.0)),
    ]
}

const TIMES: &[&str] = &["what", "count", "min_s", "median_s", "p95_s", "max_s"];

fn seconds(times: &[Duration]) -> Vec<f64> {
    times.iter().map(Duration::as_secs_f64).collect()
}

/// Opens clients, distributed over the targets in turn.
fn open(bench: &ClusterBench<'_>, targets: &[String], count: u32) -> anyhow::Result<Vec<Database>> {
    let options = bench.context.open_options();
    let each = targets.iter().cycle().take(count as usize);
    Ok(each
        .map(|target| options.open(target))
        .collect::<Result<_, _>>()?)
}

/// Creates the load from a workload's options.
fn load(database: &Database, args: &MovingArgs, broad: bool) -> anyhow::Result<ClientLoad> {
    ClientLoad::new(database, args.writers as usize, args.rest, broad)
}

/// Verifies the final state and reports the counts of checks, errors and violations.
fn conclude(
    report: &mut ClusterReport,
    load: &ClientLoad,
    database: &Database,
) -> anyhow::Result<bool> {
    let looked = verify::verify(load, database)?;
    let (errors, violations) = (load.errors(), load.violations());
    report.notes.push(format!(
        "{} acknowledged and {}, all checked; afterwards {} looked at",
        counted(load.writes(), "write", "writes"),
        counted(load.reads(), "read", "reads"),
        counted(
            looked,
            "version, object and file",
            "versions, objects and files"
        ),
    ));
    for (what, texts) in [("error", &errors), ("violation", &violations)] {
        for text in texts.first.iter().take(SHOWN) {
            report.notes.push(format!("{what}: {text}"));
        }
    }
    report.wish("calls that failed", errors.count as f64, Bound::AtMost(0.0));
    report.wish(
        "acknowledged writes lost or done twice, deletions undone, sessions that went back",
        violations.count as f64,
        Bound::AtMost(0.0),
    );
    if let serde_json::Value::Object(settings) = &mut report.settings {
        settings.insert("writes".into(), load.writes().into());
        settings.insert("reads".into(), load.reads().into());
        settings.insert("looked_at".into(), looked.into());
        settings.insert("slow".into(), load.slow().first.into());
        settings.insert("errors".into(), errors.count.into());
        settings.insert("violations".into(), violations.count.into());
    }
    Ok(errors.count == 0 && violations.count == 0)
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let at = |part| percentile(&figures, part).round() as i64;
        assert_eq!([at(0.0), at(0.5), at(0.95), at(1.0)], [1, 50, 95, 100]);
        assert!(percentile(&[], 0.5).abs() < 1e-9);
    }
}
