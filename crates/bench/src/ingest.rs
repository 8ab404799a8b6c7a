//! Edges in batches, each with its inverse, compared with the same rows written to the key-value store.

use super::batches::Batches;
use super::comparison::{self, Shape};
use super::machine;
use super::report::{Figure, FigureTarget, Unit, median};
use super::source::Graph;
use super::timed::Bench;
use esker::Database;
use esker_model::GraphWrite as _;
use esker_terminal::units::size;
use std::time::Instant;

/// The measurements of one side.
#[derive(Debug, Clone, Copy, Default)]
struct IngestTimes {
    /// Seconds from the first write to the last acknowledgement, without building the batches.
    wall: f64,
    /// Processor time until everything is closed, flushes and compactions included.
    cpu: f64,
    peak: machine::Memory,
}

pub(crate) fn run(bench: &mut Bench<'_>, bulk: bool) -> anyhow::Result<()> {
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let threads = bench.args.threads.map_or(1, usize::from);
    let edges = graph.edges.len() as f64;
    let (mut esker, mut raw, mut sorted) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bulk_esker, mut bulk_raw) = (Vec::new(), Vec::new());
    let ran = (0..bench.args.rounds).try_for_each(|round| {
        bench.say(&format!("round {} of {}", round + 1, bench.args.rounds));
        // Each side finds the disk busier than the one before, so the sides alternate.
        for side in 0..3 {
            match (side + round) % 3 {
                0 => esker.push(batched(bench, &graph, threads)?),
                1 => raw.push(batched_raw(bench, &graph, threads, false)?),
                _ => sorted.push(batched_raw(bench, &graph, threads, true)?),
            }
        }
        if bulk {
            for side in [round % 2, (round + 1) % 2] {
                if side == 0 {
                    bulk_esker.push(loaded(bench, &graph)?);
                } else {
                    bulk_raw.push(loaded_raw(bench, &graph)?);
                }
            }
        }
        anyhow::Ok(())
    });
    let wall = |spent: &[IngestTimes]| edges / median(spent.iter().map(|s| s.wall).collect());
    let cpu = |spent: &[IngestTimes]| median(spent.iter().map(|s| s.cpu).collect()) * 1e6 / edges;
    if !esker.is_empty() && !raw.is_empty() {
        let case = format!("batches of {}", bench.args.batch);
        let figure = Figure::new(&case, Unit::EdgesPerSecond, wall(&esker)).raw(wall(&raw));
        bench.report.add(figure.target(FigureTarget::Ratio(0.6)));
        let note = "until closed: flushes and merges included";
        bench.report.add(
            Figure::new(&case, Unit::CpuMicros, cpu(&esker))
                .raw(cpu(&raw))
                .note(note),
        );
    }
    if !esker.is_empty() && !sorted.is_empty() {
        let case = format!("batches of {}, raw rows sorted", bench.args.batch);
        let figure = Figure::new(&case, Unit::EdgesPerSecond, wall(&esker)).raw(wall(&sorted));
        let note = "the bare store gets the rows of each batch in key order";
        bench.report.add(figure.note(note));
        bench
            .report
            .add(Figure::new(&case, Unit::CpuMicros, cpu(&esker)).raw(cpu(&sorted)));
    }
    if !bulk_esker.is_empty() && !bulk_raw.is_empty() {
        let figure =
            Figure::new("bulk load", Unit::EdgesPerSecond, wall(&bulk_esker)).raw(wall(&bulk_raw));
        bench
            .report
            .add(figure.note("raw: sorted and loaded by 524,288 edges"));
        bench
            .report
            .add(Figure::new("bulk load", Unit::CpuMicros, cpu(&bulk_esker)).raw(cpu(&bulk_raw)));
        let figure = Figure::new(
            "bulk load against batches",
            Unit::EdgesPerSecond,
            wall(&bulk_esker),
        );
        let figure = figure.raw(wall(&esker)).target(FigureTarget::Ratio(3.0));
        bench.report.add(figure.note("raw: Esker's own batches"));
    }
    for (case, spent) in [
        ("memory, batches", &esker),
        ("memory, bulk load", &bulk_esker),
    ] {
        let most = spent
            .iter()
            .map(|s| s.peak)
            .max_by_key(|p| p.peak.saturating_sub(p.now));
        if let Some(peak) = most {
            let figure = Figure::new(case, Unit::Bytes, peak.peak.saturating_sub(peak.now) as f64);
            let figure = figure.target(FigureTarget::AtMost(bench.context.globals.memory as f64));
            bench.report.add(figure.note(format!(
                "peak above the {} that the graph and the rest took",
                size(peak.now)
            )));
        }
    }
    ran
}

