//! A graph inserted from many clients with increasing numbers of servers: the cost of each further server, and the total rate on
//! the available cores.

use super::ClusterBench;
use super::args::InsertArgs;
use super::plot::{Line, Picture};
use super::report::{Bound, number, rate, ratio};
use super::servers::{Servers, Spec};
use super::work::{self, InsertResult, Types, Work, dealt, middle};
use crate::source::{Graph, vertex_id};
use esker_cluster::Kind;
use esker_cluster::placement::DIRECTORY_THRESHOLD_DEFAULT;
use esker_model::Batch;
use esker_terminal::output::Cell;
use esker_terminal::units::count;
use serde_json::json;

pub(super) const COLUMNS: &[&str] = &[
    "placement",
    "batch",
    "servers",
    "clients",
    "edges",
    "edges_per_s",
    "ratio",
    "cpu_us",
    "cpu_ratio",
    "server_us",
    "peer_calls",
    "busy",
    "busy_ratio",
    "others",
    "p50_us",
    "p99_us",
];

/// Maximum processor time per edge relative to one server, from the issue.
const COST_MOST: f64 = 1.3;
/// A number of busy cores below this part of one server's is not explained by the core count; above, it is variation of runs.
const BUSY_LEAST: f64 = 0.9;

/// One row of the table.
struct InsertCase {
    placement: Kind,
    batch: usize,
    clients: u32,
    servers: u32,
    edges: usize,
    rounds: Vec<InsertResult>,
}

pub(super) fn run(bench: &mut ClusterBench<'_>, args: &InsertArgs) -> anyhow::Result<()> {
    let graph = args.graph.graph(None)?;
    bench.report.columns = COLUMNS;
    bench.report.settings = json!({
        "graph": args.graph.name(),
        "clients": args.clients,
        "threshold": args.split.threshold,
    });
    let mut sizes = vec![(args.batch as usize, graph.edges.len())];
    if args.singles {
        let edges = usize::try_from(args.single_edges)?.min(graph.edges.len());
        sizes.push((1, edges));
    }
    let mut cases = Vec::new();
    for placement in &args.placements {
        for (batch, edges) in &sizes {
            for clients in &args.clients {
                cases.extend(args.counts.servers.iter().map(|servers| InsertCase {
                    placement: *placement,
                    batch: *batch,
                    clients: *clients,
                    servers: *servers,
                    edges: *edges,
                    rounds: Vec::new(),
                }));
            }
        }
    }
    let ran = rounds(bench, args, &graph, &mut cases);
    cases.retain(|case| !case.rounds.is_empty());
    report(bench, &cases);
    draw(bench, &cases)?;
    ran
}

fn rounds(
    bench: &ClusterBench<'_>,
    args: &InsertArgs,
    graph: &Graph,
    cases: &mut [InsertCase],
) -> anyhow::Result<()> {
    for round in 0..bench.shared.rounds {
        for case in &mut *cases {
            bench.check_interrupt()?;
            bench.say(&format!(
                "round {} of {}: {} edges in batches of {} from {} client(s) into {} server(s), {}",
                round + 1,
                bench.shared.rounds,
                count(case.edges as u64),
                case.batch,
                case.clients,
                case.servers,
                case.placement,
            ));
            let done = run_once(bench, args, graph, case)?;
            case.rounds.push(done);
        }
    }
    Ok(())
}

fn run_once(
    bench: &ClusterBench<'_>,
    args: &InsertArgs,
    graph: &Graph,
    case: &InsertCase,
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
    let clients = work::connect(bench, &servers, case.clients)?;
    let Some(first) = clients.first() else {
        anyhow::bail!("there are no clients");
    };
    let types = Types::define(bench, first)?;
    let batches = case.edges.div_ceil(case.batch);
    let make = |client: usize, number: usize| {
        let start = (number * clients.len() + client) * case.batch;
        let end = (start + case.batch).min(case.edges);
        let mut batch = Batch::new();
        for (source, destination) in &graph.edges[start..end] {
            batch.push(types.edge(vertex_id(*source), vertex_id(*destination)));
        }
        batch
    };
    let work = Work {
        batches: &|client| dealt(batches, clients.len(), client),
        make: &make,
        count: case.edges as u64,
    };
    let done = work::insert(bench, &mut servers, &clients, &work)?;
    work::check_edge_count(first, &types, case.edges as u64)?;
    drop(clients);
    servers.stop()?;
    Ok(done)
}

