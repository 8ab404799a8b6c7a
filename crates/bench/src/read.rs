//! Point reads: a vertex with its predefined and user-defined attributes, compared with the same row from the key-value store.

use super::comparison;
use super::random::Random;
use super::report::{Figure, FigureTarget, Unit, median};
use super::timed::Bench;
use esker_model::key::vertex;
use esker_model::{GraphRead as _, Version, VertexId};
use std::time::Instant;

const READS: usize = 50_000;
/// Vertices per call in the batched case.
const VERTICES_PER_CALL: usize = 100;

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let graph = bench.args.graph.graph(bench.args.edges)?;
    let (database, shape) = comparison::create(bench, &bench.scratch.cleared_path("esker")?)?;
    comparison::load(bench, &database, &shape, &graph)?;
    let raw = comparison::bare(bench, &bench.scratch.cleared_path("raw")?)?;
    comparison::load_bare(bench, &raw, &shape, &graph)?;
    let mut random = Random::new(1);
    let asked: Vec<VertexId> = (0..READS)
        .map(|_| graph.ids[random.next_below(graph.ids.len() as u64) as usize])
        .collect();
    let micros = |began: Instant| began.elapsed().as_secs_f64() * 1e6 / READS as f64;
    let one_by_one = || -> anyhow::Result<f64> {
        let began = Instant::now();
        for id in &asked {
            let read = database.read_vertices(std::slice::from_ref(id), Version::MAX)?;
            let whole = read
                .iter()
                .flatten()
                .any(|v| v.attributes.len() == 2 && v.user.len() == 2);
            anyhow::ensure!(whole, "a vertex came back without its attributes");
        }
        Ok(micros(began))
    };
    let together = || -> anyhow::Result<f64> {
        let began = Instant::now();
        for ids in asked.chunks(VERTICES_PER_CALL) {
            let read = database.read_vertices(ids, Version::MAX)?;
            anyhow::ensure!(
                read.iter().flatten().count() == ids.len(),
                "a vertex was not found"
            );
        }
        Ok(micros(began))
    };
    let gets = || -> anyhow::Result<f64> {
        let began = Instant::now();
        for id in &asked {
            anyhow::ensure!(raw.get(&vertex(*id))?.is_some(), "a row was not found");
        }
        Ok(micros(began))
    };
    // One unmeasured pass fills both caches.
    one_by_one()?;
    gets()?;
    let (mut esker, mut several, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.args.rounds {
        bench.check_interrupt()?;
        bare.push(gets()?);
        esker.push(one_by_one()?);
        several.push(together()?);
        bare.push(gets()?);
    }
    let get = median(bare);
    let figure = Figure::new("a vertex with its attributes", Unit::Micros, median(esker)).raw(get);
    bench.report.add(
        figure
            .target(FigureTarget::Ratio(0.5))
            .note("raw: one get of the same row"),
    );
    let case = format!("each of {VERTICES_PER_CALL} vertices asked for at once");
    let figure = Figure::new(case, Unit::Micros, median(several)).raw(get);
    bench.report.add(figure.target(FigureTarget::Ratio(0.5)));
    database.close()?;
    Ok(())
}
