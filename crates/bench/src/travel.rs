//! Traversals: from the key-value store's block cache, from the adjacency cache, and as a plain loop over the key-value store.

use super::comparison::{self, Bare, Shape};
use super::machine;
use super::report::{Figure, FigureTarget, Unit, median};
use super::source::{Graph, GraphSource, vertex_key};
use super::timed::Bench;
use anyhow::Context as _;
use esker::Database;
use esker::raw::Raw;
use esker_model::key::{edges_of_type_prefix, edges_prefix};
use esker_model::traversal::{Budget, TravelResult};
use esker_model::{EdgeSelect, Flow, GraphRead as _, Traversal, Versions, VertexId};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

/// Steps of the traversal over the co-purchase graph.
const STEPS: usize = 8;

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let start = graph
        .busiest()
        .first()
        .copied()
        .context("the graph has no vertices")?;
    everywhere(bench, &graph, start)?;
    drop(graph);
    let seed = match bench.args.graph {
        GraphSource::Copurchase { seed } => seed,
        _ => 1,
    };
    eight_steps(bench, &GraphSource::Copurchase { seed }.graph(None)?)
}

/// Returns a closed database and a key-value store with the graph.
fn loaded(bench: &Bench<'_>, graph: &Graph) -> anyhow::Result<(std::path::PathBuf, Shape, Bare)> {
    let path = bench.scratch.cleared_path("esker")?;
    let (database, shape) = comparison::create(bench, &path)?;
    comparison::load(bench, &database, &shape, graph)?;
    database.close()?;
    let raw = comparison::bare(bench, &bench.scratch.cleared_path("raw")?)?;
    comparison::load_bare(bench, &raw, &shape, graph)?;
    Ok((path, shape, raw))
}

/// Measures a traversal that expands each reached vertex once.
fn everywhere(bench: &mut Bench<'_>, graph: &Graph, start: u32) -> anyhow::Result<()> {
    let (path, shape, raw) = loaded(bench, graph)?;
    let chain = Traversal::parse(&format!(
        "v(\"node:{}\").e(\"links\").v().repeat()",
        vertex_key(start)
    ))?;
    let first = graph.ids[start as usize];
    let (mut store, mut cached, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let (mut reached, mut seen) = (0, 0);
    for _ in 0..bench.args.rounds {
        bench.check_interrupt()?;
        let database = opened(bench, &path, &shape, graph)?;
        let (result, spent) = travel(bench, &database, &chain)?;
        store.push(spent);
        let (again, spent) = travel(bench, &database, &chain)?;
        cached.push(spent);
        anyhow::ensure!(
            again.sets == result.sets,
            "the cache and the store do not agree"
        );
        reached = result.sets.last().map_or(0, |s| s.vertices.len());
        seen = edges(&result);
        database.close()?;
        let (walk, spent) = TravelTimes::on(|| walk_raw(&raw, &shape, first, None))?;
        anyhow::ensure!(walk.edges >= seen, "the sides do not hold the same edges");
        bare.push(spent);
    }
    let note = format!(
        "{} edges to {} vertices from the busiest one; raw: a plain loop",
        esker_terminal::units::count(seen),
        esker_terminal::units::count(reached as u64)
    );
    let seen = seen as f64;
    for (case, spent, least) in [
        ("out of the block cache", &store, 500_000.0),
        ("out of the adjacency cache", &cached, 5_000_000.0),
    ] {
        let figure = Figure::new(
            format!("{case}, a core"),
            Unit::EdgesPerCpuSecond,
            seen / cpus(spent),
        );
        let figure = figure
            .raw(seen / cpus(&bare))
            .target(FigureTarget::AtLeast(least));
        bench.report.add(figure.note(&note));
        let figure =
            Figure::new(case, Unit::EdgesPerSecond, seen / walls(spent)).raw(seen / walls(&bare));
        bench.report.add(figure);
    }
    two_hops(bench, (&path, &shape, graph), &chain)
}

/// Number of times that the short traversal runs, and bounds of the number of vertices that it reaches.
const SHORT_RUNS: usize = 200;
const SHORT_REACH: std::ops::Range<usize> = 10..1000;

/// Measures two hops from a vertex with few neighbours: alone in the adjacency cache, then beside the lists of the whole
/// graph. A traversal costs what it visits, not what the cache has.
fn two_hops(
    bench: &mut Bench<'_>,
    (path, shape, graph): (&Path, &Shape, &Graph),
    everything: &Traversal,
) -> anyhow::Result<()> {
    let database = opened(bench, path, shape, graph)?;
    let mut short = None;
    for number in 0..graph.ids.len() as u32 {
        let name = vertex_key(number);
        let chain = Traversal::parse(&format!("v(\"node:{name}\").e().v().e().v()"))?;
        let (result, _) = travel(bench, &database, &chain)?;
        let reached = result.sets.last().map_or(0, |set| set.vertices.len());
        if SHORT_REACH.contains(&reached) {
            short = Some((chain, reached));
            break;
        }
    }
    database.close()?;
    let Some((chain, reached)) = short else {
        return Ok(());
    };
    let micros = |bench: &Bench<'_>, database: &Database| {
        let mut spent = Vec::with_capacity(SHORT_RUNS);
        for _ in 0..SHORT_RUNS {
            // Processor time is counted in ticks that are longer than the traversal.
            spent.push(1e6 * travel(bench, database, &chain)?.1.wall);
        }
        anyhow::Ok(median(spent))
    };
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.rounds {
        let database = opened(bench, path, shape, graph)?;
        alone.push(micros(bench, &database)?);
        travel(bench, &database, everything)?;
        beside.push(micros(bench, &database)?);
        database.close()?;
    }
    let figure = Figure::new("two hops beside a full cache", Unit::Micros, median(beside));
    bench.report.add(figure.raw(median(alone)).note(format!(
        "{reached} vertices reached, elapsed time; raw: alone in the cache"
    )));
    Ok(())
}

