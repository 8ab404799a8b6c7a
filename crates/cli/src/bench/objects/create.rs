//! Creating objects (Figures 4 to 6): in this process beside the bare engine, and through a server.

use super::shape::{Names, Shape, Tags};
use super::{Bench, sides};
use crate::bench::batches::Batches;
use crate::bench::machine;
use crate::bench::report::{Figure, Target, Unit, median};
use crate::bench::serve::child::Child;
use crate::bench::serve::load::Load;
use crate::units::count;
use esker::Database;
use esker_model::{GraphRead as _, GraphWrite as _};

/// The least part of the fastest workload's rate that the slowest may have.
const ALIKE: f64 = 1.0 / 1.5;

/// What one side took.
#[derive(Debug, Clone, Copy)]
struct Spent {
    /// In writing, without the making of batches.
    wall: f64,
    /// Processor time until everything is closed, without the making.
    cpu: f64,
    /// From the first object to the last one, the making included.
    whole: f64,
}

/// In this process.
pub(super) fn embedded(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let objects = f64::from(bench.args.objects);
    let type_id = sides::type_id(bench)?;
    let mut rates = Vec::new();
    for names in bench.args.workloads.clone() {
        let shape = Shape {
            names,
            tags: Tags::Few,
        };
        let (mut esker, mut raw) = (Vec::new(), Vec::new());
        for round in 0..bench.args.rounds {
            bench.go_on()?;
            bench.say(&format!(
                "creating, {}: round {} of {}",
                names.text(),
                round + 1,
                bench.args.rounds
            ));
            // Whoever goes second finds the disk busier; so they take turns.
            for side in [round % 2, (round + 1) % 2] {
                if side == 0 {
                    let database = sides::create(bench, &bench.scratch.fresh("esker")?)?;
                    esker.push(spent(
                        bench,
                        &|numbers| shape.batch(numbers),
                        &|batch| database.apply(batch).map(drop),
                        || Ok(database.clone().close()?),
                    )?);
                } else {
                    let store = sides::bare(bench)?;
                    let durability = bench.context.durability();
                    raw.push(spent(
                        bench,
                        &|numbers| shape.rows(type_id, numbers),
                        &|rows| store.write(rows.rows(), durability),
                        || Ok(()),
                    )?);
                }
            }
        }
        let of = |spent: &[Spent], of: fn(&Spent) -> f64| median(spent.iter().map(of).collect());
        let rate = objects / of(&esker, |s| s.wall);
        rates.push(rate);
        let case = format!("create, {}", names.text());
        let note = format!(
            "raw: as rows; {}/s with the making of batches by the same {}",
            count((objects / of(&esker, |s| s.whole)) as u64),
            if bench.args.threads == 1 {
                "thread"
            } else {
                "threads"
            }
        );
        let figure = Figure::new(&case, Unit::ObjectsPerSecond, rate);
        let figure = figure.raw(objects / of(&raw, |s| s.wall)).note(note);
        bench.report.add(figure.target(Target::AtLeast(200_000.0)));
        let cpu = |spent: &[Spent]| of(spent, |s| s.cpu) * 1e6 / objects;
        let figure = Figure::new(&case, Unit::CpuMicrosPerObject, cpu(&esker));
        bench.report.add(figure.raw(cpu(&raw)));
    }
    alike(bench, "create", &rates);
    Ok(())
}

/// How the slowest workload compares with the fastest.
fn alike(bench: &mut Bench<'_>, case: &str, rates: &[f64]) {
    let least = rates.iter().copied().reduce(f64::min);
    let most = rates.iter().copied().reduce(f64::max);
    if let (Some(least), Some(most)) = (least, most)
        && rates.len() > 1
    {
        let case = format!("{case}, the slowest of them");
        let figure = Figure::new(case, Unit::ObjectsPerSecond, least).raw(most);
        bench
            .report
            .add(figure.target(Target::Ratio(ALIKE)).note("raw: the fastest"));
    }
}