fn batched(bench: &Bench<'_>, graph: &Graph, threads: usize) -> anyhow::Result<IngestTimes> {
    let path = bench.scratch.cleared_path("esker")?;
    let memory = machine::memory();
    machine::reset_peak();
    let (database, shape) = comparison::create(bench, &path)?;
    let cpu = machine::process_seconds();
    let write = |database: &Database, batch| database.apply(batch).map(|_| ());
    let (wall, making) = in_batches(bench, graph, threads)
        .run(&|edges| shape.batch(graph, edges), &|batch| {
            write(&database, batch)
        })?;
    database.close()?;
    let cpu = machine::process_seconds() - cpu - making;
    let peak = machine::Memory {
        now: memory.now,
        peak: machine::memory().peak,
    };
    Ok(IngestTimes { wall, cpu, peak })
}

/// Writes the rows to the bare store; with `sorted`, those of each batch in key order. Sorting is not counted.
fn batched_raw(
    bench: &Bench<'_>,
    graph: &Graph,
    threads: usize,
    sorted: bool,
) -> anyhow::Result<IngestTimes> {
    let shape = shape(bench)?;
    let raw = comparison::bare(bench, &bench.scratch.cleared_path("raw")?)?;
    let durability = comparison::durability(bench);
    let rows = |edges| {
        let rows = shape.rows(graph, edges);
        if sorted { rows.sorted() } else { rows }
    };
    let cpu = machine::process_seconds();
    let (wall, making) =
        in_batches(bench, graph, threads).run(&rows, &|rows| raw.write(rows.rows(), durability))?;
    drop(raw);
    let cpu = machine::process_seconds() - cpu - making;
    Ok(IngestTimes {
        wall,
        cpu,
        peak: machine::Memory::default(),
    })
}

fn in_batches<'a>(bench: &'a Bench<'_>, graph: &Graph, threads: usize) -> Batches<'a> {
    Batches {
        items: graph.edges.len(),
        size: bench.args.batch as usize,
        threads,
        interrupt: &bench.context.interrupt,
    }
}

/// Returns the types of the benchmark with the numbers that a database gives them.
fn shape(bench: &Bench<'_>) -> anyhow::Result<Shape> {
    let (database, shape) = comparison::create(bench, &bench.scratch.cleared_path("types")?)?;
    database.close()?;
    Ok(shape)
}

fn loaded(bench: &Bench<'_>, graph: &Graph) -> anyhow::Result<IngestTimes> {
    let path = bench.scratch.cleared_path("esker")?;
    let memory = machine::memory();
    machine::reset_peak();
    let (database, shape) = comparison::create(bench, &path)?;
    let cpu = machine::process_seconds();
    let began = Instant::now();
    let mut edges = shape.edges(graph, bench);
    database.bulk_load(&mut edges, &mut |_| {})?;
    let wall = began.elapsed().as_secs_f64();
    database.close()?;
    let cpu = machine::process_seconds() - cpu;
    let peak = machine::Memory {
        now: memory.now,
        peak: machine::memory().peak,
    };
    Ok(IngestTimes { wall, cpu, peak })
}

fn loaded_raw(bench: &Bench<'_>, graph: &Graph) -> anyhow::Result<IngestTimes> {
    let shape = shape(bench)?;
    let raw = comparison::bare(bench, &bench.scratch.cleared_path("raw")?)?;
    let (mut wall, mut cpu) = (0.0, 0.0);
    comparison::load_bare_edges(bench, &raw, &shape, graph, &mut |load| {
        let (began, used) = (Instant::now(), machine::process_seconds());
        let loaded = load();
        wall += began.elapsed().as_secs_f64();
        cpu += machine::process_seconds() - used;
        loaded
    })?;
    let used = machine::process_seconds();
    drop(raw);
    cpu += machine::process_seconds() - used;
    Ok(IngestTimes {
        wall,
        cpu,
        peak: machine::Memory::default(),
    })
}