/// Opens a database, with an empty adjacency cache and a filled block cache.
fn opened(
    bench: &Bench<'_>,
    path: &Path,
    shape: &Shape,
    graph: &Graph,
) -> anyhow::Result<Database> {
    let (database, _) = comparison::reopen(bench, path)?;
    let select = EdgeSelect {
        types: vec![shape.links],
        versions: Versions::NOW,
        properties: false,
        after: None,
    };
    database.scan_edges(&graph.ids, &select, &mut |_, _| Flow::Continue(()))?;
    Ok(database)
}

/// The time of a piece of work, in seconds.
#[derive(Debug, Clone, Copy)]
struct TravelTimes {
    wall: f64,
    /// Processor time of this thread, independent of other load. A traversal runs in one thread.
    cpu: f64,
}

impl TravelTimes {
    fn on<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Self)> {
        let (began, cpu) = (Instant::now(), machine::thread_seconds());
        let result = work()?;
        Ok((
            result,
            Self {
                wall: began.elapsed().as_secs_f64(),
                cpu: machine::thread_seconds() - cpu,
            },
        ))
    }
}

fn walls(spent: &[TravelTimes]) -> f64 {
    median(spent.iter().map(|s| s.wall).collect())
}

fn cpus(spent: &[TravelTimes]) -> f64 {
    median(spent.iter().map(|s| s.cpu).collect())
}

fn travel(
    bench: &Bench<'_>,
    database: &Database,
    chain: &Traversal,
) -> anyhow::Result<(TravelResult, TravelTimes)> {
    let spent = TravelTimes::on(|| {
        Ok(database.travel(chain, &Budget::default(), &bench.context.interrupt)?)
    })?;
    bench.check_interrupt()?;
    Ok(spent)
}

fn edges(result: &TravelResult) -> u64 {
    result.profile.iter().map(|step| step.edges).sum()
}

/// The result of a plain loop.
struct LoopResult {
    edges: u64,
    reached: usize,
}