fn report(bench: &mut ClusterBench<'_>, cases: &[InsertCase]) {
    // Cases of one placement, batch size and number of clients are consecutive, in ascending order of servers.
    let series = |case: &InsertCase| (case.placement, case.batch, case.clients);
    for series in cases.chunk_by(|a, b| series(a) == series(b)) {
        let Some(first) = series.first() else {
            continue;
        };
        let base = |of: fn(&InsertResult) -> f64| middle(&first.rounds, of);
        let (mut cost, mut busy) = (0.0_f64, f64::INFINITY);
        for case in series {
            let now = |of: fn(&InsertResult) -> f64| middle(&case.rounds, of);
            cost = cost.max(now(InsertResult::cpu_micros) / base(InsertResult::cpu_micros));
            busy = busy.min(now(|d| d.busy) / base(|d| d.busy));
            bench.report.rows.push(vec![
                case.placement.name().into(),
                Cell::Count(case.batch as u64),
                Cell::Count(case.servers.into()),
                Cell::Count(case.clients.into()),
                Cell::Count(case.edges as u64),
                rate(now(InsertResult::rate)),
                ratio(now(InsertResult::rate), base(InsertResult::rate)),
                number(now(InsertResult::cpu_micros), 1),
                ratio(
                    now(InsertResult::cpu_micros),
                    base(InsertResult::cpu_micros),
                ),
                number(now(InsertResult::server_micros), 1),
                number(now(InsertResult::peer_calls_each), 2),
                number(now(|d| d.busy), 2),
                ratio(now(|d| d.busy), base(|d| d.busy)),
                number(now(|d| d.others), 2),
                number(now(|d| d.p50), 0),
                number(now(|d| d.p99), 0),
            ]);
        }
        if series.len() > 1 {
            let name = format!(
                "{}, batches of {}, {} client(s)",
                first.placement, first.batch, first.clients
            );
            bench.report.wish(
                format!("{name}: processor time of an insert, the most against the first line's"),
                cost,
                Bound::AtMost(COST_MOST),
            );
            bench.report.wish(
                format!("{name}: cores kept busy, the least against the first line's"),
                busy,
                Bound::AtLeast(BUSY_LEAST),
            );
        }
    }
    bench.report.notes.push(
        "ratio: of the rate to the first line's. It is busy_ratio / cpu_ratio: as long as as many cores are busy, a lower rate is what \
         the higher cost leaves of them. others: cores that other programs kept busy meanwhile"
            .to_owned(),
    );
}

fn draw(bench: &ClusterBench<'_>, cases: &[InsertCase]) -> anyhow::Result<()> {
    for (name, single) in [("insert-batches", false), ("insert-singles", true)] {
        let of = cases.iter().filter(|case| (case.batch == 1) == single);
        let of: Vec<_> = of.collect();
        let Some(first) = of.first() else { continue };
        let lines = of.chunk_by(|a, b| (a.placement, a.clients) == (b.placement, b.clients));
        let lines = lines.filter_map(|series| {
            let points = series.iter().map(|case| {
                (
                    f64::from(case.servers),
                    middle(&case.rounds, InsertResult::rate),
                )
            });
            let case = series.first()?;
            Some(Line {
                name: format!("{}, {} client(s)", case.placement.name(), case.clients),
                points: points.collect(),
            })
        });
        let title = format!(
            "Inserts by servers on one machine, batches of {}",
            first.batch
        );
        Picture {
            title: &title,
            across: "servers",
            up: "edges a second, all clients together",
            lines: lines.collect(),
        }
        .write(bench, &format!("figure-11-{name}.svg"))?;
    }
    Ok(())
}
