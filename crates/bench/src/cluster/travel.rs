//! Traversals by engine, of databases larger than the servers' caches, with cold caches.

use super::ClusterBench;
use super::args::ClusterTravelArgs;
use super::pause::with_stragglers;
use super::plot::{Line, Picture};
use super::report::{Bound, number, ratio};
use super::servers::{Servers, Spec};
use super::work;
use crate::report::median;
use crate::source::{Graph, GraphSource, vertex_key};
use esker_cluster::Kind;
use esker_cluster::placement::DIRECTORY_THRESHOLD_DEFAULT;
use esker_model::traversal::{Budget, Strategy, TravelResult};
use esker_model::{GraphRead as _, Traversal, VertexId};
use esker_terminal::output::Cell;
use esker_terminal::units::size;
use serde_json::json;
use std::time::{Duration, Instant};

const COLUMNS: &[&str] = &[
    "placement",
    "steps",
    "engine",
    "ms",
    "ratio",
    "cpu_ms",
    "vertices_ms",
    "edges_ms",
    "prefetch_ms",
    "wait_ms",
    "edges",
    "reached",
];

/// The times of one traversal in milliseconds; those of the servers are summed over all servers.
#[derive(Debug, Clone, Copy, Default)]
struct TravelTimings {
    wall: f64,
    cpu: f64,
    vertices: f64,
    edges: f64,
    prefetch: f64,
    wait: f64,
}

struct TravelCase {
    placement: Kind,
    steps: u32,
    engine: Strategy,
    rounds: Vec<TravelTimings>,
    edges: u64,
    reached: usize,
    /// The result of the last round.
    result: Option<TravelResult>,
}

impl TravelCase {
    fn middle(&self, of: impl Fn(&TravelTimings) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }
}

pub(super) fn run(bench: &mut ClusterBench<'_>, args: &ClusterTravelArgs) -> anyhow::Result<()> {
    let graph = args.graph.graph(None)?;
    bench.report.columns = COLUMNS;
    bench.report.settings = json!({
        "graph": args.graph.name(),
        "servers": args.servers,
        "threshold": args.split.threshold,
        "start": start(args, &graph),
        "both_ways": args.both_ways,
        "stragglers_ms": args.stragglers.map(|pause| pause.as_millis() as u64),
    });
    let mut cases = Vec::new();
    let mut ran = Ok(());
    for placement in &args.placements {
        let mut of_this: Vec<TravelCase> = args
            .steps
            .iter()
            .flat_map(|steps| {
                args.engine.iter().map(|engine| TravelCase {
                    placement: *placement,
                    steps: *steps,
                    engine: (*engine).into(),
                    rounds: Vec::new(),
                    edges: 0,
                    reached: 0,
                    result: None,
                })
            })
            .collect();
        ran = one_placement(bench, args, &graph, *placement, &mut of_this);
        of_this.retain(|case| !case.rounds.is_empty());
        cases.extend(of_this);
        if ran.is_err() {
            break;
        }
    }
    report(bench, &cases);
    draw(bench, args, &cases)?;
    ran
}

fn start(args: &ClusterTravelArgs, graph: &Graph) -> u32 {
    match (args.start, &args.graph) {
        (Some(start), _) => start,
        (None, GraphSource::Copurchase { .. }) => 0,
        (None, _) => graph.busiest().first().copied().unwrap_or(0),
    }
}

/// Builds a traversal with `steps` steps; each vertex is read and must pass a filter that is always true, as in the paper.
fn chain(args: &ClusterTravelArgs, start: u32, steps: u32) -> anyhow::Result<Traversal> {
    let types = if args.both_ways {
        "\"links\", \"isLinkedBy\""
    } else {
        "\"links\""
    };
    let hop = format!(".e({types}).v().va(\"weight\", RANGE, 0.0, null)");
    let text = format!(
        "v(\"node:{}\"){}",
        vertex_key(start),
        hop.repeat(steps as usize)
    );
    Ok(Traversal::parse(&text)?)
}

