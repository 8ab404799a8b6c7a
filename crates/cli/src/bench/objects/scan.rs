//! P-search by tags that have no index, and 100 objects among very many by one.

use super::Bench;
use super::shape::{Names, RUN, Shape, Tags};
use super::sides;
use crate::bench::report::{Figure, Target, Unit, median};
use crate::units::count;
use esker::Database;
use esker_model::object::{Find, ObjectWrite as _};
use std::time::Instant;

/// A search without an index and what part of the objects it finds, for people.
const FILTERS: [(&str, &str); 5] = [
    ("Conf = 7", "a whole number, 2.5 %"),
    ("energy > 0.99", "a number, 1 %"),
    ("energy > 0.5 AND Conf < 20", "two terms, 25 %"),
    (
        "location LIKE '/scratch/vpic/00000/%'",
        "the start of a text",
    ),
    ("location LIKE '%/007.h5'", "the end of a text, 0.1 %"),
];

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let objects = bench.args.objects;
    let shape = Shape {
        names: Names::Unique,
        tags: Tags::Many,
    };
    let database = sides::full(bench, shape, objects)?;
    for name in ["Conf", "energy", "location"] {
        database.set_index(name, false)?;
    }
    for (filter, what) in FILTERS {
        let find = Find {
            count: true,
            ..sides::find(filter)?
        };
        let times = times(bench, &database, &find, bench.args.rounds.max(5))?;
        let rate = f64::from(objects) / median(times);
        let plan = plan(&database, &find)?;
        let figure = Figure::new(
            format!("P-search without an index: {what}"),
            Unit::ObjectsPerSecond,
            rate,
        );
        bench.report.add(
            figure
                .target(Target::AtLeast(5_000_000.0))
                .note(format!("{filter}; {plan}")),
        );
    }
    Ok(database.close()?)
}

/// 100 objects among very many.
pub(super) fn indexed(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let objects = bench.args.indexed_objects;
    let shape = Shape {
        names: Names::Unique,
        tags: Tags::Many,
    };
    let database = sides::full(bench, shape, objects)?;
    let run = objects / RUN / 2;
    let folder = run * RUN / 1000;
    let filters = [
        (format!("run = {run}"), "a number"),
        (
            format!("run = {run} AND energy >= 0 AND Conf < 40"),
            "three terms, one of them selective",
        ),
        (
            format!("name LIKE 'object-{run:06}%'"),
            "the start of a name",
        ),
        (
            format!("location LIKE '%/{folder:05}/1%'"),
            "the middle of a location",
        ),
    ];
    for (filter, what) in filters {
        let find = sides::find(&filter)?;
        let began = Instant::now();
        for _ in 0..3 {
            sides::search(&database, &find)?;
        }
        let building = began.elapsed().as_secs_f64();
        let times = times(bench, &database, &find, bench.args.rounds.max(20))?;
        let (report, got) = sides::search(&database, &find)?;
        anyhow::ensure!(got == u64::from(RUN), "{filter} finds {got} objects");
        anyhow::ensure!(report.matches == got, "{} matches", report.matches);
        let figure = Figure::new(
            format!(
                "P-search of 100 among {}: {what}",
                count(u64::from(objects))
            ),
            Unit::Millis,
            median(times) * 1e3,
        );
        bench
            .report
            .add(figure.target(Target::AtMost(5.0)).note(format!(
                "{filter}; {}; the first three searches, which build indexes: {building:.2} s",
                plan(&database, &find)?
            )));
    }
    Ok(database.close()?)
}

/// Seconds of each of so many searches.
fn times(
    bench: &Bench<'_>,
    database: &Database,
    find: &Find,
    rounds: u32,
) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        bench.go_on()?;
        let began = Instant::now();
        sides::search(database, find)?;
        times.push(began.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// By what it is answered.
fn plan(database: &Database, find: &Find) -> anyhow::Result<String> {
    let (report, _) = sides::search(database, find)?;
    let steps = report.plan.iter().map(|step| {
        let left = step.left.unwrap_or(step.estimate);
        format!("{} by {} leaves {}", step.term, step.access, count(left))
    });
    Ok(steps.collect::<Vec<_>>().join(", "))
}
