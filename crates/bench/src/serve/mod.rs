//! The cost of a server: the same inserts through connections to a server process, through a database in this
//! process, and through
//! the key-value store; and a call that does nothing, which shows the share of the calls themselves.

pub(super) mod child;
mod compare;
mod fair;
mod hostile;
pub(super) mod load;

use super::comparison::{self, Bare, Shape};
use super::machine;
use super::report::{Figure, FigureTarget, Unit, median};
use super::source::Graph;
use super::timed::Bench;
use child::Child;
use clap::Args;
use compare::Protection;
use esker::rpc::{Address, Client};
use esker::{Database, Submitted};
use esker_model::GraphWrite as _;
use load::{OperationLoad, RoundResult};
use std::collections::VecDeque;

use super::args::Common;

#[derive(Debug, Args)]
pub(crate) struct ServeBenchArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Number of connections that write
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) connections: u16,
    /// Total number of single inserts in flight, in the case with many
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) in_flight: u16,
    /// Single inserts per round
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(crate) singles: u64,
    /// Compare plain connections with encrypted ones with an SSH key instead
    #[arg(long, conflicts_with = "sandbox")]
    pub(crate) access: bool,
    /// Compare servers without and with a sandbox instead
    #[arg(long)]
    pub(crate) sandbox: bool,
    /// Compare servers without an audit log with those that record changes, and all requests, instead
    #[arg(long, conflicts_with_all = ["access", "sandbox"])]
    pub(crate) audit: bool,
    /// Measure one client among this number of hostile ones (silent, slow, malformed, with the largest queries)
    /// instead; requires root,
    /// because they run as other users of this machine
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000", conflicts_with = "access",
        value_parser = clap::value_parser!(u16).range(1..=2000))]
    pub(crate) hostile: Option<u16>,
    /// Measure one user's searches beside this number of another user's in flight instead, with fair shares and without
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "32", conflicts_with_all = ["access", "sandbox", "hostile"],
        value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) fair: Option<u16>,
    /// Seconds of each half, without and with the other clients, of --hostile and --fair
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=120))]
    pub(crate) seconds: u64,
}

/// Calls that do nothing, per round.
const NULLS: usize = 100_000;

/// One way to insert.
struct ServeCase<'a> {
    name: String,
    /// Edges per batch.
    batch: usize,
    edges: usize,
    /// Batches in flight per connection.
    window: usize,
    target: f64,
    graph: &'a Graph,
}

pub(crate) fn run(bench: &mut Bench<'_>, args: &ServeBenchArgs) -> anyhow::Result<()> {
    if let Some(clients) = args.hostile {
        return hostile::run(bench, usize::from(clients), args.seconds);
    }
    if let Some(clients) = args.fair {
        return fair::run(bench, usize::from(clients), args.seconds);
    }
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let connections = usize::from(args.connections);
    let singles = usize::try_from(args.singles)?.min(graph.edges.len());
    let in_flight = usize::from(args.in_flight);
    let cases = [
        ServeCase {
            name: format!("batches of {}, {connections} connections", bench.args.batch),
            batch: bench.args.batch as usize,
            edges: graph.edges.len(),
            window: 1,
            target: 150_000.0,
            graph: &graph,
        },
        ServeCase {
            name: format!("single edges, {connections} connections"),
            batch: 1,
            edges: singles,
            window: 1,
            target: 25_000.0,
            graph: &graph,
        },
        ServeCase {
            name: format!("single edges, {in_flight} in flight"),
            batch: 1,
            edges: singles,
            window: in_flight.div_ceil(connections),
            target: 100_000.0,
            graph: &graph,
        },
    ];
    if args.audit {
        for protection in [Protection::AuditOfWrites, Protection::AuditOfAll] {
            compare::run(bench, protection, &cases, connections)?;
        }
        return Ok(());
    }
    let protection = if args.access {
        Some(Protection::Keys)
    } else {
        args.sandbox.then_some(Protection::Sandbox)
    };
    if let Some(protection) = protection {
        return compare::run(bench, protection, &cases, connections);
    }
    nulls(bench)?;
    cases
        .iter()
        .try_for_each(|case| inserts(bench, case, connections))
}

