//! P-search by tags without an index, and 100 objects among very many with one.

use super::ObjectsBench;
use super::shape::{Names, ObjectShape, RUN, Tags};
use super::stores;
use crate::report::{Figure, FigureTarget, Unit, median};
use esker::Database;
use esker_model::object::{Find, ObjectWrite as _};
use esker_terminal::units::count;
use std::time::Instant;

/// Searches without an index, with the selected part of the objects for display.
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

pub(super) fn run(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    let objects = bench.args.objects;
    let shape = ObjectShape {
        names: Names::Unique,
        tags: Tags::Many,
    };
    let database = stores::full(bench, shape, objects)?;
    for name in ["Conf", "energy", "location"] {
        database.set_index(name, false)?;
    }
    for (filter, what) in FILTERS {
        let find = Find {
            count: true,
            ..stores::find(filter)?
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
                .target(FigureTarget::AtLeast(5_000_000.0))
                .note(format!("{filter}; {plan}")),
        );
    }
    Ok(database.close()?)
}

/// Finds 100 objects among very many.
pub(super) fn indexed(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    let objects = bench.args.indexed_objects;
    let shape = ObjectShape {
        names: Names::Unique,
        tags: Tags::Many,
    };
    let database = stores::full(bench, shape, objects)?;
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
        let find = stores::find(&filter)?;
        let began = Instant::now();
        for _ in 0..3 {
            stores::search(&database, &find)?;
        }
        let building = began.elapsed().as_secs_f64();
        let times = times(bench, &database, &find, bench.args.rounds.max(20))?;
        let (report, got) = stores::search(&database, &find)?;
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
            .add(figure.target(FigureTarget::AtMost(5.0)).note(format!(
                "{filter}; {}; the first three searches, which build indexes: {building:.2} s",
                plan(&database, &find)?
            )));
    }
    Ok(database.close()?)
}

/// Returns the seconds of each of `rounds` searches.
fn times(
    bench: &ObjectsBench<'_>,
    database: &Database,
    find: &Find,
    rounds: u32,
) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        bench.check_interrupt()?;
        let began = Instant::now();
        stores::search(database, find)?;
        times.push(began.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// Returns the plan of a search, for display.
fn plan(database: &Database, find: &Find) -> anyhow::Result<String> {
    let (report, _) = stores::search(database, find)?;
    let steps = report.plan.iter().map(|step| {
        let left = step.left.unwrap_or(step.estimate);
        format!("{} by {} leaves {}", step.term, step.access, count(left))
    });
    Ok(steps.collect::<Vec<_>>().join(", "))
}
