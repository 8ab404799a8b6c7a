//! Edge scans, and the bare engine's iterator over the same ranges. What both saw is compared.

use super::Bench;
use super::random::Random;
use super::report::{Figure, Target, Unit, median};
use super::sides::{self, Shape};
use esker::Database;
use esker::raw::Raw;
use esker_model::key::edges_of_type_prefix;
use esker_model::{EdgeSelect, Flow, GraphRead as _, Versions, VertexId};
use std::ops::ControlFlow;
use std::time::Instant;

/// Vertices in a call.
const FRONTIER: usize = 1024;
/// Vertices of the first case.
const VERTICES: usize = 50_000;
/// Vertices of the second.
const BUSIEST: usize = 200;

/// What a scan saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Seen {
    edges: u64,
    /// Of their destinations' bytes.
    sum: u64,
}

impl Seen {
    fn note(&mut self, destination: &[u8]) {
        self.edges += 1;
        self.sum = destination
            .iter()
            .fold(self.sum, |sum, b| sum.wrapping_add(u64::from(*b)));
    }
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let (database, shape) = sides::create(bench, &bench.scratch.fresh("esker")?)?;
    sides::load(bench, &database, &shape, &graph)?;
    let raw = sides::bare(bench, &bench.scratch.fresh("raw")?)?;
    sides::load_bare(bench, &raw, &shape, &graph)?;
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
                crate::units::count(some.len() as u64)
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
            // Once unmeasured, for the caches.
            scan(&database, &shape, &vertices, properties)?;
            scan_raw(&raw, &shape, &vertices)?;
            let (mut esker, mut bare) = (Vec::new(), Vec::new());
            for _ in 0..bench.args.rounds {
                bench.go_on()?;
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
                .add(figure.raw(median(bare)).target(Target::Ratio(0.5)));
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
) -> anyhow::Result<(Seen, f64)> {
    let select = EdgeSelect {
        types: vec![shape.links],
        versions: Versions::NOW,
        properties,
    };
    let mut seen = Seen::default();
    let began = Instant::now();
    for frontier in vertices.chunks(FRONTIER) {
        database.scan_edges(frontier, &select, &mut |_, edge| {
            seen.note(&edge.key.destination.0);
            Flow::Continue(())
        })?;
    }
    Ok((seen, seen.edges as f64 / began.elapsed().as_secs_f64()))
}

fn scan_raw(raw: &Raw, shape: &Shape, vertices: &[VertexId]) -> anyhow::Result<(Seen, f64)> {
    let mut seen = Seen::default();
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