/// Starts a server on a new database.
fn start(bench: &Bench<'_>) -> anyhow::Result<Child> {
    start_with(bench, &[])
}

/// Starts a server on a new database, with further arguments.
fn start_with(bench: &Bench<'_>, arguments: &[String]) -> anyhow::Result<Child> {
    let folder = bench.scratch.cleared_path("served")?;
    Child::start_with(bench.context, &folder, arguments)
}

/// Measures a call that does nothing: one in flight, then 64.
fn nulls(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let server = start(bench)?;
    let client = Client::connect(&Address::parse(&server.target())?)?;
    for (window, calls) in [(1, NULLS / 4), (64, NULLS)] {
        let mut rounds = Vec::new();
        for _ in 0..bench.args.rounds {
            bench.check_interrupt()?;
            let load = OperationLoad {
                parts: vec![vec![(); calls]],
                window,
            };
            rounds.push(
                load.run(&|_, ()| client.submit_ping(), &|ping| ping.wait(), || {
                    server.cpu_seconds()
                })?,
            );
        }
        let case = format!("a call that does nothing, {window} in flight");
        report(bench, &case, calls, Unit::CallsPerSecond, None, &rounds);
    }
    server.stop()
}

/// Adds the figures of one side's rounds.
fn report(
    bench: &mut Bench<'_>,
    case: &str,
    operations: usize,
    unit: Unit,
    target: Option<f64>,
    rounds: &[RoundResult],
) {
    let middle = |of: fn(&RoundResult) -> f64| median(rounds.iter().map(of).collect());
    let count = operations as f64;
    let mut rate = Figure::new(case, unit, count / middle(|m| m.wall));
    if let Some(target) = target {
        rate = rate.target(FigureTarget::AtLeast(target));
    }
    let note = format!(
        "p50 {:.0} us, p99 {:.0} us; CPU us each: client {:.2}, server {:.2}",
        middle(|m| m.p50),
        middle(|m| m.p99),
        middle(|m| m.client_cpu) * 1e6 / count,
        middle(|m| m.server_cpu) * 1e6 / count,
    );
    bench.report.add(rate.note(note));
}

