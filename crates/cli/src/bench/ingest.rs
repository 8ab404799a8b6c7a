//! Edges in batches, each with its inverse, and the same rows written by the bare engine.

use super::batches::Batches;
use super::report::{Figure, Target, Unit, median};
use super::sides::{self, Shape};
use super::source::Graph;
use super::{Bench, machine};
use crate::units::size;
use esker::Database;
use esker_model::GraphWrite as _;
use std::time::Instant;

/// What one side took.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    /// From the first write to the last acknowledgement, without the making of batches.
    wall: f64,
    /// Processor time until everything is closed, flushes and merges included.
    cpu: f64,
    peak: machine::Memory,
}

pub(crate) fn run(bench: &mut Bench<'_>, bulk: bool) -> anyhow::Result<()> {
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let threads = bench.args.threads.map_or(1, usize::from);
    let edges = graph.edges.len() as f64;
    let (mut esker, mut raw, mut bulk_esker, mut bulk_raw) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let ran = (0..bench.args.rounds).try_for_each(|round| {
        bench.say(&format!("round {} of {}", round + 1, bench.args.rounds));
        // Whoever goes second finds the disk busier; so they take turns.
        for side in [round % 2, (round + 1) % 2] {
            if side == 0 {
                esker.push(batched(bench, &graph, threads)?);
            } else {
                raw.push(batched_raw(bench, &graph, threads)?);
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
    let wall = |spent: &[Spent]| edges / median(spent.iter().map(|s| s.wall).collect());
    let cpu = |spent: &[Spent]| median(spent.iter().map(|s| s.cpu).collect()) * 1e6 / edges;
    if !esker.is_empty() && !raw.is_empty() {
        let case = format!("batches of {}", bench.args.batch);
        let figure = Figure::new(&case, Unit::EdgesPerSecond, wall(&esker)).raw(wall(&raw));
        bench.report.add(figure.target(Target::Ratio(0.6)));
        let note = "until closed: flushes and merges included";
        bench.report.add(
            Figure::new(&case, Unit::CpuMicros, cpu(&esker))
                .raw(cpu(&raw))
                .note(note),
        );
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
        let figure = figure.raw(wall(&esker)).target(Target::Ratio(3.0));
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
            let figure = figure.target(Target::AtMost(bench.context.globals.memory as f64));
            bench.report.add(figure.note(format!(
                "peak above the {} that the graph and the rest took",
                size(peak.now)
            )));
        }
    }
    ran
}

fn batched(bench: &Bench<'_>, graph: &Graph, threads: usize) -> anyhow::Result<Spent> {
    let path = bench.scratch.fresh("esker")?;
    let memory = machine::memory();
    machine::reset_peak();
    let (database, shape) = sides::create(bench, &path)?;
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
    Ok(Spent { wall, cpu, peak })
}

fn batched_raw(bench: &Bench<'_>, graph: &Graph, threads: usize) -> anyhow::Result<Spent> {
    let shape = shape(bench)?;
    let raw = sides::bare(bench, &bench.scratch.fresh("raw")?)?;
    let durability = sides::durability(bench);
    let cpu = machine::process_seconds();
    let (wall, making) = in_batches(bench, graph, threads)
        .run(&|edges| shape.rows(graph, edges), &|rows| {
            raw.write(rows.rows(), durability)
        })?;
    drop(raw);
    let cpu = machine::process_seconds() - cpu - making;
    Ok(Spent {
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

/// The types of the benchmark, as a database numbers them.
fn shape(bench: &Bench<'_>) -> anyhow::Result<Shape> {
    let (database, shape) = sides::create(bench, &bench.scratch.fresh("types")?)?;
    database.close()?;
    Ok(shape)
}

fn loaded(bench: &Bench<'_>, graph: &Graph) -> anyhow::Result<Spent> {
    let path = bench.scratch.fresh("esker")?;
    let memory = machine::memory();
    machine::reset_peak();
    let (database, shape) = sides::create(bench, &path)?;
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
    Ok(Spent { wall, cpu, peak })
}

fn loaded_raw(bench: &Bench<'_>, graph: &Graph) -> anyhow::Result<Spent> {
    let shape = shape(bench)?;
    let raw = sides::bare(bench, &bench.scratch.fresh("raw")?)?;
    let (mut wall, mut cpu) = (0.0, 0.0);
    sides::load_bare_edges(bench, &raw, &shape, graph, &mut |load| {
        let (began, used) = (Instant::now(), machine::process_seconds());
        let loaded = load();
        wall += began.elapsed().as_secs_f64();
        cpu += machine::process_seconds() - used;
        loaded
    })?;
    let used = machine::process_seconds();
    drop(raw);
    cpu += machine::process_seconds() - used;
    Ok(Spent {
        wall,
        cpu,
        peak: machine::Memory::default(),
    })
}
