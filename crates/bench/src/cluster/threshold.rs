//! The effect of the split threshold on inserting a vertex's edges and on reading them.

use super::ClusterBench;
use super::args::ThresholdArgs;
use super::plot::{Line, Picture};
use super::report::{number, ratio};
use super::servers::{Servers, Spec};
use super::work::{self, InsertResult, Types, Work, middle};
use crate::report::median;
use crate::source::{vertex_id, vertex_key};
use esker::Database;
use esker_cluster::placement::DIRECTORY_THRESHOLD_DEFAULT;
use esker_model::traversal::Budget;
use esker_model::{Batch, EdgeSelect, Flow, GraphRead as _, GraphWrite as _, Traversal, Versions};
use esker_terminal::output::Cell;
use serde_json::json;
use std::time::Instant;

const COLUMNS: &[&str] = &[
    "threshold",
    "edges",
    "insert_ms",
    "insert_ratio",
    "insert_cpu_ms",
    "scan_ms",
    "scan_cpu_ms",
    "travel_ms",
    "others",
];

/// Number of reads of the edges in each round.
const READS: usize = 9;

struct ThresholdCase {
    threshold: u64,
    inserts: Vec<InsertResult>,
    scan_ms: Vec<f64>,
    scan_cpu_ms: Vec<f64>,
    travel_ms: Vec<f64>,
}

pub(super) fn run(bench: &mut ClusterBench<'_>, args: &ThresholdArgs) -> anyhow::Result<()> {
    bench.report.columns = COLUMNS;
    bench.report.settings = json!({
        "servers": args.servers,
        "placement": args.placement.name(),
        "batch": args.batch,
    });
    let mut cases: Vec<ThresholdCase> = args
        .sweep
        .iter()
        .map(|threshold| ThresholdCase {
            threshold: *threshold,
            inserts: Vec::new(),
            scan_ms: Vec::new(),
            scan_cpu_ms: Vec::new(),
            travel_ms: Vec::new(),
        })
        .collect();
    let ran = rounds(bench, args, &mut cases);
    cases.retain(|case| !case.travel_ms.is_empty());
    if let Some(last) = cases.last() {
        let base = middle(&last.inserts, |d| d.wall);
        for case in &cases {
            let insert = |of: fn(&InsertResult) -> f64| middle(&case.inserts, of);
            bench.report.rows.push(vec![
                Cell::Count(case.threshold),
                Cell::Count(args.edges.into()),
                number(insert(|d| d.wall) * 1e3, 1),
                ratio(insert(|d| d.wall), base),
                number(insert(|d| d.client_cpu + d.server_cpu) * 1e3, 1),
                number(median(case.scan_ms.clone()), 2),
                number(median(case.scan_cpu_ms.clone()), 2),
                number(median(case.travel_ms.clone()), 2),
                number(insert(|d| d.others), 2),
            ]);
        }
    }
    draw(bench, args, &cases)?;
    ran
}

fn rounds(
    bench: &ClusterBench<'_>,
    args: &ThresholdArgs,
    cases: &mut [ThresholdCase],
) -> anyhow::Result<()> {
    for round in 0..bench.shared.rounds {
        for case in &mut *cases {
            bench.check_interrupt()?;
            bench.say(&format!(
                "round {} of {}: threshold {}",
                round + 1,
                bench.shared.rounds,
                case.threshold
            ));
            run_once(bench, args, case)?;
        }
    }
    Ok(())
}

fn run_once(
    bench: &ClusterBench<'_>,
    args: &ThresholdArgs,
    case: &mut ThresholdCase,
) -> anyhow::Result<()> {
    let spec = Spec {
        servers: args.servers,
        placement: args.placement,
        threshold: case.threshold,
        directory_threshold: DIRECTORY_THRESHOLD_DEFAULT,
        shared: false,
        memory: super::MEMORY,
    };
    let mut servers = Servers::start(bench, &spec)?;
    let clients = work::connect(bench, &servers, 1)?;
    let Some(client) = clients.first() else {
        anyhow::bail!("there is no client");
    };
    let types = Types::define(bench, client)?;
    // A vertex that only edges mention cannot start a traversal.
    let mut start = Batch::new();
    start.push(types.vertex(vertex_key(0), 0));
    client.apply(start)?;
    let make = |_, number: usize| {
        let start = number as u32 * args.batch;
        let mut batch = Batch::new();
        for edge in start..(start + args.batch).min(args.edges) {
            batch.push(types.edge(vertex_id(0), vertex_id(edge + 1)));
        }
        batch
    };
    let work = Work {
        batches: &|_| args.edges.div_ceil(args.batch) as usize,
        make: &make,
        count: args.edges.into(),
    };
    let inserted = work::insert(bench, &mut servers, &clients, &work)?;
    let chain = format!("v(\"node:{}\").e(\"links\").v()", vertex_key(0));
    let chain = Traversal::parse(&chain)?;
    let cpu = servers.cpu_seconds();
    for _ in 0..READS {
        bench.check_interrupt()?;
        let began = Instant::now();
        let edges = scan(client, &types)?;
        case.scan_ms.push(began.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(
            edges == args.edges,
            "a scan gives {edges} edges of {}",
            args.edges
        );
    }
    // The processor clocks of servers have steps of 10 ms, so all scans are measured together.
    let cpu = (servers.cpu_seconds() - cpu) * 1e3 / READS as f64;
    case.scan_cpu_ms.push(cpu);
    for _ in 0..READS {
        bench.check_interrupt()?;
        let began = Instant::now();
        let result = client.travel(&chain, &Budget::default(), &bench.context.interrupt)?;
        case.travel_ms.push(began.elapsed().as_secs_f64() * 1e3);
        let reached = result.sets.last().map_or(0, |set| set.vertices.len());
        anyhow::ensure!(
            reached == args.edges as usize,
            "a traversal reaches {reached} vertices of {}",
            args.edges
        );
    }
    case.inserts.push(inserted);
    drop(clients);
    servers.stop()
}

fn scan(client: &Database, types: &Types) -> anyhow::Result<u32> {
    let select = EdgeSelect {
        types: vec![types.links],
        versions: Versions::NOW,
        properties: true,
        after: None,
    };
    let mut edges = 0;
    client.scan_edges(&[vertex_id(0)], &select, &mut |_, _| {
        edges += 1;
        Flow::Continue(())
    })?;
    Ok(edges)
}

fn draw(
    bench: &ClusterBench<'_>,
    args: &ThresholdArgs,
    cases: &[ThresholdCase],
) -> anyhow::Result<()> {
    let line = |name: &str, of: &dyn Fn(&ThresholdCase) -> f64| Line {
        name: name.to_owned(),
        points: cases.iter().map(|c| (c.threshold as f64, of(c))).collect(),
    };
    let title = format!(
        "Figure 8. {} edges of one vertex: inserting them",
        args.edges
    );
    Picture {
        title: &title,
        across: "split threshold",
        up: "milliseconds",
        lines: vec![line("insert", &|c| middle(&c.inserts, |d| d.wall) * 1e3)],
    }
    .write(bench, "figure-8-insert.svg")?;
    let title = format!("Figure 8. {} edges of one vertex: reading them", args.edges);
    Picture {
        title: &title,
        across: "split threshold",
        up: "milliseconds",
        lines: vec![
            line("scan", &|c| median(c.scan_ms.clone())),
            line("traversal of one step", &|c| median(c.travel_ms.clone())),
        ],
    }
    .write(bench, "figure-8-scan.svg")
}
