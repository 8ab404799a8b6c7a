//! What a server costs: the same inserts through connections to a server process, through a database in this process,
//! and through the bare engine; and a call that does nothing, so that the share of the calls themselves is known.

pub(super) mod child;
mod compare;
mod hostile;
pub(super) mod load;

use super::report::{Figure, Target, Unit, median};
use super::sides::{self, Bare, Shape};
use super::source::Graph;
use super::{Bench, machine};
use child::Child;
use clap::Args;
use compare::Protection;
use esker::rpc::{Address, Client};
use esker::{Database, Submitted};
use esker_model::GraphWrite as _;
use load::{Load, Measured};
use std::collections::VecDeque;

use super::args::Common;

#[derive(Debug, Args)]
pub(crate) struct ServeBenchArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Connections that write
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) connections: u16,
    /// Single inserts in flight, all connections together, in the case that keeps many
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) in_flight: u16,
    /// Single inserts in each round
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(crate) singles: u64,
    /// Measure plain connections beside encrypted ones with a key of SSH instead
    #[arg(long, conflicts_with = "sandbox")]
    pub(crate) access: bool,
    /// Measure servers without a sandbox beside those in one instead
    #[arg(long)]
    pub(crate) sandbox: bool,
    /// Measure how one client fares while so many others are hostile (silent, slow, malformed, with the largest queries) instead; only
    /// user 0 can, for they are other users of this machine
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000", conflicts_with = "access",
        value_parser = clap::value_parser!(u16).range(1..=2000))]
    pub(crate) hostile: Option<u16>,
    /// Seconds of each half, quiet and hostile
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "hostile", value_parser = clap::value_parser!(u64).range(1..=120))]
    pub(crate) seconds: u64,
}

/// Calls that do nothing, in each round.
const NULLS: usize = 100_000;

/// One way to insert.
struct Case<'a> {
    name: String,
    /// Edges in a batch.
    batch: usize,
    edges: usize,
    /// Batches that one connection keeps in flight.
    window: usize,
    target: f64,
    graph: &'a Graph,
}

pub(crate) fn run(bench: &mut Bench<'_>, args: &ServeBenchArgs) -> anyhow::Result<()> {
    if let Some(clients) = args.hostile {
        return hostile::run(bench, usize::from(clients), args.seconds);
    }
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let connections = usize::from(args.connections);
    let singles = usize::try_from(args.singles)?.min(graph.edges.len());
    let in_flight = usize::from(args.in_flight);
    let cases = [
        Case {
            name: format!("batches of {}, {connections} connections", bench.args.batch),
            batch: bench.args.batch as usize,
            edges: graph.edges.len(),
            window: 1,
            target: 150_000.0,
            graph: &graph,
        },
        Case {
            name: format!("single edges, {connections} connections"),
            batch: 1,
            edges: singles,
            window: 1,
            target: 25_000.0,
            graph: &graph,
        },
        Case {
            name: format!("single edges, {in_flight} in flight"),
            batch: 1,
            edges: singles,
            window: in_flight.div_ceil(connections),
            target: 100_000.0,
            graph: &graph,
        },
    ];
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

/// A server over a new database.
fn start(bench: &Bench<'_>) -> anyhow::Result<Child> {
    start_with(bench, true)
}

/// A server over a new database, in its sandbox or without.
fn start_with(bench: &Bench<'_>, sandbox: bool) -> anyhow::Result<Child> {
    Child::start_with(bench.context, &bench.scratch.fresh("served")?, sandbox)
}

/// A call that does nothing: one in flight, then 64.
fn nulls(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let server = start(bench)?;
    let client = Client::connect(&Address::parse(&server.target())?)?;
    for (window, calls) in [(1, NULLS / 4), (64, NULLS)] {
        let mut rounds = Vec::new();
        for _ in 0..bench.args.rounds {
            bench.go_on()?;
            let load = Load {
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

/// What is printed of one side's rounds.
fn report(
    bench: &mut Bench<'_>,
    case: &str,
    operations: usize,
    unit: Unit,
    target: Option<f64>,
    rounds: &[Measured],
) {
    let middle = |of: fn(&Measured) -> f64| median(rounds.iter().map(of).collect());
    let count = operations as f64;
    let mut rate = Figure::new(case, unit, count / middle(|m| m.wall));
    if let Some(target) = target {
        rate = rate.target(Target::AtLeast(target));
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

fn inserts(bench: &mut Bench<'_>, case: &Case<'_>, connections: usize) -> anyhow::Result<()> {
    let (mut served, mut embedded, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.args.rounds {
        bench.say(&format!(
            "{}: round {} of {}",
            case.name,
            round + 1,
            bench.args.rounds
        ));
        for turn in 0..3 {
            bench.go_on()?;
            match (round + turn) % 3 {
                0 => served.push(through_server(bench, case, connections)?),
                1 => embedded.push(in_process(bench, case, connections)?),
                _ => raw.push(bare(bench, case, connections)?),
            }
        }
    }
    let edges = case.edges;
    let middle =
        |rounds: &[Measured], of: fn(&Measured) -> f64| median(rounds.iter().map(of).collect());
    report(
        bench,
        &case.name,
        edges,
        Unit::EdgesPerSecond,
        Some(case.target),
        &served,
    );
    let rate = |rounds: &[Measured]| edges as f64 / middle(rounds, |m| m.wall);
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
    let per_edge =
        |rounds: &[Measured], of: fn(&Measured) -> f64| middle(rounds, of) * 1e6 / edges as f64;
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

/// Which edges each thread inserts, by batch.
fn parts(case: &Case<'_>, threads: usize) -> Vec<Vec<std::ops::Range<usize>>> {
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
    case: &Case<'_>,
    connections: usize,
) -> anyhow::Result<Measured> {
    let server = start(bench)?;
    let open = || bench.context.open_options().open(&server.target());
    let databases: Vec<Database> = (0..connections).map(|_| open()).collect::<Result<_, _>>()?;
    let shape = sides::define(bench, &databases[0])?;
    let load = Load {
        parts: parts(case, connections),
        window: case.window,
    };
    let measured = load.run(
        &|thread, edges| databases[thread].submit(shape.batch(case.graph, edges)),
        &|submitted| submitted.wait().map(drop),
        || server.cpu_seconds(),
    )?;
    whole(&databases[0], &shape, case)?;
    drop(databases);
    server.stop()?;
    Ok(measured)
}

/// All edges are there.
fn whole(database: &Database, shape: &Shape, case: &Case<'_>) -> anyhow::Result<()> {
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

fn in_process(bench: &Bench<'_>, case: &Case<'_>, threads: usize) -> anyhow::Result<Measured> {
    let (database, shape) = sides::create(bench, &bench.scratch.fresh("esker")?)?;
    let load = Load {
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

fn bare(bench: &Bench<'_>, case: &Case<'_>, threads: usize) -> anyhow::Result<Measured> {
    let (database, shape) = sides::create(bench, &bench.scratch.fresh("types")?)?;
    database.close()?;
    let raw: Bare = sides::bare(bench, &bench.scratch.fresh("raw")?)?;
    let durability = sides::durability(bench);
    let load = Load {
        parts: parts(case, threads),
        window: 1,
    };
    load.run(
        &|_, edges| raw.write(shape.rows(case.graph, edges).rows(), durability),
        &|()| Ok(()),
        || 0.0,
    )
}

/// What is in flight on one connection.
type Window<T> = VecDeque<(std::time::Instant, T)>;

/// Processor time of this process, for both files below.
fn own_cpu() -> f64 {
    machine::process_seconds()
}
