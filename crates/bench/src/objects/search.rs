//! E-search and P-search of 2.5 to 20 % of all objects (Figures 7 and 8).

use super::shape::{CONFS, Names, ObjectShape, Tags, identity_key, row_key};
use super::stores::{self, PARTS, objects_of};
use super::{ObjectsBench, create};
use crate::comparison::Bare;
use crate::random::Random;
use crate::report::{Figure, Unit, median};
use crate::serve::child::Child;
use crate::serve::load::OperationLoad;
use esker::Database;
use esker_model::Flow;
use esker_model::object::{Find, ObjectId, ObjectKey, ObjectRead as _};
use esker_terminal::units::count;
use std::time::Instant;

/// Objects per call in the batched case.
const OBJECTS_PER_CALL: usize = 1000;

pub(super) fn run(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    for names in bench.args.workloads.clone() {
        let shape = ObjectShape {
            names,
            tags: Tags::Few,
        };
        let objects = bench.args.objects;
        let database = stores::full(bench, shape, objects)?;
        let raw = stores::full_bare(bench, shape, objects)?;
        let ids = stores::ids(&database, shape, objects)?;
        exact(bench, names, &database, &raw, &ids)?;
        partial(bench, names, &database, &raw)?;
        drop(raw);
        database.close()?;
    }
    served(bench)
}

/// Returns the median of the rounds, in seconds.
fn timed(
    bench: &ObjectsBench<'_>,
    mut run: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut rounds = Vec::new();
    for _ in 0..bench.args.rounds {
        bench.check_interrupt()?;
        let began = Instant::now();
        run()?;
        rounds.push(began.elapsed().as_secs_f64());
    }
    Ok(median(rounds))
}

/// Returns `wanted` random object numbers.
fn some(seed: u64, wanted: usize, objects: u32) -> Vec<u32> {
    let mut all: Vec<u32> = (0..objects).collect();
    Random::new(seed).shuffle(&mut all);
    all.truncate(wanted);
    all
}

fn read(database: &Database, keys: &[ObjectKey], together: usize) -> anyhow::Result<()> {
    for keys in keys.chunks(together) {
        let found = database.read_objects(keys, None)?;
        anyhow::ensure!(
            found.iter().all(Option::is_some),
            "an object is missing that was created"
        );
        std::hint::black_box(found);
    }
    Ok(())
}

/// Measures E-search: lookups by identity.
fn exact(
    bench: &mut ObjectsBench<'_>,
    names: Names,
    database: &Database,
    raw: &Bare,
    ids: &[ObjectId],
) -> anyhow::Result<()> {
    for (confs, part) in PARTS {
        let wanted = objects_of(confs, bench.args.objects);
        let some = some(u64::from(confs), wanted, bench.args.objects);
        let by_identity: Vec<ObjectKey> = some.iter().map(|n| names.identity(*n).into()).collect();
        let singly = timed(bench, || read(database, &by_identity, 1))?;
        let together = timed(bench, || read(database, &by_identity, OBJECTS_PER_CALL))?;
        let by_id: Vec<ObjectKey> = some.iter().map(|n| ids[*n as usize].into()).collect();
        let numbers = timed(bench, || read(database, &by_id, 1))?;
        let bare = timed(bench, || {
            for number in &some {
                // The row of the identity, then that of the object.
                let identity = names.identity(*number);
                let there = raw.get(&identity_key(&identity))?.is_some();
                let id = ObjectId::new(identity.prefix(), u64::from(*number));
                let row = raw.get(&row_key(id))?;
                anyhow::ensure!(there && row.is_some(), "a row is missing");
            }
            Ok(())
        })?;
        let rate = |seconds: f64| count((wanted as f64 / seconds) as u64);
        let case = format!("E-search of {part}, one by one, {}", names.text());
        let figure = Figure::new(case, Unit::Seconds, singly).raw(bare);
        bench.report.add(figure.note(format!(
            "raw: two gets each; {}/s; {OBJECTS_PER_CALL} at once {}/s; by number {}/s",
            rate(singly),
            rate(together),
            rate(numbers)
        )));
    }
    Ok(())
}

