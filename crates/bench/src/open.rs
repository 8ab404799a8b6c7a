//! The time to open a database.

use super::report::{Figure, FigureTarget, Unit, median};
use super::timed::Bench;
use super::{comparison, machine};
use esker_model::{GraphRead as _, Version};
use std::time::Instant;

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let path = bench.scratch.cleared_path("esker")?;
    let (database, shape) = comparison::create(bench, &path)?;
    comparison::load(bench, &database, &shape, &graph)?;
    database.close()?;
    let raw_path = bench.scratch.cleared_path("raw")?;
    let raw = comparison::bare(bench, &raw_path)?;
    comparison::load_bare(bench, &raw, &shape, &graph)?;
    drop(raw);
    let (mut opened, mut bare, mut read) = (Vec::new(), Vec::new(), Vec::new());
    let mut memory = 0;
    for _ in 0..bench.args.rounds {
        bench.check_interrupt()?;
        let before = machine::memory().now;
        let began = Instant::now();
        let (database, _) = comparison::reopen(bench, &path)?;
        opened.push(began.elapsed().as_secs_f64());
        let found = database.read_vertices(&graph.ids[..1], Version::MAX)?;
        read.push(began.elapsed().as_secs_f64());
        anyhow::ensure!(
            found.iter().flatten().count() == 1,
            "the database opened without its vertices"
        );
        memory = memory.max(machine::memory().now.saturating_sub(before));
        database.close()?;
        let began = Instant::now();
        drop(comparison::bare(bench, &raw_path)?);
        bare.push(began.elapsed().as_secs_f64());
    }
    let edges = esker_terminal::units::count(graph.edges.len() as u64);
    let figure = Figure::new(
        format!("a database of {edges} edges"),
        Unit::Seconds,
        median(opened),
    );
    bench.report.add(
        figure
            .raw(median(bare))
            .target(FigureTarget::AtMost(1.0))
            .note("raw: opened and closed"),
    );
    bench.report.add(Figure::new(
        "until the first vertex is read",
        Unit::Seconds,
        median(read),
    ));
    bench
        .report
        .add(Figure::new("memory just after", Unit::Bytes, memory as f64));
    Ok(())
}
