//! Edge scans, compared with the key-value store's iterator over the same ranges. The results of both are compared.

use super::comparison::{self, Shape};
use super::random::Random;
use super::report::{Figure, FigureTarget, Unit, median};
use super::timed::Bench;
use esker::Database;
use esker::raw::Raw;
use esker_model::key::edges_of_type_prefix;
use esker_model::{EdgeSelect, Flow, GraphRead as _, Versions, VertexId};
use std::ops::ControlFlow;
use std::time::Instant;

/// Vertices per call.
const FRONTIER: usize = 1024;
/// Number of vertices in the first case.
const VERTICES: usize = 50_000;
/// Number of vertices in the second case, those of the highest degree.
const BUSIEST: usize = 200;

/// Checksum of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ScanChecksum {
    edges: u64,
    /// Sum of the destinations' bytes.
    sum: u64,
}

impl ScanChecksum {
    fn note(&mut self, destination: &[u8]) {
        self.edges += 1;
        self.sum = destination
            .iter()
            .fold(self.sum, |sum, b| sum.wrapping_add(u64::from(*b)));
    }
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let (database, shape) = comparison::create(bench, &bench.scratch.cleared_path("esker")?)?;
    comparison::load(bench, &database, &shape, &graph)?;
    let raw = comparison::bare(bench, &bench.scratch.cleared_path("raw")?)?;
    comparison::load_bare(bench, &raw, &shape, &graph)?;
    let busiest = graph.busiest();
    let with_edges = graph.degrees().iter().filter(|d| **d > 0).count();
    let mut some: Vec<u32> = busiest.iter().copied().take(with_edges).collect();
    Random::new(1).shuffle(&mut some);
    some.truncate(VERTICES);
    let ids = |numbers: &[u32]| {
        numbers
            .iter()
            .map(|n| graph.ids[*n as usize])
            .collect::<Vec<_>>()
    };
    let cases = [
        (
            format!(
                "the edges of {} vertices",
                esker_terminal::units::count(some.len() as u64)
            ),
            ids(&some),
        ),
        (
            format!("the edges of the {BUSIEST} busiest vertices"),
            ids(busiest.get(..BUSIEST).unwrap_or(&busiest)),
        ),
    ];
    for (case, vertices) in cases {
        for properties in [true, false] {
            // One unmeasured pass fills the caches.
            scan(&database, &shape, &vertices, properties)?;
            scan_raw(&raw, &shape, &vertices)?;
            let (mut esker, mut bare) = (Vec::new(), Vec::new());
            for _ in 0..bench.args.rounds {
                bench.check_interrupt()?;
                let (seen, rate) = scan(&database, &shape, &vertices, properties)?;
                esker.push(rate);
                let (seen_raw, rate) = scan_raw(&raw, &shape, &vertices)?;
                bare.push(rate);
                anyhow::ensure!(
                    seen == seen_raw,
                    "the sides do not hold the same edges: {seen:?}, raw {seen_raw:?}"
                );
            }
            let with = if properties {
                "with properties"
            } else {
                "without properties"
            };
            let figure = Figure::new(
                format!("{case}, {with}"),
                Unit::EdgesPerSecond,
                median(esker),
            );
            bench
                .report
                .add(figure.raw(median(bare)).target(FigureTarget::Ratio(0.5)));
        }
    }
    database.close()?;
    Ok(())
}

fn scan(
    database: &Database,
    shape: &Shape,
    vertices: &[VertexId],
    properties: bool,
) -> anyhow::Result<(ScanChecksum, f64)> {
    let select = EdgeSelect {
        types: vec![shape.links],
        versions: Versions::NOW,
        properties,
        after: None,
    };
    let mut seen = ScanChecksum::default();
    let began = Instant::now();
    for frontier in vertices.chunks(FRONTIER) {
        database.scan_edges(frontier, &select, &mut |_, edge| {
            seen.note(&edge.key.destination.0);
            Flow::Continue(())
        })?;
    }
    Ok((seen, seen.edges as f64 / began.elapsed().as_secs_f64()))
}

fn scan_raw(
    raw: &Raw,
    shape: &Shape,
    vertices: &[VertexId],
) -> anyhow::Result<(ScanChecksum, f64)> {
    let mut seen = ScanChecksum::default();
    let began = Instant::now();
    for id in vertices {
        let prefix = edges_of_type_prefix(*id, shape.links);
        raw.scan(&prefix, |key, _| match key.strip_prefix(&prefix) {
            Some(destination) => {
                seen.note(destination);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        })?;
    }
    Ok((seen, seen.edges as f64 / began.elapsed().as_secs_f64()))
}