/// Measures P-search: searches by a tag.
fn partial(
    bench: &mut ObjectsBench<'_>,
    names: Names,
    database: &Database,
    raw: &Bare,
) -> anyhow::Result<()> {
    let began = Instant::now();
    // The first searches build the index.
    let warm = Find {
        count: true,
        ..stores::find("Conf < 1")?
    };
    for _ in 0..3 {
        stores::search(database, &warm)?;
    }
    bench.say(&format!(
        "an index in {:.3} s",
        began.elapsed().as_secs_f64()
    ));
    let bare = timed(bench, || {
        let mut rows = 0_u64;
        raw.scan(&[1], |key, value| {
            if key.first() != Some(&1) {
                return Flow::Break(());
            }
            std::hint::black_box(value);
            rows += 1;
            Flow::Continue(())
        })?;
        anyhow::ensure!(rows == u64::from(bench.args.objects), "{rows} rows");
        Ok(())
    })?;
    for (confs, part) in PARTS {
        let wanted = objects_of(confs, bench.args.objects) as u64;
        let all = stores::find(&format!("Conf < {confs}"))?;
        let numbers = Find {
            select: Some(Vec::new()),
            ..all.clone()
        };
        let counted = Find {
            count: true,
            ..all.clone()
        };
        let whole = |find: &Find| {
            timed(bench, || {
                let (report, got) = stores::search(database, find)?;
                anyhow::ensure!(
                    report.matches == wanted && (find.count || got == wanted),
                    "{} objects of {wanted}",
                    report.matches
                );
                Ok(())
            })
        };
        let (seconds, only_ids, only_count) = (whole(&all)?, whole(&numbers)?, whole(&counted)?);
        let case = format!("P-search of {part}, {}", names.text());
        let figure = Figure::new(case, Unit::Seconds, seconds).raw(bare);
        bench.report.add(figure.note(format!(
            "raw: all rows read, none decoded; only numbers {:.4} s; only how many {:.5} s; {} objects",
            only_ids,
            only_count,
            count(wanted)
        )));
    }
    Ok(())
}

/// Measures both searches through a server, over all connections concurrently.
fn served(bench: &mut ObjectsBench<'_>) -> anyhow::Result<()> {
    let Some(names) = bench.args.workloads.last().copied() else {
        return Ok(());
    };
    let objects = bench.args.objects;
    let shape = ObjectShape {
        names,
        tags: Tags::Few,
    };
    bench.say("searching through a server");
    let server = Child::start(bench.context, &bench.scratch.cleared_path("served")?)?;
    let clients = create::connect(bench, &server)?;
    create::insert(bench, &server, &clients, shape, 0..objects)?;
    for (confs, part) in PARTS {
        let wanted = objects_of(confs, objects);
        let some = some(u64::from(confs), wanted, objects);
        for together in [1, OBJECTS_PER_CALL] {
            let parts = some
                .chunks(wanted.div_ceil(clients.len()))
                .map(|part| {
                    let keys = part.chunks(together).map(|numbers| {
                        let keys = numbers.iter().map(|n| names.identity(*n).into());
                        keys.collect::<Vec<ObjectKey>>()
                    });
                    keys.collect()
                })
                .collect();
            bench.check_interrupt()?;
            let measured = OperationLoad { parts, window: 1 }.run(
                &|client, keys: Vec<ObjectKey>| clients[client].read_objects(&keys, None),
                &|found| {
                    let whole = found.iter().all(Option::is_some);
                    whole
                        .then_some(())
                        .ok_or_else(|| esker_model::Error::Invalid("an object is missing".into()))
                },
                || server.cpu_seconds(),
            )?;
            let case = format!(
                "E-search of {part} through a server, {}",
                if together == 1 {
                    "one by one".to_owned()
                } else {
                    format!("{together} at once")
                }
            );
            let figure = Figure::new(case, Unit::Seconds, measured.wall);
            bench.report.add(figure.note(format!(
                "{} connections; {}/s; p99 {:.0} us",
                clients.len(),
                count((wanted as f64 / measured.wall) as u64),
                measured.p99
            )));
        }
        let find = stores::find(&format!("Conf < {confs}"))?;
        for _ in 0..3 {
            stores::search(
                &clients[0],
                &Find {
                    count: true,
                    ..find.clone()
                },
            )?;
        }
        let seconds = timed(bench, || {
            let (_, got) = stores::search(&clients[0], &find)?;
            anyhow::ensure!(got == wanted as u64, "{got} objects");
            Ok(())
        })?;
        let case = format!("P-search of {part} through a server");
        let figure = Figure::new(case, Unit::Seconds, seconds);
        bench.report.add(figure.note(format!(
            "one connection; {} objects, each with everything",
            count(wanted as u64)
        )));
    }
    drop(clients);
    server.stop()
}

const _: () = assert!(CONFS == 40, "PARTS counts in fortieths");
