//! Scans of, and three steps from, vertices of every degree, by placement: times for the operations that `esker bench
//! placement` counts.

use super::ClusterBench;
use super::args::ClusterScanArgs;
use super::plot::{Line, Picture};
use super::report::{number, ratio};
use super::servers::{Servers, Spec};
use super::work::{self, Types};
use crate::report::median;
use crate::source::{Graph, vertex_id, vertex_key};
use esker::Database;
use esker_cluster::Kind;
use esker_cluster::placement::DIRECTORY_THRESHOLD_DEFAULT;
use esker_model::traversal::Budget;
use esker_model::{EdgeSelect, Flow, GraphRead as _, Traversal, Versions};
use esker_terminal::output::Cell;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Instant;

const COLUMNS: &[&str] = &[
    "degree",
    "samples",
    "placement",
    "scan_ms",
    "scan_ratio",
    "travel_ms",
    "travel_ratio",
    "scan_edges",
    "travel_edges",
];

/// Number of measurements of each vertex in a round.
const READS: usize = 3;
const STEPS: usize = 3;

/// Vertices whose degrees have the same highest bit.
struct Band {
    /// The highest degree of the band.
    to: u32,
    samples: Vec<u32>,
    /// Results by placement.
    cases: Vec<ScanCase>,
}

/// Milliseconds of each measurement.
struct ScanCase {
    placement: Kind,
    scans: Vec<f64>,
    travels: Vec<f64>,
    scan_edges: u64,
    travel_edges: u64,
}

pub(super) fn run(bench: &mut ClusterBench<'_>, args: &ClusterScanArgs) -> anyhow::Result<()> {
    let graph = args.graph.graph(None)?;
    bench.report.columns = COLUMNS;
    bench.report.settings = json!({
        "graph": args.graph.name(),
        "servers": args.servers,
        "threshold": args.split.threshold,
    });
    let mut bands = bands(&graph, args);
    let mut ran = Ok(());
    for (at, placement) in args.placements.iter().enumerate() {
        ran = one_placement(bench, args, &graph, *placement, at, &mut bands);
        if ran.is_err() {
            break;
        }
    }
    report(bench, &bands);
    for (name, title, of) in [
        (
            "figure-12-scan-time.svg",
            "Scans by placement",
            (|c: &ScanCase| median(c.scans.clone())) as fn(&ScanCase) -> f64,
        ),
        (
            "figure-14-travel-time.svg",
            "Three steps by placement",
            |c: &ScanCase| median(c.travels.clone()),
        ),
    ] {
        let lines = args.placements.iter().map(|placement| Line {
            name: placement.name().to_owned(),
            points: bands
                .iter()
                .flat_map(|band| {
                    let cases = band.cases.iter().filter(|c| c.placement == *placement);
                    cases.map(|case| (f64::from(band.to), of(case)))
                })
                .collect(),
        });
        Picture {
            title,
            across: "out-degree, up to",
            up: "milliseconds",
            lines: lines.collect(),
        }
        .write(bench, name)?;
    }
    ran
}

/// Returns the first vertices of every degree band by number; numbers are independent of degrees.
fn bands(graph: &Graph, args: &ClusterScanArgs) -> Vec<Band> {
    let mut bands: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (vertex, degree) in graph.degrees().into_iter().enumerate() {
        if degree == 0 {
            continue;
        }
        let samples = bands.entry(degree.next_power_of_two()).or_default();
        if samples.len() < args.samples as usize {
            samples.push(vertex as u32);
        }
    }
    bands
        .into_iter()
        .map(|(to, samples)| Band {
            to,
            samples,
            cases: Vec::new(),
        })
        .collect()
}

fn one_placement(
    bench: &ClusterBench<'_>,
    args: &ClusterScanArgs,
    graph: &Graph,
    placement: Kind,
    at: usize,
    bands: &mut [Band],
) -> anyhow::Result<()> {
    bench.say(&format!(
        "loading {} into {} server(s), {placement}",
        args.graph.name(),
        args.servers
    ));
    let spec = Spec {
        servers: args.servers,
        placement,
        threshold: args.split.threshold,
        directory_threshold: DIRECTORY_THRESHOLD_DEFAULT,
        shared: false,
        memory: super::MEMORY_SMALL,
    };
    let mut servers = Servers::start(bench, &spec)?;
    let types = work::load(bench, &mut servers, graph)?;
    let clients = work::connect(bench, &servers, 1)?;
    let Some(client) = clients.first() else {
        anyhow::bail!("there is no client");
    };
    for _ in 0..bench.shared.rounds {
        for band in &mut *bands {
            if band.cases.len() <= at {
                band.cases.push(ScanCase {
                    placement,
                    scans: Vec::new(),
                    travels: Vec::new(),
                    scan_edges: 0,
                    travel_edges: 0,
                });
            }
            let Some(case) = band.cases.get_mut(at) else {
                continue;
            };
            (case.scan_edges, case.travel_edges) = (0, 0);
            for vertex in &band.samples {
                bench.check_interrupt()?;
                sample(bench, client, &types, *vertex, case)?;
            }
        }
    }
    drop(clients);
    servers.stop()
}

fn sample(
    bench: &ClusterBench<'_>,
    client: &Database,
    types: &Types,
    vertex: u32,
    case: &mut ScanCase,
) -> anyhow::Result<()> {
    let select = EdgeSelect {
        types: vec![types.links],
        versions: Versions::NOW,
        properties: true,
        after: None,
    };
    let hops = ".e(\"links\").v()".repeat(STEPS);
    let chain = Traversal::parse(&format!("v(\"node:{}\"){hops}", vertex_key(vertex)))?;
    for read in 0..READS {
        let began = Instant::now();
        let mut edges = 0;
        client.scan_edges(&[vertex_id(vertex)], &select, &mut |_, _| {
            edges += 1;
            Flow::Continue(())
        })?;
        case.scans.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        let result = client.travel(&chain, &Budget::default(), &bench.context.interrupt)?;
        case.travels.push(began.elapsed().as_secs_f64() * 1e3);
        bench.check_interrupt()?;
        if read == 0 {
            case.scan_edges += edges;
            case.travel_edges += result.profile.iter().map(|step| step.edges).sum::<u64>();
        }
    }
    Ok(())
}

fn report(bench: &mut ClusterBench<'_>, bands: &[Band]) {
    for band in bands {
        let edge_cut = band.cases.iter().find(|c| c.placement == Kind::EdgeCut);
        for case in &band.cases {
            let (scan, travel) = (median(case.scans.clone()), median(case.travels.clone()));
            let of = |time: f64, other: fn(&ScanCase) -> f64| {
                edge_cut.map_or(Cell::Empty, |edge_cut| ratio(time, other(edge_cut)))
            };
            bench.report.rows.push(vec![
                format!("{} to {}", band.to / 2 + 1, band.to).into(),
                Cell::Count(band.samples.len() as u64),
                case.placement.name().into(),
                number(scan, 2),
                of(scan, |c| median(c.scans.clone())),
                number(travel, 2),
                of(travel, |c| median(c.travels.clone())),
                Cell::Count(case.scan_edges),
                Cell::Count(case.travel_edges),
            ]);
        }
    }
    bench
        .report
        .notes
        .push("ratios: to edge-cut's time; edges: of all samples together".to_owned());
}
