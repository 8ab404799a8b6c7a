//! Concurrent writes at one vertex: single edges from several threads, then growth to a degree of millions.

use super::comparison::{self, EdgeRows, Shape};
use super::machine;
use super::report::{Figure, FigureTarget, Unit, median};
use super::source::{Graph, vertex_id};
use super::timed::Bench;
use esker_model::{Batch, GraphRead as _, GraphWrite as _};
use std::ops::Range;
use std::sync::Barrier;
use std::time::Instant;

const INSERTS: u64 = 100_000;
const THREADS: usize = 4;
const MILLION: usize = 1_000_000;

pub(crate) fn run(bench: &mut Bench<'_>, degree: Option<u64>) -> anyhow::Result<()> {
    let inserts = usize::try_from(bench.args.edges.unwrap_or(INSERTS))?;
    let threads = bench.args.threads.map_or(THREADS, usize::from);
    let star = star(inserts);
    let (mut esker, mut raw) = (Vec::new(), Vec::new());
    for round in 0..bench.args.rounds {
        bench.say(&format!("round {} of {}", round + 1, bench.args.rounds));
        for side in [round % 2, (round + 1) % 2] {
            bench.check_interrupt()?;
            let spent = if side == 0 {
                single(bench, &star, threads)?
            } else {
                single_raw(bench, &star, threads)?
            };
            if side == 0 { &mut esker } else { &mut raw }.push(spent);
        }
    }
    let case = format!("single edges, {threads} threads");
    let edges = inserts as f64;
    let wall = |spent: &[HotVertexTimes]| edges / median(spent.iter().map(|s| s.wall).collect());
    let cpu =
        |spent: &[HotVertexTimes]| 1e6 / edges * median(spent.iter().map(|s| s.cpu).collect());
    let figure = Figure::new(&case, Unit::EdgesPerSecond, wall(&esker)).raw(wall(&raw));
    bench.report.add(figure.target(FigureTarget::Ratio(0.7)));
    bench
        .report
        .add(Figure::new(&case, Unit::CpuMicros, cpu(&esker)).raw(cpu(&raw)));
    match degree {
        Some(degree) => growth(bench, usize::try_from(degree)?),
        None => Ok(()),
    }
}

/// Seconds, from the common start of all threads to the end of the last one.
#[derive(Debug, Clone, Copy)]
struct HotVertexTimes {
    wall: f64,
    /// Processor time of the process, with concurrent flushes.
    cpu: f64,
}

/// Returns edges from vertex 0 to `edges` other vertices.
fn star(edges: usize) -> Graph {
    let last = u32::try_from(edges).unwrap_or(u32::MAX - 1);
    Graph {
        edges: (1..=last).map(|n| (0, n)).collect(),
        ids: (0..=last).map(vertex_id).collect(),
    }
}

/// Runs `write` over parts of the edges in several threads that start together.
fn run_concurrently<B: Send>(
    parts: Vec<Vec<B>>,
    write: &(dyn Fn(B) -> esker_model::Result<()> + Sync),
) -> anyhow::Result<HotVertexTimes> {
    let barrier = Barrier::new(parts.len() + 1);
    let spent = std::thread::scope(|scope| -> esker_model::Result<HotVertexTimes> {
        let workers: Vec<_> = parts
            .into_iter()
            .map(|part| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    part.into_iter().try_for_each(write)
                })
            })
            .collect();
        barrier.wait();
        let (began, cpu) = (Instant::now(), machine::process_seconds());
        for worker in workers {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(HotVertexTimes {
            wall: began.elapsed().as_secs_f64(),
            cpu: machine::process_seconds() - cpu,
        })
    })?;
    Ok(spent)
}

/// Builds one batch for each edge and deals them out to threads.
fn dealt<B>(edges: usize, threads: usize, make: impl Fn(Range<usize>) -> B) -> Vec<Vec<B>> {
    (0..threads)
        .map(|t| {
            (t..edges)
                .step_by(threads)
                .map(|i| make(i..i + 1))
                .collect()
        })
        .collect()
}

