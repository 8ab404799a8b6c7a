//! Creating objects (Figures 4 to 6): in this process compared with the key-value store, and through a server.

use super::shape::{Names, ObjectShape, Tags};
use super::{ObjectsBench, stores};
use crate::batches::Batches;
use crate::machine;
use crate::report::{Figure, FigureTarget, Unit, median};
use crate::serve::child::Child;
use crate::serve::load::OperationLoad;
use esker::Database;
use esker_model::{GraphRead as _, GraphWrite as _};
use esker_terminal::units::count;

/// Minimum rate of the slowest workload relative to the fastest.
const ALIKE: f64 = 1.0 / 1.5;

/// The measurements of one side, in seconds.
#[derive(Debug, Clone, Copy)]
struct CreateTimes {
    /// Time spent in writing, without building batches.
    wall: f64,
    /// Processor time until everything is closed, without building batches.
    cpu: f64,
    /// Time from the first object to the last, with building batches.
    whole: f64,
}

/// Measures a database in this process.
pub(super) fn embedded(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    let objects = f64::from(bench.args.objects);
    let type_id = stores::type_id(bench)?;
    let mut rates = Vec::new();
    for names in bench.args.workloads.clone() {
        let shape = ObjectShape {
            names,
            tags: Tags::Few,
        };
        let (mut esker, mut raw) = (Vec::new(), Vec::new());
        for round in 0..bench.args.rounds {
            bench.check_interrupt()?;
            bench.say(&format!(
                "creating, {}: round {} of {}",
                names.text(),
                round + 1,
                bench.args.rounds
            ));
            // The second side finds the disk busier, so the sides alternate.
            for side in [round % 2, (round + 1) % 2] {
                if side == 0 {
                    let database = stores::create(bench, &bench.scratch.cleared_path("esker")?)?;
                    esker.push(spent(
                        bench,
                        &|numbers| shape.batch(numbers),
                        &|batch| database.apply(batch).map(drop),
                        || Ok(database.clone().close()?),
                    )?);
                } else {
                    let store = stores::bare(bench)?;
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
        let of = |spent: &[CreateTimes], of: fn(&CreateTimes) -> f64| {
            median(spent.iter().map(of).collect())
        };
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
        bench
            .report
            .add(figure.target(FigureTarget::AtLeast(200_000.0)));
        let cpu = |spent: &[CreateTimes]| of(spent, |s| s.cpu) * 1e6 / objects;
        let figure = Figure::new(&case, Unit::CpuMicrosPerObject, cpu(&esker));
        bench.report.add(figure.raw(cpu(&raw)));
    }
    alike(bench, "create", &rates);
    Ok(())
}

/// Adds the rate of the slowest workload relative to the fastest.
fn alike(bench: &mut ObjectsBench<'_>, case: &str, rates: &[f64]) {
    let least = rates.iter().copied().reduce(f64::min);
    let most = rates.iter().copied().reduce(f64::max);
    if let (Some(least), Some(most)) = (least, most)
        && rates.len() > 1
    {
        let case = format!("{case}, the slowest of them");
        let figure = Figure::new(case, Unit::ObjectsPerSecond, least).raw(most);
        bench.report.add(
            figure
                .target(FigureTarget::Ratio(ALIKE))
                .note("raw: the fastest"),
        );
    }
}

fn spent<B>(
    bench: &ObjectsBench<'_>,
    make: &(dyn Fn(std::ops::Range<usize>) -> B + Sync),
    write: &(dyn Fn(B) -> esker_model::Result<()> + Sync),
    close: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<CreateTimes> {
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
    Ok(CreateTimes { wall, cpu, whole })
}

/// Measures through a server, with several connections.
pub(super) fn served(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    let objects = f64::from(bench.args.objects);
    let mut rates = Vec::new();
    for names in bench.args.workloads.clone() {
        let mut rounds = Vec::new();
        for _ in 0..bench.args.rounds {
            bench.check_interrupt()?;
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
        bench
            .report
            .add(figure.target(FigureTarget::AtLeast(100_000.0)));
    }
    alike(bench, "create through a server", &rates);
    Ok(())
}

/// Returns seconds: wall time, processor time of the clients, and of the server.
fn through_server(bench: &ObjectsBench<'_>, names: Names) -> anyhow::Result<(f64, f64, f64)> {
    let server = Child::start(bench.context, &bench.scratch.cleared_path("served")?)?;
    let clients = connect(bench, &server)?;
    let shape = ObjectShape {
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

/// Opens the connections of `--clients`.
pub(super) fn connect(bench: &ObjectsBench<'_>, server: &Child) -> anyhow::Result<Vec<Database>> {
    let open = || bench.context.open_options().open(&server.target());
    Ok((0..bench.args.clients)
        .map(|_| open())
        .collect::<Result<_, _>>()?)
}

/// Creates objects; each connection has one batch in flight.
pub(super) fn insert(
    bench: &ObjectsBench<'_>,
    server: &Child,
    clients: &[Database],
    shape: ObjectShape,
    numbers: std::ops::Range<u32>,
) -> anyhow::Result<(f64, f64, f64)> {
    // Small enough that all connections have work.
    let batch = (numbers.len() / clients.len()).clamp(1, bench.args.batch as usize);
    let ranges = numbers.clone().step_by(batch).map(|start| {
        let end = (start as usize + batch).min(numbers.end as usize);
        start as usize..end
    });
    let mut parts = vec![Vec::new(); clients.len()];
    for (i, range) in ranges.enumerate() {
        parts[i % clients.len()].push(range);
    }
    let measured = OperationLoad { parts, window: 1 }.run(
        &|client, numbers| clients[client].submit(shape.batch(numbers)),
        &|submitted| submitted.wait().map(drop),
        || server.cpu_seconds(),
    )?;
    Ok((measured.wall, measured.client_cpu, measured.server_cpu))
}
