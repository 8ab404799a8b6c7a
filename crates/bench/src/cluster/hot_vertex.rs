//! Single-edge inserts at one vertex from all clients, compared with inserts at many vertices.

use super::ClusterBench;
use super::args::HotArgs;
use super::plot::{Line, Picture};
use super::report::{Bound, number, rate, ratio};
use super::servers::{Servers, Spec};
use super::work::{self, InsertResult, Types, Work, middle};
use crate::source::vertex_id;
use esker_cluster::Kind;
use esker_cluster::placement::DIRECTORY_THRESHOLD_DEFAULT;
use esker_model::{Batch, GraphRead as _};
use esker_terminal::output::Cell;
use esker_terminal::units::count;
use serde_json::json;

const COLUMNS: &[&str] = &[
    "placement",
    "servers",
    "clients",
    "inserts",
    "hot_per_s",
    "uniform_per_s",
    "times_slower",
    "hot_cpu_us",
    "uniform_cpu_us",
    "hot_p50_us",
    "hot_p99_us",
    "uniform_p99_us",
    "others",
];

/// Allowed slowdown of inserts at one vertex under DIDO.
const SLOWER_MOST: f64 = 1.5;
/// Number of edges of each of the many vertices.
const EACH: u32 = 8;

struct HotVertexCase {
    placement: Kind,
    servers: u32,
    hot: Vec<InsertResult>,
    uniform: Vec<InsertResult>,
}

pub(super) fn run(bench: &mut ClusterBench<'_>, args: &HotArgs) -> anyhow::Result<()> {
    bench.report.columns = COLUMNS;
    bench.report.settings = json!({
        "clients": args.clients,
        "inserts_per_client": args.inserts,
        "threshold": args.split.threshold,
    });
    let mut cases: Vec<HotVertexCase> = args
        .placements
        .iter()
        .flat_map(|placement| {
            args.servers.iter().map(|servers| HotVertexCase {
                placement: *placement,
                servers: *servers,
                hot: Vec::new(),
                uniform: Vec::new(),
            })
        })
        .collect();
    let ran = rounds(bench, args, &mut cases);
    cases.retain(|case| !case.hot.is_empty() && !case.uniform.is_empty());
    report(bench, args, &cases);
    let lines = cases.chunk_by(|a, b| a.placement == b.placement);
    let lines = lines.filter_map(|series| {
        Some(Line {
            name: series.first()?.placement.name().to_owned(),
            points: series
                .iter()
                .map(|c| (f64::from(c.servers), middle(&c.hot, InsertResult::rate)))
                .collect(),
        })
    });
    Picture {
        title: "Figure 17. Inserts at one vertex",
        across: "servers",
        up: "edges a second, all clients together",
        lines: lines.collect(),
    }
    .write(bench, "figure-17-hot-vertex.svg")?;
    ran
}

fn rounds(
    bench: &ClusterBench<'_>,
    args: &HotArgs,
    cases: &mut [HotVertexCase],
) -> anyhow::Result<()> {
    for round in 0..bench.shared.rounds {
        for case in &mut *cases {
            // The two sides alternate in going first.
            for turn in [round % 2, (round + 1) % 2] {
                bench.check_interrupt()?;
                let hot = turn == 0;
                bench.say(&format!(
                    "round {} of {}: {} inserts at {}, {} server(s), {}",
                    round + 1,
                    bench.shared.rounds,
                    count(u64::from(args.clients) * u64::from(args.inserts)),
                    if hot { "one vertex" } else { "many vertices" },
                    case.servers,
                    case.placement,
                ));
                let done = run_once(bench, args, case, hot)?;
                if hot {
                    &mut case.hot
                } else {
                    &mut case.uniform
                }
                .push(done);
            }
        }
    }
    Ok(())
}

fn run_once(
    bench: &ClusterBench<'_>,
    args: &HotArgs,
    case: &HotVertexCase,
    hot: bool,
) -> anyhow::Result<InsertResult> {
    let spec = Spec {
        servers: case.servers,
        placement: case.placement,
        threshold: args.split.threshold,
        directory_threshold: DIRECTORY_THRESHOLD_DEFAULT,
        shared: false,
        memory: super::MEMORY,
    };
    let mut servers = Servers::start(bench, &spec)?;
    let clients = work::connect(bench, &servers, args.clients)?;
    let Some(first) = clients.first() else {
        anyhow::bail!("there are no clients");
    };
    let types = Types::define(bench, first)?;
    let all = args
        .clients
        .checked_mul(args.inserts)
        .filter(|n| *n < u32::MAX / 2)
        .ok_or_else(|| {
            esker_terminal::exit::usage(
                "--clients times --inserts is too much: at most 2,147,483,646",
            )
        })?;
    let sources = (all / EACH).max(1);
    let make = |client: usize, number: usize| {
        // Concurrent edges of different clients get adjacent numbers.
        let edge = number as u32 * args.clients + client as u32;
        let source = if hot { 0 } else { edge % sources };
        let mut batch = Batch::new();
        batch.push(types.edge(vertex_id(source), vertex_id(sources + edge)));
        batch
    };
    let work = Work {
        batches: &|_| args.inserts as usize,
        make: &make,
        count: all.into(),
    };
    let done = work::insert(bench, &mut servers, &clients, &work)?;
    work::check_edge_count(first, &types, all.into())?;
    if hot {
        let degree = first.degrees(&[(vertex_id(0), types.links)])?;
        anyhow::ensure!(
            degree == [u64::from(all)],
            "the vertex has {degree:?} edges after {all} inserts"
        );
    }
    drop(clients);
    servers.stop()?;
    Ok(done)
}

fn report(bench: &mut ClusterBench<'_>, args: &HotArgs, cases: &[HotVertexCase]) {
    for case in cases {
        let hot = |of: fn(&InsertResult) -> f64| middle(&case.hot, of);
        let uniform = |of: fn(&InsertResult) -> f64| middle(&case.uniform, of);
        bench.report.rows.push(vec![
            case.placement.name().into(),
            Cell::Count(case.servers.into()),
            Cell::Count(args.clients.into()),
            Cell::Count(u64::from(args.clients) * u64::from(args.inserts)),
            rate(hot(InsertResult::rate)),
            rate(uniform(InsertResult::rate)),
            ratio(uniform(InsertResult::rate), hot(InsertResult::rate)),
            number(hot(InsertResult::cpu_micros), 1),
            number(uniform(InsertResult::cpu_micros), 1),
            number(hot(|d| d.p50), 0),
            number(hot(|d| d.p99), 0),
            number(uniform(|d| d.p99), 0),
            number(hot(|d| d.others), 2),
        ]);
        if case.placement == Kind::Dido {
            bench.report.wish(
                format!(
                    "dido, {} server(s): times slower at one vertex than at many",
                    case.servers
                ),
                uniform(InsertResult::rate) / hot(InsertResult::rate),
                Bound::AtMost(SLOWER_MOST),
            );
        }
    }
}