fn inserts(bench: &mut Bench<'_>, case: &ServeCase<'_>, connections: usize) -> anyhow::Result<()> {
    let (mut served, mut embedded, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.args.rounds {
        bench.say(&format!(
            "{}: round {} of {}",
            case.name,
            round + 1,
            bench.args.rounds
        ));
        for turn in 0..3 {
            bench.check_interrupt()?;
            match (round + turn) % 3 {
                0 => served.push(through_server(bench, case, connections)?),
                1 => embedded.push(in_process(bench, case, connections)?),
                _ => raw.push(bare(bench, case, connections)?),
            }
        }
    }
    let edges = case.edges;
    let middle = |rounds: &[RoundResult], of: fn(&RoundResult) -> f64| {
        median(rounds.iter().map(of).collect())
    };
    report(
        bench,
        &case.name,
        edges,
        Unit::EdgesPerSecond,
        Some(case.target),
        &served,
    );
    let rate = |rounds: &[RoundResult]| edges as f64 / middle(rounds, |m| m.wall);
    let figure = Figure::new(
        format!("{}, in this process", case.name),
        Unit::EdgesPerSecond,
        rate(&embedded),
    );
    let note = format!(
        "{connections} threads; p50 {:.0} us, p99 {:.0} us; a server reaches {:.2} of it",
        middle(&embedded, |m| m.p50),
        middle(&embedded, |m| m.p99),
        rate(&served) / rate(&embedded),
    );
    bench.report.add(figure.raw(rate(&raw)).note(note));
    let per_edge = |rounds: &[RoundResult], of: fn(&RoundResult) -> f64| {
        middle(rounds, of) * 1e6 / edges as f64
    };
    let figure = Figure::new(
        &case.name,
        Unit::CpuMicros,
        per_edge(&served, |m| m.client_cpu + m.server_cpu),
    );
    let note = "raw: the same in this process; both processes together, the making of batches left out of neither";
    bench
        .report
        .add(figure.raw(per_edge(&embedded, |m| m.client_cpu)).note(note));
    Ok(())
}

/// Returns the edges of each thread, by batch.
fn parts(case: &ServeCase<'_>, threads: usize) -> Vec<Vec<std::ops::Range<usize>>> {
    let ranges = (0..case.edges)
        .step_by(case.batch)
        .map(|start| start..(start + case.batch).min(case.edges));
    let mut parts = vec![Vec::new(); threads];
    for (i, range) in ranges.enumerate() {
        parts[i % threads].push(range);
    }
    parts
}

fn through_server(
    bench: &Bench<'_>,
    case: &ServeCase<'_>,
    connections: usize,
) -> anyhow::Result<RoundResult> {
    let server = start(bench)?;
    let open = || bench.context.open_options().open(&server.target());
    let databases: Vec<Database> = (0..connections).map(|_| open()).collect::<Result<_, _>>()?;
    let shape = comparison::define(bench, &databases[0])?;
    let load = OperationLoad {
        parts: parts(case, connections),
        window: case.window,
    };
    let measured = load.run(
        &|thread, edges| databases[thread].submit(shape.batch(case.graph, edges)),
        &|submitted| submitted.wait().map(drop),
        || server.cpu_seconds(),
    )?;
    check_edge_count(&databases[0], &shape, case)?;
    drop(databases);
    server.stop()?;
    Ok(measured)
}

/// Checks that all edges were inserted.
fn check_edge_count(
    database: &Database,
    shape: &Shape,
    case: &ServeCase<'_>,
) -> anyhow::Result<()> {
    use esker_model::GraphRead as _;
    let counts = database.counts()?;
    let counted = counts.edges.iter().find(|(t, _)| *t == shape.links);
    let distinct: std::collections::HashSet<_> = case.graph.edges[..case.edges].iter().collect();
    anyhow::ensure!(
        counted.is_some_and(|(_, n)| *n == distinct.len() as u64),
        "{counted:?} edges after {} different ones",
        distinct.len()
    );
    Ok(())
}

fn in_process(
    bench: &Bench<'_>,
    case: &ServeCase<'_>,
    threads: usize,
) -> anyhow::Result<RoundResult> {
    let (database, shape) = comparison::create(bench, &bench.scratch.cleared_path("esker")?)?;
    let load = OperationLoad {
        parts: parts(case, threads),
        window: 1,
    };
    let measured = load.run(
        &|_, edges| {
            let applied = database.apply(shape.batch(case.graph, edges));
            Ok(Submitted::Done(applied))
        },
        &|submitted| submitted.wait().map(drop),
        || 0.0,
    )?;
    database.close()?;
    Ok(measured)
}

fn bare(bench: &Bench<'_>, case: &ServeCase<'_>, threads: usize) -> anyhow::Result<RoundResult> {
    let (database, shape) = comparison::create(bench, &bench.scratch.cleared_path("types")?)?;
    database.close()?;
    let raw: Bare = comparison::bare(bench, &bench.scratch.cleared_path("raw")?)?;
    let durability = comparison::durability(bench);
    let load = OperationLoad {
        parts: parts(case, threads),
        window: 1,
    };
    load.run(
        &|_, edges| raw.write(shape.rows(case.graph, edges).rows(), durability),
        &|()| Ok(()),
        || 0.0,
    )
}

/// The operations in flight on one connection.
type Window<T> = VecDeque<(std::time::Instant, T)>;

/// Processor time of this process, for the submodules.
fn own_cpu() -> f64 {
    machine::process_seconds()
}