fn one_placement(
    bench: &mut ClusterBench<'_>,
    args: &ClusterTravelArgs,
    graph: &Graph,
    placement: Kind,
    cases: &mut [TravelCase],
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
    work::load(bench, &mut servers, graph)?;
    let first = start(args, graph);
    for round in 0..bench.shared.rounds {
        let mut expected: Vec<(u32, Vec<VertexId>)> = Vec::new();
        for case in &mut *cases {
            bench.check_interrupt()?;
            let chain = chain(args, first, case.steps)?;
            servers.restart_cold(bench)?;
            if round == 0 {
                bench.say(&format!(
                    "{} steps, {}, {placement}",
                    case.steps,
                    case.engine.name()
                ));
            }
            // The engines of one round meet the same pauses.
            let stragglers = (args.stragglers, u64::from(round));
            let (took, result) = run_once(bench, &servers, &chain, case.engine, stragglers)?;
            let mut reached = result
                .sets
                .last()
                .map_or_else(Vec::new, |set| set.vertices.clone());
            reached.sort_unstable();
            case.reached = reached.len();
            case.edges = result.profile.iter().map(|step| step.edges).sum();
            match expected.iter().find(|(steps, _)| *steps == case.steps) {
                Some((_, first)) => anyhow::ensure!(
                    *first == reached,
                    "{} steps, {placement}: {} reaches {} vertices, the engine before it {}",
                    case.steps,
                    case.engine.name(),
                    reached.len(),
                    first.len()
                ),
                None => expected.push((case.steps, reached)),
            }
            case.rounds.push(took);
            case.result = Some(result);
        }
    }
    bench.report.notes.push(format!(
        "{placement}: the databases take {} on the disk; nothing of them was in memory when a traversal began",
        size(servers.bytes())
    ));
    servers.stop()
}

fn run_once(
    bench: &ClusterBench<'_>,
    servers: &Servers,
    chain: &Traversal,
    engine: Strategy,
    (pause, seed): (Option<Duration>, u64),
) -> anyhow::Result<(TravelTimings, TravelResult)> {
    let clients = work::connect(bench, servers, 1)?;
    let Some(client) = clients.first() else {
        anyhow::bail!("there is no client");
    };
    // Loads the schema, and connects the servers to each other.
    client.schema()?;
    let budget = Budget {
        strategy: engine,
        ..Budget::default()
    };
    let cpu = servers.cpu_seconds();
    let (result, wall) = with_stragglers(&servers.pids(), pause, seed, || {
        let began = Instant::now();
        let result = client.travel(chain, &budget, &bench.context.interrupt)?;
        Ok((result, began.elapsed().as_secs_f64() * 1e3))
    })?;
    let cpu = (servers.cpu_seconds() - cpu) * 1e3;
    bench.check_interrupt()?;
    if let Some(stop) = result.stopped.first() {
        anyhow::bail!(
            "the traversal stopped at step {}: {}",
            stop.step,
            stop.reason.name()
        );
    }
    let sum = |of: fn(&esker_model::traversal::ServerStep) -> u64| {
        result.servers.iter().map(of).sum::<u64>() as f64 / 1e3
    };
    let took = TravelTimings {
        wall,
        cpu,
        vertices: sum(|s| s.vertices_micros),
        edges: sum(|s| s.edges_micros),
        prefetch: sum(|s| s.prefetch_micros),
        wait: sum(|s| s.wait_micros),
    };
    Ok((took, result))
}