/// Runs a loop over the key-value store. With `steps`, it follows edges in both directions, and each step's frontier
/// is all that the
/// last one reached; without, it follows outgoing edges to all vertices not reached before, until there are no more.
fn walk_raw(
    raw: &Raw,
    shape: &Shape,
    start: VertexId,
    steps: Option<usize>,
) -> anyhow::Result<LoopResult> {
    let mut frontier = vec![start];
    let mut seen = HashSet::new();
    let (mut edges, mut step) = (0, 0);
    while !frontier.is_empty() && steps.is_none_or(|steps| step < steps) {
        step += 1;
        if steps.is_some() {
            seen.clear();
        }
        let mut next = Vec::new();
        for id in &frontier {
            let (all, one) = (edges_prefix(*id), edges_of_type_prefix(*id, shape.links));
            let prefix: &[u8] = if steps.is_some() { &all } else { &one };
            raw.scan(prefix, |key, _| {
                let destination = key
                    .last_chunk()
                    .filter(|_| key.starts_with(prefix))
                    .copied()
                    .map(VertexId);
                let Some(destination) = destination else {
                    return ControlFlow::Break(());
                };
                edges += 1;
                if seen.insert(destination) {
                    next.push(destination);
                }
                ControlFlow::Continue(())
            })?;
        }
        frontier = next;
    }
    let reached = if steps.is_some() {
        frontier.len()
    } else {
        seen.len()
    };
    Ok(LoopResult { edges, reached })
}

/// Measures eight steps in both directions over the co-purchase graph, written out and as a repeat.
fn eight_steps(bench: &mut Bench<'_>, graph: &Graph) -> anyhow::Result<()> {
    let (path, shape, raw) = loaded(bench, graph)?;
    let start = graph.ids[0];
    let hop = ".e(\"links\", \"isLinkedBy\").v()";
    let hops = hop.repeat(STEPS);
    let spelt_out = Traversal::parse(&format!("v(\"node:0\"){hops}"))?;
    let repeated = Traversal::parse(&format!("v(\"node:0\"){hop}.repeat(max={STEPS})"))?;
    let mut bare = Vec::new();
    let walk = walk_raw(&raw, &shape, start, Some(STEPS))?;
    for (case, chain, exact) in [
        ("8 steps", &spelt_out, true),
        ("repeat(max=8)", &repeated, false),
    ] {
        let (mut first, mut warm) = (Vec::new(), Vec::new());
        let (mut reached, mut visited) = (0, 0);
        for _ in 0..bench.args.rounds {
            bench.check_interrupt()?;
            let database = opened(bench, &path, &shape, graph)?;
            first.push(travel(bench, &database, chain)?.1);
            for _ in 0..3 {
                let (result, spent) = travel(bench, &database, chain)?;
                warm.push(spent);
                reached = result.sets.last().map_or(0, |s| s.vertices.len());
                visited = edges(&result);
            }
            database.close()?;
            if exact {
                bare.push(TravelTimes::on(|| walk_raw(&raw, &shape, start, Some(STEPS)))?.1);
            }
        }
        anyhow::ensure!(
            !exact || reached == walk.reached,
            "{reached} vertices reached, {} by the loop",
            walk.reached
        );
        let note = format!(
            "copurchase: {} vertices reached, {} edges looked at{}",
            esker_terminal::units::count(reached as u64),
            esker_terminal::units::count(visited),
            if exact { "; raw: a plain loop" } else { "" }
        );
        for (case, spent) in [
            (format!("{case}, warm"), &warm),
            (format!("{case}, first"), &first),
        ] {
            let mut wall = Figure::new(&case, Unit::Seconds, walls(spent)).note(&note);
            let mut cpu = Figure::new(&case, Unit::CpuSeconds, cpus(spent));
            if exact {
                wall = wall.raw(walls(&bare));
                cpu = cpu.raw(cpus(&bare));
            }
            if case.ends_with("warm") {
                wall = wall.target(FigureTarget::AtMost(0.3));
                cpu = cpu.target(FigureTarget::AtMost(0.3));
            }
            bench.report.add(wall);
            bench.report.add(cpu);
        }
    }
    Ok(())
}
