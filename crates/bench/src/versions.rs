//! Reads of the present where each edge has many versions, compared with a database in which each has one.

use super::comparison::{self, Shape};
use super::machine;
use super::random::Random;
use super::report::{Figure, FigureTarget, Unit, median};
use super::source::{Graph, vertex_key};
use super::timed::Bench;
use anyhow::Context as _;
use esker::Database;
use esker_model::traversal::Budget;
use esker_model::{
    EdgeKey, EdgeSelect, Flow, GraphRead as _, GraphWrite as _, NeverCancel, Traversal, Version,
    Versions,
};
use std::path::PathBuf;
use std::time::Instant;

/// Edges unless `--edges` is given: each is written once for each version.
const EDGES: u64 = 20_000;
/// Number of times that a round reads everything; one pass takes less time than a tick of the processor's clock.
const PASSES: usize = 20;
/// Edges per call, and vertices per call.
const PER_CALL: usize = 1_000;

/// A closed database, the processor time of its reads, and the elapsed time of the traversal.
struct VersionsSide {
    path: PathBuf,
    edges: Vec<f64>,
    scan: Vec<f64>,
    travel: Vec<f64>,
}

pub(crate) fn run(bench: &mut Bench<'_>, versions: u32) -> anyhow::Result<()> {
    let edges = bench.args.edges.unwrap_or(EDGES);
    let graph = bench.args.graph.graph(Some(edges))?;
    let (mut many, shape) = side(bench, &graph, "many", versions)?;
    let (mut one, _) = side(bench, &graph, "one", 1)?;
    for round in 0..bench.args.rounds {
        let mut sides = [&mut many, &mut one];
        // The second side finds another state of the machine, so the sides alternate.
        sides.rotate_left(round as usize % 2);
        for side in sides {
            bench.check_interrupt()?;
            let (database, _) = comparison::reopen(bench, &side.path)?;
            side.measure(bench, &database, &shape, &graph)?;
            database.close()?;
        }
    }
    let each = 1e6 / graph.edges.len() as f64;
    for (case, unit, factor, many, one) in [
        ("single edges", Unit::CpuMicros, each, many.edges, one.edges),
        (
            "the edges of all vertices",
            Unit::CpuMicros,
            each,
            many.scan,
            one.scan,
        ),
        (
            "two steps of a traversal",
            Unit::Micros,
            1e6,
            many.travel,
            one.travel,
        ),
    ] {
        let case = format!("{case}, {versions} versions");
        let figure = Figure::new(case, unit, factor * median(many)).raw(factor * median(one));
        bench.report.add(figure.target(FigureTarget::Ratio(0.95)));
    }
    Ok(())
}

/// Makes a database in which each edge has `versions` versions.
fn side(
    bench: &Bench<'_>,
    graph: &Graph,
    name: &str,
    versions: u32,
) -> anyhow::Result<(VersionsSide, Shape)> {
    let path = bench.scratch.cleared_path(name)?;
    let (database, shape) = comparison::create(bench, &path)?;
    comparison::put_vertices(bench, &database, &shape, graph)?;
    bench.say(&format!("writing {versions} version(s) of each edge"));
    let all: Vec<usize> = (0..graph.edges.len()).collect();
    for _ in 0..versions {
        for edges in all.chunks(PER_CALL) {
            bench.check_interrupt()?;
            let mut batch = shape.batch(graph, edges[0]..edges[edges.len() - 1] + 1);
            // Each commit has a later version.
            batch.mutations.iter_mut().for_each(|m| m.version = None);
            database.apply(batch)?;
        }
    }
    database.compact(None, &NeverCancel)?;
    database.close()?;
    let side = VersionsSide {
        path,
        edges: Vec::new(),
        scan: Vec::new(),
        travel: Vec::new(),
    };
    Ok((side, shape))
}

impl VersionsSide {
    fn measure(
        &mut self,
        bench: &Bench<'_>,
        database: &Database,
        shape: &Shape,
        graph: &Graph,
    ) -> anyhow::Result<()> {
        let mut keys: Vec<EdgeKey> = graph
            .edges
            .iter()
            .map(|(source, destination)| EdgeKey {
                source: graph.ids[*source as usize],
                edge_type: shape.links,
                destination: graph.ids[*destination as usize],
            })
            .collect();
        Random::new(1).shuffle(&mut keys);
        let select = EdgeSelect {
            types: vec![shape.links],
            versions: Versions::NOW,
            properties: true,
            after: None,
        };
        let start = *graph.busiest().first().context("the graph has no edges")?;
        let start = vertex_key(start);
        let chain = format!("v(\"node:{start}\").e(\"links\").v().e(\"links\").v()");
        let chain = Traversal::parse(&chain)?;
        // The first pass fills the caches.
        for pass in 0..=PASSES {
            bench.check_interrupt()?;
            let began = machine::thread_seconds();
            for keys in keys.chunks(PER_CALL) {
                let read = database.read_edges(keys, Version::MAX)?;
                anyhow::ensure!(read.iter().all(Option::is_some), "an edge was not found");
            }
            let read = machine::thread_seconds();
            let mut seen = 0;
            for frontier in graph.ids.chunks(PER_CALL) {
                database.scan_edges(frontier, &select, &mut |_, _| {
                    seen += 1;
                    Flow::Continue(())
                })?;
            }
            anyhow::ensure!(
                seen == keys.len(),
                "the vertices have {seen} edges instead of {}",
                keys.len()
            );
            let scanned = machine::thread_seconds();
            // Processor time is counted in ticks that are longer than the traversal.
            let travelling = Instant::now();
            database.travel(&chain, &Budget::default(), &bench.context.interrupt)?;
            let travelled = travelling.elapsed().as_secs_f64();
            if pass > 0 {
                self.edges.push(read - began);
                self.scan.push(scanned - read);
                self.travel.push(travelled);
            }
        }
        Ok(())
    }
}