fn spent<B>(
    bench: &Bench<'_>,
    make: &(dyn Fn(std::ops::Range<usize>) -> B + Sync),
    write: &(dyn Fn(B) -> esker_model::Result<()> + Sync),
    close: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Spent> {
    let batches = Batches {
        items: bench.args.objects as usize,
        size: bench.args.batch as usize,
        threads: usize::from(bench.args.threads),
        interrupt: &bench.context.interrupt,
    };
    let (cpu, began) = (machine::process_seconds(), std::time::Instant::now());
    let (wall, making) = batches.run(make, write)?;
    let whole = began.elapsed().as_secs_f64();
    close()?;
    let cpu = machine::process_seconds() - cpu - making;
    Ok(Spent { wall, cpu, whole })
}

/// Through a server, by several connections.
pub(super) fn served(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let objects = f64::from(bench.args.objects);
    let mut rates = Vec::new();
    for names in bench.args.workloads.clone() {
        let mut rounds = Vec::new();
        for _ in 0..bench.args.rounds {
            bench.go_on()?;
            bench.say(&format!("creating through a server, {}", names.text()));
            rounds.push(through_server(bench, names)?);
        }
        let of = |of: fn(&(f64, f64, f64)) -> f64| median(rounds.iter().map(of).collect());
        let rate = objects / of(|r| r.0);
        rates.push(rate);
        let case = format!("create through a server, {}", names.text());
        let note = format!(
            "{} connections; CPU us an object: clients {:.2}, server {:.2}",
            bench.args.clients,
            of(|r| r.1) * 1e6 / objects,
            of(|r| r.2) * 1e6 / objects
        );
        let figure = Figure::new(case, Unit::ObjectsPerSecond, rate).note(note);
        bench.report.add(figure.target(Target::AtLeast(100_000.0)));
    }
    alike(bench, "create through a server", &rates);
    Ok(())
}

/// Seconds by the clock, of the clients' processor time, and of the server's.
fn through_server(bench: &Bench<'_>, names: Names) -> anyhow::Result<(f64, f64, f64)> {
    let server = Child::start(bench.context, &bench.scratch.fresh("served")?)?;
    let clients = connect(bench, &server)?;
    let shape = Shape {
        names,
        tags: Tags::Few,
    };
    let measured = insert(bench, &server, &clients, shape, 0..bench.args.objects)?;
    let counts = clients[0].counts()?;
    let there: u64 = counts.vertices.iter().map(|(_, n)| n).sum();
    anyhow::ensure!(
        there == u64::from(bench.args.objects),
        "the server counts {there} objects"
    );
    drop(clients);
    server.stop()?;
    Ok(measured)
}

/// As many connections as there are to be.
pub(super) fn connect(bench: &Bench<'_>, server: &Child) -> anyhow::Result<Vec<Database>> {
    let open = || bench.context.open_options().open(&server.target());
    Ok((0..bench.args.clients)
        .map(|_| open())
        .collect::<Result<_, _>>()?)
}

/// Creates objects, each connection with one batch on its way.
pub(super) fn insert(
    bench: &Bench<'_>,
    server: &Child,
    clients: &[Database],
    shape: Shape,
    numbers: std::ops::Range<u32>,
) -> anyhow::Result<(f64, f64, f64)> {
    // All connections have something to do.
    let batch = (numbers.len() / clients.len()).clamp(1, bench.args.batch as usize);
    let ranges = numbers.clone().step_by(batch).map(|start| {
        let end = (start as usize + batch).min(numbers.end as usize);
        start as usize..end
    });
    let mut parts = vec![Vec::new(); clients.len()];
    for (i, range) in ranges.enumerate() {
        parts[i % clients.len()].push(range);
    }
    let measured = Load { parts, window: 1 }.run(
        &|client, numbers| clients[client].submit(shape.batch(numbers)),
        &|submitted| submitted.wait().map(drop),
        || server.cpu_seconds(),
    )?;
    Ok((measured.wall, measured.client_cpu, measured.server_cpu))
}