fn single(bench: &Bench<'_>, star: &Graph, threads: usize) -> anyhow::Result<HotVertexTimes> {
    let (database, shape) = comparison::create(bench, &bench.scratch.cleared_path("esker")?)?;
    let parts: Vec<Vec<Batch>> = dealt(star.edges.len(), threads, |edge| shape.batch(star, edge));
    let spent = run_concurrently(parts, &|batch| database.apply(batch).map(|_| ()))?;
    let hub = star.ids[0];
    let degree = database.degrees(&[(hub, shape.links)])?;
    anyhow::ensure!(
        degree == [star.edges.len() as u64],
        "the vertex has {degree:?} edges after {}",
        star.edges.len()
    );
    database.close()?;
    Ok(spent)
}

fn single_raw(bench: &Bench<'_>, star: &Graph, threads: usize) -> anyhow::Result<HotVertexTimes> {
    let shape = types(bench)?;
    let raw = comparison::bare(bench, &bench.scratch.cleared_path("raw")?)?;
    let durability = comparison::durability(bench);
    let parts: Vec<Vec<EdgeRows>> = dealt(star.edges.len(), threads, |edge| shape.rows(star, edge));
    run_concurrently(parts, &|rows| raw.write(rows.rows(), durability))
}

fn types(bench: &Bench<'_>) -> anyhow::Result<Shape> {
    let (database, shape) = comparison::create(bench, &bench.scratch.cleared_path("types")?)?;
    database.close()?;
    Ok(shape)
}

/// Grows both sides alternately, a million edges at a time.
fn growth(bench: &mut Bench<'_>, degree: usize) -> anyhow::Result<()> {
    let star = star(degree);
    let (database, shape) = comparison::create(bench, &bench.scratch.cleared_path("esker")?)?;
    let raw = comparison::bare(bench, &bench.scratch.cleared_path("raw")?)?;
    let durability = comparison::durability(bench);
    let size = bench.args.batch as usize;
    let mut rates = Vec::new();
    for start in (0..degree).step_by(MILLION) {
        let end = (start + MILLION).min(degree);
        let mut seconds = [0.0, 0.0];
        bench.say(&format!(
            "growing to a degree of {}",
            esker_terminal::units::count(end as u64)
        ));
        for at in (start..end).step_by(size) {
            bench.check_interrupt()?;
            let edges = at..(at + size).min(end);
            let (batch, rows) = (shape.batch(&star, edges.clone()), shape.rows(&star, edges));
            let began = Instant::now();
            database.apply(batch)?;
            seconds[0] += began.elapsed().as_secs_f64();
            let began = Instant::now();
            raw.write(rows.rows(), durability)?;
            seconds[1] += began.elapsed().as_secs_f64();
        }
        let rate = |seconds: f64| (end - start) as f64 / seconds;
        rates.push((rate(seconds[0]), rate(seconds[1])));
        let case = format!(
            "growth to degree {}",
            esker_terminal::units::count(end as u64)
        );
        let figure =
            Figure::new(case, Unit::EdgesPerSecond, rate(seconds[0])).raw(rate(seconds[1]));
        bench.report.add(figure.note(format!("batches of {size}")));
    }
    if let [first, .., last] = rates.as_slice() {
        // A slowdown caused by Esker would show as a falling ratio to the key-value store.
        let figure = Figure::new(
            "growth, last million against first",
            Unit::EdgesPerSecond,
            last.0,
        )
        .raw(first.0);
        let same = (last.0 / last.1) / (first.0 / first.1);
        let note = format!(
            "the bare engine's: {:.2}; Esker's against it: {same:.2}",
            last.1 / first.1
        );
        bench
            .report
            .add(figure.target(FigureTarget::Ratio(0.9)).note(note));
    }
    let counted = database.degrees(&[(star.ids[0], shape.links)])?;
    anyhow::ensure!(
        counted == [degree as u64],
        "the vertex has {counted:?} edges after {degree}"
    );
    database.close()?;
    Ok(())
}