fn report(bench: &mut ClusterBench<'_>, cases: &[TravelCase]) {
    for of_steps in cases.chunk_by(|a, b| (a.placement, a.steps) == (b.placement, b.steps)) {
        let sync = of_steps
            .iter()
            .find(|case| case.engine == Strategy::Sync)
            .map(|case| case.middle(|t| t.wall));
        for case in of_steps {
            let wall = case.middle(|t| t.wall);
            bench.report.rows.push(vec![
                case.placement.name().into(),
                Cell::Count(case.steps.into()),
                case.engine.name().into(),
                number(wall, 1),
                sync.map_or(Cell::Empty, |sync| ratio(wall, sync)),
                number(case.middle(|t| t.cpu), 0),
                number(case.middle(|t| t.vertices), 1),
                number(case.middle(|t| t.edges), 1),
                number(case.middle(|t| t.prefetch), 1),
                number(case.middle(|t| t.wait), 1),
                Cell::Count(case.edges),
                Cell::Count(case.reached as u64),
            ]);
            let deep = case.steps == 4 || case.steps == 8;
            if let (Some(sync), Strategy::Prefetch, true) = (sync, case.engine, deep) {
                bench.report.wish(
                    format!(
                        "{}, {} steps: prefetch as a part of plain sync's time",
                        case.placement, case.steps
                    ),
                    wall / sync,
                    Bound::AtMost(1.0),
                );
            }
        }
    }
    bench.report.notes.push(
        "ratio: of the time to plain sync's; vertices_ms to wait_ms: all servers' times together"
            .to_owned(),
    );
}

fn draw(
    bench: &ClusterBench<'_>,
    args: &ClusterTravelArgs,
    cases: &[TravelCase],
) -> anyhow::Result<()> {
    draw_servers(bench, cases)?;
    for placement in &args.placements {
        let lines = args.engine.iter().map(|engine| {
            let engine = Strategy::from(*engine);
            let of = cases
                .iter()
                .filter(|c| c.placement == *placement && c.engine == engine);
            Line {
                name: engine.name().to_owned(),
                points: of
                    .map(|c| (f64::from(c.steps), c.middle(|t| t.wall)))
                    .collect(),
            }
        });
        let title = format!(
            "Figure 10. Traversals, {placement}, {} servers",
            args.servers
        );
        Picture {
            title: &title,
            across: "steps",
            up: "milliseconds",
            lines: lines.collect(),
        }
        .write(
            bench,
            &format!(
                "figure-10-travel-{}.svg",
                placement.name().replace('+', "-plus")
            ),
        )?;
    }
    let Some(engine) = args.engine.first().map(|engine| Strategy::from(*engine)) else {
        return Ok(());
    };
    let engine = if args
        .engine
        .contains(&super::args::TraversalEngineArg::Prefetch)
    {
        Strategy::Prefetch
    } else {
        engine
    };
    let lines = args.placements.iter().map(|placement| Line {
        name: placement.name().to_owned(),
        points: cases
            .iter()
            .filter(|c| c.placement == *placement && c.engine == engine)
            .map(|c| (f64::from(c.steps), c.middle(|t| t.wall)))
            .collect(),
    });
    let title = format!(
        "Figure 16. Traversals by placement, {}, {} servers",
        engine.name(),
        args.servers
    );
    Picture {
        title: &title,
        across: "steps",
        up: "milliseconds",
        lines: lines.collect(),
    }
    .write(bench, "figure-16-placements.svg")
}

/// Draws each server's work in each step of the longest traversal, under the first placement.
fn draw_servers(bench: &ClusterBench<'_>, cases: &[TravelCase]) -> anyhow::Result<()> {
    let (Some(folder), Some(first)) = (&bench.shared.plots, cases.first()) else {
        return Ok(());
    };
    let steps = cases.iter().map(|c| c.steps).max();
    for case in cases
        .iter()
        .filter(|c| c.placement == first.placement && Some(c.steps) == steps)
    {
        let Some(result) = case.result.as_ref().filter(|r| !r.servers.is_empty()) else {
            continue;
        };
        let title = format!(
            "Figure 9. {} steps, {}, {}",
            case.steps,
            case.engine.name(),
            case.placement
        );
        let file = folder.join(format!("figure-9-{}.svg", case.engine.name()));
        esker_terminal::step_chart::write(result, &title, &file)?;
        bench.say(&format!("wrote {}", file.display()));
    }
    Ok(())
}
