//! `esker cluster check`: verifies every server of a cluster, and prints one report.
//!
//! Each server is checked by itself. An edge and its inverse on two servers are compared by checksums: each edge adds the same number to
//! one sum at its own server and to another at the server of its inverse.

use super::stores::{StoreLocation, Stores};
use crate::args::{ClusterCheckArgs, RowFormat};
use esker::rpc::Client;
use esker::{CheckOptions, CheckReport, Problem};
use esker_model::Cancel;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::progress::Progress;
use esker_terminal::units::counted;
use serde_json::json;

/// Maximum number of comparisons of differing sums; a write in progress may be in one sum and not yet in the other.
const ROUNDS: usize = 3;

pub(super) fn run(args: &ClusterCheckArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let stores = Stores::find(&args.target.target, context)?;
    let mut reports = all(&stores, args.repair, context)?;
    let mut differences = vec![difference(&reports)];
    let running = stores.running();
    while running && differences.len() < ROUNDS && differences.last() != Some(&0) {
        let again = all(&stores, false, context)?;
        differences.push(difference(&again));
        reports = again;
    }
    let last = differences.last().copied().unwrap_or(0);
    // Differences of writes in progress change between comparisons.
    let lasting = last != 0 && (!running || differences.iter().all(|d| *d == last));
    let complete = reports.iter().all(|(_, r)| r.complete);
    let verdict = match (complete, last, lasting) {
        (false, ..) => "not compared: it was stopped before the end",
        (true, 0, _) => "agree",
        (true, _, true) => "differ",
        (true, _, false) => "not compared: too much is being written meanwhile",
    };
    print(&reports, verdict, args.format.format, context)?;
    let open = reports
        .iter()
        .any(|(_, r)| r.problems_total > 0 && !r.problems.iter().all(|p| p.repaired));
    Ok(Outcome::partly_if(open || lasting || !complete))
}

fn difference(reports: &[(StoreLocation, CheckReport)]) -> u64 {
    let sum = |of: fn(&CheckReport) -> u64| {
        let all = reports.iter().map(|(_, report)| of(report));
        all.fold(0, u64::wrapping_add)
    };
    sum(|r| r.edges_sum).wrapping_sub(sum(|r| r.inverses_sum))
}

fn all(
    stores: &Stores,
    repair: bool,
    context: &Context,
) -> anyhow::Result<Vec<(StoreLocation, CheckReport)>> {
    let progress = Progress::rows(context.globals.quiet, "rows checked");
    let mut done = 0;
    let mut reports = Vec::new();
    for place in stores.all()? {
        let mut so_far = 0;
        let report = {
            let mut told = |rows| {
                so_far = rows;
                progress.at(done + rows);
            };
            one(&place, repair, &context.interrupt, &mut told, context)?
        };
        done += report.rows.max(so_far);
        let stop = !report.complete;
        reports.push((place, report));
        if stop {
            break;
        }
    }
    Ok(reports)
}

fn one(
    place: &StoreLocation,
    repair: bool,
    cancel: &dyn Cancel,
    told: &mut dyn FnMut(u64),
    context: &Context,
) -> anyhow::Result<CheckReport> {
    let address = match place {
        StoreLocation::Served { address, .. } => address,
        StoreLocation::Folder { folder, .. } => {
            let database = context
                .open_options()
                .part_of("the cluster is being checked")
                .open(&folder.to_string_lossy())?;
            let options = CheckOptions { repair, part: true };
            let report = database.check(&options, cancel, told)?;
            database.close()?;
            return Ok(report);
        }
    };
    let report = Client::connect(address)?.check_part(repair, cancel, told)?;
    let problem = |p: esker::rpc::proto::check_report::Problem| Problem {
        what: p.what,
        detail: p.detail,
        repaired: p.repaired,
    };
    Ok(CheckReport {
        rows: report.rows,
        vertices: report.vertices,
        edges: report.edges,
        history: report.history,
        problems: report.problems.into_iter().map(problem).collect(),
        problems_total: report.problems_total,
        complete: report.complete,
        edges_sum: report.edges_sum,
        inverses_sum: report.inverses_sum,
    })
}

fn print(
    reports: &[(StoreLocation, CheckReport)],
    verdict: &str,
    format: RowFormat,
    context: &mut Context,
) -> anyhow::Result<()> {
    let sum = |of: fn(&CheckReport) -> u64| reports.iter().map(|(_, r)| of(r)).sum::<u64>();
    let problems = sum(|r| r.problems_total);
    if format == RowFormat::Json {
        let stores: Vec<_> = reports
            .iter()
            .map(|(place, r)| {
                let problems: Vec<_> = r
                    .problems
                    .iter()
                    .map(|p| json!({"what": p.what, "detail": p.detail, "repaired": p.repaired}))
                    .collect();
                json!({
                    "store": place.store(),
                    "at": place.label(),
                    "complete": r.complete,
                    "rows": r.rows,
                    "vertices": r.vertices,
                    "edges": r.edges,
                    "history": r.history,
                    "problems_total": r.problems_total,
                    "problems": problems,
                })
            })
            .collect();
        let json = json!({
            "stores": stores,
            "rows": sum(|r| r.rows),
            "problems_total": problems,
            "inverse_edges": verdict,
        });
        writeln!(context.out, "{}", serde_json::to_string_pretty(&json)?)?;
        return Ok(());
    }
    let columns = [
        "store", "at", "rows", "vertices", "edges", "history", "problems",
    ];
    let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
    for (place, report) in reports {
        rows.row(vec![
            Cell::Count(place.store().into()),
            place.label().into(),
            Cell::Count(report.rows),
            Cell::Count(report.vertices),
            Cell::Count(report.edges),
            Cell::Count(report.history),
            Cell::Count(report.problems_total),
        ])?;
    }
    rows.finish()?;
    context.out.flush()?;
    for (place, report) in reports {
        for p in &report.problems {
            let mended = if p.repaired { " (mended)" } else { "" };
            context.warn(&format!(
                "store {}: {}: {}{mended}",
                place.store(),
                p.what,
                p.detail
            ));
        }
        let unlisted = report.problems_total - report.problems.len() as u64;
        if unlisted > 0 {
            context.warn(&format!(
                "store {}: {} more not listed",
                place.store(),
                counted(unlisted, "problem", "problems")
            ));
        }
    }
    context.note(&format!(
        "read {} of {}; edges and their inverses on all stores: {verdict}; {}",
        counted(sum(|r| r.rows), "row", "rows"),
        counted(reports.len() as u64, "store", "stores"),
        match problems {
            0 => "all else is well".to_owned(),
            n => counted(n, "problem", "problems"),
        }
    ));
    Ok(())
}
